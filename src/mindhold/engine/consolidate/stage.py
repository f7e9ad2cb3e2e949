"""What every stage of a consolidation is told, and what it tells."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

MOST_TOLD = 20  # memories that a stage names
MOST_GONE = 10_000  # of those that it took away: of what is erased nothing else is left to tell
NOTHING = "nothing to do"
STALE = "stale"  # what is told of a memory, and no change of it


@dataclass(frozen=True, slots=True)
class Told:
    """One memory that a stage did something to: what that was (archived, erased, merged ...), and why."""

    memory_id: str
    what: str
    why: str


Before = Callable[[Sequence[Told]], Awaitable[None]]


async def _untold(_leaving: Sequence[Told]) -> None:
    """For those who keep no book."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a stage may go. It stops at a batch's end once `over`, and says that there is more."""

    dry: bool = False  # nothing at all is changed: the stage tells what it would do
    deadline: float = float("inf")  # by `ticks`
    batch: int = 500
    ticks: Callable[[], float] = monotonic
    before: Before = (
        _untold  # told what is about to be archived, so that a run that breaks off leaves word of it
    )

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.ticks() >= self.deadline


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did; run again at once it would do nothing. `detail` is a sentence, also when it did nothing."""

    name: str
    changed: int
    detail: str
    seconds: float = 0.0
    more: bool = False  # it stopped at a bound, and goes on from there next time
    looked: int = 0  # memories that it looked at
    examples: tuple[Told, ...] = ()  # a few of each `what`
    counts: Mapping[str, int] = field(default_factory=dict)  # of each `what`, how many there were in all


def together(one: Stage, other: Stage) -> Stage:
    """Two parts of the same stage as one."""
    details = [part.detail for part in (one, other) if part.detail and part.detail != NOTHING]
    return Stage(
        one.name,
        changed=one.changed + other.changed,
        detail="; ".join(details) or NOTHING,
        seconds=one.seconds + other.seconds,
        more=one.more or other.more,
        looked=one.looked + other.looked,
        examples=(*one.examples, *other.examples),
        counts={**one.counts, **other.counts},
    )


def part_of(within: Bounds, share: float) -> Bounds:
    """So that no stage takes the time of all that follow."""
    left = max(0.0, within.deadline - within.ticks())
    return replace(within, deadline=within.ticks() + left * share)
