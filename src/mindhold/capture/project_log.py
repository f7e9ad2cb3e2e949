"""Feeds a project's log: what was said in a captured conversation as messages, and at its end the project's summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mindhold.access.secrets import fingerprint
from mindhold.capture.extracted_items import CAPTURED
from mindhold.capture.journal import erased_at
from mindhold.capture.project_folder import scope_of_folder
from mindhold.conversations.message_import import Positions
from mindhold.conversations.messages import OURS, is_message, message_request, messages_where, role_of
from mindhold.conversations.recap_queue import recap_jobs
from mindhold.engine import Engine
from mindhold.memories.prepare import FIRST_YEAR, QUARANTINE_FROM, name_hash
from mindhold.memories.write import RememberInput, Verbatim, write_many
from mindhold.model.errors import ContentTooLarge, InvalidInput, Refused, ScopeNotFound, StoreError
from mindhold.model.memory import Memory, id_time
from mindhold.model.query import Filter, Order
from mindhold.ports.transcripts import Role, TranscriptStep, shortened
from mindhold.projects.placement import is_logged
from mindhold.projects.summary import (
    INSIGHTS,
    SummaryEntry,
    cut_sentences,
    line_of,
    merge_knowledge,
    project_summary,
)
from mindhold.projects.summary_sources import SECTION_OF_KIND
from mindhold.projects.summary_update import LATE, LONGEST_FOUND, material_since, update_summary
from mindhold.text.injection import suspicion
from mindhold.text.similarity import content_words

ROLES = {Role.USER: "user", Role.CLAUDE: "assistant"}
LONGEST_MESSAGE = 10_000  # characters: of a longer one the middle is left out
LONGEST_REMARK = 200  # characters of what the assistant says only to announce its next tool
EMBEDDED_AT_ONCE = 32  # messages; of more, a job makes the vectors
LONGEST_REQUEST = 200  # characters of what a conversation was about
REQUEST_WORDS = 5  # content words that a request has at least: "do 5 next" says nothing later
MOST_LOOKED_AT = 20  # messages in which that is looked for
MOST_CAPTURED = 200  # memories of a conversation that are worked into the summary
SESSION_END = "session_end"


async def log_messages(
    engine: Engine,
    steps: Sequence[TranscriptStep],
    *,
    conversation: str,
    file: str,
    folder: str,
    scope: str | None,
    agent: str,
) -> str | None:
    """Save what was said in redacted steps as messages of the project, if it wants that; return its scope, new or not.

    Each is saved once, however often it is read: in another try, or in a conversation that repeats this one. What was erased
    stays away. Raises NotFound, Refused, and the store's errors.
    """
    spoken = _spoken(steps)
    if not spoken or conversation.startswith(OURS):
        return scope
    if scope is None and engine.settings.capture.project_log:
        scope = await scope_of_folder(engine, folder, create=True)
    if scope is None or not await is_logged(engine, scope):
        return scope
    named = {_name(step, conversation): step for step in spoken}
    digests = {name: name_hash(name) for name in named}
    stored = await engine.store.by_hash(list(digests.values()), scope=scope, agent=agent)
    requests: dict[str, RememberInput] = {}
    for name, step in named.items():
        if digests[name] in stored:
            continue
        erased = await erased_at(engine, digests[name], scope=scope, agent=agent)
        if erased is None or (step.timestamp is not None and step.timestamp > erased):
            requests[name] = _request(engine, step, conversation=conversation, file=file, scope=scope)
    is_recapped = engine.llm is None or engine.settings.capture.by_model
    policy = Verbatim(
        names=list(requests),
        positions=Positions(engine, scope),
        embed=len(requests) <= EMBEDDED_AT_ONCE,
        along=recap_jobs(engine) if is_recapped else None,  # a model is sent no conversation without consent
    )
    for result in await write_many(engine, list(requests.values()), agent=agent, verbatim=policy):
        if isinstance(result.error, ScopeNotFound | Refused | StoreError):
            raise result.error
    return scope


def _spoken(steps: Sequence[TranscriptStep]) -> list[TranscriptStep]:
    """Return what the person and the assistant said to each other, without what only announces a tool."""
    spoken: list[TranscriptStep] = []
    for step, next_ in zip(steps, (*steps[1:], None), strict=False):
        if step.role not in ROLES or step.aside or not step.text.strip():
            continue
        announces = (
            step.role is Role.CLAUDE
            and next_ is not None
            and next_.role is Role.TOOL
            and len(step.text) <= LONGEST_REMARK
        )
        if not announces:
            spoken.append(step)
    return spoken


def _name(step: TranscriptStep, conversation: str) -> str:
    """Return the name that a message is stored under once: when it was said, else where."""
    place = f"{conversation} {step.line}" if step.timestamp is None else step.timestamp.isoformat()
    return f"said {step.role} {place} {fingerprint(step.text)}"


def _request(
    engine: Engine, step: TranscriptStep, *, conversation: str, file: str, scope: str
) -> RememberInput:
    message = message_request(
        engine,
        ROLES[step.role],
        shortened(step.text, LONGEST_MESSAGE),
        project=scope,
        conversation=conversation,
        occurred=_occurred(engine, step.timestamp),
    )
    return message.model_copy(update={"source": CAPTURED, "file": file, "line": step.line})


def _occurred(engine: Engine, said: datetime | None) -> datetime | None:
    """Return when it was said, but never in the future, for clocks may differ."""
    return min(said, engine.clock()) if said and said.year >= FIRST_YEAR else None


async def summarize_log(engine: Engine, scope: str, *, conversation: str, agent: str) -> str:
    """Work what was said since the last time into the project's summary, if hooks feed it; return what went wrong.

    Rules take what was captured, and what each conversation was about; with `capture.extract_with = model` the model rewrites
    the summary. A repeated call changes nothing. Raises the store's errors.
    """
    if not await is_logged(engine, scope):
        return ""
    said = messages_where(scope, viewer=agent)
    own = await engine.store.find(replace(said, conversation=conversation), order=Order.CHANGED)
    before = await project_summary(engine, scope, agent=agent)
    last = max((memory.id for memory in own if is_message(memory)), default=None)
    material = await material_since(engine, before, last, agent=agent)
    if not material.messages:
        return ""
    since = id_time(before.last_message or "")
    new = said if since is None else replace(said, changed=since - LATE)
    names = {message.provenance.conversation or "" for message in material.messages}
    entries: dict[str, list[SummaryEntry]] = {}
    for name in sorted(names | {conversation, *await engine.store.tally(new, "conversation")}):
        if drawn := await _entries_of(engine, name, scope=scope, agent=agent):
            entries[name] = drawn
    all_entries = [entry for drawn in entries.values() for entry in drawn]
    model = engine.llm if engine.settings.capture.by_model else None
    if model is None and merge_knowledge(before.knowledge, all_entries) == before.knowledge:
        return ""
    try:
        done = await update_summary(
            engine,
            before,
            all_entries,
            material,
            agent=agent,
            trigger=SESSION_END,
            model=model,
            drawn={name: [text for _, text in drawn] for name, drawn in entries.items()},
        )
    except (Refused, InvalidInput, ContentTooLarge) as error:
        return f"The project's summary was not updated: {error}"
    return done.notice


async def _entries_of(engine: Engine, conversation: str, *, scope: str, agent: str) -> list[SummaryEntry]:
    """Return what a captured conversation was about, and what was captured in it."""
    where = Filter(viewer=agent, scopes=(scope,), agents=(agent,), conversation=conversation)
    first = await engine.store.find(replace(where, turns=True), order=Order.OLDEST, limit=MOST_LOOKED_AT)
    entries = [(INSIGHTS, request) for request in _about(engine, first)]
    captured = await engine.store.find(
        replace(where, kinds=tuple(SECTION_OF_KIND)), order=Order.OLDEST, limit=MOST_CAPTURED
    )
    entries += [
        (SECTION_OF_KIND[memory.kind], cut_sentences(line_of(engine, memory.content), LONGEST_FOUND))
        for memory in captured
        if memory.provenance.source == CAPTURED
    ]
    return [entry for entry in entries if entry[1] and suspicion(entry[1]).score < QUARANTINE_FROM]


def _about(engine: Engine, messages: Sequence[Memory]) -> list[str]:
    """Return one line about what the person asked for first in so many words, if hooks saved the conversation."""
    for message in messages:
        if (
            message.provenance.source == CAPTURED
            and role_of(message) == "user"
            and len(content_words(message.content)) >= REQUEST_WORDS
        ):
            day = message.occurred.astimezone(engine.zone()).date()
            request = cut_sentences(line_of(engine, message.content), LONGEST_REQUEST)
            return [f"Asked on {day}: {request}"]
    return []
