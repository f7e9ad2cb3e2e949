"""MCP resources (memories, scopes, project summaries) and prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types

from mindhold.interfaces.mcp.requests import CallContext
from mindhold.model.errors import InvalidInput, MemoryNotFound, NotFound
from mindhold.model.prompt_markup import NOTICE, neutralize, neutralize_values

SCHEME = "memory"
JSON = "application/json"
MOST_LISTED = 200
MOST_OF_A_SCOPE = 50
SUMMARY_TOPIC = "project summary"
SHOWN_FIELDS = {"id", "content", "kind", "topic", "tags", "importance", "occurred"}  # of a scope's memory


def _template(path: str, name: str, title: str, description: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=f"memory://{path}", name=name, title=title, description=description, mime_type=JSON
    )


TEMPLATES = [
    _template("{id}", "memory", "A memory", "One memory with its links and earlier versions."),
    _template("scope/{name}", "scope", "A scope", "A scope with its newest memories."),
    _template(
        "project/{name}/summary",
        "project-summary",
        "A project's summary",
        "What is known of a project, condensed.",
    ),
]


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """The resource that a memory:// address names."""

    kind: str
    name: str


def parse_address(uri: str) -> ResourceAddress:
    """Parse a memory:// address. Raises InvalidInput."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    path = [unquote(part) for part in parts.path.split("/") if part]
    host = unquote(parts.netloc)
    if parts.scheme == SCHEME and host == "scope" and len(path) == 1:
        return ResourceAddress("scope", path[0])
    if parts.scheme == SCHEME and host == "project" and len(path) == 2 and path[1] == "summary":
        return ResourceAddress("summary", path[0])
    if parts.scheme == SCHEME and host and not path:
        return ResourceAddress("memory", host.lower())  # clients change the case of a URL's host
    raise InvalidInput(
        f"{uri[:120]!r} names no resource.",
        advice="There are memory://{id}, memory://scope/{name} and memory://project/{name}/summary.",
    )


async def list_resources(context: CallContext) -> list[types.Resource]:
    """List every scope and every project summary."""
    from mindhold.memories.filters import LIST
    from mindhold.projects.scope_operations import LIST_SCOPES

    scopes = (await context.run(LIST_SCOPES)).scopes[:MOST_LISTED]
    summaries = (await context.run(LIST, topic=SUMMARY_TOPIC, kinds=["context"], limit=MOST_LISTED)).memories
    summarised = {memory.scope for memory in summaries}
    return [
        *(_scope_resource(scope) for scope in scopes),
        *(_summary_resource(scope.name) for scope in scopes if scope.name in summarised),
    ]


async def read_resource(context: CallContext, uri: str) -> types.ReadResourceResult:
    """Read a resource as JSON. Raises InvalidInput, NotFound."""
    from mindhold.projects.summary_update import PROJECT_SUMMARY

    address = parse_address(uri)
    if address.kind == "scope":
        document = await _read_scope(context, address.name)
    elif address.kind == "summary":
        document = (await context.run(PROJECT_SUMMARY, project=address.name)).model_dump(mode="json")
    else:
        document = await _read_memory(context, address.name)
    text = json.dumps({"notice": NOTICE, **neutralize_values(document)}, ensure_ascii=False, indent=1)
    contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
    return types.ReadResourceResult(contents=[contents])


def _scope_resource(scope: Any) -> types.Resource:
    return types.Resource(
        uri=f"memory://scope/{quote(scope.name, safe='')}",
        name=neutralize(scope.name),
        title=neutralize(f"{scope.name} ({'?' if scope.memories is None else scope.memories} memories)"),
        description=neutralize(scope.description) or None,
        mime_type=JSON,
    )


def _summary_resource(project: str) -> types.Resource:
    return types.Resource(
        uri=f"memory://project/{quote(project, safe='')}/summary",
        name=neutralize(f"{project}: summary"),
        title=neutralize(f"Summary of {project}"),
        mime_type=JSON,
    )


async def _read_scope(context: CallContext, name: str) -> dict[str, Any]:
    from mindhold.engine import LEAST_TRUST
    from mindhold.memories.filters import LIST
    from mindhold.projects.scope_operations import SHOW_SCOPE

    scope = await context.run(SHOW_SCOPE, name=name)
    page = await context.run(LIST, scope=name, limit=MOST_OF_A_SCOPE, minimum_trust=LEAST_TRUST)
    return {
        "scope": scope.model_dump(mode="json"),
        "total": page.total,
        "memories": [memory.model_dump(mode="json", include=SHOWN_FIELDS) for memory in page.memories],
    }


async def _read_memory(context: CallContext, memory_id: str) -> dict[str, Any]:
    from mindhold.engine import LEAST_TRUST
    from mindhold.memories.filters import SHOW

    result = await context.run(SHOW, id=memory_id)
    if result.memory.status in ("forgotten", "quarantined") or result.memory.trust < LEAST_TRUST:
        raise MemoryNotFound(memory_id)
    return result.model_dump(mode="json", exclude_none=True)


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


async def get_prompt(context: CallContext, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt with its arguments filled in. Raises InvalidInput."""
    prompts = {prompt.name: prompt for prompt in PROMPTS}
    if name not in prompts:
        raise InvalidInput(f"Unknown prompt: {name[:80]}.", advice=f"There are: {', '.join(prompts)}.")
    for argument in prompts[name].arguments or []:
        if argument.required and not arguments.get(argument.name, "").strip():
            raise InvalidInput(f"The argument {argument.name} is missing.", advice="Give it and ask again.")
    if name == "remember_this":
        text = _remember_prompt(arguments)
    elif name == "what_do_you_know":
        text = await _known_prompt(context, arguments)
    else:
        text = REFLECT
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=prompts[name].description, messages=[message])


REFLECT = (
    "Look back over this conversation and call `reflect` once: a summary of a few sentences; each decision with its "
    "reason; each error that was resolved, with its cause and its fix; each procedure worth repeating; each question "
    "that is still open. Leave out what is already remembered, secrets and small talk. Then tell me in one line what "
    "you kept."
)


def _remember_prompt(arguments: Mapping[str, str]) -> str:
    topic = arguments.get("topic", "").strip()
    about = f" under the topic {json.dumps(topic)}" if topic else ""
    return (
        f"Put the following into long-term memory with `remember`{about}. If it holds several separate facts, store "
        "each as its own self-contained statement with the fitting type. Recall first, so that what is known is "
        f"amended rather than doubled.\n\n{arguments['text']}"
    )


async def _known_prompt(context: CallContext, arguments: Mapping[str, str]) -> str:
    from mindhold.memories.recall import RECALL

    subject = arguments["subject"]
    project = arguments.get("project", "").strip() or None
    try:
        filters = {"scope": project, "everywhere": project is None, "limit": MOST_KNOWN}
        result = await context.run(RECALL, query=subject, **filters)
        hits, doubtful = result.hits or result.nearest, bool(result.nearest)
    except NotFound:  # an unknown project
        hits, doubtful = [], False
    memories = [
        {
            "id": hit.id,
            "type": hit.kind,
            "when": hit.occurred.date().isoformat(),
            "text": neutralize(hit.content),
        }
        for hit in hits
        if hit.status == "active"
    ]
    if not memories:
        return f"Tell me that nothing is remembered about {json.dumps(subject)}, and ask whether I want to tell you."
    listing = json.dumps({"notice": NOTICE, "memories": memories}, ensure_ascii=False, indent=1)
    if doubtful:
        return (
            f"Nothing that is remembered is clearly about {json.dumps(subject)}. Say so; mention one of the nearest "
            f"memories below only if it fits, and ask whether I want to tell you more.\n\n{listing}"
        )
    return (
        f"What do you know about {json.dumps(subject)}? Answer from the memories below, name the date where it "
        f"matters, and say where they contradict each other or may be out of date.\n\n{listing}"
    )
