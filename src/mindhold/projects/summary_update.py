"""Operations on a project summary: show it, update it with new material, replace it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.embedding import queue_embedding
from mindhold.model.errors import ContentTooLarge, InvalidInput, ModelError, Refused
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.llm import LanguageModel
from mindhold.projects.placement import mode_of, open_project
from mindhold.projects.summary import (
    LONGEST_SUMMARY,
    Summary,
    check_expected,
    checked_words,
    line_of,
    project_summary,
    title_of,
    write_summary,
)
from mindhold.projects.summary_material import (
    Material,
    checked_mark,
    further_mark,
    material_since,
    statements_by_rules,
)
from mindhold.projects.summary_model import rewrite_by_model
from mindhold.projects.summary_sections import (
    HEADINGS,
    INSIGHTS,
    SECTIONS,
    SummaryEntry,
    SummaryKnowledge,
    entries_of,
    fits,
    merge_knowledge,
    render_summary,
    shorten_knowledge,
)

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
