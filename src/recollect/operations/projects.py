"""Operations on projects: the log of what was said in one, and the summary of what is known about it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from recollect.engine.checks import LARGEST_NUMBER
from recollect.engine.housing import mode_of
from recollect.engine.insights import SECTIONS, Knowledge
from recollect.engine.messages import (
    SESSION,
    Message,
    brief,
    recent_messages,
    save_message,
    search_project,
)
from recollect.engine.projects import Summary, open_project, project_summary, replace_summary, update_summary
from recollect.model.tokens import count_tokens
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output
from recollect.operations.project_views import FoundView, MessageView

MessageType = Literal["user", "assistant", "system"]
Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]


class SaveMessageInput(Input):
    """One turn of a conversation. No project means the scope that the call is made in."""

    project: str | None = None
    message_type: MessageType
    content: str
    task_id: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    metadata: dict[str, Any] = {}
    conversation: str | None = None
    create_project: bool = True


class SaveMessageResult(Output):
    """The message's id, and whether it is found by meaning already."""

    message_id: str
    status: str = "saved"
    indexed: bool
    embedding_model: str | None = None
    storage_backend: str
    project: str
    quarantined: bool = False  # kept, but never given to anybody: it reads like instructions to its reader


class RecentMessagesInput(Input):
    """Which messages of which project."""

    project: str | None = None
    limit: int = Field(default=50, ge=1, le=200)
    conversation: str | None = None
    task_id: int | None = None


class RecentMessagesResult(Output):
    """The newest messages, oldest of them first."""

    messages: list[MessageView]
    count: int
    storage_backend: str


class SearchMessagesInput(Input):
    """What to look for in a project."""

    project: str | None = None
    query: str
    limit: int = Field(default=20, ge=1, le=100)
    conversation: str | None = None


class SearchMessagesResult(Output):
    """The best first."""

    results: list[FoundView]
    query_embedding_model: str | None = None
    search_method: str
    count: int
    storage_backend: str


class ProjectContextInput(Input):
    """Which project, what it is about now, and how much of it."""

    project: str | None = None
    query: str | None = None
    recent: int = Field(default=50, ge=0, le=200)
    related: int = Field(default=20, ge=0, le=100)


class ProjectContextResult(Output):
    """All that a new conversation should know: summary, what was said last, what is related."""

    project: str
    summary: str | None = None
    summary_version: int = 0
    recent_messages: list[MessageView]
    rag_results: list[FoundView]
    tokens: int
    storage_backend: str


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


class UpdateSummaryInput(Input):
    """What is new."""

    project: str | None = None
    trigger: Trigger
    new_insights: str
    last_summarized_message_id: str | None = None
    create_project: bool = True


class UpdateSummaryResult(Output):
    """The summary's new version and size."""

    status: str = "updated"
    summary_version: int
    summary_length: int
    last_updated: datetime
    storage_backend: str
    project: str


class ReplaceSummaryInput(Input):
    """The whole summary anew."""

    project: str | None = None
    summary: str
    key_decisions: list[str] = []
    tech_stack: list[str] = []
    patterns: list[str] = []
    gotchas: list[str] = []
    create_project: bool = True


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


async def _save(call: Call, given: SaveMessageInput) -> SaveMessageResult:
    said_in = given.metadata.get(SESSION)
    message = Message(
        role=given.message_type,
        content=given.content,
        project=given.project,
        task=given.task_id,
        conversation=given.conversation
        or (said_in if isinstance(said_in, str) else None)
        or call.conversation,
        metadata=given.metadata,
    )
    kept = await save_message(call.engine, message, agent=call.agent, create_project=given.create_project)
    return SaveMessageResult(
        message_id=kept.memory.id,
        indexed=kept.embedded,
        embedding_model=call.engine.meaning.model if kept.embedded else None,
        storage_backend=await mode_of(call.engine, kept.memory.scope),
        project=kept.memory.scope,
        quarantined=bool(kept.suspicious),
    )


async def _recent(call: Call, given: RecentMessagesInput) -> RecentMessagesResult:
    messages = await recent_messages(
        call.engine,
        given.project,
        agent=call.agent,
        limit=given.limit,
        conversation=given.conversation,
        task=given.task_id,
    )
    return RecentMessagesResult(
        messages=[MessageView.of(one) for one in messages],
        count=len(messages),
        storage_backend=await _backend(call, given.project),
    )


async def _search(call: Call, given: SearchMessagesInput) -> SearchMessagesResult:
    found = await search_project(
        call.engine,
        given.project,
        given.query,
        agent=call.agent,
        limit=given.limit,
        conversation=given.conversation,
    )
    meaning = call.engine.meaning
    by_meaning = meaning.model is not None and not meaning.reason
    return SearchMessagesResult(
        results=[FoundView.of(hit) for hit in found.hits],
        query_embedding_model=meaning.model if by_meaning else None,
        search_method="hybrid" if by_meaning else "full_text",
        count=len(found.hits),
        storage_backend=await _backend(call, given.project),
    )


async def _context(call: Call, given: ProjectContextInput) -> ProjectContextResult:
    known = await brief(
        call.engine,
        given.project,
        agent=call.agent,
        query=given.query,
        recent=given.recent,
        related=given.related,
    )
    texts = [
        known.summary.text,
        *(one.memory.content for one in known.recent),
        *(hit.content for hit in known.related),
    ]
    return ProjectContextResult(
        project=known.summary.project,
        summary=known.summary.text or None,
        summary_version=known.summary.version,
        recent_messages=[MessageView.of(one) for one in known.recent],
        rag_results=[FoundView.of(hit) for hit in known.related],
        tokens=sum(count_tokens(text) for text in texts),
        storage_backend=await mode_of(call.engine, known.summary.project),
    )


async def _summary(call: Call, given: ProjectSummaryInput) -> ProjectSummaryResult:
    known = await project_summary(call.engine, given.project, agent=call.agent)
    return ProjectSummaryResult(
        project_id=known.project,
        summary=known.text,
        **_sections(known),
        version=known.version,
        last_updated=known.updated,
        summary_length=len(known.text),
        last_summarized_message_id=known.last_message,
        storage_backend=await mode_of(call.engine, known.project),
    )


async def _update(call: Call, given: UpdateSummaryInput) -> UpdateSummaryResult:
    known = await update_summary(
        call.engine,
        given.project,
        given.new_insights,
        agent=call.agent,
        trigger=given.trigger,
        last_message=given.last_summarized_message_id,
        create_project=given.create_project,
    )
    return UpdateSummaryResult(
        summary_version=known.version,
        summary_length=len(known.text),
        last_updated=known.updated or call.engine.clock(),
        storage_backend=await mode_of(call.engine, known.project),
        project=known.project,
    )


async def _replace(call: Call, given: ReplaceSummaryInput) -> ReplaceSummaryResult:
    knowledge = Knowledge(
        narrative=given.summary,
        key_decisions=tuple(given.key_decisions),
        tech_stack=tuple(given.tech_stack),
        patterns=tuple(given.patterns),
        gotchas=tuple(given.gotchas),
    )
    known = await replace_summary(
        call.engine, given.project, knowledge, agent=call.agent, create_project=given.create_project
    )
    return ReplaceSummaryResult(
        project=known.project,
        summary=known.knowledge.narrative,
        **_sections(known),
        last_updated=known.updated or call.engine.clock(),
        version=known.version,
        storage_mode=await mode_of(call.engine, known.project),
    )


async def _backend(call: Call, project: str | None) -> str:
    return await mode_of(call.engine, (await open_project(call.engine, project)).name)


def _sections(known: Summary) -> dict[str, Any]:
    return {name: list(getattr(known.knowledge, name)) for name in SECTIONS}


SAVE_MESSAGE = Operation(
    "save_message",
    "Add one message to a project's log.",
    SaveMessageInput,
    SaveMessageResult,
    _save,
    Effect.WRITES,
)
RECENT_MESSAGES = Operation(
    "recent_messages",
    "The newest messages of a project.",
    RecentMessagesInput,
    RecentMessagesResult,
    _recent,
    Effect.READS,
)
SEARCH_MESSAGES = Operation(
    "search_messages",
    "Find what a project remembers.",
    SearchMessagesInput,
    SearchMessagesResult,
    _search,
    Effect.READS,
)
PROJECT_CONTEXT = Operation(
    "project_context",
    "Summary, newest messages and what is related, in one answer.",
    ProjectContextInput,
    ProjectContextResult,
    _context,
    Effect.READS,
)
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
