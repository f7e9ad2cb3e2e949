"""The fragments contract: atomic typed memories, their links, reflection and maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticKnownError

from mindhold.contracts.mcp.tools import (
    AGENT,
    ALWAYS,
    NEAREST,
    NEAREST_SCHEMA,
    Contract,
    From,
    NoArguments,
    RememberedAnswer,
    To,
    Tool,
    ToolAnswer,
    ToolArguments,
    validate_each,
)

MOST_AT_ONCE = 200

Kind = Literal["fact", "decision", "error", "preference", "procedure", "relation"]
Relation = Literal["related", "caused_by", "resolved_by", "part_of", "contradicts"]
AnyRelation = Literal["related", "caused_by", "resolved_by", "part_of", "contradicts", "superseded_by"]
Share = Annotated[float | None, Field(ge=0, le=1)]
AgentId = Annotated[str | None, To(AGENT)]
SessionId = Annotated[str | None, To("conversation")]
Project = Annotated[str | None, To("scope"), Field(description="Another project than this one")]
Once = Annotated[str | None, To("idempotency_key"), Field(description="Repeats store nothing")]
DryRun = Annotated[bool, To("dry_run"), Field(description="Only tell")]


def _said(text: str) -> str:
    """Refuses empty text. A bound in the schema would cost tokens in every client."""
    if not text.strip():
        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return text


class FragmentArguments(ToolArguments):
    content: Annotated[str, Field(description="One self-contained statement, 1-3 sentences")]
    topic: Annotated[str, AfterValidator(_said), Field(description="Short label, e.g. deployment")]
    type: Annotated[Kind, To("kind")]
    keywords: Annotated[list[str] | None, To("keywords", also=("tags",))] = None  # other dialects' tags
    importance: Share = None
    source: Annotated[str | None, Field(description="File, tool or person")] = None
    linkedTo: Annotated[list[str] | None, To("linked_to"), Field(description="Ids of related memories")] = (
        None
    )
    scope: Annotated[
        Literal["permanent", "session"],
        To("session_only", values={"permanent": False, "session": True}),
        Field(description="session: forgotten when this conversation ends"),
    ] = "permanent"
    isAnchor: Annotated[bool, To("anchor"), Field(description="Never fades")] = False
    project: Project = None
    sessionId: SessionId = None
    idempotencyKey: Once = None


class RememberArguments(FragmentArguments):
    dryRun: DryRun = False
    agentId: AgentId = None


class BatchArguments(ToolArguments):
    """Several at once. Project and session are for those that name none of their own."""

    fragments: Annotated[
        list[Annotated[FragmentArguments, validate_each(FragmentArguments)]],
        To("items"),
        Field(min_length=1, max_length=MOST_AT_ONCE, description="At most 200"),
    ]
    project: Project = None
    sessionId: SessionId = None
    idempotencyKey: Annotated[
        str | None,
        To("idempotency_key"),
        Field(description="Of the whole call: the same again within a day gives the first answer"),
    ] = None
    dryRun: Annotated[bool, To("dry_run"), Field(description="Store nothing, tell what would be")] = False
    agentId: AgentId = None


class RecallArguments(ToolArguments):
    keywords: list[str] | None = None
    topic: str | None = None
    type: Annotated[Kind | None, To("kinds", listed=True)] = None
    text: Annotated[str | None, To("query"), Field(description="Question in plain words")] = None
    tokenBudget: Annotated[int, To("token_budget"), Field(ge=1)] = 1000
    includeLinks: Annotated[bool, To("links")] = True
    linkRelationType: Annotated[Relation | None, To("relations", listed=True)] = None
    threshold: Annotated[Share, To("minimum_similarity"), Field(description="Least similarity")] = None
    when: Annotated[str | None, Field(description='Time, e.g. "last week"')] = None
    project: Project = None
    agentId: AgentId = None


class ForgetArguments(ToolArguments):
    id: Annotated[str | None, To("ids", listed=True)] = None
    topic: Annotated[str | None, To("topic", unless="id"), Field(description="All memories of a topic")] = (
        None
    )
    force: Annotated[bool, Field(description="Permanent ones too")] = False
    project: Project = None
    agentId: AgentId = None


class LinkArguments(ToolArguments):
    fromId: Annotated[str, To("origin")]
    toId: Annotated[str, To("target")]
    relationType: Annotated[Relation, To("relation")] = "related"
    agentId: AgentId = None


class AmendArguments(ToolArguments):
    id: str
    content: str | None = None
    topic: str | None = None
    keywords: list[str] | None = None
    type: Annotated[Kind | None, To("kind")] = None
    importance: Share = None
    isAnchor: Annotated[bool | None, To("anchor")] = None
    supersedes: Annotated[bool, Field(description="Keep the old one, marked as replaced")] = False
    agentId: AgentId = None


class EffectivenessArguments(ToolArguments):
    overall_success: bool
    tool_highlights: list[str] = []
    tool_pain_points: list[str] = []


class ReflectArguments(ToolArguments):
    summary: str
    sessionId: SessionId = None
    decisions: list[str] | None = None
    errors_resolved: Annotated[list[str] | None, Field(description="Error and its fix")] = None
    new_procedures: list[str] | None = None
    open_questions: list[str] | None = None
    task_effectiveness: Annotated[EffectivenessArguments | None, To("effectiveness")] = None
    project: Project = None
    agentId: AgentId = None


class ContextArguments(ToolArguments):
    tokenBudget: Annotated[int, To("token_budget"), Field(ge=1)] = 2000
    types: Annotated[list[Kind], To("kinds")] = ["preference", "error", "procedure"]
    sessionId: SessionId = None
    project: Project = None
    agentId: AgentId = None


class FeedbackArguments(ToolArguments):
    tool_name: str
    relevant: Annotated[bool, Field(description="The answer fitted the question")]
    sufficient: Annotated[bool, Field(description="It was enough to go on with")]
    suggestion: Annotated[str | None, Field(description="What would be better, in a sentence")] = None
    context: Annotated[str | None, Field(description="What it was needed for, in a few words")] = None
    session_id: SessionId = None
    trigger_type: Annotated[Literal["sampled", "voluntary"], To("trigger")] = "voluntary"
    fragmentIds: Annotated[
        list[str] | None,
        To("memories"),
        Field(description="Which memories it is about; else the last answer's"),
    ] = None


class ConsolidateArguments(ToolArguments):
    dryRun: Annotated[bool, To("dry_run"), Field(description="Change nothing, tell what would be done")] = (
        False
    )


class ExploreArguments(ToolArguments):
    startId: Annotated[str, To("start"), Field(description="Best an error's")]
    depth: Annotated[int, Field(ge=1, le=5, description="How many links away")] = 1
    relations: list[AnyRelation] = ["caused_by", "resolved_by"]
    agentId: AgentId = None


class HistoryArguments(ToolArguments):
    id: str
    agentId: AgentId = None


class ReconstructArguments(ToolArguments):
    topic: Annotated[str, Field(description="As it was given to remember; or what it is about")]
    tokenBudget: Annotated[int, To("token_budget"), Field(ge=1)] = 2000
    project: Project = None
    agentId: AgentId = None


Success = Annotated[bool, ALWAYS]
STORED = {"stored": True, "duplicate": True, "would_store": True, "noise": False, "failed": False}
Note = Annotated[str | None, From("notice", unless_empty=True)]


class RememberAnswer(ToolAnswer):
    """What became of it; of a dry run what would, without an id."""

    success: Annotated[bool, From("outcome", values=STORED)]
    id: str | None = None
    created: bool
    outcome: str
    quarantined: bool
    redacted: dict[str, int]
    parts: Annotated[list[str] | None, From("parts", unless_empty=True)] = None
    linked: Annotated[list[str] | None, From("linked", unless_empty=True)] = None
    links: Annotated[list[dict[str, str]] | None, From("ties", unless_empty=True)] = None
    superseded: Annotated[list[str] | None, From("superseded", unless_empty=True)] = None
    repeated: Annotated[bool | None, From("repeated", unless_empty=True)] = None
    note: Note = None


class BatchItem(RememberAnswer):
    error: str | None = None
    code: Annotated[str | None, From("error_code")] = None


class BatchAnswer(ToolAnswer):
    """One answer a fragment, in order."""

    success: Success = True
    created: int
    failed: int
    dryRun: Annotated[bool, From("dry_run")]
    results: list[BatchItem]


def _briefly(schema: dict[str, Any]) -> None:
    """Leaves out which fields are always there, and what a reader can guess: each word costs tokens in every client."""
    del schema["required"]
    for name in ("layer", "why"):
        schema["properties"].pop(name, None)


class LinkedFragment(ToolAnswer):
    model_config = ConfigDict(json_schema_extra=_briefly)

    id: str
    relation: Annotated[str, From("link.relation")]
    content: str


class Fragment(ToolAnswer):
    model_config = ConfigDict(json_schema_extra=_briefly)

    id: str
    content: str
    type: Annotated[str, From("kind")]
    topic: str
    keywords: list[str]
    importance: float
    score: float
    similarity: float | None = None
    layer: str
    why: list[str]
    timestamp: Annotated[datetime, From("occurred")]
    project: Annotated[str, From("scope")]
    contradicts: Annotated[list[str] | None, From("contradicts", unless_empty=True)] = None
    contradictedBy: Annotated[list[str] | None, From("contradicted_by", unless_empty=True)] = None
    supersededBy: Annotated[list[str] | None, From("superseded_by", unless_empty=True)] = None
    linked: Annotated[list[LinkedFragment], From("links")]


class RecallAnswer(RememberedAnswer):
    """Best first."""

    fragments: Annotated[list[Fragment], From("hits")]
    nearest: Annotated[list[Fragment] | None, NEAREST, NEAREST_SCHEMA] = None
    count: int
    totalTokens: Annotated[int, From("tokens")]
    method: Annotated[str, From("rung")]
    layers: Annotated[list[str], From("layers.layer")]
    time: Annotated[str | None, From("timeframe.words")] = None
    hint: Note = None


class ForgetAnswer(ToolAnswer):
    success: Success = True
    deleted: Annotated[int, From("count")]
    ids: Annotated[list[str], From("forgotten")]
    kept: list[str]
    note: str


class LinkAnswer(ToolAnswer):
    success: Success = True
    created: bool


class AmendAnswer(ToolAnswer):
    success: Success = True
    id: str
    previousId: Annotated[str | None, From("previous_id")] = None
    note: Note = None


class ReflectAnswer(ToolAnswer):
    success: Success = True
    stored: int
    duplicates: int
    quarantined: int
    ids: list[str]
    counts: dict[str, int]


class ContextItemAnswer(ToolAnswer):
    id: str
    type: Annotated[str, From("kind")]
    topic: str
    importance: float


class ContextAnswer(RememberedAnswer):
    """What to have in mind. The text is within the budget; the lists say what it is made of, in its order."""

    success: Success = True
    coreMemory: Annotated[list[ContextItemAnswer], From("core")]
    workingMemory: Annotated[list[ContextItemAnswer], From("working")]
    injectionText: Annotated[str, From("text", own="hint")]
    totalTokens: Annotated[int, From("tokens")]
    unreflectedSessions: Annotated[int, From("unreflected")]
    project: Annotated[str, From("scope")]


class FeedbackAnswer(ToolAnswer):
    success: Annotated[bool, From("recorded")]
    id: str
    rated: int


class ToolUseAnswer(ToolAnswer):
    """How often a tool's answers were found relevant and sufficient, of how many."""

    relevant: int
    sufficient: int
    count: int


class Tasks(ToolAnswer):
    """How many conversations reached what they were for, of how many."""

    succeeded: int
    count: int


class SpendAnswer(ToolAnswer):
    """What language models were asked for today (UTC), and how much they may be."""

    calls: int
    failed: int
    tokensIn: Annotated[int, From("tokens_in")]
    tokensOut: Annotated[int, From("tokens_out")]
    dailyTokens: Annotated[int, From("daily_tokens")]


class StatsAnswer(ToolAnswer):
    success: Success = True
    total: int
    byTier: Annotated[dict[str, int], From("by_tier")]
    byType: Annotated[dict[str, int], From("by_kind")]
    byStatus: Annotated[dict[str, int], From("by_status")]
    byProject: Annotated[dict[str, int], From("by_scope")]
    embedded: int
    embeddedRatio: Annotated[float, From("embedded_ratio")]
    anchors: int
    unverified: int
    pendingContradictions: Annotated[int, From("pending_contradictions")]
    links: int
    sessions: Annotated[int, From("conversations")]
    toolFeedback: Annotated[dict[str, ToolUseAnswer], From("feedback")]
    taskFeedback: Annotated[Tasks, From("tasks")]
    model: str | None = None
    method: Annotated[str, From("rung")]
    modelsToday: Annotated[SpendAnswer, From("models_today")]
    lastConsolidated: Annotated[datetime | None, From("last_consolidated")] = None


class StageAnswer(ToolAnswer):
    """What one stage did; with `more` it goes on the next time."""

    stage: str
    changed: int
    detail: str
    seconds: float
    more: bool


class RemovedFragment(ToolAnswer):
    """A memory that something was done to, and why."""

    id: str
    why: str


class ConsolidateAnswer(ToolAnswer):
    """Stage by stage. The lists name the first; the counts have all."""

    success: Success = True
    dryRun: Annotated[bool, From("dry_run")]
    stages: list[StageAnswer]
    operations: list[str]
    seconds: float
    archived: list[RemovedFragment]
    erased: list[RemovedFragment]
    stale: list[RemovedFragment]
    counts: dict[str, int]
    note: Note = None


class FragmentNode(ToolAnswer):
    id: str
    content: str
    type: Annotated[str, From("kind")]
    topic: str
    importance: float
    depth: int


class FragmentEdge(ToolAnswer):
    fromId: Annotated[str, From("origin")]
    toId: Annotated[str, From("target")]
    relationType: Annotated[str, From("relation")]


class ExploreAnswer(RememberedAnswer):
    success: Success = True
    start: FragmentNode
    nodes: list[FragmentNode]
    edges: list[FragmentEdge]


class FragmentVersion(ToolAnswer):
    """What it said for a while; the one without an end is the present one."""

    number: int
    content: str
    type: Annotated[str, From("kind")]
    topic: str
    keywords: list[str]
    importance: float
    isAnchor: Annotated[bool, From("anchor")]
    since: datetime
    until: datetime | None = None
    by: str
    changed: list[str]


class HistoryAnswer(RememberedAnswer):
    """Oldest first, the present one last."""

    success: Success = True
    id: str
    status: str
    versions: list[FragmentVersion]
    count: int
    earlier: int
    supersedes: str | None = None
    supersededBy: Annotated[list[str] | None, From("superseded_by", unless_empty=True)] = None


class Decision(ToolAnswer):
    """One decision; the ids are what stands in that relation to it."""

    id: str
    content: str
    timestamp: Annotated[datetime, From("occurred")]
    agentId: Annotated[str, From("by")]
    superseded: bool
    importance: float
    versions: int
    supersedes: list[str]
    supersededBy: Annotated[list[str], From("superseded_by")]
    contradicts: list[str]
    contradictedBy: Annotated[list[str], From("contradicted_by")]
    linked: list[LinkedFragment]


class ReconstructAnswer(RememberedAnswer):
    """In order of time."""

    success: Success = True
    topic: str
    decisions: list[Decision]
    count: int
    leftOut: Annotated[int, From("left_out")]
    totalTokens: Annotated[int, From("tokens")]
    matched: str
    hint: Note = None


FRAGMENTS = Contract(
    "fragments",
    "Atomic memories with types and links: the cycle of context, recall, remember and reflect.",
    (
        Tool("context", "Load context", "context", ContextArguments, ContextAnswer).described(
            "Gives preferences, known errors, procedures and this conversation's working memory. Call it once when a "
            "conversation starts; for a subject use recall."
        ),
        Tool(
            "remember",
            "Remember",
            "remember",
            RememberArguments,
            RememberAnswer,
            fixed={"dialect": "fragments", "create_scope": True},
            idempotent=True,
        ).described(
            "Stores what will matter next time: a decision and why, an error and its fix, a preference, a procedure, "
            "a fact. One statement a call. Not secrets, small talk, or what the code says. To correct use amend."
        ),
        Tool("recall", "Recall", "recall", RecallArguments, RecallAnswer).described(
            "Finds memories by question, keywords, topic, type or time. Use it before you decide, debug or answer "
            "about earlier work. For whole conversations use memory_recall."
        ),
        Tool("amend", "Amend", "amend", AmendArguments, AmendAnswer, idempotent=True).described(
            "Corrects a memory; only what you give changes, and what it said before is kept. Use it when "
            "something turns out wrong or has changed."
        ),
        Tool(
            "forget",
            "Forget",
            "forget",
            ForgetArguments,
            ForgetAnswer,
            fixed={"everywhere": False},
            idempotent=True,
        ).described(
            "Hides a memory by id, or all of a topic. Use it when asked to, or when a memory is of no use; to "
            "correct one use amend."
        ),
        Tool("link", "Link", "link", LinkArguments, LinkAnswer, idempotent=True).described(
            "Says how two memories relate, e.g. an error resolved_by a procedure."
        ),
        Tool(
            "reflect", "Reflect", "reflect", ReflectArguments, ReflectAnswer, fixed={"create_scope": True}
        ).described(
            "Keeps what a conversation came to, each point as its own memory. Call it once, when the work ends."
        ),
        Tool(
            "tool_feedback", "Rate a tool's answer", "feedback", FeedbackArguments, FeedbackAnswer
        ).described(
            "Records whether a memory tool's answer served, so that later ones rank better. Use it when an answer was far "
            "from what you needed, or when asked to rate it; not after every call."
        ),
        Tool("memory_stats", "Memory statistics", "stats", NoArguments, StatsAnswer).described(
            "Counts memories by type, tier, status and project, and says how many are found by meaning. Use it when asked "
            "about the memory itself; it finds nothing."
        ),
        Tool(
            "memory_consolidate",
            "Consolidate",
            "consolidate",
            ConsolidateArguments,
            ConsolidateAnswer,
            idempotent=True,
        ).described(
            "Does the upkeep that is due now: tiers, fading, expiry, duplicates, contradictions, tidying. It runs by itself "
            "as well; call it only when asked to."
        ),
        Tool("graph_explore", "Explore causes", "explore", ExploreArguments, ExploreAnswer).described(
            "Follows an error's links to what caused and what resolved it, up to five links away. Use it for root causes, "
            "after recall gave you the error's id; to search use recall."
        ),
        Tool(
            "batch_remember",
            "Remember several",
            "remember_many",
            BatchArguments,
            BatchAnswer,
            fixed={"dialect": "fragments", "create_scope": True},
            idempotent=True,
        ).described(
            "Stores up to 200 statements in one call, with an answer for each; one that fails keeps no other back. Use it "
            "for notes that you have already. For one use remember, for the end of a conversation reflect."
        ),
        Tool(
            "fragment_history", "History of a memory", "versions", HistoryArguments, HistoryAnswer
        ).described(
            "All that one memory has said, oldest first: what changed, when and by whom. Use it when you doubt an "
            "amended memory; not to search, for which there is recall."
        ),
        Tool(
            "reconstruct_history",
            "Reconstruct decisions",
            "reconstruct",
            ReconstructArguments,
            ReconstructAnswer,
        ).described(
            "The decisions on a topic in order of time, superseded ones too, with what caused, contradicted or replaced "
            "them. Use it for how and why something came to be; for how it is now use recall."
        ),
    ),
)
