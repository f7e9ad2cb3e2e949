"""Orders candidates with reasons, drops near-duplicates, and settles ties by importance and time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mindhold.aio import run_concurrently
from mindhold.engine import Engine
from mindhold.model.lexemes import query_lexemes
from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Numbers, Order
from mindhold.model.ranking import FLOOR, apply_boost, boost, composite, fuse, usefulness_nudge
from mindhold.text.timeframe import Timeframe

DAY = 86_400.0
L1, L2, L3, LISTED = "L1", "L2", "L3", "filter"  # every keyword, words, vectors; no comparing at all
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORD = re.compile(r"\w[\w'’./+#-]*")


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate that passed the floor."""

    id: str
    score: float
    row: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What spoke for a candidate: in words, by what it was found, and its cosine with the question."""

    why: tuple[str, ...]
    layer: str
    similarity: float | None = None


class Ranking:
    """The candidates in order. Reasons are worked out for those that are shown."""

    def __init__(
        self,
        engine: Engine,
        found: Candidates,
        *,
        text: str,
        lexemes: Sequence[str],
        keywords: frozenset[str] = frozenset(),
        preferred: Timeframe | None,
    ) -> None:
        self._engine = engine
        self._found = found
        self._lexemes = lexemes
        self._keywords = keywords
        self._text = text
        unrelated = engine.vector_source.unrelated if found.embedded else None
        in_period = None if preferred is None else _within(found.occurred, preferred)
        self._fused = fuse(found, lexemes, unrelated=unrelated, in_period=in_period)

    def best(
        self,
        *,
        floor: float | None,
        most: int,
        similarity: float | None = None,
        spared: Collection[str] = (),
    ) -> list[RankedCandidate]:
        """At most so many above the floor, best first.

        Those that have a vector above that cosine too, unless they say one of the keywords, or are to be spared.
        """
        found, scores = self._found, self._fused.score
        recall = self._engine.settings.recall
        configured = recall.floor if recall.floor >= 0 else FLOOR
        least = configured if floor is None else floor
        age = (self._engine.clock().timestamp() - found.occurred) / DAY
        boosts = boost(
            found.importance,
            age_days=age,
            uses=found.uses,
            trust=found.trust,
            usefulness=found.usefulness,
            importance_weight=recall.importance_weight,
            recency_weight=recall.recency_weight,
        )
        final = apply_boost(scores, boosts)
        admitted = scores >= least
        if similarity is not None:
            near = np.isnan(found.cosines) | (found.cosines >= similarity)
            let_off = np.array([one in spared for one in found.ids], dtype=np.bool_)
            admitted &= near | self._keyed() | let_off
        passing = np.flatnonzero(admitted)
        rows = passing[np.argsort(-final[passing], kind="stable")][:most].tolist()
        return [RankedCandidate(found.ids[row], float(final[row]), row) for row in rows]

    def evidence(self, row: int, *, why: bool = True) -> Evidence:
        """What spoke for a candidate; where nobody asks `why`, not in words."""
        counts = self._found.counts[row]
        said = [lexeme for lexeme, count in zip(self._lexemes, counts, strict=True) if count]
        cosine = float(self._found.cosines[row])
        # A question in words is one to the vectors; what has none, or a keyword, was found without them.
        by_words = np.isnan(cosine) or not self._keywords.isdisjoint(said)
        reasons = self._reasons(row, said, cosine) if why else ()
        return Evidence(reasons, L2 if by_words else L3, None if np.isnan(cosine) else cosine)

    def _reasons(self, row: int, said: Sequence[str], cosine: float) -> tuple[str, ...]:
        fused = self._fused
        reasons: list[str] = []
        words = list(dict.fromkeys(one for word in self._written for one in _matched(word, said)))
        if words:
            reasons.append("words: " + ", ".join(words))
        elif fused.words[row] > 0:
            reasons.append("words: nearby in the conversation")
        if not np.isnan(cosine) and fused.meaning[row] > 0:
            reasons.append(f"meaning: {self._engine.vector_source.similarity(cosine):.2f}")
        return tuple(reasons)

    def _keyed(self) -> npt.NDArray[np.bool_]:
        """Which candidates say one of the keywords."""
        columns = [place for place, lexeme in enumerate(self._lexemes) if lexeme in self._keywords]
        return np.asarray((self._found.counts[:, columns] > 0).any(axis=1), dtype=np.bool_)

    @cached_property
    def _written(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Lexemes are for the index; people are told the words that they wrote."""
        words: dict[tuple[str, ...], str] = {}
        for word in _WORD.findall(self._text):
            words.setdefault(tuple(query_lexemes(word)), word)
        return [(word, lexemes) for lexemes, word in words.items() if lexemes]


def _matched(written: tuple[str, Sequence[str]], said: Collection[str]) -> list[str]:
    """The word, or only those of its parts that are said: of `UnicodeDecodeError` it may be `Error` alone."""
    word, lexemes = written
    if lexemes[0] in said:
        return [word]
    if not any(lexeme in said for lexeme in lexemes):
        return []
    parts = [part for part in _PART.findall(word) if any(one in said for one in query_lexemes(part))]
    return parts or [word]


def _within(occurred: Numbers, frame: Timeframe) -> npt.NDArray[np.bool_]:
    start = frame.start.timestamp() if frame.start else -np.inf
    end = frame.end.timestamp() if frame.end else np.inf
    return (occurred >= start) & (occurred < end)


SPARE = 4  # read beyond the limit, for duplicates
MORE_THAN_ASKED = 3  # so that collapsing duplicates leaves enough
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ChosenMemories:
    """A memory, how well it answers, and what speaks for it."""

    memory: Memory
    score: float
    evidence: Evidence


async def read_chosen(
    engine: Engine,
    ranked: Sequence[RankedCandidate],
    evidence: Callable[[RankedCandidate, Memory], Evidence],
    *,
    limit: int,
    viewer: str,
    after: Sequence[ChosenMemories] = (),
    known: Mapping[str, Memory] | None = None,
) -> list[ChosenMemories]:
    """At most so many distinct ones in all, behind those chosen before; `known` ones need not be read."""
    chosen, there = list(after), known or {}
    left = list(ranked)
    while left and len(chosen) < limit:
        wanted, left = left[: limit + SPARE], left[limit + SPARE :]
        missing = [one.id for one in wanted if one.id not in there]
        memories = {**there, **(await engine.store.get_many(missing, viewer=viewer) if missing else {})}
        found = [
            ChosenMemories(memory, one.score, evidence(one, memory))
            for one in wanted
            if (memory := memories.get(one.id)) is not None
        ]
        chosen = distinct([*chosen, *found], limit)
    return chosen


def distinct(chosen: Sequence[ChosenMemories], limit: int) -> list[ChosenMemories]:
    """The first of them, true near-duplicates only once."""
    kept: list[ChosenMemories] = []
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
        from mindhold.text.similarity import same_statement  # its word lists are for the rare close look

        return same_statement(one.content, other.content)

    def _nearly(self, one: Memory, other: Memory) -> bool:
        """Cheap, so that the close look is for the few that need it."""
        words, others = self._of(one), self._of(other)
        return 5 * len(words & others) >= 4 * max(len(words), len(others))

    def _of(self, memory: Memory) -> frozenset[str]:
        if memory.id not in self._words:
            self._words[memory.id] = frozenset(_WORDS.findall(memory.content.casefold()))
        return self._words[memory.id]


MORE_ROUNDS = 1  # of reading, where the first leaves it open
MOST_SPARE = 50  # beyond the limit: so many may say the same


async def best_equals(engine: Engine, where: Filter, *, limit: int) -> list[Memory]:
    """The best of what matches first, with some to spare; the latest while fewer are within reach than a ranking needs."""
    page = min(limit * MORE_THAN_ASKED, limit + MOST_SPARE) + SPARE
    latest = await engine.store.find(where, order=Order.NEWEST, limit=page)
    if len(latest) < 2 or not await _many(engine, where, known=len(latest)):
        return latest
    memories = latest
    if len(latest) == page:  # there may be more
        memories = await _with_important(engine, where, latest, needed=limit + SPARE)
    worth = _composite(engine, memories) * usefulness_nudge(_numbers(memories, "usefulness"))
    order = np.argsort(-worth, kind="stable").tolist()
    return [memories[row] for row in order]


def nudged(engine: Engine, scores: Sequence[float], memories: Sequence[Memory]) -> list[float]:
    """The scores of these memories after importance, age, use, trust and usefulness had their say."""
    recall = engine.settings.recall
    boosts = boost(
        _numbers(memories, "importance"),
        age_days=_ages(engine, memories),
        uses=_numbers(memories, "uses"),
        trust=_numbers(memories, "trust"),
        usefulness=_numbers(memories, "usefulness"),
        importance_weight=recall.importance_weight,
        recency_weight=recall.recency_weight,
    )
    final: list[float] = apply_boost(np.array(scores, dtype=np.float64), boosts).tolist()
    return final


async def _many(engine: Engine, where: Filter, *, known: int) -> bool:
    """Whether enough memories are within reach; no more are counted."""
    needed = engine.settings.recall.composite_from
    within = Filter(viewer=where.viewer, scopes=where.scopes)
    return known >= needed or await engine.store.count(within, most=needed) >= needed


async def _with_important(
    engine: Engine, where: Filter, latest: list[Memory], *, needed: int
) -> list[Memory]:
    """Read by importance and by time in turn, until nothing unread could be among the best by these, or the rounds end.

    Of very many, a better one may then be unread that is among neither the newest nor the most important. How useful
    they were decides only among those that were read.
    """
    seen = {memory.id: memory for memory in latest}
    page = len(latest)
    important = await engine.store.find(where, order=Order.IMPORTANT, limit=page)
    for _ in range(MORE_ROUNDS):
        seen |= {memory.id: memory for memory in important}
        if len(important) < page or _settled(engine, list(seen.values()), important[-1], latest[-1], needed):
            break
        more = engine.store.find(where, order=Order.IMPORTANT, limit=page, after=important[-1].id)
        async with run_concurrently(more) as reading:
            latest = await engine.store.find(where, order=Order.NEWEST, limit=page, after=latest[-1].id)
        important = reading.result()
        seen |= {memory.id: memory for memory in latest}
        if len(latest) < page:  # now everything was read
            break
    return list((seen | {memory.id: memory for memory in important}).values())


def _settled(engine: Engine, seen: Sequence[Memory], important: Memory, recent: Memory, needed: int) -> bool:
    """What was not read is no more important than the one, nor more recent than the other."""
    worst = np.sort(_composite(engine, seen))[::-1][min(needed, len(seen)) - 1]
    recall = engine.settings.recall
    bound = composite(
        np.array([important.importance]),
        age_days=_ages(engine, [recent]),
        importance_weight=recall.importance_weight,
        recency_weight=recall.recency_weight,
    )[0]
    return bool(worst >= bound)


def _composite(engine: Engine, memories: Sequence[Memory]) -> Numbers:
    recall = engine.settings.recall
    return composite(
        _numbers(memories, "importance"),
        age_days=_ages(engine, memories),
        importance_weight=recall.importance_weight,
        recency_weight=recall.recency_weight,
    )


def _ages(engine: Engine, memories: Sequence[Memory]) -> Numbers:
    now = engine.clock()
    return np.array([(now - memory.occurred).total_seconds() / DAY for memory in memories])


def _numbers(memories: Sequence[Memory], name: str) -> Numbers:
    return np.array([float(getattr(memory, name)) for memory in memories])
