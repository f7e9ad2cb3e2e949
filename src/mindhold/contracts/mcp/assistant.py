"""The assistant contract: memories with scopes, tags and time phrases, and the user's profile."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mindhold.contracts.mcp.tools import (
    ALWAYS,
    NEAREST,
    NEAREST_SCHEMA,
    Contract,
    Doubt,
    From,
    NoArguments,
    RememberedAnswer,
    To,
    Tool,
    ToolAnswer,
    ToolArguments,
)

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
    """A day without a time, as the upper end of a range, means the end of that day."""
    try:
        day = date.fromisoformat(value.strip()) if isinstance(value, str) else None
    except ValueError:
        day = None
    return datetime.combine(day + timedelta(days=1), time()) if day and day < date.max else value


class Metadata(ToolArguments):
    scope: Scope = None
    tags: list[str] | None = None
    source: str | None = None


class StoreArguments(ToolArguments):
    content: Annotated[str, Field(description="The text to remember; #words in it are tags")]
    scope: Annotated[
        str | None, Field(description="Scope; if left out the active one, or the one that the text speaks of")
    ] = None
    tags: Tags = None
    source: Source = None
    speaker: Speaker = None
    conversation_id: ConversationId = None
    metadata: Annotated[Metadata | None, To(""), Field(description="The same, nested")] = None


class TimeRange(ToolArguments):
    start: Annotated[datetime | None, Field(alias="from"), To("since")] = None
    end: Annotated[datetime | None, Field(alias="to"), To("until"), BeforeValidator(_through)] = None


class RetrieveFilter(ToolArguments):
    scope: Annotated[
        str | None,
        To("scope", instead={"ALL": {"everywhere": True}}),
        Field(description="Scope; ALL for every one"),
    ] = None
    tags: Annotated[list[str] | None, Field(description="Each of these")] = None
    time_range: Annotated[TimeRange | None, To("")] = None


class RetrieveArguments(ToolArguments):
    query: Annotated[str, Field(description="A question or a key phrase")]
    filter: Annotated[RetrieveFilter | None, To("")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 5
    include_archived: Archived = False


class TagArguments(ToolArguments):
    tag: Annotated[str, To("tags", listed=True)]
    query: Annotated[str | None, Field(description="Rank them by this")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 20


class ScopeArguments(ToolArguments):
    scope: str
    query: Annotated[str | None, Field(description="Rank them by this")] = None
    top_k: Annotated[int, To("limit"), Field(ge=1, le=200)] = 20


class TimeArguments(ToolArguments):
    time_query: Annotated[str | None, To("when"), Field(description='A phrase such as "last week"')] = None
    range: Annotated[
        TimeRange | None, To(""), Field(description="Exact limits; they go before the phrase")
    ] = None
    scope: Scope = None
    include_archived: Archived = False


class Target(ToolArguments):
    """What to forget: all that is given narrows."""

    memory_id: Annotated[str | None, To("ids", listed=True)] = None
    scope: str | None = None
    tag: Annotated[str | None, To("tags", listed=True)] = None
    query: Annotated[str | None, Field(description="What it is about")] = None


class DeleteArguments(ToolArguments):
    target: Annotated[Target, To("")]
    forget_mode: Annotated[
        Literal["soft", "hard"],
        To("hard", values={"soft": False, "hard": True}),
        Field(description="hard: for good"),
    ] = "soft"
    confirm: Annotated[bool, Field(description="Go on although it is many")] = False
    force: Annotated[bool, Field(description="Permanent ones too")] = False


class BackupArguments(ToolArguments):
    name: Annotated[str | None, Field(description="The backup's name; by time if left out")] = None


class RestoreArguments(ToolArguments):
    backup_file: Annotated[
        str | None, To("file"), Field(description="As backup_memory named it; the newest if left out")
    ] = None


class CreateScopeArguments(ToolArguments):
    name: str
    description: str = ""
    parent: Annotated[str | None, Field(description="The scope that it is within")] = None
    related_keywords: Annotated[
        list[str] | None,
        To("keywords"),
        Field(description="Words that speak of it: texts with them go there"),
    ] = None


class ExportArguments(ToolArguments):
    scope: Annotated[str | None, Field(description="Only this scope")] = None
    format: Annotated[
        Literal["json", "markdown", "csv", "jsonl"], Field(description="jsonl can be imported again")
    ] = "json"


class StoreAnswer(ToolAnswer):
    status: Annotated[str, From("outcome", values={"stored": "OK", "duplicate": "OK", "noise": "IGNORED"})]
    memory_id: Annotated[str | None, From("id")] = None
    scope: str
    scope_reason: Annotated[str | None, From("reason", unless_empty=True)] = None
    stored_as: str
    tags: list[str]
    created: bool
    quarantined: bool
    note: Annotated[str | None, From("notice", unless_empty=True)] = None


class AssistantHit(ToolAnswer):
    text: Annotated[str, From("content")]
    source: Annotated[str, From("origin")]
    timestamp: Annotated[datetime, From("occurred")]
    scope: str
    tags: list[str]
    confidence: Annotated[float | None, From("certainty")] = None
    memory_id: Annotated[str, From("id")]
    archived: Annotated[bool | None, From("archived", unless_empty=True)] = None


class AssistantHitsAnswer(RememberedAnswer):
    """Best first; newest first without a query."""

    results: Annotated[list[AssistantHit], From("hits")]
    nearest: Annotated[list[AssistantHit] | None, NEAREST, NEAREST_SCHEMA] = None
    note: Doubt = None


class ScopeDigest(ToolAnswer):
    about: Annotated[str, From("words")]
    count: int
    kinds: dict[str, int]
    topics: list[str]
    tags: list[str]
    summary: Annotated[str | None, From("summary", unless_empty=True)] = None


class ScopeHitsAnswer(AssistantHitsAnswer):
    """Without a query a digest of the whole scope as well."""

    digest: ScopeDigest | None = None


class Frame(ToolAnswer):
    start: Annotated[datetime | None, Field(alias="from")] = None
    end: Annotated[datetime | None, Field(alias="to")] = None


class TimeAnswer(RememberedAnswer):
    """Oldest first."""

    results: Annotated[list[AssistantHit], From("days.memories")]
    time_frame: Annotated[Frame | None, From("timeframe")] = None
    total: int
    digest: ScopeDigest | None = None
    note: Annotated[str | None, From("note", unless_empty=True)] = None


class DeleteCandidate(ToolAnswer):
    text: Annotated[str, From("content")]
    confidence: Annotated[float, From("score")]
    memory_id: Annotated[str, From("id")]


class DeleteAnswer(RememberedAnswer):
    status: Annotated[str, From("candidates", if_any="CONFIRM")] = "OK"
    deleted_count: Annotated[int, From("count")]
    scope: str | None = None
    note: str
    candidates: list[DeleteCandidate]
    backup_file: Annotated[str | None, From("backup")] = None


class Stats(ToolAnswer):
    total_memories: Annotated[int, From("total")]
    conversation_count: Annotated[int, From("conversations")]
    scopes: Annotated[dict[str, int], From("by_scope")]
    last_backup: datetime | None = None
    db_size_mb: Annotated[float, From("megabytes")]
    sources: Annotated[dict[str, int], From("by_source")]


class AssistantStatsAnswer(ToolAnswer):
    stats: Annotated[Stats, From("")]


class BackupAnswer(ToolAnswer):
    status: Ok = "OK"
    backup_file: Annotated[str, From("file")]
    memories: int
    sha256: str


class RestoreAnswer(ToolAnswer):
    status: Ok = "OK"
    backup_file: Annotated[str, From("file")]
    restored_count: Annotated[int, From("memories")]
    skipped_count: Annotated[int, From("skipped")]
    safety_backup: Annotated[str, From("safety")]


class OptimizeAnswer(ToolAnswer):
    status: Ok = "OK"
    operations: list[str]


class ScopeAnswer(ToolAnswer):
    status: Ok = "OK"
    scope: Annotated[str, From("name")]
    description: str
    parent: str | None = None
    related_keywords: Annotated[list[str], From("keywords")]


class AssistantScope(ToolAnswer):
    name: str
    description: str
    memories: int | None  # none where its store doesn't answer
    active: bool
    parent: str | None = None
    related_keywords: Annotated[list[str], From("keywords")]
    created_at: Annotated[datetime, From("created")]


class ScopesAnswer(RememberedAnswer):
    scopes: list[AssistantScope]


class ExportAnswer(ToolAnswer):
    status: Ok = "OK"
    export_file: Annotated[str, From("path")]
    memories: int
    note: Annotated[str | None, From("notice", unless_empty=True)] = None


class Contact(ToolArguments):
    name: str
    relation: str


class ContactAnswer(ToolAnswer):
    name: str
    relation: str


class ProfileUpdateArguments(ToolArguments):
    """What to set and what to remove, all or nothing."""

    statement: str | None = Field(None, description='What the person said: "My favourite colour is blue."')
    name: str | None = Field(None, description="The person's name.")
    preferences: dict[str, str] | None = Field(None, description="Such as tone: casual.")
    facts: dict[str, str] | None = Field(None, description="Such as favorite_color: blue.")
    contacts: list[Contact] | None = Field(None, description="People, with what they are to the person.")
    notes: list[str] | None = Field(None, description="What fits nowhere else.")
    remove: list[str] | None = Field(
        None, description="Entries to remove: name, favorite_color, contacts.Alice."
    )


class ProfileAnswer(RememberedAnswer):
    name: str | None = None
    preferences: dict[str, str]
    facts: dict[str, str]
    contacts: list[ContactAnswer]
    notes: list[str]


class ProfileChangeAnswer(ToolAnswer):
    entry: Annotated[str, From("key")]
    section: str
    value: str | None = None
    previous: str | None = None
    change: str


class ProfileUpdateAnswer(RememberedAnswer):
    status: Annotated[str, ALWAYS] = "OK"
    changes: list[ProfileChangeAnswer]
    name: Annotated[str | None, From("profile.name")] = None
    preferences: Annotated[dict[str, str], From("profile.preferences")]
    facts: Annotated[dict[str, str], From("profile.facts")]
    contacts: Annotated[list[ContactAnswer], From("profile.contacts")]
    notes: Annotated[list[str], From("profile.notes")]


PROFILE_TOOLS = (
    Tool("get_profile", "The person's profile", "show_profile", NoArguments, ProfileAnswer).described(
        "Gives what is known of the person you talk with: name, preferences, facts, contacts, notes. Use it to suit them, "
        "or before you ask what they told you before."
    ),
    Tool(
        "update_profile",
        "Change the profile",
        "change_profile",
        ProfileUpdateArguments,
        ProfileUpdateAnswer,
        idempotent=True,
    ).described(
        "Keeps what the person says of themselves, or removes it. Give their words as a statement, or entries by name. "
        "What an entry said before is kept."
    ),
)


def _deleting(name: str, title: str, description: str) -> Tool:
    return Tool(
        name,
        title,
        "forget",
        DeleteArguments,
        DeleteAnswer,
        fixed={"missing_ok": True, "drop_scope": True},
        idempotent=True,
    ).described(description)


ASSISTANT = Contract(
    "assistant",
    "Scopes, tags and phrases of time, for an assistant that talks with a person.",
    (
        Tool(
            "store_memory",
            "Store a memory",
            "store",
            StoreArguments,
            StoreAnswer,
            fixed={"dialect": "assistant", "create_scope": True},
        ).described(
            "Saves one piece of information for later conversations. Use it when the person asks you to remember "
            "something, or when something worth knowing came up."
        ),
        Tool(
            "retrieve_memory", "Retrieve memories", "recall", RetrieveArguments, AssistantHitsAnswer
        ).described(
            "Finds what is remembered about a question, best first. Use it before you say that you don't know; for a "
            "time alone use recall_memory_by_time."
        ),
        Tool(
            "search_by_tag",
            "Memories with a tag",
            "recall",
            TagArguments,
            AssistantHitsAnswer,
            fixed={"everywhere": True, "minimum_score": 0.0},  # a query ranks them, it leaves none out
        ).described(
            "Gives the memories that have a tag, in every scope; ranked when there is a query, else the newest first."
        ),
        Tool(
            "search_by_scope",
            "Memories of a scope",
            "recall",
            ScopeArguments,
            ScopeHitsAnswer,
            fixed={"scope_only": True, "digest": True},
        ).described(
            "Gives the memories of one scope and no other; ranked when there is a query, else the newest and a digest "
            "of all."
        ),
        Tool(
            "recall_memory_by_time",
            "Memories of a time",
            "timeline",
            TimeArguments,
            TimeAnswer,
            fixed={"everywhere": False, "limit": 50, "overview": True},
        ).described(
            "Gives what is remembered of a time, oldest first; of very much the first, the last and a digest. Takes a "
            "phrase or exact limits; for a subject within a time use retrieve_memory with a time range."
        ),
        _deleting(
            "delete_memory",
            "Delete memories",
            "Forgets what the target names: one memory, a scope, a tag, or what a query finds; several narrow. Soft can "
            "be undone, hard can't. A query that finds many, or hard deletion of many, only lists them until you confirm.",
        ),
        _deleting("forget_memory", "Forget memories", "The same as delete_memory, by its other name."),
        Tool("get_memory_stats", "Memory statistics", "stats", NoArguments, AssistantStatsAnswer).described(
            "Says how much is remembered, in which scopes, and when it was last backed up."
        ),
        Tool("backup_memory", "Back up", "backup", BackupArguments, BackupAnswer).described(
            "Writes everything into a verified backup file now. Use it when asked to, or before something risky."
        ),
        Tool(
            "restore_memory", "Restore a backup", "restore", RestoreArguments, RestoreAnswer, idempotent=True
        ).described(
            "Brings back what a backup holds and is missing now; makes a backup of the present state first. Only when "
            "asked to."
        ),
        Tool(
            "optimize_memory",
            "Tidy up",
            "maintain",
            NoArguments,
            OptimizeAnswer,
            fixed={"backup": False},
            idempotent=True,
        ).described(
            "Does the upkeep that is due and says what it did. It runs by itself as well; call it only when asked to."
        ),
        Tool(
            "create_memory_scope", "Create a scope", "create_scope", CreateScopeArguments, ScopeAnswer
        ).described(
            "Makes a scope with a description and keywords. Storing into a new scope makes it as well."
        ),
        Tool("list_memory_scopes", "List scopes", "list_scopes", NoArguments, ScopesAnswer).described(
            "Lists every scope with its description and how many memories it has."
        ),
        Tool("export_memory", "Export", "export", ExportArguments, ExportAnswer).described(
            "Writes all memories, or one scope's, into a file of the export folder and names it. For taking data "
            "elsewhere: it is personal, tell so. For safety use backup_memory."
        ),
        *PROFILE_TOOLS,
    ),
)
