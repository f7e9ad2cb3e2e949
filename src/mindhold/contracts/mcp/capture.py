"""The capture contract: search and questions over what hooks captured."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from mindhold.contracts.mcp.tools import (
    NEAREST,
    NEAREST_SCHEMA,
    Contract,
    Doubt,
    From,
    RememberedAnswer,
    To,
    Tool,
    ToolAnswer,
    ToolArguments,
)

Project = Annotated[str | None, To("scope"), Field(description="Another project than this one")]


class CaptureSearchArguments(ToolArguments):
    query: Annotated[str, Field(description="Keywords or a question")]
    project: Project = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class AskArguments(ToolArguments):
    question: Annotated[str, Field(description="A question in plain words")]
    project: Project = None


class RelatedArguments(ToolArguments):
    tags: Annotated[list[str], Field(min_length=1, description="Any of these")]
    project: Project = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class EditedCaptureArguments(ToolArguments):
    id: str
    content: str


class ReviewArguments(ToolArguments):
    keep: Annotated[list[str] | None, Field(description="Ids to keep")] = None
    edit: Annotated[list[EditedCaptureArguments] | None, Field(description="New texts")] = None
    drop: Annotated[list[str] | None, Field(description="Ids to forget")] = None
    never: Annotated[list[str] | None, Field(description="Ids to forget, with their like from now on")] = None
    undo: Annotated[list[str] | None, Field(description="Dropped ids to bring back")] = None
    project: Project = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class CaptureHit(ToolAnswer):
    id: str
    type: Annotated[str, From("kind")]
    content: str
    tags: list[str]
    created: datetime
    updated: datetime
    confidence: float
    accessCount: Annotated[int, From("access|uses")]
    score: float | None = None
    supersedes: str | None = None
    mergedFrom: Annotated[list[str] | None, From("merged_from")] = None


class CaptureSearchAnswer(RememberedAnswer):
    """Ranked, best first."""

    results: Annotated[list[CaptureHit], From("hits")]
    count: int
    nearest: Annotated[list[CaptureHit] | None, NEAREST, NEAREST_SCHEMA] = None
    note: Doubt = None


class AskSource(ToolAnswer):
    id: str
    type: Annotated[str, From("kind")]
    content: str
    tags: list[str]
    score: float


class AskAnswer(RememberedAnswer):
    """[1] in the answer is the first source."""

    answer: str
    sources: Annotated[list[AskSource], From("citations")]
    found: Annotated[int, Field(description="Memories consulted")]
    nearest: Annotated[list[AskSource] | None, NEAREST, NEAREST_SCHEMA] = None
    method: Annotated[str, From("rung")]
    model: str | None = None


class RelatedAnswer(RememberedAnswer):
    """Newest first."""

    results: Annotated[list[CaptureHit], From("memories")]
    total: int


class ReviewAnswer(RememberedAnswer):
    """What waits for review, newest first."""

    captures: list[CaptureHit]
    waiting: int
    kept: Annotated[list[str] | None, From("kept", unless_empty=True)] = None
    edited: Annotated[list[str] | None, From("edited", unless_empty=True)] = None
    dropped: Annotated[list[str] | None, From("dropped", unless_empty=True)] = None
    rejected: Annotated[list[str] | None, From("rejected", unless_empty=True)] = None
    restored: Annotated[list[str] | None, From("restored", unless_empty=True)] = None


CAPTURE = Contract(
    "capture",
    "Search, question and browse what silent capture has kept.",
    (
        Tool(
            "memory_search", "Search memories", "recall", CaptureSearchArguments, CaptureSearchAnswer
        ).described(
            "Finds memories by words and by meaning, best first. Use it for what the summary in CLAUDE.md leaves out; "
            "for an answer in sentences use memory_ask."
        ),
        Tool("memory_ask", "Ask memory", "ask", AskArguments, AskAnswer).described(
            "Answers a question from memory in a few sentences, with sources. Use it for how and why questions; "
            "for the memories themselves use memory_search."
        ),
        Tool(
            "memory_related",
            "Memories by tag",
            "list",
            RelatedArguments,
            RelatedAnswer,
            fixed={"tags_any": True, "everywhere": False},
        ).described(
            "Lists every memory that has one of the tags, newest first. Use it to see all about a subject whose tag "
            "you know; otherwise use memory_search."
        ),
        Tool("memory_review", "Review captures", "review", ReviewArguments, ReviewAnswer).described(
            "Lists what was captured and not reviewed yet, and carries out the person's verdicts on it. Use it only when "
            "the person asks to review; never decide for them."
        ),
    ),
)
