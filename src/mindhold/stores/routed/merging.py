"""Answers of several stores as one store that held everything would have given them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Neighbour, Order, Search, Spot
from mindhold.ports.store import Receipt
from mindhold.stores.lexical import best_by_text

_LEADING = 4  # one in so many of the pool, the best ones, keep their neighbours
_REACH = 2  # places before and after
_NUMBERS = ("lengths", "cosines", "importance", "trust", "uses", "usefulness", "occurred")
Rows = npt.NDArray[np.int64]


def merged_pages(pages: Iterable[Sequence[Memory]], *, order: Order, limit: int) -> list[Memory]:
    """The beginning of all of them together."""
    together = [memory for page in pages for memory in page]
    together.sort(key=lambda memory: _place(order, memory), reverse=order not in (Order.OLDEST, Order.DUE))
    return together[:limit]


def _place(order: Order, memory: Memory) -> tuple[Any, str]:
    spot = Spot.of(memory, order)
    return spot.value, spot.id


def merged_tallies(tallies: Iterable[dict[str, int]], by: str) -> dict[str, int]:
    """The commonest first; tags that differ in case alone are one."""
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for tally in tallies:
        for value, count in tally.items():
            name = spelled.setdefault(value.casefold(), value) if by == "tag" else value
            counts[name] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def merged_receipts(receipts: Sequence[Receipt], *, ids: Sequence[str]) -> Receipt:
    """`ids` are those that were to go, in their order. What went of records that another store had too is told apart."""
    found: set[str] = set()
    removed: Counter[str] = Counter()
    remaining: Counter[str] = Counter()
    for receipt in sorted(receipts, key=lambda receipt: -len(receipt.ids)):
        again = bool(receipt.ids) and found.issuperset(receipt.ids)
        for place, count in receipt.removed.items():
            removed[f"copies: {place}" if again else place] += count
        remaining.update(receipt.remaining)
        found.update(receipt.ids)
    gone = tuple(memory_id for memory_id in dict.fromkeys(ids) if memory_id in found)
    return Receipt(gone, dict(removed), dict(remaining))


def merged_neighbours(
    answers: Iterable[Sequence[Sequence[Neighbour]]], *, limit: int
) -> list[list[Neighbour]]:
    """For each vector the nearest of all."""
    return [
        sorted((near for one in each for near in one), key=lambda near: -near.cosine)[:limit]
        for each in zip(*answers, strict=True)
    ]


async def merged_scans(
    scans: Sequence[AsyncIterator[list[Memory]]], *, batch: int
) -> AsyncIterator[list[Memory]]:
    """In order of id, a batch of each in memory."""
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
        last = min(head[-1].id for head in heads if head)  # up to here every one of them has been read
        for number, head in enumerate(heads):
            ready += [memory for memory in head if memory.id <= last]
            heads[number] = [memory for memory in head if memory.id > last]
        ready.sort(key=lambda memory: memory.id)
        while len(ready) >= batch:
            yield ready[:batch]
            ready = ready[batch:]
    if ready:
        yield ready


def merged_candidates(found: Sequence[Candidates], search: Search) -> Candidates:
    """The best of all, with statistics over all."""
    total = sum(one.total for one in found)
    embedded = sum(one.embedded for one in found)
    mean = _weighted([(one.cosine_mean, one.embedded) for one in found])
    variance = _weighted(
        [(one.cosine_deviation**2 + (one.cosine_mean - mean) ** 2, one.embedded) for one in found]
    )
    frequencies: Counter[str] = Counter()
    for one in found:
        frequencies.update(one.frequencies)
    together = Candidates(
        ids=[memory_id for one in found for memory_id in one.ids],
        counts=np.concatenate([one.counts for one in found]),
        conversations=[name for one in found for name in one.conversations],
        positions=np.concatenate([one.positions for one in found]),
        **{name: np.concatenate([getattr(one, name) for one in found]) for name in _NUMBERS},
        total=total,
        average_length=_weighted([(one.average_length, one.total) for one in found]),
        frequencies={word: frequencies[word] for one in found for word in one.frequencies},
        cosine_mean=mean,
        cosine_deviation=math.sqrt(variance),
        embedded=embedded,
        exact=all(one.exact for one in found),
    )
    if len(together.ids) <= search.pool or sum(bool(one.ids) for one in found) == 1:
        return together
    return _only(together, _best(together, search))


def _weighted(values: Sequence[tuple[float, int]]) -> float:
    return sum(value * weight for value, weight in values) / max(1, sum(weight for _, weight in values))


def _best(found: Candidates, search: Search) -> Rows:
    """The rows that one store would have offered: its pools, and what is said beside the best of them."""
    lexemes = {lexeme: column for column, lexeme in reversed(list(enumerate(search.lexemes)))}
    by_text = best_by_text(
        [np.flatnonzero(found.counts[:, column]) for column in lexemes.values()],
        frequencies=[found.frequencies.get(lexeme, 0) for lexeme in lexemes],
        lengths=found.lengths.astype(np.int32),
        average_length=found.average_length,
        total=found.total,
        limit=search.pool,
    )
    near = np.flatnonzero(~np.isnan(found.cosines))
    by_vector = near[np.argsort(-found.cosines[near], kind="stable")][: search.pool]
    kept = {*by_text.tolist(), *by_vector.tolist()}
    if search.neighbours:
        leading = -(-search.pool // _LEADING)
        kept.update(_beside(found, {*by_text[:leading].tolist(), *by_vector[:leading].tolist()}))
    return np.array(sorted(kept), dtype=np.int64)


def _beside(found: Candidates, leading: set[int]) -> list[int]:
    places = {
        (found.conversations[row], int(found.positions[row]) + step)
        for row in leading
        if found.conversations[row] is not None and found.positions[row] >= 0
        for step in range(-_REACH, _REACH + 1)
    }
    return [
        row
        for row, (name, position) in enumerate(
            zip(found.conversations, found.positions.tolist(), strict=True)
        )
        if position >= 0 and (name, position) in places
    ]


def _only(found: Candidates, rows: Rows) -> Candidates:
    kept = rows.tolist()
    return replace(
        found,
        ids=[found.ids[row] for row in kept],
        conversations=[found.conversations[row] for row in kept],
        **{name: getattr(found, name)[rows] for name in (*_NUMBERS, "counts", "positions")},
    )
