"""Finds the store that a scope or record is in, and merges the answers of several stores into one."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from mindhold.model.errors import StoreBusy
from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Neighbour, Order, PagePosition, Search
from mindhold.model.scope import EVERYONE
from mindhold.ports.backend import MoverWatch, Placement, Placements, StoreRegistry
from mindhold.ports.store import Clock, Receipt, Store
from mindhold.stores.resident_index import best_by_text

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE_SECONDS = 60.0  # how long a writer waits for a project that is being moved
PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Routes:
    """The placements at one moment."""

    home: str
    places: Placements
    away: Mapping[str, str]  # scope -> mode, for scopes that aren't in the home store

    @classmethod
    def of(cls, home: str, places: Placements) -> Routes:
        return cls(home, places, {name: place.mode for name, place in places.items() if place.mode != home})

    @property
    def modes(self) -> tuple[str, ...]:
        """The stores with live records, home first."""
        return tuple(dict.fromkeys((self.home, *self.away.values())))

    @property
    def used(self) -> tuple[str, ...]:
        """The stores with any records, including hidden copies."""
        return tuple(
            dict.fromkeys((self.home, *(mode for place in self.places.values() for mode in place.modes())))
        )

    def mode(self, scope: str) -> str:
        """The mode of the store where a scope's records live."""
        return self.away.get(scope, self.home)

    def moved(self, scope: str, since: Routes) -> bool:
        """Whether the scope has moved since, also if it came back."""
        now, then = (routes.places.get(scope, Placement(routes.home)) for routes in (self, since))
        return (now.mode, now.moves) != (then.mode, then.moves)

    def frozen(self, scope: str) -> bool:
        """Whether the scope is about to move."""
        place = self.places.get(scope)
        return place is not None and place.move is not None and place.move.frozen

    def unsettled(self, since: Routes) -> frozenset[str]:
        """The scopes that may have moved since."""
        names = since.places.keys() | self.places.keys()
        return frozenset(name for name in names if self.frozen(name) or self.moved(name, since))


class RoutedPart:
    """Base of the parts of the routed store."""

    def __init__(self, houses: StoreRegistry, *, clock: Clock, patience: float = PATIENCE_SECONDS) -> None:
        self._houses = houses
        self._clock = clock
        self._patience = patience
        self._known = Routes.of(houses.home, {})
        self._watch = MoverWatch()
        self._put_off: dict[str, float] = {}  # scope of a failed rename -> time of the next attempt

    async def _home(self) -> Store:
        return await self._houses.house(self._houses.home)

    async def _routes(self, *, fresh: bool = False) -> Routes:
        places = await self._houses.places(fresh=fresh)
        if places is not self._known.places:
            self._known = Routes.of(self._houses.home, places)
        return self._known

    async def _store_of(self, scope: str, routes: Routes | None = None) -> Store:
        """The store where a scope's records live."""
        return await self._houses.house((routes or await self._routes()).mode(scope))

    async def _holders(self, ids: Iterable[str]) -> list[tuple[Store, list[str]]]:
        """The stores where the records live, each with its ids."""
        routes = await self._routes()
        if not routes.away:
            return [(await self._home(), list(ids))]
        by_mode = await self._by_mode(ids, routes)
        return [(await self._houses.house(mode), own) for mode, own in by_mode.items()]

    async def _asked(self, where: Filter) -> list[tuple[Store, Filter]]:
        """The stores with records in the filter, each with its part of the filter."""
        routes, home = await self._routes(), await self._home()
        if not routes.away or (where.scopes and routes.away.keys().isdisjoint(where.scopes)):
            return [(home, where)]
        names: dict[str, list[str]] = defaultdict(list)
        # Copies left in the home store are hidden by naming all scopes that live there.
        for name in where.scopes or [*(scope.name for scope in await home.scopes()), *routes.away]:
            names[routes.mode(name)].append(name)
        return [
            (await self._houses.house(mode), replace(where, scopes=tuple(dict.fromkeys(own))))
            for mode, own in names.items()
        ]

    async def _of_each(self, where: Filter, ask: Callable[[Store, Filter], Awaitable[T]]) -> list[T]:
        """The answers of all these stores, asked at the same time."""
        targets = await self._asked(where)
        if len(targets) == 1:
            return [await ask(*targets[0])]
        return list(await asyncio.gather(*(ask(store, narrowed) for store, narrowed in targets)))

    async def _found(self, ids: Sequence[str], routes: Routes, *, viewer: str) -> dict[str, Memory]:
        """Memories that are in the store where they live; a copy left behind doesn't count."""
        memories: dict[str, Memory] = {}
        for mode in routes.modes:
            rest = [memory_id for memory_id in ids if memory_id not in memories]
            if rest:
                store = await self._houses.house(mode)
                stored = await store.get_many(rest, viewer=viewer)
                memories |= {
                    key: memory for key, memory in stored.items() if routes.mode(memory.scope) == mode
                }
        return memories

    async def _by_mode(self, ids: Iterable[str], routes: Routes) -> dict[str, list[str]]:
        """The ids of records by mode of their store; unknown ids are absent."""
        wanted_ids = list(ids)
        memories = await self._found(list(dict.fromkeys(wanted_ids)), routes, viewer=EVERYONE)
        grouped: dict[str, list[str]] = defaultdict(list)
        for memory_id in wanted_ids:
            if memory_id in memories:
                grouped[routes.mode(memories[memory_id].scope)].append(memory_id)
        return grouped

    async def _at_rest(self, scopes: Iterable[str], *, fresh: bool = False) -> Routes:
        """The routes once none of the scopes is about to move. Raises StoreBusy if that takes too long."""
        names = tuple(scopes)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        routes = await self._routes(fresh=fresh)
        while frozen := [name for name in names if routes.frozen(name)]:
            routes = await self._routes(fresh=True)
            if any(self._given_up(routes.places.get(name)) for name in frozen):
                await self._houses.settle(self._thawed)
            elif loop.time() > deadline:
                raise StoreBusy(
                    f"The project {frozen[0]!r} is being moved to another store.",
                    advice="Try again in a moment.",
                )
            else:
                await asyncio.sleep(PAUSE_SECONDS)
        return routes

    def _given_up(self, place: Placement | None) -> bool:
        """Whether its mover has died."""
        return (
            place is not None and place.move is not None and self._watch.gone(place.move, now=self._clock())
        )

    def _thawed(self, places: Placements) -> Placements:
        return {
            name: replace(place, move=None) if self._given_up(place) else place
            for name, place in places.items()
        }


def at_home(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[RoutedPart, P], Coroutine[Any, Any, T]]:
    """Delegates a method to the home store."""
    name = method.__name__

    async def call(self: RoutedPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await getattr(await self._home(), name)(*args, **kwargs)
        return answer

    return call


_LEADING = 4  # the best 1/n of the pool keep their neighbours
_REACH = 2  # positions before and after
_NUMBERS = ("lengths", "cosines", "importance", "trust", "uses", "usefulness", "occurred")
Rows = npt.NDArray[np.int64]


def merged_pages(pages: Iterable[Sequence[Memory]], *, order: Order, limit: int) -> list[Memory]:
    """The first memories of all pages together."""
    together = [memory for page in pages for memory in page]

    def place(memory: Memory) -> tuple[Any, str]:
        position = PagePosition.of(memory, order)
        return position.value, position.id

    together.sort(key=place, reverse=order not in (Order.OLDEST, Order.DUE))
    return together[:limit]


def merged_tallies(tallies: Iterable[dict[str, int]], by: str) -> dict[str, int]:
    """The tallies added up, most common first; tags that differ only in case count as one."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for tally in tallies:
        for value, count in tally.items():
            name = spelled.setdefault(value.casefold(), value) if by == "tag" else value
            counts[name] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def merged_receipts(receipts: Sequence[Receipt], *, ids: Sequence[str]) -> Receipt:
    """The receipts added up. `ids` are those to be erased, in order. Copies in other stores are counted separately."""
    erased_ids: set[str] = set()
    removed: Counter[str] = Counter()
    remaining: Counter[str] = Counter()
    for receipt in sorted(receipts, key=lambda receipt: -len(receipt.ids)):
        again = bool(receipt.ids) and erased_ids.issuperset(receipt.ids)
        for place, count in receipt.removed.items():
            removed[f"copies: {place}" if again else place] += count
        remaining.update(receipt.remaining)
        erased_ids.update(receipt.ids)
    ids_gone = tuple(memory_id for memory_id in dict.fromkeys(ids) if memory_id in erased_ids)
    return Receipt(ids_gone, dict(removed), dict(remaining))


def merged_neighbours(
    answers: Iterable[Sequence[Sequence[Neighbour]]], *, limit: int
) -> list[list[Neighbour]]:
    """For each vector the nearest of all stores."""
    return [
        sorted((near for neighbours in each for near in neighbours), key=lambda near: -near.cosine)[:limit]
        for each in zip(*answers, strict=True)
    ]


async def merged_scans(
    scans: Sequence[AsyncIterator[list[Memory]]], *, batch: int
) -> AsyncIterator[list[Memory]]:
    """The scans merged in order of id, with a batch of each in memory."""
    heads: list[list[Memory]] = [[] for _ in scans]
    ended = [False for _ in scans]
    ready: list[Memory] = []
    while True:
        for number, scan in enumerate(scans):
            if not heads[number] and not ended[number]:
                heads[number] = await anext(scan, [])
                ended[number] = not heads[number]
        if not any(heads):
            break
        last = min(head[-1].id for head in heads if head)  # every scan has been read up to here
        for number, head in enumerate(heads):
            ready += [memory for memory in head if memory.id <= last]
            heads[number] = [memory for memory in head if memory.id > last]
        ready.sort(key=lambda memory: memory.id)
        while len(ready) >= batch:
            yield ready[:batch]
            ready = ready[batch:]
    if ready:
        yield ready


def merged_candidates(answers: Sequence[Candidates], search: Search) -> Candidates:
    """The best candidates of all stores, with statistics over all."""
    total = sum(answer.total for answer in answers)
    embedded = sum(answer.embedded for answer in answers)
    mean = _weighted([(answer.cosine_mean, answer.embedded) for answer in answers])
    variance = _weighted(
        [
            (answer.cosine_deviation**2 + (answer.cosine_mean - mean) ** 2, answer.embedded)
            for answer in answers
        ]
    )
    frequencies: Counter[str] = Counter()
    for answer in answers:
        frequencies.update(answer.frequencies)
    together = Candidates(
        ids=[memory_id for answer in answers for memory_id in answer.ids],
        counts=np.concatenate([answer.counts for answer in answers]),
        conversations=[name for answer in answers for name in answer.conversations],
        openings=[opening for answer in answers for opening in answer.openings],
        positions=np.concatenate([answer.positions for answer in answers]),
        **{name: np.concatenate([getattr(answer, name) for answer in answers]) for name in _NUMBERS},
        total=total,
        average_length=_weighted([(answer.average_length, answer.total) for answer in answers]),
        frequencies={word: frequencies[word] for answer in answers for word in answer.frequencies},
        cosine_mean=mean,
        cosine_deviation=math.sqrt(variance),
        embedded=embedded,
        exact=all(answer.exact for answer in answers),
    )
    if len(together.ids) <= search.pool or sum(bool(answer.ids) for answer in answers) == 1:
        return together
    return _only(together, _best(together, search))


def _weighted(values: Sequence[tuple[float, int]]) -> float:
    return sum(value * weight for value, weight in values) / max(1, sum(weight for _, weight in values))


def _best(candidates: Candidates, search: Search) -> Rows:
    """The rows that a single store would have returned: its pools, and the neighbours of the best."""
    lexemes = {lexeme: column for column, lexeme in reversed(list(enumerate(search.lexemes)))}
    by_text = best_by_text(
        [np.flatnonzero(candidates.counts[:, column]) for column in lexemes.values()],
        frequencies=[candidates.frequencies.get(lexeme, 0) for lexeme in lexemes],
        lengths=candidates.lengths.astype(np.int32),
        average_length=candidates.average_length,
        total=candidates.total,
        limit=search.pool,
    )
    near = np.flatnonzero(~np.isnan(candidates.cosines))
    by_vector = near[np.argsort(-candidates.cosines[near], kind="stable")][: search.pool]
    rows = {*by_text.tolist(), *by_vector.tolist()}
    if search.neighbours:
        leading = -(-search.pool // _LEADING)
        rows.update(_beside(candidates, {*by_text[:leading].tolist(), *by_vector[:leading].tolist()}))
    return np.array(sorted(rows), dtype=np.int64)


def _beside(candidates: Candidates, leading: set[int]) -> list[int]:
    places = {
        (candidates.conversations[row], int(candidates.positions[row]) + step)
        for row in leading
        if candidates.conversations[row] is not None and candidates.positions[row] >= 0
        for step in range(-_REACH, _REACH + 1)
    }
    return [
        row
        for row, (name, position) in enumerate(
            zip(candidates.conversations, candidates.positions.tolist(), strict=True)
        )
        if position >= 0 and (name, position) in places
    ]


def _only(candidates: Candidates, rows: Rows) -> Candidates:
    places = rows.tolist()
    return replace(
        candidates,
        ids=[candidates.ids[row] for row in places],
        conversations=[candidates.conversations[row] for row in places],
        openings=[candidates.openings[row] for row in places],
        **{name: getattr(candidates, name)[rows] for name in (*_NUMBERS, "counts", "positions")},
    )
