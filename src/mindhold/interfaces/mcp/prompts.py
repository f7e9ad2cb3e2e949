"""Prompts that clients offer their people: remember this, what do you know about, reflect on this conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping

import mcp_types as types

from mindhold.interfaces.mcp.work import Work
from mindhold.model.errors import InvalidInput, NotFound
from mindhold.model.neutral import NOTICE, neutral

MOST_KNOWN = 15

PROMPTS = [
    types.Prompt(
        name="remember_this",
        title="Remember this",
        description="Put something into long-term memory.",
        arguments=[
            types.PromptArgument(name="text", description="What to remember", required=True),
            types.PromptArgument(name="topic", description="What it is about", required=False),
        ],
    ),
    types.Prompt(
        name="what_do_you_know",
        title="What do you know about…",
        description="Everything that is remembered of a subject.",
        arguments=[
            types.PromptArgument(name="subject", description="Of what", required=True),
            types.PromptArgument(name="project", description="In which scope", required=False),
        ],
    ),
    types.Prompt(
        name="reflect_on_this_conversation",
        title="Reflect on this conversation",
        description="Keep what this conversation decided, solved, learned and left open.",
        arguments=[],
    ),
]


async def prompt(work: Work, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """The filled-in prompt. Raises InvalidInput."""
    known = {one.name: one for one in PROMPTS}
    if name not in known:
        raise InvalidInput(f"Unknown prompt: {name[:80]}.", advice=f"There are: {', '.join(known)}.")
    for argument in known[name].arguments or []:
        if argument.required and not arguments.get(argument.name, "").strip():
            raise InvalidInput(f"The argument {argument.name} is missing.", advice="Give it and ask again.")
    if name == "remember_this":
        words = _remember(arguments)
    elif name == "what_do_you_know":
        words = await _known(work, arguments)
    else:
        words = REFLECT
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=words))
    return types.GetPromptResult(description=known[name].description, messages=[message])


REFLECT = (
    "Look back over this conversation and call `reflect` once: a summary of a few sentences; each decision with its "
    "reason; each error that was resolved, with its cause and its fix; each procedure worth repeating; each question "
    "that is still open. Leave out what is already remembered, secrets and small talk. Then tell me in one line what "
    "you kept."
)


def _remember(arguments: Mapping[str, str]) -> str:
    topic = arguments.get("topic", "").strip()
    about = f" under the topic {json.dumps(topic)}" if topic else ""
    return (
        f"Put the following into long-term memory with `remember`{about}. If it holds several separate facts, store "
        "each as its own self-contained statement with the fitting type. Recall first, so that what is known is "
        f"amended rather than doubled.\n\n{arguments['text']}"
    )


async def _known(work: Work, arguments: Mapping[str, str]) -> str:
    subject = arguments["subject"]
    project = arguments.get("project", "").strip() or None
    try:
        given = {"scope": project, "everywhere": project is None, "limit": MOST_KNOWN}
        hits = (await work.run("recall", query=subject, **given)).hits
    except NotFound:  # a project that nothing is known of
        hits = []
    known = [
        {
            "id": hit.id,
            "type": hit.kind,
            "when": hit.occurred.date().isoformat(),
            "text": neutral(hit.content),
        }
        for hit in hits
        if hit.status == "active"
    ]
    if not known:
        return f"Tell me that nothing is remembered about {json.dumps(subject)}, and ask whether I want to tell you."
    listing = json.dumps({"notice": NOTICE, "memories": known}, ensure_ascii=False, indent=1)
    return (
        f"What do you know about {json.dumps(subject)}? Answer from the memories below, name the date where it "
        f"matters, and say where they contradict each other or may be out of date.\n\n{listing}"
    )
