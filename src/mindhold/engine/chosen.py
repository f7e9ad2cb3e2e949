"""Memories that were chosen to answer, true near-duplicates only once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mindhold.engine.core import Engine
from mindhold.engine.ranked import Evidence, Ranked
from mindhold.model.memory import Memory

SPARE = 4  # read beyond the limit, for duplicates
MORE_THAN_ASKED = 3  # so that collapsing duplicates leaves enough
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory, how well it answers, and what speaks for it."""

    memory: Memory
    score: float
    evidence: Evidence


async def read(
    engine: Engine,
    ranked: Sequence[Ranked],
    evidence: Callable[[Ranked, Memory], Evidence],
    *,
    limit: int,
    viewer: str,
    after: Sequence[Chosen] = (),
    known: Mapping[str, Memory] | None = None,
) -> list[Chosen]:
    """At most so many distinct ones in all, behind those chosen before; `known` ones need not be read."""
    chosen, there = list(after), known or {}
    left = list(ranked)
    while left and len(chosen) < limit:
        wanted, left = left[: limit + SPARE], left[limit + SPARE :]
        missing = [one.id for one in wanted if one.id not in there]
        memories = {**there, **(await engine.store.get_many(missing, viewer=viewer) if missing else {})}
        found = [
            Chosen(memory, one.score, evidence(one, memory))
            for one in wanted
            if (memory := memories.get(one.id)) is not None
        ]
        chosen = distinct([*chosen, *found], limit)
    return chosen


def distinct(chosen: Sequence[Chosen], limit: int) -> list[Chosen]:
    """The first of them, true near-duplicates only once."""
    kept: list[Chosen] = []
    said = _Said()
    for one in chosen:
        if not any(said.same(one.memory, other.memory) for other in kept):
            kept.append(one)
        if len(kept) == limit:
            break
    return kept


class _Said:
    """Compares memories; the words of each are taken once, and only where they matter."""

    def __init__(self) -> None:
        self._words: dict[str, frozenset[str]] = {}

    def same(self, one: Memory, other: Memory) -> bool:
        """The same words, or the same statement; the turns of a conversation stay as they were said."""
        if one.content_hash == other.content_hash:
            return True
        told = one.provenance.position is not None or other.provenance.position is not None
        if told or one.kind is not other.kind or not self._nearly(one, other):
            return False
        from mindhold.engine.text.sameness import (
            same_statement,
        )  # its word lists are for the rare close look

        return same_statement(one.content, other.content)

    def _nearly(self, one: Memory, other: Memory) -> bool:
        """Cheap, so that the close look is for the few that need it."""
        words, others = self._of(one), self._of(other)
        return 5 * len(words & others) >= 4 * max(len(words), len(others))

    def _of(self, memory: Memory) -> frozenset[str]:
        if memory.id not in self._words:
            self._words[memory.id] = frozenset(_WORDS.findall(memory.content.casefold()))
        return self._words[memory.id]
