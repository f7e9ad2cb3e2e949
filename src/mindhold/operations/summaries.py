"""Operations on the summary of what is known about a project."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from mindhold.engine.housing import mode_of
from mindhold.engine.insights import SECTIONS, Knowledge
from mindhold.engine.projects import Summary, project_summary
from mindhold.engine.summary_update import replace_summary, update_summary
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]


class ProjectSummaryInput(Input):
    """Which project."""

    project: str | None = None


class ProjectSummaryResult(Output):
    """What is known about a project; version 0 and empty while nobody wrote one."""

    project_id: str
    summary: str
    key_decisions: list[str] = []
    tech_stack: list[str] = []
    patterns: list[str] = []
    gotchas: list[str] = []
    version: int
    last_updated: datetime | None = None
    summary_length: int
    last_summarized_message_id: str | None = None
    storage_backend: str
    etag: str


class UpdateSummaryInput(Input):
    """What is new, and up to which message: those are read that were saved since the one that the summary knows of; without
    `last_summarized_message_id` none are. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    project: str | None = None
    trigger: Trigger
    new_insights: str
    last_summarized_message_id: str | None = None
    create_project: bool = True
    expected: str | None = None


class UpdateSummaryResult(Output):
    """The summary's new version and size, and how it came about. `notice` says what didn't go as it should have."""

    status: str = "updated"
    summary_version: int
    summary_length: int
    last_updated: datetime
    storage_backend: str
    project: str
    messages_included: int  # that were read for it: those since the last one that it knew of
    merged_by: Literal["rules", "model"]
    indexed: bool
    notice: str = ""
    memory_id: str  # the record that holds it
    etag: str


class ReplaceSummaryInput(Input):
    """The whole summary anew. `expected` is the `etag` of the summary that the caller knows, or "*" for any."""

    project: str | None = None
    summary: str
    key_decisions: list[str] | None = None
    tech_stack: list[str] | None = None
    patterns: list[str] | None = None
    gotchas: list[str] | None = None
    create_project: bool = True
    expected: str | None = None


class ReplaceSummaryResult(Output):
    """The summary as it is now."""

    success: bool = True
    project: str
    summary: str
    key_decisions: list[str]
    tech_stack: list[str]
    patterns: list[str]
    gotchas: list[str]
    last_updated: datetime
    version: int
    storage_mode: str
    indexed: bool
    memory_id: str
    etag: str


async def _summary(call: Call, given: ProjectSummaryInput) -> ProjectSummaryResult:
    known = await project_summary(call.engine, given.project, agent=call.agent)
    return ProjectSummaryResult(
        project_id=known.project,
        summary=known.text,
        **sections_of(known),
        version=known.version,
        last_updated=known.updated,
        summary_length=len(known.text),
        last_summarized_message_id=known.last_message,
        storage_backend=await mode_of(call.engine, known.project),
        etag=known.etag,
    )


async def _update(call: Call, given: UpdateSummaryInput) -> UpdateSummaryResult:
    done = await update_summary(
        call.engine,
        given.project,
        given.new_insights,
        agent=call.agent,
        trigger=given.trigger,
        last_message=given.last_summarized_message_id,
        expected=given.expected,
        create_project=given.create_project,
        model=call.engine.llm,
    )
    known = done.summary
    return UpdateSummaryResult(
        summary_version=known.version,
        summary_length=len(known.text),
        last_updated=known.updated or call.engine.clock(),
        storage_backend=await mode_of(call.engine, known.project),
        project=known.project,
        messages_included=done.messages,
        merged_by=done.merged_by,
        indexed=known.indexed,
        notice=done.notice,
        memory_id=known.memory or "",
        etag=known.etag,
    )


async def _replace(call: Call, given: ReplaceSummaryInput) -> ReplaceSummaryResult:
    knowledge = Knowledge(
        narrative=given.summary,
        key_decisions=tuple(given.key_decisions or ()),
        tech_stack=tuple(given.tech_stack or ()),
        patterns=tuple(given.patterns or ()),
        gotchas=tuple(given.gotchas or ()),
    )
    known = await replace_summary(
        call.engine,
        given.project,
        knowledge,
        agent=call.agent,
        expected=given.expected,
        create_project=given.create_project,
    )
    return ReplaceSummaryResult(**await as_it_is(call, known))


async def as_it_is(call: Call, known: Summary) -> dict[str, Any]:
    """The fields of an answer that gives the whole of it."""
    return {
        "project": known.project,
        "summary": known.knowledge.narrative,
        **sections_of(known),
        "last_updated": known.updated or call.engine.clock(),
        "version": known.version,
        "storage_mode": await mode_of(call.engine, known.project),
        "indexed": known.indexed,
        "memory_id": known.memory or "",
        "etag": known.etag,
    }


def sections_of(known: Summary) -> dict[str, Any]:
    """Its lists, as answers have them."""
    return {name: list(known.knowledge.entries(name)) for name in SECTIONS}


PROJECT_SUMMARY = Operation(
    "project_summary",
    "What is known about a project.",
    ProjectSummaryInput,
    ProjectSummaryResult,
    _summary,
    Effect.READS,
)
UPDATE_SUMMARY = Operation(
    "update_summary",
    "Work new insights into a project's summary.",
    UpdateSummaryInput,
    UpdateSummaryResult,
    _update,
    Effect.WRITES,
)
REPLACE_SUMMARY = Operation(
    "replace_summary",
    "Write a project's summary anew; the version before is kept.",
    ReplaceSummaryInput,
    ReplaceSummaryResult,
    _replace,
    Effect.WRITES,
)
