"""Operations on memories that deny each other: what was found, what waits for somebody to judge it, and taking it back."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from mindhold.engine.contradictions import Contradiction, confirm, contradictions, dismiss, undo
from mindhold.model.memory import Memory
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

LONGEST = 400  # characters of each text


class SideView(Output):
    """One of the two."""

    id: str
    content: str
    occurred: datetime
    importance: float


class ContradictionView(Output):
    """Two memories of which the later denies the earlier, or may."""

    id: str
    pending: bool
    older: SideView
    newer: SideView
    found_by: str
    confidence: float
    similarity: float
    found: datetime


class ListContradictionsInput(Input):
    """How many of each."""

    limit: int = Field(default=50, ge=1, le=1000)


class ListContradictionsResult(Output):
    """Those that the caller sees both sides of, the newest first."""

    found: list[ContradictionView]
    pending: list[ContradictionView]


class ContradictionInput(Input):
    """Which one; the beginning of its id suffices."""

    id: str = Field(min_length=1, max_length=64)


class ContradictionResult(Output):
    """The one that it was about."""

    contradiction: ContradictionView


async def _list(call: Call, given: ListContradictionsInput) -> ListContradictionsResult:
    found, pending = [
        await contradictions(call.engine, agent=call.agent, pending=pending, limit=given.limit)
        for pending in (False, True)
    ]
    return ListContradictionsResult(
        found=[_view(one) for one in found], pending=[_view(one) for one in pending]
    )


async def _undo(call: Call, given: ContradictionInput) -> ContradictionResult:
    return ContradictionResult(contradiction=_view(await undo(call.engine, given.id, agent=call.agent)))


async def _confirm(call: Call, given: ContradictionInput) -> ContradictionResult:
    return ContradictionResult(contradiction=_view(await confirm(call.engine, given.id, agent=call.agent)))


async def _dismiss(call: Call, given: ContradictionInput) -> ContradictionResult:
    return ContradictionResult(contradiction=_view(await dismiss(call.engine, given.id, agent=call.agent)))


def _view(one: Contradiction) -> ContradictionView:
    return ContradictionView(
        id=one.line.key,
        pending=one.pending,
        older=_side(one.pair.older),
        newer=_side(one.pair.newer),
        found_by=one.line.by,
        confidence=one.line.confidence,
        similarity=one.line.similarity,
        found=one.line.created,
    )


def _side(memory: Memory) -> SideView:
    text = memory.content
    short = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return SideView(id=memory.id, content=short, occurred=memory.occurred, importance=memory.importance)


LIST_CONTRADICTIONS = Operation(
    "list_contradictions",
    "Memories that deny each other: found ones, and those that wait for somebody to judge them.",
    ListContradictionsInput,
    ListContradictionsResult,
    _list,
    Effect.READS,
)
UNDO_CONTRADICTION = Operation(
    "undo_contradiction",
    "Take a found contradiction back; it isn't found again.",
    ContradictionInput,
    ContradictionResult,
    _undo,
    Effect.WRITES,
)
CONFIRM_CONTRADICTION = Operation(
    "confirm_contradiction",
    "Say that a pending one is one: the later memory takes the earlier one's place.",
    ContradictionInput,
    ContradictionResult,
    _confirm,
    Effect.WRITES,
)
DISMISS_CONTRADICTION = Operation(
    "dismiss_contradiction",
    "Say that a pending one is none; it isn't raised again.",
    ContradictionInput,
    ContradictionResult,
    _dismiss,
    Effect.WRITES,
)
