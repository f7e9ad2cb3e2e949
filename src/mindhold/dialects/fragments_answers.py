"""What the tools of the fragments contract give."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from mindhold.dialects.shape import ALWAYS, Answer, From, Recalling

Success = Annotated[bool, ALWAYS]
STORED = {"stored": True, "duplicate": True, "would_store": True, "noise": False, "failed": False}
Note = Annotated[str | None, From("notice", unless_empty=True)]


class RememberAnswer(Answer):
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
    """What became of one."""

    error: str | None = None
    code: Annotated[str | None, From("error_code")] = None


class BatchAnswer(Answer):
    """One answer a fragment, in order."""

    success: Success = True
    created: int
    failed: int
    dryRun: Annotated[bool, From("dry_run")]
    results: list[BatchItem]


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
    layer: str
    why: list[str]
    timestamp: Annotated[datetime, From("occurred")]
    project: Annotated[str, From("scope")]
    contradicts: Annotated[list[str] | None, From("contradicts", unless_empty=True)] = None
    contradictedBy: Annotated[list[str] | None, From("contradicted_by", unless_empty=True)] = None
    linked: Annotated[list[Linked], From("links")]


class RecallAnswer(Recalling):
    """Best first."""

    fragments: Annotated[list[Fragment], From("hits")]
    count: int
    totalTokens: Annotated[int, From("tokens")]
    method: Annotated[str, From("rung")]
    layers: Annotated[list[str], From("layers.layer")]
    time: Annotated[str | None, From("timeframe.words")] = None
    hint: Note = None


class ForgetAnswer(Answer):
    """What is gone."""

    success: Success = True
    deleted: Annotated[int, From("count")]
    ids: Annotated[list[str], From("forgotten")]
    kept: list[str]
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
    note: Note = None


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
    rated: int


class Served(Answer):
    """How often a tool's answers were found relevant and sufficient, of how many."""

    relevant: int
    sufficient: int
    count: int


class Tasks(Answer):
    """How many conversations reached what they were for, of how many."""

    succeeded: int
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
    anchors: int
    unverified: int
    pendingContradictions: Annotated[int, From("pending_contradictions")]
    links: int
    sessions: Annotated[int, From("conversations")]
    toolFeedback: Annotated[dict[str, Served], From("feedback")]
    taskFeedback: Annotated[Tasks, From("tasks")]
    model: str | None = None
    method: Annotated[str, From("rung")]
    modelsToday: Annotated[Spend, From("models_today")]
    lastConsolidated: Annotated[datetime | None, From("last_consolidated")] = None


class Stage(Answer):
    """What one stage did; with `more` it goes on the next time."""

    stage: str
    changed: int
    detail: str
    seconds: float
    more: bool


class Gone(Answer):
    """A memory that something was done to, and why."""

    id: str
    why: str


class ConsolidateAnswer(Answer):
    """Stage by stage. The lists name the first; the counts have all."""

    success: Success = True
    dryRun: Annotated[bool, From("dry_run")]
    stages: list[Stage]
    operations: list[str]
    seconds: float
    archived: list[Gone]
    erased: list[Gone]
    stale: list[Gone]
    counts: dict[str, int]
    note: Note = None


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


class Version(Answer):
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


class HistoryAnswer(Recalling):
    """Oldest first, the present one last."""

    success: Success = True
    id: str
    status: str
    versions: list[Version]
    count: int
    earlier: int
    supersedes: str | None = None
    supersededBy: Annotated[list[str] | None, From("superseded_by", unless_empty=True)] = None


class Decision(Answer):
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
    linked: list[Linked]


class ReconstructAnswer(Recalling):
    """In order of time."""

    success: Success = True
    topic: str
    decisions: list[Decision]
    count: int
    leftOut: Annotated[int, From("left_out")]
    totalTokens: Annotated[int, From("tokens")]
    matched: str
    hint: Note = None
