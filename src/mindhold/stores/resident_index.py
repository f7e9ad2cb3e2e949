"""The in-memory index for stores without vector search: filter columns, vector codes, its read-write lock, and one search over it."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Filter, Neighbour, Numbers, Search, Vector
from mindhold.model.scope import visible_agents
from mindhold.stores.vectors import Codes, Mask, NearestCodes, Slots, distinct, exact_cosines, lengthened


class ReadWriteLock:
    """A read-write lock. A waiting writer goes before later readers."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # held by the writer, and briefly by each reader that enters
        self._count = threading.Lock()
        self._empty = threading.Event()
        self._empty.set()
        self._inside = 0

    @contextmanager
    def looking(self, *, wait: bool = True) -> Iterator[bool]:
        """Hold the lock for reading. Without `wait`, the block gets False and no lock if it would have to wait."""
        if not self._turn.acquire(blocking=wait):
            yield False
            return
        try:
            with self._count:
                self._inside += 1
                self._empty.clear()
        finally:
            self._turn.release()
        try:
            yield True
        finally:
            with self._count:
                self._inside -= 1
                if not self._inside:
                    self._empty.set()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock for writing."""
        with self._turn:
            self._empty.wait()
            yield


Keys = npt.NDArray[np.int64]

NO_KEY = -1
_LAST_POSITION = 2**31 - 1
_REACH = 2  # so that the same speaker's previous turn is included
_MOST_AT_ONE_PLACE = 8
_MOST_LOOSE = 1000


class Adjacency:
    """Finds the slots next to others in a conversation.

    Most are in one sorted array; recent ones are in a dictionary, so that a new record needs no sorting.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sorted = np.empty(0, np.int64)
        self._slots = np.empty(0, np.int64)
        self._loose: dict[int, list[int]] = {}
        self._unsorted = 0

    def keys(self, conversations: Sequence[str | None], positions: Sequence[int | None]) -> Keys:
        """One number for each pair of conversation and position; NO_KEY if either is missing."""
        numbers = self._numbers
        conversation_numbers = [
            NO_KEY if name is None else numbers.setdefault(name, len(numbers)) for name in conversations
        ]
        places = np.array([NO_KEY if place is None else place for place in positions], dtype=np.int64)
        keys = np.array(conversation_numbers, dtype=np.int64) << 32 | places
        keys[(places < 0) | (places > _LAST_POSITION) | (keys < 0)] = NO_KEY
        return keys

    def put(self, slots: Slots, keys: Keys) -> None:
        """Set the keys of slots."""
        placed = keys >= 0
        self._unsorted += int(np.count_nonzero(placed))
        if self._unsorted <= _MOST_LOOSE:
            for key, slot in zip(keys[placed].tolist(), slots[placed].tolist(), strict=True):
                self._loose.setdefault(key, []).append(slot)

    def settle(self, all_keys: Keys, *, anew: bool = False) -> None:
        """Sort if there were many changes. To be called after changes, with the keys of all slots."""
        if anew or self._unsorted > _MOST_LOOSE:
            slots = np.flatnonzero(all_keys >= 0)
            self._slots = slots[np.argsort(all_keys[slots], kind="stable")]
            self._sorted = all_keys[self._slots]
            self._loose, self._unsorted = {}, 0

    def beside(self, keys: Keys, all_keys: Keys) -> Slots:
        """The slots up to two positions before or after these keys; may contain duplicates."""
        placed = keys[keys >= 0]
        steps = [step for step in range(-_REACH, _REACH + 1) if step]
        adjacent_keys = distinct(np.add.outer(steps, placed))
        first = np.searchsorted(self._sorted, adjacent_keys, side="left")
        last = np.searchsorted(self._sorted, adjacent_keys, side="right")
        batches = [np.empty(0, np.int64)]
        for step in range(_MOST_AT_ONE_PLACE):
            hits = first + step
            hits = hits[hits < last]
            if not len(hits):
                break
            slots, sought = self._slots[hits], self._sorted[hits]
            batches.append(slots[all_keys[slots] == sought])
        for key in adjacent_keys.tolist() if self._loose else ():
            slots = np.array(self._loose.get(key, [])[-_MOST_AT_ONE_PLACE:], dtype=np.int64)
            batches.append(slots[all_keys[slots] == key])
        return np.concatenate(batches)


def beyond_index(where: Filter) -> bool:
    """Whether the filter has conditions that the index doesn't have, so that the store must find the rows."""
    rest = replace(
        where,
        viewer="",
        scopes=(),
        agents=(),
        kinds=(),
        statuses=(),
        since=None,
        until=None,
        minimum_trust=0.0,
    )
    return rest != Filter(viewer="", statuses=())


EXACT_UP_TO = 200_000  # vectors that the filter admits; beyond it sketches choose which ones are compared

_FEWEST = 1024
_GONE = 0
_MOST_ADMISSIONS = 64
_SLOT_COLUMNS = ("_rows", "_group", "_occurred", "_trust", "_lengths", "_keys")


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Changed records, column by column.

    A code is the result of encode(), None without a vector of the model, or ELSEWHERE if it is not held here.
    """

    rows: Sequence[int] | Rows
    scopes: Sequence[Hashable]
    agents: Sequence[str]
    kinds: Sequence[str]
    statuses: Sequence[str]
    occurred: Sequence[float] | Numbers  # seconds since the epoch
    trust: Sequence[float] | Numbers
    lengths: Sequence[int] | Rows
    conversations: Sequence[str | None]
    positions: Sequence[int | None]
    codes: Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class AdmittedSlots:
    """The slots that a filter admits."""

    mask: Mask
    total: int


class ResidentIndex:
    """Filter columns of all records, and codes of the vectors of one model."""

    def __init__(self, *, exact_up_to: int = EXACT_UP_TO) -> None:
        self.revision = 0
        self.model: str | None = None
        self._exact_up_to = exact_up_to
        self._used = self._gone = 0
        self._capacity = _FEWEST
        # Records with the same scope, agent, kind and status share a group: one number to filter by.
        self._groups: dict[tuple[Hashable, str, str, str], int] = {}
        self._admissions: dict[Hashable, Mask] = {}
        self._rows = np.zeros(_FEWEST, np.int64)
        self._group = np.zeros(_FEWEST, np.int32)
        self._occurred = np.zeros(_FEWEST, np.float64)
        self._trust = np.zeros(_FEWEST, np.float64)
        self._lengths = np.zeros(_FEWEST, np.int32)
        self._keys = np.full(_FEWEST, NO_KEY, np.int64)
        self._slot_of = np.full(_FEWEST, -1, np.int32)  # by row
        self._adjacency = Adjacency()
        self._codes = Codes(exact_up_to=exact_up_to, capacity=_FEWEST)

    def __len__(self) -> int:
        return self._used - self._gone

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """The number of lexemes in the record of each slot."""
        return self._lengths[: self._used]

    def forget_codes(self, model: str | None) -> None:
        """Remove all codes; new ones will be of this model."""
        self.model = model
        self._codes = Codes(exact_up_to=self._exact_up_to, capacity=self._capacity)

    def put(self, batch: RecordBatch) -> None:
        """Add records, or replace those of the same rows. New rows must be in ascending order. Call settle() afterwards."""
        if not len(batch.rows):
            return
        rows = np.array(batch.rows, dtype=np.int64)
        slots = self._slots_for(rows)
        keys = self._adjacency.keys(batch.conversations, batch.positions)
        moved = self._keys[slots] != keys
        self._rows[slots] = rows
        self._group[slots] = self._grouped(batch)
        self._occurred[slots] = batch.occurred
        self._trust[slots] = batch.trust
        self._lengths[slots] = batch.lengths
        self._keys[slots] = keys
        self._adjacency.put(slots[moved], keys[moved])
        self._codes.put(slots, batch.codes)

    def settle(self, revision: int) -> None:
        """Make the index searchable after all changes up to a revision."""
        self.revision = revision
        if self._gone > max(_FEWEST, self._used // 4):
            self._compact()
        else:
            self._adjacency.settle(self._keys[: self._used])

    def put_codes(self, rows: Sequence[int], codes: Sequence[bytes | None]) -> None:
        """Set the codes of records in the index; other rows are skipped."""
        slots = self.slots(np.array(rows, dtype=np.int64))
        present = slots >= 0
        self._codes.put(slots[present], list(compress(codes, present)))

    def put_joined_codes(self, rows: Rows, codes: bytes) -> None:
        """The same for codes of one length, one after the other. All rows must be in the index."""
        self._codes.put_joined(self.slots(rows), codes)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove records; rows that aren't in the index are skipped."""
        slots = self.slots(np.fromiter(rows, np.int64))
        slots = slots[slots >= 0]
        self._slot_of[self._rows[slots]] = -1
        self._group[slots] = _GONE
        self._keys[slots] = NO_KEY
        self._codes.drop(slots)
        self._gone += len(slots)

    def reach(
        self, where: Filter, *, scopes: Iterable[Hashable] | None, rows: Sequence[int] | Rows | None
    ) -> AdmittedSlots:
        """The slots that the filter admits.

        `scopes` are the store's keys of the filter's scopes. `rows` is what the store found for a filter that is
        beyond_index(), else None.
        """
        mask = self._admitted(where, scopes)[self._group[: self._used]]
        if where.since is not None:
            mask &= self._occurred[: self._used] >= where.since.timestamp()
        if where.until is not None:
            mask &= self._occurred[: self._used] < where.until.timestamp()
        if where.minimum_trust > 0:
            mask &= self._trust[: self._used] >= where.minimum_trust
        if rows is not None:
            listed = np.zeros(self._used, dtype=np.bool_)
            slots = self.slots(np.array(rows, dtype=np.int64))
            listed[slots[slots >= 0]] = True
            mask &= listed
        return AdmittedSlots(mask, int(np.count_nonzero(mask)))

    def slots(self, rows: npt.NDArray[np.int64]) -> Slots:
        """The slots of rows, -1 for rows that aren't in the index."""
        if not len(rows) or rows.max() < len(self._slot_of):
            return self._slot_of[rows].astype(np.int64)
        slots = np.full(len(rows), -1, np.int64)
        known = rows < len(self._slot_of)
        slots[known] = self._slot_of[rows[known]]
        return slots

    def rows(self, slots: Slots) -> npt.NDArray[np.int64]:
        return self._rows[slots]

    def average_length(self, reach: AdmittedSlots) -> float:
        if not reach.total:
            return 0.0
        return float(np.sum(self._lengths[: self._used], where=reach.mask, dtype=np.int64)) / reach.total

    def beside(self, slots: Slots, reach: AdmittedSlots) -> Slots:
        """The admitted slots before and after these in their conversations; may contain duplicates and the slots themselves."""
        adjacent = self._adjacency.beside(self._keys[slots], self._keys[: self._used])
        return adjacent[reach.mask[adjacent]]

    def elsewhere(self, reach: AdmittedSlots) -> Slots:
        """The admitted slots whose vectors are not held here."""
        return self._codes.elsewhere(reach.mask)

    def nearest_each(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        """The nearest slots of each vector by code; the caller rescores them with the exact vectors."""
        return self._codes.nearest_each(vectors, reach.mask, limit)

    def _slots_for(self, rows: npt.NDArray[np.int64]) -> Slots:
        last = int(rows.max())
        if last >= len(self._slot_of):
            self._slot_of = lengthened(self._slot_of, max(last + 1, 2 * len(self._slot_of)), empty=-1)
        slots = self._slot_of[rows].astype(np.int64)
        fresh = np.flatnonzero(slots < 0)
        if len(fresh):
            slots[fresh] = np.arange(self._used, self._used + len(fresh))
            self._slot_of[rows[fresh]] = slots[fresh]
            self._used += len(fresh)
            if self._used > self._capacity:
                self._grow(max(self._used, 2 * self._capacity))
        return slots

    def reserve(self, count: int) -> None:
        """Make room for that many records, so that loading them needs no reallocation."""
        if count > self._capacity:
            self._grow(count)

    def _grow(self, capacity: int) -> None:
        for name in _SLOT_COLUMNS:
            empty = NO_KEY if name == "_keys" else 0
            setattr(self, name, lengthened(getattr(self, name), capacity, empty=empty))
        self._codes.grow(capacity)
        self._capacity = capacity

    def _compact(self) -> None:
        live = np.flatnonzero(self._group[: self._used] != _GONE)
        for name in _SLOT_COLUMNS:
            column = getattr(self, name)
            column[: len(live)] = column[live]
        self._keys[len(live) :] = NO_KEY
        self._codes.keep(live)
        self._used, self._gone = len(live), 0
        self._slot_of[self._rows[: len(live)]] = np.arange(len(live))
        self._adjacency.settle(self._keys[: self._used], anew=True)

    def _grouped(self, batch: RecordBatch) -> npt.NDArray[np.int32]:
        groups = self._groups
        numbers = [
            groups.setdefault(group, len(groups) + 1)
            for group in zip(batch.scopes, batch.agents, batch.kinds, batch.statuses, strict=True)
        ]
        return np.array(numbers, dtype=np.int32)

    def _admitted(self, where: Filter, scopes: Iterable[Hashable] | None) -> Mask:
        """Which groups pass the filter. Applies the access rule for agents."""
        agents = visible_agents(where.viewer)
        if where.agents:
            agents = frozenset(where.agents) if agents is None else agents & frozenset(where.agents)
        key = (None if scopes is None else frozenset(scopes), agents, where.kinds, where.statuses)
        cached = self._admissions.get(key)
        if cached is not None and len(cached) == len(self._groups) + 1:
            return cached
        allowed = [None if choice is None or choice == () else frozenset(choice) for choice in key]
        admitted = np.zeros(len(self._groups) + 1, dtype=np.bool_)
        for group, number in self._groups.items():
            admitted[number] = all(
                choice is None or value in choice for value, choice in zip(group, allowed, strict=True)
            )
        if len(self._admissions) >= _MOST_ADMISSIONS:
            self._admissions = {}
        self._admissions[key] = admitted
        return admitted


_SATURATION, _LENGTH_SHARE = 1.2, 0.75


def best_by_text(
    postings: Sequence[Slots],
    *,
    frequencies: Sequence[int],
    lengths: npt.NDArray[np.int32],
    average_length: float,
    total: int,
    limit: int,
) -> Slots:
    """The slots with the highest BM25 score, counting each word once; ranking counts them exactly afterwards.

    `postings` are the admitted slots that have each word.
    """
    scores = np.zeros(len(lengths), dtype=np.float32)
    for slots, frequency in zip(postings, frequencies, strict=True):
        rarity = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5)) if frequency else 0.0
        relative = lengths[slots] / max(average_length, 1.0)
        scores[slots] += rarity / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))
    matches = np.flatnonzero(scores)
    if limit < 1:
        return matches[:0]
    if len(matches) > limit:
        matches = matches[np.argpartition(scores[matches], len(matches) - limit)[len(matches) - limit :]]
    return matches[np.argsort(-scores[matches], kind="stable")]


Rows = npt.NDArray[np.int64]

DRIVING = 50_000  # records: a word in more of them chooses no candidates if rarer words find enough

_LEADING = 4  # the best 1/n of the pool add their neighbours
_SAMPLE = 10  # 1/n of the limit must be admitted to estimate from
_MARGIN = 1.25  # factor of candidates to rescore, because codes are not exact

# Row, importance, trust, uses, usefulness, time in seconds, length, id, conversation, position or -1, first lexeme,
# bracketed() lexemes.
_NUMBERS = ("importance", "trust", "uses", "usefulness", "occurred", "lengths")
Detail = tuple[int, float, float, int, float, float, int, str, str | None, int, str, str]


def bracketed(lexemes: Sequence[str]) -> str:
    """The lexemes as one text in which str.count() finds each: "<green><green><boat>"."""
    return f"<{'><'.join(lexemes)}>" if lexemes else ""


class SearchSource(Protocol):
    """What a search reads from a store."""

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> Mapping[str, Rows]:
        """The rows that have each lexeme, ascending, at most `most`."""

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        """Exact vectors of the search's model, as encode() returned them, in the order of the rows; rows without one are absent."""

    def details(self, rows: Rows) -> list[Detail]:
        """Details in the order of the rows; missing rows are absent."""

    def ids(self, rows: Rows) -> dict[int, str]:
        """Ids by row."""

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        """The nearest slots of each vector, by code or by the store's own index; they are rescored."""


def nearest(
    source: SearchSource,
    resident: ResidentIndex,
    vectors: Sequence[Vector],
    *,
    reach: AdmittedSlots,
    limit: int,
) -> list[list[Neighbour]]:
    """Implements RecordSearch.nearest."""
    matches = source.near(vectors, reach, _with_margin(limit))
    rows = resident.rows(
        distinct(np.concatenate([np.empty(0, np.int64), *(match.slots for match in matches)]))
    )
    exact, ids = dict(source.exact(rows)), source.ids(rows)
    answers = []
    for vector, match in zip(vectors, matches, strict=True):
        match_rows = [row for row in resident.rows(match.slots).tolist() if row in exact and row in ids]
        cosines = exact_cosines(vector, [exact[row] for row in match_rows])
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        answers.append([Neighbour(ids[match_rows[index]], float(cosines[index])) for index in best])
    return answers


@dataclass(frozen=True, slots=True)
class _Text:
    """The result of full-text search."""

    frequencies: dict[str, int]
    best: Slots


@dataclass(frozen=True, slots=True)
class _Within:
    """The admitted slots that have a lexeme."""

    slots: Slots
    whole: bool  # False if only the oldest records were read
    frequency: int


class ResidentSearch:
    """One search. A word that more than `driving` records have counts as common."""

    def __init__(
        self,
        source: SearchSource,
        resident: ResidentIndex,
        search: Search,
        *,
        reach: AdmittedSlots,
        driving: int,
    ) -> None:
        self._source = source
        self._resident = resident
        self._search = search
        self._reach = reach
        self._driving = driving
        self._average = resident.average_length(reach)

    def candidates(self) -> Candidates:
        search, resident = self._search, self._resident
        text, near = self._by_text(), None
        leading = -(-search.pool // _LEADING)
        slots, best = np.sort(text.best), text.best[:leading]
        cosines = np.full(len(slots), np.nan)
        if search.vector is not None and search.model is not None:
            near = self._source.near([search.vector], self._reach, _with_margin(search.pool))[0]
            slots = distinct(np.concatenate([near.slots, text.best]))
            cosines = self._cosines(slots)
            dense = near.slots[np.argsort(-cosines[np.searchsorted(slots, near.slots)], kind="stable")]
            chosen = self._among(np.concatenate([text.best, dense[: search.pool]]))[slots]
            slots, cosines = slots[chosen], cosines[chosen]
            best = np.concatenate([best, dense[:leading]])
        if search.neighbours:
            beside = distinct(resident.beside(best, self._reach))
            beside = beside[~self._among(slots)[beside]]
            more = np.full(len(beside), np.nan) if near is None else self._cosines(beside)
            slots, cosines = np.concatenate([slots, beside]), np.concatenate([cosines, more])
        return Candidates(
            **self._details(slots, cosines),
            total=self._reach.total,
            average_length=self._average,
            frequencies=text.frequencies,
            cosine_mean=0.0 if near is None else near.mean,
            cosine_deviation=0.0 if near is None else near.deviation,
            embedded=0 if near is None else near.embedded,
            exact=near is None or near.exact,
        )

    def _among(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """A mask over all slots, which is faster than comparing two lists."""
        mask = np.zeros(len(self._resident.lengths), dtype=np.bool_)
        mask[slots] = True
        return mask

    def _by_text(self) -> _Text:
        lexemes = tuple(dict.fromkeys(self._search.lexemes))
        most = self._driving if len(self._resident) > 2 * self._driving else None
        matches = self._within(lexemes, most)
        whole = [within.slots for within in matches.values() if within.whole]
        if len(whole) < len(matches) and self._fewer_than_asked(whole):
            matches = self._within(lexemes, None)
        frequencies = {lexeme: within.frequency for lexeme, within in matches.items()}
        driving = [lexeme for lexeme in lexemes if matches[lexeme].whole]
        best = best_by_text(
            [matches[lexeme].slots for lexeme in driving],
            frequencies=[frequencies[lexeme] for lexeme in driving],
            lengths=self._resident.lengths,
            average_length=self._average,
            total=self._reach.total,
            limit=self._search.pool,
        )
        return _Text(frequencies, best)

    def _within(self, lexemes: Sequence[str], most: int | None) -> dict[str, _Within]:
        """The admitted slots of each lexeme; a lexeme in `most` records or more is read from the oldest records only."""
        matches: dict[str, _Within] = {}
        for lexeme, rows in self._source.postings(lexemes, most=most).items():
            slots = self._resident.slots(rows)
            slots = slots[slots >= 0]
            within = slots[self._reach.mask[slots]]
            if most is None or len(rows) < most:
                matches[lexeme] = _Within(within, True, len(within))
                continue
            looked_at = int(np.count_nonzero(self._reach.mask[: int(slots.max(initial=-1)) + 1]))
            if looked_at < max(1, most // _SAMPLE):  # too few to estimate the share in the rest
                matches |= self._within([lexeme], None)
            else:
                frequency = max(1, round(len(within) / looked_at * self._reach.total))
                matches[lexeme] = _Within(within, False, frequency)
        return matches

    def _fewer_than_asked(self, postings: Sequence[Slots]) -> bool:
        """Whether these words alone find fewer candidates than the search asks for."""
        if sum(map(len, postings)) < self._search.pool:
            return True
        return int(np.count_nonzero(self._among(np.concatenate(postings)))) < self._search.pool

    def _cosines(self, slots: Slots) -> Numbers:
        """Exact cosines; NaN without a vector of the model."""
        cosines = np.full(len(slots), np.nan)
        rows = self._resident.rows(slots)
        vectors = self._source.exact(rows)
        if vectors and self._search.vector is not None:
            having = np.isin(rows, [row for row, _ in vectors]) if len(vectors) < len(rows) else slice(None)
            cosines[having] = exact_cosines(self._search.vector, [exact for _, exact in vectors])
        return cosines

    def _details(self, slots: Slots, cosines: Numbers) -> dict[str, Any]:
        rows = self._resident.rows(slots)
        details = self._source.details(rows)
        columns: list[tuple[Any, ...]] = list(zip(*details, strict=True)) or [()] * 12
        if len(details) < len(slots):  # deleted by another process meanwhile
            cosines = cosines[np.isin(rows, columns[0])]
        numbers = np.array(columns[1:7], dtype=np.float64)
        ids, conversations, positions, openings, texts = columns[7:]
        sought = [f"<{lexeme}>" for lexeme in self._search.lexemes]
        counts = [text.count(lexeme) for text in texts for lexeme in sought]
        return {
            "ids": list(ids),
            "counts": np.array(counts, dtype=np.int32).reshape(len(ids), len(sought)),
            "cosines": cosines,
            **dict(zip(_NUMBERS, numbers, strict=True)),
            "conversations": list(conversations),
            "openings": list(openings),
            "positions": np.array(positions, dtype=np.int64),
        }


def _with_margin(limit: int) -> int:
    return int(limit * _MARGIN) + 16
