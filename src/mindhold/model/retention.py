"""How much is kept, and for how long: what a level of retention means for the one life that memories have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from mindhold.model.life import (
    Life,
    is_exempt,
    is_part,
    is_working,
    stands_for_others,
    unused_since,
    utility,
)
from mindhold.model.memory import PART, Kind, Memory, Status
from mindhold.model.wanted import ROLE

PARTS = "parts"  # in the metadata of a long message: how many there are
YOUNGEST = timedelta(days=21)  # nothing younger is taken away by a rule of retention, whatever is set
MONTH = timedelta(days=365.25 / 12)
STARTS_AT, ENDS_AT = 0.9, 0.8  # shares of a limit: from there on it is compressed, down to there
SHORTER = 0.5  # what is left of a window where pruning is aggressive
AGGRESSIVE_BELOW = 0.5  # the importance below which it archives, if the settings don't say more


class Level(StrEnum):
    """How much goes by itself."""

    KEEP_ALL = "keep-all"
    MODERATE = "moderate"
    AGGRESSIVE = "aggressive"


@dataclass(frozen=True, slots=True)
class Retention:
    """The knobs; app fills them from the settings. A limit of 0 is none."""

    level: Level = Level.MODERATE
    keep_months: int = 6  # messages of conversations that are younger stay as they are
    unused_days: int = 365  # what nobody ever used and is older than that goes, if it isn't important
    most_items: int = 100_000  # active memories
    most_megabytes: int = 500  # that they take up
    keep_pruned_files: int = 10

    @property
    def prunes(self) -> bool:
        """Whether anything goes by itself."""
        return self.level is not Level.KEEP_ALL


def steered(life: Life, retention: Retention) -> Life:
    """The life that memories have at that level."""
    if retention.level is Level.KEEP_ALL:
        return replace(life, keeps_all=True)
    if retention.level is Level.MODERATE:
        return replace(life, unused_days=retention.unused_days)
    return replace(
        life,
        stale_days={kind: _shorter(days) for kind, days in life.stale_days.items()},
        other_stale_days=_shorter(life.other_stale_days),
        archive_below=max(life.archive_below, AGGRESSIVE_BELOW),
        unused_days=_shorter(retention.unused_days),
    )


def message_window(retention: Retention) -> timedelta:
    """How long messages stay as they are."""
    share = SHORTER if retention.level is Level.AGGRESSIVE else 1.0
    return max(YOUNGEST, MONTH * retention.keep_months * share)


def is_message(memory: Memory) -> bool:
    """Whether it was said in a conversation, in whichever log; a later part of a long message too."""
    return (
        memory.kind is Kind.EPISODE and ROLE in memory.metadata and memory.provenance.conversation is not None
    )


def may_go(memory: Memory, now: datetime, *, after: timedelta = YOUNGEST) -> bool:
    """Whether a rule may archive it at all: active, at rest for so long, and nothing that is kept whatever happens.

    What was brought back, used or amended rests from then.
    """
    if memory.status is not Status.ACTIVE or is_protected(memory):
        return False
    return now - unused_since(memory) >= max(after, YOUNGEST)


def is_protected(memory: Memory) -> bool:
    """What no rule takes: kept for good, wanted, standing for others, or working memory, which ends otherwise."""
    return is_exempt(memory) or stands_for_others(memory) or is_working(memory)


def is_loose(memory: Memory) -> bool:
    """Whether it may go alone: it is no piece of a document or of a long message, nor a project's summary.

    A message whose conversation is too short for a summary counts as what it says.
    """
    return not is_part(memory) or (is_message(memory) and memory.metadata.keys().isdisjoint((PART, PARTS)))


def worth(memory: Memory) -> tuple[float, datetime, str]:
    """By this the least valuable come first: what is neither important nor used, the longest unused of it."""
    return round(utility(memory.importance, memory.uses) + memory.uses, 6), unused_since(memory), memory.id


@dataclass(frozen=True, slots=True)
class Room:
    """How much there is, and how much there may be; 0 is no limit."""

    items: int  # active memories
    all_items: int  # those in the archive, and what else isn't active, too
    bytes_used: int  # by all of them
    most_items: int = 0
    most_bytes: int = 0

    @property
    def active_bytes(self) -> float:
        """What the active ones take up, about: a store knows only of all of them together."""
        return self.bytes_used * self.items / self.all_items if self.all_items else 0.0

    @property
    def fullest(self) -> float:
        """The share of the nearer limit that is taken."""
        shares = [
            self.items / self.most_items if self.most_items else 0.0,
            self.active_bytes / self.most_bytes if self.most_bytes else 0.0,
        ]
        return max(shares)

    @property
    def tight(self) -> bool:
        """Whether it is time to compress: before a limit is hit."""
        return self.fullest >= STARTS_AT

    def to_free(self) -> int:
        """How many of the active ones have to go so that there is room again; 0 where there is."""
        if not self.tight:
            return 0
        return max(0, ceil(self.items * (1 - ENDS_AT / self.fullest)))


def _shorter(days: int) -> int:
    return max(1, round(days * SHORTER)) if days else 0
