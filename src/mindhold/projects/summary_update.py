"""Operations on a project summary: show it, update it with the messages since the last update, replace it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from mindhold.capture.items import CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.conversations.messages import is_message, messages_where, role_of
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.embedding import queue_embedding
from mindhold.memories.hit_context import shortened
from mindhold.memories.prepare import QUARANTINE_FROM
from mindhold.model.errors import ContentTooLarge, InvalidInput, MemoryNotFound, ModelError, Refused
from mindhold.model.memory import Kind, Memory, Status, id_time
from mindhold.model.query import Order, PagePosition
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.llm import LanguageModel
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.projects.placement import mode_of, open_project
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
_SECTIONS = {
    Kind.DECISION: "key_decisions",
    Kind.GOTCHA: "gotchas",
    Kind.ERROR: "gotchas",
    Kind.PATTERN: "patterns",
    Kind.PREFERENCE: "patterns",
    Kind.ARCHITECTURE: INSIGHTS,
    Kind.CONTEXT: INSIGHTS,
}


@dataclass(frozen=True, slots=True)
class Material:
    """Messages, oldest first and shortened, and the new mark; None leaves the mark as it is.

    `notice` says what was asked for and is missing.
    """

    messages: tuple[Memory, ...] = ()
    mark: str | None = None
    notice: str = ""


def checked_mark(mark: str | None) -> str | None:
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
    last_known = place_of(before.last_message)
    if last.id <= last_known:
        return Material(notice=EARLIER if last.id < last_known else "")
    messages: list[Memory] = []
    room = MOST_CHARACTERS
    async for memory in _saved_between(engine, before, last, agent=agent):
        if not is_message(memory) or suspicion(memory.content).score >= QUARANTINE_FROM:
            continue
        short = shortened(memory, LONGEST_MESSAGE)
        room -= len(short.content)
        if room < 0 or len(messages) == MOST_MESSAGES:
            return Material(
                _in_order(messages), mark, "Only the newest messages were read: there are too many."
            )
        messages.append(short)
    return Material(_in_order(messages), mark)


def further_mark(material: Material, *, before: Summary, now: Summary) -> str | None:
    """Return the new mark of a summary that may have changed since the material was read.

    If an older version was restored meanwhile, its mark stays, so that the next update reads the messages since then.
    """
    present = place_of(now.last_message)
    if material.mark is None or present < place_of(before.last_message):
        return now.last_message
    return max(present, material.mark)


def place_of(mark: str | None) -> str:
    """Return the sort key of a message in the order of saving; an unknown id comes first."""
    return mark if mark and id_time(mark) else ""


async def _saved_between(
    engine: Engine, before: Summary, last: Memory, *, agent: str
) -> AsyncIterator[Memory]:
    """Yield messages, newest first, from the last one back to the summary's mark.

    There may be many later ones; one page of these is searched for messages that were amended since.
    """
    last_known = place_of(before.last_message)
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


def _in_order(messages: Sequence[Memory]) -> tuple[Memory, ...]:
    return tuple(sorted(messages, key=lambda one: one.id))


async def _message(engine: Engine, mark: str, project: str, *, agent: str) -> Memory | None:
    try:
        memory = await engine.store.get(mark, viewer=agent)
    except MemoryNotFound:
        return None
    trusted = memory.status is Status.ACTIVE and memory.trust >= LEAST_TRUST
    return memory if memory.scope == project and is_message(memory) and trusted else None


async def statements_by_rules(
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
            extraction = await extract_by_rules(engine, steps[start : start + FEW], carried, folder="")
            items, carried = [*items, *extraction.items], extraction.carried
            await asyncio.sleep(0)  # let other tasks run
    return [(item.confidence, _SECTIONS[item.kind], item.content) for item in items if item.kind in _SECTIONS]


LONGEST_INSIGHT = 20_000
MOST_INSIGHTS = 100
DECISION = "important_decision"
REPLACED = "replaced"
MergedBy = Literal["rules", "model"]


@dataclass(frozen=True, slots=True)
class SummaryUpdate:
    """The new summary, how many messages were read for it, and what went wrong."""

    summary: Summary
    messages: int
    merged_by: MergedBy
    notice: str = ""


async def update_summary(
    engine: Engine,
    project: str | None,
    new_insights: str,
    *,
    agent: str,
    trigger: str,
    last_message: str | None = None,
    expected: str | None = None,
    create_project: bool = True,
    model: LanguageModel | None = None,
) -> SummaryUpdate:
    """Work insights into the summary, and messages from the summary's mark up to `last_message`.

    Messages are read and the model is called before the lock for writing is taken.
    Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed if it isn't the `expected` one.
    """
    entries = _insights(engine, new_insights, trigger=trigger)
    mark = checked_mark(last_message)
    scope = (await open_project(engine, project, create=create_project, writing=True)).name
    before = await project_summary(engine, scope, agent=agent)
    check_expected(before, expected)
    material = await material_since(engine, before, mark, agent=agent)
    proposed, reason = await _proposed(engine, model, before, entries, material)
    additions: list[SummaryEntry] = []
    if proposed is not None:
        additions = _told_anew(proposed, before.knowledge)
    elif material.messages:
        merged = await asyncio.to_thread(merge_knowledge, before.knowledge, entries)
        additions = await statements_by_rules(engine, material.messages, known=merged)
    made_by: MergedBy = "rules"

    def worked_in(now: Summary) -> Summary:
        nonlocal made_by
        knowledge, made_by = proposed, "model"
        if knowledge is None or now.etag != before.etag:  # outdated if another writer was first
            knowledge, made_by = merge_knowledge(merge_knowledge(now.knowledge, entries), additions), "rules"
        return replace(
            now,
            knowledge=shorten_knowledge(knowledge, title=title_of(scope), longest=LONGEST_SUMMARY),
            last_message=further_mark(material, before=before, now=now),
            trigger=trigger,
            merged_by=made_by,
            restored=None,
        )

    summary = await write_summary(engine, scope, worked_in, agent=agent, expected=expected)
    await _caught_up(engine, summary)
    if proposed is not None and made_by == "rules":
        reason = (
            "Somebody else changed the summary while a model was asked: what it said was merged by rules."
        )
    return SummaryUpdate(
        summary, len(material.messages), made_by, " ".join(filter(None, (material.notice, reason)))
    )


def _told_anew(proposed: SummaryKnowledge, before: SummaryKnowledge) -> list[SummaryEntry]:
    """Return the entries that the model added."""
    return [
        (name, entry)
        for name in HEADINGS
        for entry in proposed.entries(name)
        if entry not in before.entries(name)
    ]


async def replace_summary(
    engine: Engine,
    project: str | None,
    knowledge: SummaryKnowledge,
    *,
    agent: str,
    expected: str | None = None,
    create_project: bool = True,
) -> Summary:
    """Replace the whole summary. Raises InvalidInput, ContentTooLarge, Refused, ScopeNotFound, Changed."""
    checked_words(engine, render_summary(knowledge, title=""), longest=LONGEST_SUMMARY)
    safe = SummaryKnowledge(narrative=checked_words(engine, knowledge.narrative, longest=LONGEST_SUMMARY))
    for name in SECTIONS:
        lines = (line_of(engine, entry) for entry in knowledge.entries(name))
        safe = safe.with_entries(name, dict.fromkeys(filter(None, lines)))
    scope = (await open_project(engine, project, create=create_project, writing=True)).name
    if not fits(safe, title="", longest=LONGEST_SUMMARY):
        raise ContentTooLarge("The summary is too long to be kept.", advice="Condense it.")

    def anew(now: Summary) -> Summary:
        return replace(now, knowledge=safe, trigger="", merged_by=REPLACED, restored=None)

    summary = await write_summary(engine, scope, anew, agent=agent, expected=expected)
    await _caught_up(engine, summary)
    return summary


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
        title = title_of(before.project)
        return await rewrite_by_model(
            engine, model, before.knowledge, entries, material.messages, title=title
        ), ""
    except ModelError as error:
        return None, f"Rules did what a model should have: {error}"
    except (Refused, InvalidInput):
        return None, "Rules did what a model should have: what it said can't be kept."


async def _caught_up(engine: Engine, summary: Summary) -> None:
    """Queue the embedding of a summary without a vector."""
    if not summary.indexed and engine.vector_source.model is not None:
        await queue_embedding(engine)


Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]


class ProjectSummaryInput(Input):
    """Which project."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )


class ProjectSummaryResult(Output):
    """What is known about a project; version 0 and empty while nobody wrote one."""

    project_id: str = Field(description="The project's id, which is its name.", examples=["proj_123"])
    summary: str = Field(
        description="The summary.",
        examples=[
            "# Summary of proj_123\n\nThis is a task management system.\n\n## Key decisions\n- Chose MongoDB Atlas for scalability\n- Implemented JWT authentication"
        ],
    )
    key_decisions: list[str] = Field(
        default=[],
        description="Decisions and their reasons.",
        examples=[["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"]],
    )
    tech_stack: list[str] = Field(
        default=[], description="Technologies that the project uses.", examples=[["Python", "FastAPI"]]
    )
    patterns: list[str] = Field(
        default=[],
        description="Conventions and patterns of the project.",
        examples=[["Repository pattern for data access"]],
    )
    gotchas: list[str] = Field(
        default=[], description="Pitfalls.", examples=[["Check storage_mode before logging"]]
    )
    version: int = Field(description="Version number.", examples=[15])
    last_updated: datetime | None = Field(
        default=None, description="When it was last updated.", examples=["2025-11-27T11:00:00Z"]
    )
    summary_length: int = Field(description="Length of the summary in characters.", examples=[145])
    last_summarized_message_id: str | None = Field(
        default=None,
        description="Id of the last message that the summary covers; the next update continues from there.",
        examples=["01k2v9c3m4q8r7t6w5x1y0z2ac"],
    )
    storage_backend: str = Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    )
    etag: str = Field(examples=["15-1a2b3c4d"])


class UpdateSummaryInput(Input):
    """What is new, and up to which message: those are read that were saved since the one that the summary knows of; without
    `last_summarized_message_id` none are. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
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
    storage_backend: str = Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    )
    project: str = Field(description="The project's name.", examples=["proj_123"])
    messages_included: int = Field(
        description="How many messages were read for it.", examples=[12]
    )  # that were read for it: those since the last one that it knew of
    merged_by: Literal["rules", "model"] = Field(
        description="What merged it: `model` or `rules`.", examples=["rules"]
    )
    indexed: bool = Field(description="Whether it has a vector already.", examples=[True])
    notice: str = Field(default="", description="A notice about this answer; usually empty.", examples=[""])
    memory_id: str = Field(
        description="Id of its memory.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ad"]
    )  # the record that holds it
    etag: str = Field(examples=["15-1a2b3c4d"])


class ReplaceSummaryInput(Input):
    """The whole summary anew. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
    summary: str = Field(
        description="The whole story of the project, in two to five paragraphs.",
        examples=["A task management system with a FastAPI backend."],
    )
    key_decisions: list[str] | None = Field(
        default=None,
        description="Decisions and their reasons.",
        examples=[["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"]],
    )
    tech_stack: list[str] | None = Field(
        default=None, description="Technologies that the project uses.", examples=[["Python", "FastAPI"]]
    )
    patterns: list[str] | None = Field(
        default=None,
        description="Conventions and patterns of the project.",
        examples=[["Repository pattern for data access"]],
    )
    gotchas: list[str] | None = Field(
        default=None, description="Pitfalls.", examples=[["Check storage_mode before logging"]]
    )
    create_project: bool = True
    expected: str | None = None


class ReplaceSummaryResult(Output):
    """The summary as it is now."""

    success: bool = Field(default=True, examples=[True])
    project: str = Field(description="The project's name.", examples=["proj_123"])
    summary: str = Field(
        description="The summary.",
        examples=["A task management system with a FastAPI backend."],
    )
    key_decisions: list[str] = Field(
        description="Decisions and their reasons.",
        examples=[["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"]],
    )
    tech_stack: list[str] = Field(
        description="Technologies that the project uses.", examples=[["Python", "FastAPI"]]
    )
    patterns: list[str] = Field(
        description="Conventions and patterns of the project.",
        examples=[["Repository pattern for data access"]],
    )
    gotchas: list[str] = Field(description="Pitfalls.", examples=[["Check storage_mode before logging"]])
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


async def _update(context: Context, request: UpdateSummaryInput) -> UpdateSummaryResult:
    """Work new insights into a project's summary."""
    update = await update_summary(
        context.engine,
        request.project,
        request.new_insights,
        agent=context.agent,
        trigger=request.trigger,
        last_message=request.last_summarized_message_id,
        expected=request.expected,
        create_project=request.create_project,
        model=context.engine.llm,
    )
    summary = update.summary
    return UpdateSummaryResult(
        summary_version=summary.version,
        summary_length=len(summary.text),
        last_updated=summary.updated or context.engine.clock(),
        storage_backend=await mode_of(context.engine, summary.project),
        project=summary.project,
        messages_included=update.messages,
        merged_by=update.merged_by,
        indexed=summary.indexed,
        notice=update.notice,
        memory_id=summary.memory or "",
        etag=summary.etag,
    )


UPDATE_SUMMARY = operation("update_summary", _update, writes=True)


async def _replace(context: Context, request: ReplaceSummaryInput) -> ReplaceSummaryResult:
    """Write a project's summary anew; the version before is kept."""
    knowledge = SummaryKnowledge(
        narrative=request.summary,
        key_decisions=tuple(request.key_decisions or ()),
        tech_stack=tuple(request.tech_stack or ()),
        patterns=tuple(request.patterns or ()),
        gotchas=tuple(request.gotchas or ()),
    )
    summary = await replace_summary(
        context.engine,
        request.project,
        knowledge,
        agent=context.agent,
        expected=request.expected,
        create_project=request.create_project,
    )
    return ReplaceSummaryResult(**await as_it_is(context, summary))


REPLACE_SUMMARY = operation("replace_summary", _replace, writes=True)


async def as_it_is(context: Context, known: Summary) -> dict[str, Any]:
    """Return the fields of an answer that contains the whole summary."""
    return {
        "project": known.project,
        "summary": known.knowledge.narrative,
        **sections_of(known),
        "last_updated": known.updated or context.engine.clock(),
        "version": known.version,
        "storage_mode": await mode_of(context.engine, known.project),
        "indexed": known.indexed,
        "memory_id": known.memory or "",
        "etag": known.etag,
    }


def sections_of(known: Summary) -> dict[str, Any]:
    """Return the lists as answers have them."""
    return {name: list(known.knowledge.entries(name)) for name in SECTIONS}
