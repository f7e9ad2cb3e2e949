"""What the tools of the fragments contract take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from recollect.dialects.shape import AGENT, ALWAYS, Answer, Arguments, From, Recalling, To

Kind = Literal["fact", "decision", "error", "preference", "procedure", "relation"]
Relation = Literal["related", "caused_by", "resolved_by", "part_of", "contradicts"]
Share = Annotated[float | None, Field(ge=0, le=1)]
AgentId = Annotated[str | None, To(AGENT)]
SessionId = Annotated[str | None, To("conversation")]
Project = Annotated[str | None, To("scope"), Field(description="Another project than this one")]
Success = Annotated[bool, ALWAYS]


class RememberArguments(Arguments):
    """What to remember."""

    content: Annotated[str, Field(description="One self-contained statement, 1-3 sentences")]
    topic: Annotated[str, Field(description="Short label, e.g. deployment")]
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
    agentId: AgentId = None


class RecallArguments(Arguments):
    """What to recall."""

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


class ForgetArguments(Arguments):
    """What to forget."""

    id: Annotated[str | None, To("ids", listed=True)] = None
    topic: Annotated[str | None, To("topic", unless="id"), Field(description="All memories of a topic")] = (
        None
    )
    force: Annotated[bool, Field(description="Permanent ones too")] = False
    project: Project = None
    agentId: AgentId = None


class LinkArguments(Arguments):
    """Two ends."""

    fromId: Annotated[str, To("origin")]
    toId: Annotated[str, To("target")]
    relationType: Annotated[Relation, To("relation")] = "related"
    agentId: AgentId = None


class AmendArguments(Arguments):
    """What to change."""

    id: str
    content: str | None = None
    topic: str | None = None
    keywords: list[str] | None = None
    type: Annotated[Kind | None, To("kind")] = None
    importance: Share = None
    isAnchor: Annotated[bool | None, To("anchor")] = None
    supersedes: Annotated[bool, Field(description="Keep the old one, marked as replaced")] = False
    agentId: AgentId = None


class Effectiveness(Arguments):
    """How the tools served."""

    overall_success: bool
    tool_highlights: list[str] = []
    tool_pain_points: list[str] = []


class ReflectArguments(Arguments):
    """What a conversation came to."""

    summary: str
    sessionId: SessionId = None
    decisions: list[str] | None = None
    errors_resolved: Annotated[list[str] | None, Field(description="Error and its fix")] = None
    new_procedures: list[str] | None = None
    open_questions: list[str] | None = None
    task_effectiveness: Annotated[Effectiveness | None, To("effectiveness")] = None
    project: Project = None
    agentId: AgentId = None


class ContextArguments(Arguments):
    """How much to bring to mind."""

    tokenBudget: Annotated[int, To("token_budget"), Field(ge=1)] = 2000
    types: Annotated[list[Kind], To("kinds")] = ["preference", "error", "procedure"]
    sessionId: SessionId = None
    project: Project = None
    agentId: AgentId = None


class FeedbackArguments(Arguments):
    """Whether an answer served."""

    tool_name: str
    relevant: Annotated[bool, Field(description="The answer fitted the question")]
    sufficient: Annotated[bool, Field(description="It was enough to go on with")]
    suggestion: Annotated[str | None, Field(description="What would be better, in a sentence")] = None
    context: Annotated[str | None, Field(description="What it was needed for, in a few words")] = None
    session_id: SessionId = None
    trigger_type: Annotated[Literal["sampled", "voluntary"], To("trigger")] = "voluntary"


class NoArguments(Arguments):
    """Nothing to say."""


class ExploreArguments(Arguments):
    """Where to begin."""

    startId: Annotated[str, To("start"), Field(description="Best an error's")]
    agentId: AgentId = None


class RememberAnswer(Answer):
    """What became of it."""

    success: Annotated[
        bool, From("outcome", values={"stored": True, "duplicate": True, "noise": False, "failed": False})
    ]
    id: str | None = None
    created: bool
    outcome: str
    quarantined: bool
    redacted: dict[str, int]


class Linked(Answer):
    """A memory that is linked with a found one."""

    id: str
    relation: Annotated[str, From("link.relation")]
    content: str


class Fragment(Answer):
    """One memory."""

    id: str
    content: str
    type: Annotated[str, From("kind")]
    topic: str
    keywords: list[str]
    importance: float
    score: float
    similarity: float | None = None
    why: list[str]
    timestamp: Annotated[datetime, From("occurred")]
    project: Annotated[str, From("scope")]
    linked: Annotated[list[Linked], From("links")]


class RecallAnswer(Recalling):
    """Best first."""

    fragments: Annotated[list[Fragment], From("hits")]
    count: int
    totalTokens: Annotated[int, From("tokens")]
    method: Annotated[str, From("rung")]
    time: Annotated[str | None, From("timeframe.words")] = None
    hint: Annotated[str | None, From("notice", unless_empty=True)] = None


class ForgetAnswer(Answer):
    """What is gone."""

    success: Success = True
    deleted: Annotated[int, From("count")]
    ids: Annotated[list[str], From("forgotten")]
    note: str


class LinkAnswer(Answer):
    """The link."""

    success: Success = True
    created: bool


class AmendAnswer(Answer):
    """The memory as it is now."""

    success: Success = True
    id: str
    previousId: Annotated[str | None, From("previous_id")] = None


class ReflectAnswer(Answer):
    """What was kept."""

    success: Success = True
    stored: int
    duplicates: int
    quarantined: int
    ids: list[str]
    counts: dict[str, int]


class Item(Answer):
    """One of the memories that the text is made of."""

    id: str
    type: Annotated[str, From("kind")]
    topic: str
    importance: float


class ContextAnswer(Recalling):
    """What to have in mind. The text is within the budget; the lists say what it is made of, in its order."""

    success: Success = True
    coreMemory: Annotated[list[Item], From("core")]
    workingMemory: Annotated[list[Item], From("working")]
    injectionText: Annotated[str, From("text", own="hint")]
    totalTokens: Annotated[int, From("tokens")]
    unreflectedSessions: Annotated[int, From("unreflected")]
    project: Annotated[str, From("scope")]


class FeedbackAnswer(Answer):
    """That it is kept."""

    success: Annotated[bool, From("recorded")]
    id: str


class Served(Answer):
    """How often a tool's answers were found relevant and sufficient, of how many."""

    relevant: int
    sufficient: int
    count: int


class Spend(Answer):
    """What language models were asked for today (UTC), and how much they may be."""

    calls: int
    failed: int
    tokensIn: Annotated[int, From("tokens_in")]
    tokensOut: Annotated[int, From("tokens_out")]
    dailyTokens: Annotated[int, From("daily_tokens")]


class StatsAnswer(Answer):
    """Counts."""

    success: Success = True
    total: int
    byTier: Annotated[dict[str, int], From("by_tier")]
    byType: Annotated[dict[str, int], From("by_kind")]
    byStatus: Annotated[dict[str, int], From("by_status")]
    byProject: Annotated[dict[str, int], From("by_scope")]
    embedded: int
    embeddedRatio: Annotated[float, From("embedded_ratio")]
    links: int
    sessions: Annotated[int, From("conversations")]
    toolFeedback: Annotated[dict[str, Served], From("feedback")]
    model: str | None = None
    method: Annotated[str, From("rung")]
    modelsToday: Annotated[Spend, From("models_today")]
    lastConsolidated: Annotated[datetime | None, From("last_consolidated")] = None


class Stage(Answer):
    """What one stage did."""

    stage: str
    changed: int
    detail: str


class ConsolidateAnswer(Answer):
    """Stage by stage."""

    success: Success = True
    stages: list[Stage]
    operations: list[str]
    seconds: float


class Node(Answer):
    """A memory in the graph."""

    id: str
    content: str
    type: Annotated[str, From("kind")]
    topic: str
    importance: float
    depth: int


class Edge(Answer):
    """A link in the graph."""

    fromId: Annotated[str, From("origin")]
    toId: Annotated[str, From("target")]
    relationType: Annotated[str, From("relation")]


class ExploreAnswer(Recalling):
    """The graph around the start."""

    success: Success = True
    start: Node
    nodes: list[Node]
    edges: list[Edge]
