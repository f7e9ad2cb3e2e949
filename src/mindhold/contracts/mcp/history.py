"""The history contract: search and timeline of past conversations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from mindhold.contracts.mcp.tools import (
    NEAREST,
    NEAREST_SCHEMA,
    Contract,
    From,
    NoArguments,
    RememberedAnswer,
    Tool,
    ToolAnswer,
    ToolArguments,
)

MOST_LISTED = 30  # most conversations in one answer; the answer also has their total number
Project = Annotated[str | None, Field(description="Only this one: path or unique part")]


class HistoryRecallArguments(ToolArguments):
    query: Annotated[str, Field(description="Your question")]
    project: Project = None


class TimelineArguments(ToolArguments):
    days: Annotated[int, Field(ge=1, le=3650, description="How many days back")] = 7
    project: Project = None


def _briefly(schema: dict[str, Any]) -> None:
    """Removes what a reader can guess from the schema: this tool is always served, and each word costs tokens."""
    for name in ("memories", "memory_id", "source"):
        del schema["properties"][name]
    del schema["required"]


class ConversationHit(ToolAnswer):
    model_config = ConfigDict(json_schema_extra=_briefly)

    session_id: str
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    file: str | None = None
    line: int | None = None
    memory_id: str | None = None
    memories: Annotated[list[dict[str, str]] | None, From("memories", unless_empty=True)] = None
    source: str


class HistoryRecallAnswer(RememberedAnswer):
    """Each conversation once, best first."""

    results: Annotated[list[ConversationHit], Field(max_length=5)]
    nearest: Annotated[list[ConversationHit] | None, NEAREST, NEAREST_SCHEMA] = None
    total_sessions_searched: int
    suggestion: str | None = None
    searched_with: str | None = None
    error: str | None = None
    message: str | None = None
    resolution: str | None = None
    partial_results: list[dict[str, Any]] | None = None


class HistorySession(ToolAnswer):
    session_id: str
    project: str
    title: str
    summary: str
    timestamp: datetime
    model: str | None = None
    source: str
    agent: Annotated[str | None, From("agent", unless_empty=True)] = None


class TimelineAnswer(RememberedAnswer):
    """Newest first."""

    sessions: list[HistorySession]
    total_sessions: int
    date_range: str
    suggestion: str | None = None


class Folder(ToolAnswer):
    path: str
    session_count: int
    last_used: datetime
    total_size_mb: float


class ProjectsAnswer(ToolAnswer):
    """Used last, first."""

    projects: list[Folder]
    total_projects: int
    total_sessions: int
    total_size_gb: float
    suggestion: str | None = None


HISTORY = Contract(
    "history",
    "Past conversations: what was said, when, and in which project.",
    (
        Tool(
            "memory_recall",
            "Past conversations",
            "search_history",
            HistoryRecallArguments,
            HistoryRecallAnswer,
        ).described("Finds past conversations: when recall knows nothing, or for how something was done."),
        Tool(
            "memory_timeline",
            "Recent conversations",
            "history_timeline",
            TimelineArguments,
            TimelineAnswer,
            fixed={"limit": MOST_LISTED},
        ).described(
            "Lists the conversations of the last days, newest first. Use it for what was worked on and when; to find "
            "a subject use memory_recall."
        ),
        Tool(
            "memory_projects", "Projects with conversations", "history_projects", NoArguments, ProjectsAnswer
        ).described(
            "Lists every project that there are conversations of, with sizes and when it was last used. Use it to "
            "find a project's name."
        ),
    ),
)
