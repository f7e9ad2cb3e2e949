"""The history contract: past conversations made queryable."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from recollect.dialects.shape import Answer, Arguments, Dialect, Recalling, Tool

Project = Annotated[str | None, Field(description="Only this project: path or folder name")]


class RecallArguments(Arguments):
    """What to look for."""

    query: Annotated[str, Field(description="What you want to know")]
    project: Project = None


class TimelineArguments(Arguments):
    """How far back."""

    days: Annotated[int, Field(ge=1, le=3650, description="How many days back")] = 7
    project: Project = None


class ProjectsArguments(Arguments):
    """Nothing to say."""


class Found(Answer):
    """A conversation that answers."""

    session_id: str
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    source: str


class RecallAnswer(Recalling):
    """Each conversation once, best first."""

    results: Annotated[list[Found], Field(max_length=5)]
    total_sessions_searched: int
    suggestion: str | None = None


class Session(Answer):
    """A conversation."""

    session_id: str
    project: str
    title: str
    summary: str
    timestamp: datetime
    model: str | None = None
    source: str


class TimelineAnswer(Recalling):
    """Newest first."""

    sessions: list[Session]
    total_sessions: int
    date_range: str
    suggestion: str | None = None


class Folder(Answer):
    """A folder that was worked in."""

    path: str
    session_count: int
    last_used: datetime
    total_size_mb: float


class ProjectsAnswer(Answer):
    """Used last, first."""

    projects: list[Folder]
    total_projects: int
    total_sessions: int
    total_size_gb: float
    suggestion: str | None = None


HISTORY = Dialect(
    "history",
    "Past conversations: what was said, when, and in which project.",
    (
        Tool(
            "memory_recall",
            "Search past conversations",
            "Finds past conversations that speak of something, with an excerpt of each. Use it when recall knows "
            "nothing, or for how something was done; not for single facts.",
            "search_history",
            RecallArguments,
            RecallAnswer,
        ),
        Tool(
            "memory_timeline",
            "Recent conversations",
            "Lists the conversations of the last days, newest first. Use it for what was worked on and when; to find "
            "a subject use memory_recall.",
            "history_timeline",
            TimelineArguments,
            TimelineAnswer,
        ),
        Tool(
            "memory_projects",
            "Projects with conversations",
            "Lists every project that there are conversations of, with sizes and when it was last used. Use it to "
            "find a project's name.",
            "history_projects",
            ProjectsArguments,
            ProjectsAnswer,
        ),
    ),
)
