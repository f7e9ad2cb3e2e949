"""The project contract: a message log and a summary for each project."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mindhold.contracts.mcp.tools import (
    NEAREST,
    NEAREST_SCHEMA,
    Contract,
    Doubt,
    RememberedAnswer,
    To,
    Tool,
    ToolAnswer,
    ToolArguments,
)

ProjectId = Annotated[str | None, To("project"), Field(description="Another project than this one")]


class ProjectContextArguments(ToolArguments):
    project_id: ProjectId = None
    query: Annotated[str | None, Field(description="What the work is about now")] = None
    token_budget: Annotated[int, Field(ge=300, description="Most tokens of the answer")] = 8_000


class SaveArguments(ToolArguments):
    message_type: Literal["user", "assistant", "system"]
    content: str
    task_id: int | None = None
    metadata: Annotated[
        dict[str, Any] | None, Field(description="Anything; session_id names the conversation")
    ] = None
    project_id: ProjectId = None


class SummaryUpdateArguments(ToolArguments):
    trigger: Literal["session_end", "important_decision", "task_complete", "manual"]
    new_insights: Annotated[str, Field(description="What to work into the summary")]
    last_summarized_message_id: str | None = None
    project_id: ProjectId = None


class ReplaceArguments(ToolArguments):
    summary: Annotated[str, Field(description="The project told in a few paragraphs")]
    key_decisions: list[str] | None = None
    tech_stack: list[str] | None = None
    patterns: list[str] | None = None
    gotchas: list[str] | None = None
    project_id: ProjectId = None


class ProjectSearchArguments(ToolArguments):
    query: Annotated[str, Field(description="A question in plain words")]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    session_id: Annotated[str | None, To("conversation"), Field(description="Only this conversation")] = None
    project_id: ProjectId = None


class ProjectMessage(ToolAnswer):
    id: str
    message_type: str
    content: str
    timestamp: datetime
    task_id: int | None = None
    session_id: str | None = None


class ProjectHit(ToolAnswer):
    """A message, or another memory of the project."""

    id: str
    content: str
    message_type: str
    kind: str
    timestamp: datetime
    task_id: int | None = None
    similarity: float
    metadata: dict[str, Any]


class ProjectContextAnswer(RememberedAnswer):
    project: str
    summary: str | None = None
    summary_version: int
    recent_messages: list[ProjectMessage]
    rag_results: list[ProjectHit]
    tokens: int
    left_out: Annotated[str, Field(description="What the budget had no room for")]
    storage_backend: str


class SaveAnswer(ToolAnswer):
    message_id: str
    status: str
    indexed: bool
    embedding_model: str | None = None
    storage_backend: str
    project: str
    quarantined: bool
    redacted: Annotated[list[str], Field(description="Kinds of secrets that were replaced")]


class SummaryUpdateAnswer(ToolAnswer):
    status: str
    summary_version: int
    summary_length: int
    last_updated: datetime
    storage_backend: str
    notice: str = ""


class ReplaceAnswer(RememberedAnswer):
    success: bool
    summary: str
    key_decisions: list[str]
    tech_stack: list[str]
    patterns: list[str]
    gotchas: list[str]
    last_updated: datetime
    version: int
    storage_mode: str


class ProjectSearchAnswer(RememberedAnswer):
    """Best first."""

    results: list[ProjectHit]
    nearest: Annotated[list[ProjectHit] | None, NEAREST, NEAREST_SCHEMA] = None
    note: Doubt = None
    query_embedding_model: str | None = None
    search_method: str
    count: int
    storage_backend: str


PROJECT = Contract(
    "project",
    "A log of messages and a living summary for each project.",
    (
        Tool(
            "get_project_memory_context",
            "Project context",
            "project_context",
            ProjectContextArguments,
            ProjectContextAnswer,
        ).described(
            "Gives a project's summary, its last 50 messages and the 20 most relevant, within a token budget. Use it once at "
            "the start of work on a project; later use search_project_memories."
        ),
        Tool(
            "save_conversation_message", "Save a message", "save_message", SaveArguments, SaveAnswer
        ).described(
            "Adds one message to the project's log and makes it findable. Use it for what was said; for conclusions "
            "use update_project_summary."
        ),
        Tool(
            "update_project_summary",
            "Add to the summary",
            "update_summary",
            SummaryUpdateArguments,
            SummaryUpdateAnswer,
        ).described(
            "Works new insights into the project's summary, passing over what it says already. Use it after a "
            "decision, a finished task or a session."
        ),
        Tool(
            "intelligent_update_project_summary",
            "Rewrite the summary",
            "replace_summary",
            ReplaceArguments,
            ReplaceAnswer,
            idempotent=True,
        ).described(
            "Replaces the project's summary and its lists as a whole; earlier versions are kept. Use it when you have "
            "the full picture; to add a little use update_project_summary."
        ),
        Tool(
            "search_project_memories",
            "Search a project",
            "search_messages",
            ProjectSearchArguments,
            ProjectSearchAnswer,
        ).described("Finds messages and other memories of a project by meaning and words, best first."),
    ),
)
