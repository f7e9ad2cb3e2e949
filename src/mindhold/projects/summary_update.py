"""Operations on a project summary: show it, update it with new material by rules or a language model, replace it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from mindhold.capture.extracted_items import CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.conversations.messages import is_message, messages_where, role_of
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.embedding import queue_embedding
from mindhold.memories.hit_context import shortened
from mindhold.memories.prepare import QUARANTINE_FROM
from mindhold.model.errors import ContentTooLarge, InvalidInput, MemoryNotFound, ModelError, Refused
from mindhold.model.memory import Memory, Status, id_time
from mindhold.model.query import Order, PagePosition
from mindhold.operations import Context, Output, operation
from mindhold.ports.llm import LanguageModel
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.projects.placement import ProjectId, ProjectInput, StorageBackend, mode_of, open_project
from mindhold.projects.summary import (
    HEADINGS,
    INSIGHTS,
    LONGEST_SUMMARY,
    SECTIONS,
    Summary,
    SummaryEntry,
    SummaryKnowledge,
    check_expected,
    checked_words,
    entries_of,
    fits,
    line_of,
    merge_knowledge,
    project_summary,
    render_summary,
    section_of,
    shorten_knowledge,
    statements,
    title_of,
    write_summary,
)
from mindhold.projects.summary_model import rewrite_by_model
from mindhold.projects.summary_sources import SECTION_OF_KIND, reworded, with_sources
from mindhold.text.injection import suspicion
from mindhold.text.similarity import content_words

PAGE = 100
MOST_MESSAGES = 100  # the newest
LONGEST_MESSAGE = 2_000  # characters
MOST_CHARACTERS = 40_000
FEW = 8  # messages that rules process at once
LONGEST_MARK = 200
LATE = timedelta(minutes=10)  # the largest difference between a record's time and that of its id
NO_MESSAGE = "`last_summarized_message_id` names no message of this project that can be read: none were, and the mark stays where it was."
EARLIER = "The summary knows of later messages already: none were read, and the mark stays where it was."
MOST_FOUND = 12  # entries that rules take from messages at once
LONGEST_FOUND = 400  # characters of an entry
OUTRIGHT = 0.9  # the confidence of a sentence that names its kind
SAID = 0.7  # if this share of its words is known already, it is no news
_ROLES = {"user": Role.USER, "assistant": Role.CLAUDE}


@dataclass(frozen=True, slots=True)
class Material:
    """Messages, oldest first and shortened, and the new mark; None leaves the mark as it is.

    `notice` says what was asked for and is missing.
    """

    messages: tuple[Memory, ...] = ()
    mark: str | None = None
    notice: str = ""


def _checked_mark(mark: str | None) -> str | None:
    """Return a message id, whether it exists or not. Raises InvalidInput for an invalid one."""
    if mark is None or not mark.strip():
        return None
    mark = mark.strip()
    if len(mark) > LONGEST_MARK or not mark.isprintable() or any(character.isspace() for character in mark):
        raise InvalidInput(
            "That is no id of a message.", advice="Give the id that saving it answered, or leave it out."
        )
    if suspicion(mark).score >= QUARANTINE_FROM:
        raise InvalidInput("That is no id of a message.", advice="It reads like an instruction.")
    return mark


async def material_since(engine: Engine, before: Summary, mark: str | None, *, agent: str) -> Material:
    """Return messages that were saved after the summary's mark, up to the new mark; if too many, the newest.

    The order is that of saving, by id, whatever time a message states. A mark never goes back, and one that can't be read (erased,
    quarantined, of another project) changes nothing.
    """
    if mark is None:
        return Material()
    last = await _message(engine, mark, before.project, agent=agent)
    if last is None:
        return Material(notice=NO_MESSAGE)
    last_known = _place_of(before.last_message)
    if last.id <= last_known:
        return Material(notice=EARLIER if last.id < last_known else "")
    messages: list[Memory] = []
    room, notice = MOST_CHARACTERS, ""
    async for memory in _saved_between(engine, before, last, agent=agent):
        if not is_message(memory) or suspicion(memory.content).score >= QUARANTINE_FROM:
            continue
        short = shortened(memory, LONGEST_MESSAGE)
        room -= len(short.content)
        if room < 0 or len(messages) == MOST_MESSAGES:
            notice = "Only the newest messages were read: there are too many."
            break
        messages.append(short)
    return Material(tuple(sorted(messages, key=lambda message: message.id)), mark, notice)


def _further_mark(material: Material, *, before: Summary, now: Summary) -> str | None:
    """Return the new mark of a summary that may have changed since the material was read.

    If an older version was restored meanwhile, its mark stays, so that the next update reads the messages since then.
    """
    present = _place_of(now.last_message)
    if material.mark is None or present < _place_of(before.last_message):
        return now.last_message
    return max(present, material.mark)


def _place_of(mark: str | None) -> str:
    """Return the sort key of a message in the order of saving; an unknown id comes first."""
    return mark if mark and id_time(mark) else ""


async def _saved_between(
    engine: Engine, before: Summary, last: Memory, *, agent: str
) -> AsyncIterator[Memory]:
    """Yield messages, newest first, from the last one back to the summary's mark.

    There may be many later ones; one page of these is searched for messages that were amended since.
    """
    last_known = _place_of(before.last_message)
    where = messages_where(before.project, viewer=agent)
    if since := id_time(last_known):
        where = replace(where, changed=since - LATE)
    start = (id_time(last.id) or last.created) + LATE
    after: PagePosition | None = None
    page: Sequence[Memory] = ()
    while after is None or len(page) == PAGE:
        page = await engine.store.find(where, order=Order.CHANGED, limit=PAGE, after=after)
        for memory in page:
            if last_known < memory.id <= last.id:
                yield memory
        if not page:
            return
        far = after is None and page[-1].updated > start
        after = PagePosition(start, "") if far else PagePosition.of(page[-1], Order.CHANGED)


async def _message(engine: Engine, mark: str, project: str, *, agent: str) -> Memory | None:
    try:
        memory = await engine.store.get(mark, viewer=agent)
    except MemoryNotFound:
        return None
    trusted = memory.status is Status.ACTIVE and memory.trust >= LEAST_TRUST
    return memory if memory.scope == project and is_message(memory) and trusted else None


async def _statements_by_rules(
    engine: Engine, messages: Sequence[Memory], *, known: SummaryKnowledge
) -> list[SummaryEntry]:
    """Return decisions, pitfalls and the like from the messages that the summary doesn't contain yet."""
    known_words = [content_words(statement) for text in known.texts() for statement in statements(text)]
    fresh: list[tuple[float, SummaryEntry]] = []
    for sureness, section, text in [*_outright(messages), *await _captured(engine, messages)]:
        words = content_words(text)
        if len(text) > LONGEST_FOUND or not words:
            continue
        if any(len(words & other) >= SAID * len(words) for other in known_words):
            continue
        line = line_of(engine, text)
        if line and suspicion(line).score < QUARANTINE_FROM:
            known_words.append(words)
            fresh.append((sureness, (section, line)))
    best = sorted(range(len(fresh)), key=lambda place: -fresh[place][0])[:MOST_FOUND]
    return [fresh[place][1] for place in sorted(best)]


def _outright(messages: Sequence[Memory]) -> Iterator[tuple[float, str, str]]:
    """Yield statements whose first words call them a decision or a pitfall."""
    for message in messages:
        if role_of(message) in _ROLES:
            for statement in statements(message.content):
                section = section_of(statement, "")
                if section and not statement.endswith("?"):
                    yield OUTRIGHT, section, statement


async def _captured(engine: Engine, messages: Sequence[Memory]) -> list[tuple[float, str, str]]:
    """Return what automatic capture would extract from these conversations."""
    conversations: dict[str, list[TranscriptStep]] = {}
    for number, message in enumerate(messages, 1):
        if (role := _ROLES.get(role_of(message))) is not None:
            steps = conversations.setdefault(message.provenance.conversation or "", [])
            steps.append(
                TranscriptStep(role, message.content, line=number, end=number, timestamp=message.occurred)
            )
    items: list[CapturedItem] = []
    for steps in conversations.values():
        carried: Mapping[str, Any] = {}
        for start in range(0, len(steps), FEW):
            extraction = await extract_by_rules(
                engine, steps[start : start + FEW], carried, folder="", judging=False
            )
            items, carried = [*items, *extraction.items], extraction.carried
            await asyncio.sleep(0)  # let other tasks run
    return [
        (item.confidence, SECTION_OF_KIND[item.kind], item.content)
        for item in items
        if item.kind in SECTION_OF_KIND
    ]


LONGEST_INSIGHT = 20_000
MOST_INSIGHTS = 100
DECISION = "important_decision"
REPLACED = "replaced"
MergedBy = Literal["rules", "model"]
Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]
_DECISIONS = Field(
    description="Decisions and their reasons.",
    examples=[["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"]],
)
_STACK = Field(description="Technologies that the project uses.", examples=[["Python", "FastAPI"]])
_PATTERNS = Field(
    description="Conventions and patterns of the project.", examples=[["Repository pattern for data access"]]
)
_GOTCHAS = Field(description="Pitfalls.", examples=[["Check storage_mode before logging"]])
Decisions = Annotated[list[str], _DECISIONS]
TechStack = Annotated[list[str], _STACK]
Patterns = Annotated[list[str], _PATTERNS]
Gotchas = Annotated[list[str], _GOTCHAS]
SummaryText = Annotated[
    str,
    Field(
        description="The summary.",
        examples=[
            "# Summary of proj_123\n\nThis is a task management system.\n\n## Key decisions\n- Chose MongoDB Atlas for scalability\n- Implemented JWT authentication"
        ],
    ),
]
SummaryLength = Annotated[int, Field(description="Length of the summary in characters.", examples=[145])]
LastMessage = Annotated[
    str | None,
    Field(
        description="Id of the last message that the summary covers; the next update continues from there.",
        examples=["01k2v9c3m4q8r7t6w5x1y0z2ac"],
    ),
]


class ProjectSummaryInput(ProjectInput):
    """Which project."""


class ProjectSummaryResult(Output):
    """What is known about a project; version 0 and empty while nobody wrote one."""

    project_id: ProjectId
    summary: SummaryText
    key_decisions: Decisions = []
    tech_stack: TechStack = []
    patterns: Patterns = []
    gotchas: Gotchas = []
    version: int = Field(description="Version number.", examples=[15])
    last_updated: datetime | None = Field(
        default=None, description="When it was last updated.", examples=["2025-11-27T11:00:00Z"]
    )
    summary_length: SummaryLength
    last_summarized_message_id: LastMessage = None
    storage_backend: StorageBackend
    etag: str = Field(examples=["15-1a2b3c4d"])


class UpdateSummaryInput(ProjectInput):
    """What is new, and up to which message: those are read that were saved since the one that the summary knows of; without
    `last_summarized_message_id` none are. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    trigger: Trigger = Field(description="What triggered the update.", examples=["important_decision"])
    new_insights: str = Field(
        description="New facts for the summary.",
        examples=[
            "Decided to use MongoDB Atlas for vector search due to better performance with 1024d embeddings and sub-200ms query times."
        ],
    )
    last_summarized_message_id: str | None = Field(
        default=None,
        description="Id of the last message that the summary covers; the next update continues from there.",
        examples=["msg_150"],
    )
    create_project: bool = True
    expected: str | None = None


class UpdateSummaryResult(Output):
    """The summary's new version and size, and how it came about. `notice` says what didn't go as it should have."""

    status: str = Field(default="updated", description="Its status.", examples=["updated"])
    summary_version: int = Field(description="The summary's version.", examples=[15])
    summary_length: int = Field(description="Length of the summary in characters.", examples=[11500])
    last_updated: datetime = Field(description="When it was last updated.", examples=["2025-11-27T11:00:00Z"])
    storage_backend: StorageBackend
    project: str = Field(description="The project's name.", examples=["proj_123"])
    messages_included: int = Field(description="How many messages were read for it.", examples=[12])
    merged_by: MergedBy = Field(description="What merged it: `model` or `rules`.", examples=["rules"])
    indexed: bool = Field(description="Whether it has a vector already.", examples=[True])
    notice: str = Field(default="", description="A notice about this answer; usually empty.", examples=[""])
    memory_id: str = Field(description="Id of its memory.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ad"])
    etag: str = Field(examples=["15-1a2b3c4d"])


class ReplaceSummaryInput(ProjectInput):
    """The whole summary anew. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    summary: str = Field(
        description="The whole story of the project, in two to five paragraphs.",
        examples=["A task management system with a FastAPI backend."],
    )
    key_decisions: Annotated[list[str] | None, _DECISIONS] = None
    tech_stack: Annotated[list[str] | None, _STACK] = None
    patterns: Annotated[list[str] | None, _PATTERNS] = None
    gotchas: Annotated[list[str] | None, _GOTCHAS] = None
    create_project: bool = True
    expected: str | None = None


class ReplaceSummaryResult(Output):
    """The summary as it is now."""

    success: bool = Field(default=True, examples=[True])
    project: str = Field(description="The project's name.", examples=["proj_123"])
    summary: str = Field(
        description="The summary.", examples=["A task management system with a FastAPI backend."]
    )
    key_decisions: Decisions
    tech_stack: TechStack
    patterns: Patterns
    gotchas: Gotchas
    last_updated: datetime = Field(description="When it was last updated.", examples=["2025-11-27T14:30:00Z"])
    version: int = Field(description="Version number.", examples=[16])
    storage_mode: str = Field(description="Where the project's memory is stored.", examples=["local"])
    indexed: bool = Field(description="Whether it has a vector already.", examples=[True])
    memory_id: str = Field(description="Id of its memory.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ad"])
    etag: str = Field(examples=["16-9f2c61d0"])


async def _summary(context: Context, request: ProjectSummaryInput) -> ProjectSummaryResult:
    """What is known about a project."""
    summary = await project_summary(context.engine, request.project, agent=context.agent)
    return ProjectSummaryResult(
        project_id=summary.project,
        summary=summary.text,
        **sections_of(summary),
        version=summary.version,
        last_updated=summary.updated,
        summary_length=len(summary.text),
        last_summarized_message_id=summary.last_message,
        storage_backend=await mode_of(context.engine, summary.project),
        etag=summary.etag,
    )


PROJECT_SUMMARY = operation("project_summary", _summary, reads=True)


@dataclass(frozen=True, slots=True)
class SummaryUpdate:
    """The summary as it is now, what merged it, and what didn't go as it should have."""

    summary: Summary
    merged_by: MergedBy
    notice: str = ""


async def update_summary(
    engine: Engine,
    before: Summary,
    entries: Sequence[SummaryEntry],
    material: Material,
    *,
    agent: str,
    trigger: str,
    model: LanguageModel | None = None,
    drawn: Mapping[str, Sequence[str]] | None = None,
    expected: str | None = None,
) -> SummaryUpdate:
    """Work entries and messages into a summary, by the model or else by rules.

    `drawn` has the entries that came from conversations; with it rules leave the messages alone. The model is called before
    the lock for writing is taken. Raises Refused, Changed if the summary isn't the `expected` one.
    """
    proposed, reason = await _proposed(engine, model, before, entries, material)
    additions: list[SummaryEntry] = []
    if proposed is not None:
        additions = [
            (name, entry)
            for name in HEADINGS
            for entry in proposed.entries(name)
            if entry not in before.knowledge.entries(name)
        ]
    elif drawn is None and material.messages:
        merged = await asyncio.to_thread(merge_knowledge, before.knowledge, entries)
        additions = await _statements_by_rules(engine, material.messages, known=merged)
        drawn = _drawn(material.messages, additions)
    merged_by: MergedBy = "rules"
    conversations = [*(drawn or {}), *(_conversation(message) for message in material.messages)]

    def work_in(now: Summary) -> Summary:
        nonlocal merged_by
        knowledge, merged_by = proposed, "model"
        if knowledge is None or now.etag != before.etag:  # outdated if another writer was first
            knowledge = merge_knowledge(merge_knowledge(now.knowledge, entries), additions)
            merged_by = "rules"
        short = shorten_knowledge(knowledge, title=title_of(before.project), longest=LONGEST_SUMMARY)
        return replace(
            now,
            knowledge=short,
            last_message=_further_mark(material, before=before, now=now),
            trigger=trigger,
            merged_by=merged_by,
            restored=None,
            sources=with_sources(now.sources, drawn or {}, knowledge, short)
            if proposed is None
            else reworded(now.sources, conversations),
        )

    summary = await write_summary(engine, before.project, work_in, agent=agent, expected=expected)
    await _queue_vector(engine, summary)
    if proposed is not None and merged_by == "rules":
        reason = (
            "Somebody else changed the summary while a model was asked: what it said was merged by rules."
        )
    return SummaryUpdate(summary, merged_by, " ".join(filter(None, (material.notice, reason))))


def _drawn(messages: Sequence[Memory], additions: Sequence[SummaryEntry]) -> dict[str, list[str]]:
    """Return entries that rules found in messages by the conversation that says them, or else by all of these."""
    said: dict[str, str] = {}
    for message in messages:
        said[_conversation(message)] = f"{said.get(_conversation(message), '')}\n{message.content}"
    drawn: dict[str, list[str]] = {}
    for _, entry in additions:
        sayers = [name for name, text in said.items() if entry in " ".join(text.split())]
        for name in sayers or said:
            drawn.setdefault(name, []).append(entry)
    return drawn


def _conversation(message: Memory) -> str:
    return message.provenance.conversation or ""


async def _update(context: Context, request: UpdateSummaryInput) -> UpdateSummaryResult:
    """Work new insights into a project's summary.

    Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed if it isn't the `expected` one.
    """
    engine, agent, expected = context.engine, context.agent, request.expected
    entries = _insights(engine, request.new_insights, trigger=request.trigger)
    mark = _checked_mark(request.last_summarized_message_id)
    scope = (await open_project(engine, request.project, create=request.create_project, writing=True)).name
    before = await project_summary(engine, scope, agent=agent)
    check_expected(before, expected)
    material = await material_since(engine, before, mark, agent=agent)
    done = await update_summary(
        engine,
        before,
        entries,
        material,
        agent=agent,
        trigger=request.trigger,
        model=engine.llm,
        expected=expected,
    )
    summary = done.summary
    return UpdateSummaryResult(
        summary_version=summary.version,
        summary_length=len(summary.text),
        last_updated=summary.updated or engine.clock(),
        storage_backend=await mode_of(engine, summary.project),
        project=summary.project,
        messages_included=len(material.messages),
        merged_by=done.merged_by,
        indexed=summary.indexed,
        notice=done.notice,
        memory_id=summary.memory or "",
        etag=summary.etag,
    )


UPDATE_SUMMARY = operation("update_summary", _update, writes=True)


def _insights(engine: Engine, text: str, *, trigger: str) -> list[SummaryEntry]:
    safe = checked_words(engine, text, longest=LONGEST_INSIGHT)
    entries = entries_of(safe, into="key_decisions" if trigger == DECISION else INSIGHTS)
    if not entries:
        raise InvalidInput("There is no insight in the text.", advice="Say in words what is new.")
    if len(entries) > MOST_INSIGHTS:
        raise InvalidInput(
            f"{len(entries)} insights are too many at once.", advice=f"Give the {MOST_INSIGHTS} that matter."
        )
    return entries


async def _proposed(
    engine: Engine,
    model: LanguageModel | None,
    before: Summary,
    entries: Sequence[SummaryEntry],
    material: Material,
) -> tuple[SummaryKnowledge | None, str]:
    """Return the model's summary; None without one, and the reason."""
    if model is None:
        return None, ""
    try:
        return await rewrite_by_model(
            engine,
            model,
            before.knowledge,
            entries,
            material.messages,
            title=title_of(before.project),
        ), ""
    except ModelError as error:
        return None, f"Rules did what a model should have: {error}"
    except (Refused, InvalidInput):
        return None, "Rules did what a model should have: what it said can't be kept."


async def _queue_vector(engine: Engine, summary: Summary) -> None:
    """Queue the embedding of a summary without a vector."""
    if not summary.indexed and engine.vector_source.model is not None:
        await queue_embedding(engine)


async def _replace(context: Context, request: ReplaceSummaryInput) -> ReplaceSummaryResult:
    """Write a project's summary anew; the version before is kept.

    Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed.
    """
    engine = context.engine
    sections: dict[str, list[str]] = {name: getattr(request, name) or [] for name in SECTIONS}
    whole = SummaryKnowledge(request.summary, **{name: tuple(lines) for name, lines in sections.items()})
    checked_words(engine, render_summary(whole, title=""), longest=LONGEST_SUMMARY)
    safe = SummaryKnowledge(checked_words(engine, request.summary, longest=LONGEST_SUMMARY))
    for name, entries in sections.items():
        lines = (line_of(engine, entry) for entry in entries)
        safe = safe.with_entries(name, dict.fromkeys(filter(None, lines)))
    scope = (await open_project(engine, request.project, create=request.create_project, writing=True)).name
    if not fits(safe, title="", longest=LONGEST_SUMMARY):
        raise ContentTooLarge("The summary is too long to be kept.", advice="Condense it.")

    def write_anew(now: Summary) -> Summary:
        return replace(now, knowledge=safe, sources={}, trigger="", merged_by=REPLACED, restored=None)

    summary = await write_summary(engine, scope, write_anew, agent=context.agent, expected=request.expected)
    await _queue_vector(engine, summary)
    return ReplaceSummaryResult(**await as_it_is(context, summary))


REPLACE_SUMMARY = operation("replace_summary", _replace, writes=True)


async def as_it_is(context: Context, summary: Summary) -> dict[str, Any]:
    """Return the fields of an answer that contains the whole summary."""
    return {
        "project": summary.project,
        "summary": summary.knowledge.narrative,
        **sections_of(summary),
        "last_updated": summary.updated or context.engine.clock(),
        "version": summary.version,
        "storage_mode": await mode_of(context.engine, summary.project),
        "indexed": summary.indexed,
        "memory_id": summary.memory or "",
        "etag": summary.etag,
    }


def sections_of(summary: Summary) -> dict[str, Any]:
    """Return the lists as answers have them."""
    return {name: list(summary.knowledge.entries(name)) for name in SECTIONS}
