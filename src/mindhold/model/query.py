"""Filters, orders, page positions and candidates: queries in a form that every store understands."""

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
    """Conditions that must all hold. An empty tuple or None is no condition; `viewer` always applies."""

    viewer: str = DEFAULT_AGENT
    scopes: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    tags: tuple[str, ...] = ()  # all of them, case-insensitive
    tags_any: bool = False  # any instead of all
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
    keywords: tuple[str, ...] = ()  # all of them, as `keyword_forms` returns them
    keywords_any: bool = False  # any instead of all
    due: datetime | None = None  # due for review at or before
    unverified: bool = False  # not evaluated yet
    unexamined: bool = False  # not compared with neighbours yet
    turns: bool = False  # only messages of projects' logs, a long one once (`is_turn`)


class Order(StrEnum):
    """How a listing is sorted; the id breaks ties."""

    NEWEST = "newest"  # by occurred, latest first
    OLDEST = "oldest"
    IMPORTANT = "important"
    USED = "used"
    DUE = "due"  # by review date, most overdue first; records without one are left out
    CHANGED = "changed"  # by updated, latest first


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A position in a listing: the sort value and the id. It stays valid whatever happens to the record.

    Nothing comes after a `value` of None, that of a record without a position in the order.
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
    """A search in the index. Without lexemes by vector only; without a vector by text only."""

    filter: Filter
    lexemes: tuple[str, ...] = ()
    vector: Vector | None = None
    model: str | None = None  # the embedder of `vector`; only its vectors are compared
    pool: int = 100  # how many of the best by text, and by vector, become candidates
    # add the records within two positions of the best candidates in their conversations
    neighbours: bool = True


@dataclass(frozen=True, slots=True)
class Candidates:
    """The index's candidates as aligned columns; all of them match the filter.

    They contain everything that ranking needs, so that all stores rank alike: the store finds, the engine ranks.
    """

    ids: list[str]
    counts: npt.NDArray[np.int32]  # (candidates, lexemes): occurrences in each
    lengths: Numbers  # lexemes in each
    cosines: Numbers  # NaN if a record has no vector of that model
    importance: Numbers
    trust: Numbers
    uses: Numbers
    usefulness: Numbers
    occurred: Numbers  # seconds since the epoch
    conversations: list[str | None]
    openings: list[str]  # the first lexeme of each: the speaker, if it is kept as "name: what was said"
    positions: npt.NDArray[np.int64]  # -1 if there is none
    total: int  # records that match the filter
    average_length: float
    frequencies: Mapping[str, int] = field(default_factory=dict)  # lexeme -> visible records that have it
    cosine_mean: float = 0.0  # over all vectors that match the filter
    cosine_deviation: float = 0.0
    embedded: int = 0  # records that match the filter and have a vector of that model
    exact: bool = True  # False if an approximate index chose the candidates by vector


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored record near a vector."""

    id: str
    cosine: float
