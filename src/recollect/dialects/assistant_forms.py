"""What the tools of the assistant contract take and give."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from recollect.dialects.shape import ALWAYS, Answer, Arguments, From, Recalling, To

Ok = Annotated[str, ALWAYS]
Scope = Annotated[str | None, Field(description="Scope; the active one if left out")]
# What sort of knowledge the contract's sources hold.
_SOURCES = {
    "user_profile": {"source": "user_profile", "kind": "preference"},
    "summary": {"source": "summary", "kind": "context"},
}
Source = Annotated[
    str | None,
    To("source", instead=_SOURCES),
    Field(description="Where it is from: conversation, user_profile, summary"),
]


def _through(value: Any) -> Any:
    """A day without a time means until its end."""
    try:
        day = date.fromisoformat(value.strip()) if isinstance(value, str) else None
    except ValueError:
        day = None
    return datetime.combine(day + timedelta(days=1), time()) if day and day < date.max else value


class Metadata(Arguments):
    """How to file it."""

    scope: Scope = None
    tags: list[str] | None = None
    source: Source = None


class StoreArguments(Arguments):
    """What to remember."""

    content: Annotated[str, Field(description="The text to remember")]
    scope: Scope = None
    tags: list[str] | None = None
    source: Source = None
    metadata: Annotated[Metadata | None, To("")] = None


class TimeRange(Arguments):
    """From one moment to another."""

    start: Annotated[datetime | None, Field(alias="from"), To("since")] = None
    end: Annotated[datetime | None, Field(alias="to"), To("until"), BeforeValidator(_through)] = None


class RetrieveFilter(Arguments):
    """Among which memories."""

    scope: Annotated[
        str | None,
        To("scope", instead={"ALL": {"everywhere": True}}),
        Field(description="Scope; ALL for every one"),
    ] = None
    tags: Annotated[list[str] | None, Field(description="Each of these")] = None
    time_range: Annotated[TimeRange | None, To("")] = None


class RetrieveArguments(Arguments):
    """What to look for."""

    query: Annotated[str, Field(description="A question or a key phrase")]
    filter: Annotated[RetrieveFilter | None, To("")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 5


class TagArguments(Arguments):
    """Which tag."""

    tag: Annotated[str, To("tags", listed=True)]
    query: Annotated[str | None, Field(description="Rank them by this")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 20


class ScopeArguments(Arguments):
    """Which scope."""

    scope: str
    query: Annotated[str | None, Field(description="Rank them by this")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 20


class TimeArguments(Arguments):
    """Which time."""

    time_query: Annotated[
        str | None, To("when", unless="range"), Field(description='A phrase such as "last week"')
    ] = None
    range: Annotated[TimeRange | None, To(""), Field(description="Exact limits, instead of the phrase")] = (
        None
    )
    scope: Scope = None


class Target(Arguments):
    """What to forget: all that is given narrows."""

    memory_id: Annotated[str | None, To("ids", listed=True)] = None
    scope: str | None = None
    tag: Annotated[str | None, To("tags", listed=True)] = None
    query: Annotated[str | None, Field(description="What it is about")] = None


class DeleteArguments(Arguments):
    """What to forget, and how thoroughly."""

    target: Annotated[Target, To("")]
    forget_mode: Annotated[
        Literal["soft", "hard"],
        To("hard", values={"soft": False, "hard": True}),
        Field(description="hard: for good"),
    ] = "soft"
    confirm: Annotated[
        bool,
        Field(description="Go on although it is many"),
    ] = False
    force: Annotated[bool, Field(description="Permanent ones too")] = False


class NoArguments(Arguments):
    """Nothing to say."""


class BackupArguments(Arguments):
    """What to call it."""

    name: Annotated[str | None, Field(description="The backup's name; by time if left out")] = None


class RestoreArguments(Arguments):
    """Which backup."""

    backup_file: Annotated[
        str | None, To("file"), Field(description="As backup_memory named it; the newest if left out")
    ] = None


class CreateScopeArguments(Arguments):
    """A new scope."""

    name: str
    description: str = ""


class ExportArguments(Arguments):
    """How much."""

    scope: Annotated[str | None, Field(description="Only this scope")] = None


class StoreAnswer(Answer):
    """Where it is kept."""

    status: Annotated[
        str,
        From("outcome", values={"stored": "OK", "duplicate": "OK", "noise": "IGNORED", "failed": "FAILED"}),
    ]
    memory_id: Annotated[str | None, From("id")] = None
    scope: Annotated[str | None, From("memory.scope")] = None
    created: bool
    quarantined: bool


class Found(Answer):
    """One memory."""

    text: Annotated[str, From("content")]
    source: Annotated[str, From("provenance.source|kind")]
    timestamp: Annotated[datetime, From("occurred")]
    scope: str
    tags: list[str]
    confidence: Annotated[float | None, From("score")] = None
    memory_id: Annotated[str, From("id")]


class FoundAnswer(Recalling):
    """Best first; newest first without a query."""

    results: Annotated[list[Found], From("hits")]


class Frame(Answer):
    """The time that was meant."""

    start: Annotated[datetime | None, Field(alias="from")] = None
    end: Annotated[datetime | None, Field(alias="to")] = None


class TimeAnswer(Recalling):
    """Oldest first."""

    results: Annotated[list[Found], From("days.memories")]
    time_frame: Annotated[Frame | None, From("timeframe")] = None


class Candidate(Answer):
    """What would be forgotten."""

    text: Annotated[str, From("content")]
    confidence: Annotated[float, From("score")]
    memory_id: Annotated[str, From("id")]


class DeleteAnswer(Recalling):
    """What is gone."""

    status: Annotated[str, From("candidates", if_any="CONFIRM")] = "OK"
    deleted_count: Annotated[int, From("count")]
    scope: str | None = None
    note: str
    candidates: list[Candidate]
    backup_file: Annotated[str | None, From("backup")] = None


class Stats(Answer):
    """How much is remembered."""

    total_memories: Annotated[int, From("total")]
    conversation_count: Annotated[int, From("conversations")]
    scopes: Annotated[dict[str, int], From("by_scope")]
    last_backup: datetime | None = None
    db_size_mb: Annotated[float, From("megabytes")]


class StatsAnswer(Answer):
    """How much is remembered."""

    stats: Annotated[Stats, From("")]


class BackupAnswer(Answer):
    """The file."""

    status: Ok = "OK"
    backup_file: Annotated[str, From("file")]
    memories: int
    sha256: str


class RestoreAnswer(Answer):
    """What came back."""

    status: Ok = "OK"
    backup_file: Annotated[str, From("file")]
    restored_count: Annotated[int, From("memories")]
    skipped_count: Annotated[int, From("skipped")]
    safety_backup: Annotated[str, From("safety")]


class OptimizeAnswer(Answer):
    """What was done."""

    status: Ok = "OK"
    operations: list[str]


class ScopeAnswer(Answer):
    """One scope."""

    status: Ok = "OK"
    scope: Annotated[str, From("name")]
    description: str


class ScopeView(Answer):
    """One scope."""

    name: str
    description: str
    memories: int | None  # none where its store doesn't answer
    active: bool
    parent: str | None = None


class ScopesAnswer(Recalling):
    """Every scope."""

    scopes: list[ScopeView]


class ExportAnswer(Answer):
    """The file."""

    status: Ok = "OK"
    export_file: Annotated[str, From("path")]
    memories: int
