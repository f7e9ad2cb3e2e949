"""What the tools of the fragments contract take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticKnownError

from mindhold.dialects.shape import AGENT, Arguments, To, each_apart

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
    """Refuses an empty one; a bound of the schema's own would cost every client words."""
    if not text.strip():
        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return text


class Statement(Arguments):
    """One thing to remember."""

    content: Annotated[str, Field(description="One self-contained statement, 1-3 sentences")]
    topic: Annotated[
        str,
        AfterValidator(_said),
        Field(description="Short label, e.g. deployment"),
    ]
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


class RememberArguments(Statement):
    """What to remember."""

    dryRun: DryRun = False
    agentId: AgentId = None


class BatchArguments(Arguments):
    """Several at once. Project and session are for those that name none of their own."""

    fragments: Annotated[
        list[Annotated[Statement, each_apart(Statement)]],
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
    fragmentIds: Annotated[
        list[str] | None,
        To("memories"),
        Field(description="Which memories it is about; else the last answer's"),
    ] = None


class NoArguments(Arguments):
    """Nothing to say."""


class ConsolidateArguments(Arguments):
    """Whether to do it."""

    dryRun: Annotated[bool, To("dry_run"), Field(description="Change nothing, tell what would be done")] = (
        False
    )


class ExploreArguments(Arguments):
    """Where to begin."""

    startId: Annotated[str, To("start"), Field(description="Best an error's")]
    depth: Annotated[int, Field(ge=1, le=5, description="How many links away")] = 1
    relations: list[AnyRelation] = ["caused_by", "resolved_by"]
    agentId: AgentId = None


class HistoryArguments(Arguments):
    """Which memory."""

    id: str
    agentId: AgentId = None


class ReconstructArguments(Arguments):
    """Which topic."""

    topic: Annotated[str, Field(description="As it was given to remember; or what it is about")]
    tokenBudget: Annotated[int, To("token_budget"), Field(ge=1)] = 2000
    project: Project = None
    agentId: AgentId = None
