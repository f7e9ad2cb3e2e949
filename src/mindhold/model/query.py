"""Filters, orders, page positions and candidates: what to look for, in a form that every store understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from mindhold.model.memory import Kind, Memory, Status, Tier
from mindhold.model.scope import DEFAULT_AGENT

Vector = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that all hold. An empty tuple or None is no condition; `viewer` always applies."""

    viewer: str = DEFAULT_AGENT
    scopes: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    tags: tuple[str, ...] = ()  # each of them, case-insensitive
    tags_any: bool = False  # any of them, instead of each
    topic: str | None = None  # case-insensitive
    since: datetime | None = None  # occurred at or after
    until: datetime | None = None  # occurred before
    changed: datetime | None = None  # written or updated at or after
    conversation: str | None = None
    positions: tuple[int, int] | None = None  # in the conversation, first and last
    minimum_trust: float = 0.0
    anchored: bool = False  # anchors only
    tiers: tuple[Tier, ...] = ()
    ids: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()  # each of them, in the form that `keyword_forms` gives them
    keywords_any: bool = False  # any of them, instead of each
    due: datetime | None = None  # to be reviewed then or before
    unverified: bool = False  # those that wait to be evaluated
    unexamined: bool = False  # those that wait to be held against their neighbours
    turns: bool = False  # messages of projects' logs alone, a long one once (`is_turn`)


class Order(StrEnum):
    """How a listing is sorted; the id breaks ties."""

    NEWEST = "newest"  # by occurred, latest first
    OLDEST = "oldest"
    IMPORTANT = "important"
    USED = "used"
    DUE = "due"  # by when they are to be reviewed, the most overdue first; what has no such date is left out
    CHANGED = "changed"  # by updated, latest first


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A place in a listing: what its order sorts by, and the id. It is there whatever becomes of the record.

    After a `value` of None, that of a record without a place in that order, nothing comes.
    """

    value: datetime | float | None
    id: str

    @classmethod
    def of(cls, memory: Memory, order: Order) -> PagePosition:
        match order:
            case Order.NEWEST | Order.OLDEST:
                return cls(memory.occurred, memory.id)
            case Order.IMPORTANT:
                return cls(memory.importance, memory.id)
            case Order.USED:
                return cls(memory.uses, memory.id)
            case Order.DUE:
                return cls(memory.review, memory.id)
            case Order.CHANGED:
                return cls(memory.updated, memory.id)


@dataclass(frozen=True, slots=True)
class Search:
    """A question to the index. No lexemes: vectors alone; no vector: text alone."""

    filter: Filter
    lexemes: tuple[str, ...] = ()
    vector: Vector | None = None
    model: str | None = None  # which embedder made `vector`; only its vectors are compared
    pool: int = 100  # how many of the best by text, and by vector, become candidates
    neighbours: bool = True  # add the records within two places of the best candidates in their conversations


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the index offers: rows are candidates, aligned; nothing outside the filter is among them.

    Everything a ranking needs, so that each store ranks alike: the engine fuses, the store only finds.
    """

    ids: list[str]
    counts: npt.NDArray[np.int32]  # (candidates, lexemes): occurrences in each
    lengths: Numbers  # lexemes in each
    cosines: Numbers  # NaN where a record has no vector of that model
    importance: Numbers
    trust: Numbers
    uses: Numbers
    usefulness: Numbers
    occurred: Numbers  # seconds since the epoch
    conversations: list[str | None]
    positions: npt.NDArray[np.int64]  # -1 where there is none
    total: int  # records within the filter
    average_length: float
    frequencies: Mapping[str, int] = field(
        default_factory=dict
    )  # lexeme -> records within reach that have it
    cosine_mean: float = 0.0  # over all vectors within the filter
    cosine_deviation: float = 0.0
    embedded: int = 0  # records within the filter that have a vector of that model
    exact: bool = True  # False where an approximate index chose the vectors' candidates


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored record near a vector."""

    id: str
    cosine: float
