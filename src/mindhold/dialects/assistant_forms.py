"""What the tools of the assistant contract take and give."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mindhold.dialects.shape import ALWAYS, Answer, Arguments, From, Recalling, To

Ok = Annotated[str, ALWAYS]
Scope = Annotated[str | None, Field(description="Scope; the active one if left out")]
Tags = Annotated[list[str] | None, Field(description="With or without #")]
Source = Annotated[
    str | None,
    Field(description="conversation (a message), summary, user_profile or note; decides what it becomes"),
]
Speaker = Annotated[
    Literal["user", "assistant", "system"] | None, Field(description="Who said it, of a conversation; user")
]
ConversationId = Annotated[
    str | None, To("conversation"), Field(description="Which conversation; this one if left out")
]
Archived = Annotated[
    bool,
    To("", instead={True: {"statuses": ["active", "archived"]}, False: {}}),
    Field(description="Also what was archived"),
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
    source: str | None = None


class StoreArguments(Arguments):
    """What to remember."""

    content: Annotated[str, Field(description="The text to remember; #words in it are tags")]
    scope: Annotated[
        str | None, Field(description="Scope; if left out the active one, or the one that the text speaks of")
    ] = None
    tags: Tags = None
    source: Source = None
    speaker: Speaker = None
    conversation_id: ConversationId = None
    metadata: Annotated[Metadata | None, To(""), Field(description="The same, nested")] = None


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
    include_archived: Archived = False


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

    time_query: Annotated[str | None, To("when"), Field(description='A phrase such as "last week"')] = None
    range: Annotated[
        TimeRange | None, To(""), Field(description="Exact limits; they go before the phrase")
    ] = None
    scope: Scope = None
    include_archived: Archived = False


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
    parent: Annotated[str | None, Field(description="The scope that it is within")] = None
    related_keywords: Annotated[
        list[str] | None,
        To("keywords"),
        Field(description="Words that speak of it: texts with them go there"),
    ] = None


class ExportArguments(Arguments):
    """How much, and as what."""

    scope: Annotated[str | None, Field(description="Only this scope")] = None
    format: Annotated[
        Literal["json", "markdown", "csv", "jsonl"], Field(description="jsonl can be imported again")
    ] = "json"


class StoreAnswer(Answer):
    """Where it is kept."""

    status: Annotated[
        str,
        From("outcome", values={"stored": "OK", "duplicate": "OK", "noise": "IGNORED"}),
    ]
    memory_id: Annotated[str | None, From("id")] = None
    scope: str
    scope_reason: Annotated[str | None, From("reason", unless_empty=True)] = None
    stored_as: str
    tags: list[str]
    created: bool
    quarantined: bool
    note: Annotated[str | None, From("notice", unless_empty=True)] = None


class Found(Answer):
    """One memory."""

    text: Annotated[str, From("content")]
    source: Annotated[str, From("origin")]
    timestamp: Annotated[datetime, From("occurred")]
    scope: str
    tags: list[str]
    confidence: Annotated[float | None, From("certainty")] = None
    memory_id: Annotated[str, From("id")]
    archived: Annotated[bool | None, From("archived", unless_empty=True)] = None


class FoundAnswer(Recalling):
    """Best first; newest first without a query."""

    results: Annotated[list[Found], From("hits")]


class Digest(Answer):
    """What many memories are, in few words."""

    about: Annotated[str, From("words")]
    count: int
    kinds: dict[str, int]
    topics: list[str]
    tags: list[str]
    summary: Annotated[str | None, From("summary", unless_empty=True)] = None


class ScopeFoundAnswer(FoundAnswer):
    """Without a query a digest of the whole scope as well."""

    digest: Digest | None = None


class Frame(Answer):
    """The time that was meant."""

    start: Annotated[datetime | None, Field(alias="from")] = None
    end: Annotated[datetime | None, Field(alias="to")] = None


class TimeAnswer(Recalling):
    """Oldest first."""

    results: Annotated[list[Found], From("days.memories")]
    time_frame: Annotated[Frame | None, From("timeframe")] = None
    total: int
    digest: Digest | None = None
    note: Annotated[str | None, From("note", unless_empty=True)] = None


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
    sources: Annotated[dict[str, int], From("by_source")]


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
    parent: str | None = None
    related_keywords: Annotated[list[str], From("keywords")]


class ScopeView(Answer):
    """One scope."""

    name: str
    description: str
    memories: int | None  # none where its store doesn't answer
    active: bool
    parent: str | None = None
    related_keywords: Annotated[list[str], From("keywords")]
    created_at: Annotated[datetime, From("created")]


class ScopesAnswer(Recalling):
    """Every scope."""

    scopes: list[ScopeView]


class ExportAnswer(Answer):
    """The file."""

    status: Ok = "OK"
    export_file: Annotated[str, From("path")]
    memories: int
    note: Annotated[str | None, From("notice", unless_empty=True)] = None
