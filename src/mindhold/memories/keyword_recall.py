"""Recall by keywords alone: layer by layer, until one has found enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mindhold.aio import run_concurrently
from mindhold.engine import Engine
from mindhold.memories.hit_context import recounted, shortened
from mindhold.memories.ranking import (
    L1,
    L2,
    L3,
    MORE_THAN_ASKED,
    SPARE,
    ChosenMemories,
    Evidence,
    RankedCandidate,
    Ranking,
    best_equals,
    distinct,
    nudged,
    read_chosen,
)
from mindhold.memories.validation import MOST_LABELS
from mindhold.model.lexemes import keyword_forms, query_lexemes
from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Search
from mindhold.ports.cache import NO_SIDECAR
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Capability

if TYPE_CHECKING:
    from mindhold.memories.recall import RecallInput

SETS, INDEX = "keyword sets", "keywords"  # found in the sidecar's sets, or in the store


@dataclass(frozen=True, slots=True)
class KeywordHits:
    """Memories, best first, and how they were found."""

    memories: list[Memory]
    rung: str


async def with_all(engine: Engine, forms: Sequence[str], *, where: Filter, limit: int) -> KeywordHits:
    """Find the best memories that have every keyword; by the sidecar's sets if these are complete."""
    if len(forms) > MOST_LABELS:  # no memory has so many keywords
        return KeywordHits([], INDEX)
    keyword_filter = replace(where, keywords=tuple(forms))
    ids = await _from_sets(engine, forms, where)
    if ids is not None and not ids:
        return KeywordHits([], SETS)
    # The store applies the rest of the filter, and checks that they still have those keywords.
    memories = await best_equals(engine, replace(keyword_filter, ids=tuple(ids or ())), limit=limit)
    return KeywordHits(memories, INDEX if ids is None else SETS)


async def _from_sets(engine: Engine, forms: Sequence[str], where: Filter) -> list[str] | None:
    """Return ids from the sidecar; None if it may be incomplete, since writers of other stores don't update it."""
    if engine.sidecar is NO_SIDECAR:
        return None
    placed = await engine.store_registry.places()
    if placed and not (where.scopes and placed.keys().isdisjoint(where.scopes)):
        return None
    return await engine.sidecar.keywords.having(forms, where)


POOL = 100
ALL_OF_THEM = 1.0  # the score of a memory with every keyword
SHARE = 0.9  # with only some of them: times their share


@dataclass(frozen=True, slots=True)
class LayerReport:
    """A layer that was searched, and how many of the chosen memories it found."""

    layer: str
    found: int


@dataclass(frozen=True, slots=True)
class Layered:
    """The result of all layers. `short` is what the last search saw if no layer found enough."""

    chosen: list[ChosenMemories]
    asked: tuple[str, ...]  # layers that were searched; the last one ended it
    rung: str
    considered: int | None  # None if the first layer found enough: other memories weren't looked at
    short: Candidates | None = None


@dataclass(slots=True)
class _Looked:
    """What was found beyond the first layer: scores, evidence and memories by id."""

    ranked: dict[str, RankedCandidate] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)

    def note(self, one: RankedCandidate, evidence: Evidence) -> None:
        """Add a candidate; the better score counts, with the first layer that found it."""
        before = self.ranked.get(one.id)
        if before is None or one.score > before.score:
            self.ranked[one.id] = one
        layer = self.evidence[one.id].layer if one.id in self.evidence else evidence.layer
        self.evidence[one.id] = replace(evidence, layer=layer)

    def in_order(self) -> list[RankedCandidate]:
        """Return the candidates, best first."""
        return sorted(self.ranked.values(), key=lambda one: -one.score)


class Layers:
    """One recall by keywords alone."""

    def __init__(self, engine: Engine, request: RecallInput, *, where: Filter) -> None:
        self._engine = engine
        self._request = request
        self._where = where
        self._limit = request.limit or engine.settings.recall.limit
        self._forms = keyword_forms(request.keywords)
        self._words = {form: word for word in reversed(request.keywords) for form in keyword_forms([word])}
        self._lexemes = lexemes_of(request.keywords)

    async def run(self) -> Layered:
        """Search for every keyword; then for any of them and their words; then by meaning."""
        keyed = await with_all(self._engine, self._forms, where=self._where, limit=self._limit)
        every = Evidence(_named([self._words[form] for form in self._forms]), L1)
        first = distinct(
            [ChosenMemories(memory, ALL_OF_THEM, every) for memory in keyed.memories], self._limit
        )
        if self._enough(first):
            return Layered(first, (L1,), keyed.rung, considered=None)
        looked = _Looked()
        candidates = await self._by_words(looked)
        chosen = await self._chosen(first, looked)
        if self._enough(chosen):
            return Layered(chosen, (L1, L2), "full text", candidates.total)
        vectors = Capability.VECTORS in self._engine.store.capabilities
        matrix = await self._engine.vector_source.embed_query(self._request.asked) if vectors else None
        rung = self._engine.vector_source.rung if vectors else "full text"
        if matrix is None:
            return Layered(chosen, (L1, L2), rung, candidates.total, candidates)
        candidates = await self._by_meaning(looked, matrix)
        chosen = await self._chosen(first, looked)
        return Layered(chosen, (L1, L2, L3), rung, candidates.total, candidates)

    async def _by_words(self, looked: _Looked) -> Candidates:
        async with run_concurrently(self._search(None)) as searching:
            if len(self._forms) > 1:  # with a single keyword, the first layer found them all
                await self._with_any(looked)
        candidates = searching.result()
        ranking = self._ranking(candidates)
        for candidate in self._best(ranking):
            looked.note(candidate, replace(ranking.evidence(candidate.row), layer=L2))
        return candidates

    async def _with_any(self, looked: _Looked) -> None:
        """Find memories that have any of the keywords, however common it is."""
        where = replace(self._where, keywords=self._forms, keywords_any=True)
        memories = await self._engine.store.find(where, limit=self._limit + SPARE)
        had = [self._had(memory) for memory in memories]
        shares = [SHARE * len(own) / len(self._forms) for own in had]
        scores = nudged(self._engine, shares, memories)
        least = self._request.minimum_score or 0.0
        for memory, own, share, score in zip(memories, had, shares, scores, strict=True):
            if share >= least:
                looked.memories[memory.id] = memory
                looked.note(RankedCandidate(memory.id, score, -1), Evidence(_named(own), L2))

    def _had(self, memory: Memory) -> list[str]:
        """Return which of the requested keywords a memory has, each once."""
        own = set(keyword_forms(memory.keywords))
        return [self._words[form] for form in self._forms if form in own]

    async def _by_meaning(self, looked: _Looked, matrix: Matrix) -> Candidates:
        candidates = await self._search(matrix)
        ranking = self._ranking(candidates)
        ranked = self._best(
            ranking, similarity=self._request.minimum_similarity, spared=frozenset(looked.ranked)
        )
        for candidate in ranked:
            looked.note(candidate, replace(ranking.evidence(candidate.row), layer=L3))
        return candidates

    async def _search(self, matrix: Matrix | None) -> Candidates:
        return await self._engine.store.search(
            Search(
                filter=self._where,
                lexemes=self._lexemes,
                vector=None if matrix is None else matrix.reshape(-1),
                model=None if matrix is None else self._engine.vector_source.model,
                pool=max(POOL, self._limit * MORE_THAN_ASKED),
            )
        )

    def _ranking(self, candidates: Candidates) -> Ranking:
        return Ranking(
            self._engine, candidates, text=self._request.asked, lexemes=self._lexemes, preferred=None
        )

    def _best(
        self, ranking: Ranking, *, similarity: float | None = None, spared: frozenset[str] = frozenset()
    ) -> list[RankedCandidate]:
        return ranking.best(
            floor=self._request.minimum_score,
            most=self._limit * MORE_THAN_ASKED,
            similarity=similarity,
            spared=spared,
        )

    async def _chosen(self, first: Sequence[ChosenMemories], looked: _Looked) -> list[ChosenMemories]:
        first_ids = {one.memory.id for one in first}
        chosen = await read_chosen(
            self._engine,
            [one for one in looked.in_order() if one.id not in first_ids],
            lambda one, _memory: looked.evidence[one.id],
            limit=self._limit,
            viewer=self._where.viewer,
            after=first,
            known=looked.memories,
        )
        looked.memories |= {one.memory.id: one.memory for one in chosen}
        return chosen

    def _enough(self, chosen: Sequence[ChosenMemories]) -> bool:
        """Whether the limit is reached or the token budget is full."""
        if len(chosen) >= self._limit:
            return True
        budget = self._request.token_budget
        longest = self._engine.settings.recall.longest_hit
        return budget is not None and budget <= sum(
            recounted(shortened(choice.memory, longest)).tokens for choice in chosen
        )


def lexemes_of(keywords: Sequence[str], *, text: str = "") -> tuple[str, ...]:
    """Return the lexemes to search full text for, each once."""
    words = [word for keyword in keywords for word in query_lexemes(keyword)]
    return tuple(dict.fromkeys([*query_lexemes(text), *words]))


def tallied(asked: Sequence[str], chosen: Sequence[ChosenMemories]) -> tuple[LayerReport, ...]:
    """Count how many of the chosen memories each searched layer found."""
    counts: Mapping[str, int] = Counter(choice.evidence.layer for choice in chosen)
    return tuple(LayerReport(layer, counts.get(layer, 0)) for layer in asked)


def _named(keywords: Sequence[str]) -> tuple[str, ...]:
    return ("words: " + ", ".join(keywords),)
