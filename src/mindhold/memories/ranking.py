"""Orders candidates with reasons, drops near-duplicates and chatter, and settles ties by scope, importance and time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mindhold.aio import run_concurrently
from mindhold.capture.extracted_items import CAPTURED
from mindhold.engine import Engine
from mindhold.model.lexemes import query_lexemes
from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Numbers, Order
from mindhold.model.ranking import apply_boost, boost, composite, usefulness_nudge
from mindhold.model.relevance import FLOOR, USUAL_MODEL, relevance
from mindhold.text.noise import is_noise
from mindhold.text.similarity import same_in_other_order, same_statement
from mindhold.text.timeframe import Timeframe
from mindhold.text.vocabulary import ARTICLES

T = TypeVar("T")

DAY = 86_400.0
L1, L2, L3, LISTED = "L1", "L2", "L3", "filter"  # every keyword, words, vectors; not compared
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORD = re.compile(r"\w[\w'’./+#-]*")


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate above the score floor."""

    id: str
    score: float
    row: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a candidate was found: the reasons in words, the layer, and its cosine with the question."""

    why: tuple[str, ...]
    layer: str
    similarity: float | None = None


class Ranking:
    """Ranks candidates. Reasons are computed only for those that are shown."""

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
        self._relevance = relevance(
            found,
            lexemes,
            unrelated=unrelated,
            model=engine.vector_source.model or USUAL_MODEL,
            in_period=in_period,
        )

    def best(
        self,
        *,
        floor: float | None,
        most: int,
        similarity: float | None = None,
        spared: Collection[str] = (),
    ) -> list[RankedCandidate]:
        """Return at most so many candidates above the score floor, best first.

        Those with a vector also need that cosine, unless they contain one of the keywords or are in `spared`.
        """
        candidates, scores = self._found, self._relevance.confidence
        recall = self._engine.settings.recall
        configured = recall.floor if recall.floor >= 0 else FLOOR
        least = configured if floor is None else floor
        age = (self._engine.clock().timestamp() - candidates.occurred) / DAY
        boosts = boost(
            candidates.importance,
            age_days=age,
            uses=candidates.uses,
            trust=candidates.trust,
            usefulness=candidates.usefulness,
            importance_weight=recall.importance_weight,
            recency_weight=recall.recency_weight,
        )
        final = apply_boost(scores, boosts)
        admitted = scores >= least
        if similarity is not None:
            near = np.isnan(candidates.cosines) | (candidates.cosines >= similarity)
            let_off = np.array([memory_id in spared for memory_id in candidates.ids], dtype=np.bool_)
            admitted &= near | self._keyed() | let_off
        passing = np.flatnonzero(admitted)
        rows = passing[np.argsort(-final[passing], kind="stable")][:most].tolist()
        return [RankedCandidate(candidates.ids[row], float(final[row]), row) for row in rows]

    def evidence(self, row: int, *, why: bool = True) -> Evidence:
        """Return why a candidate was found; without `why`, no reasons in words."""
        matched = set(compress(self._lexemes, self._found.counts[row].tolist()))
        cosine = float(self._found.cosines[row])
        similarity = None if math.isnan(cosine) else cosine
        # Questions are compared by vectors; a memory without a vector, or with a keyword, was found by words.
        by_words = similarity is None or not self._keywords.isdisjoint(matched)
        reasons = self._reasons(row, matched, similarity) if why else ()
        return Evidence(reasons, L2 if by_words else L3, similarity)

    def _reasons(self, row: int, said: Set[str], similarity: float | None) -> tuple[str, ...]:
        relevant = self._relevance
        reasons: list[str] = []
        words = [match for word, lexemes in self._written for match in _matched(word, lexemes, said)]
        if words:
            reasons.append("words: " + ", ".join(dict.fromkeys(words)))
        elif relevant.words[row] > 0:
            reasons.append("words: nearby in the conversation")
        if similarity is not None and relevant.meaning[row] > 0:
            reasons.append(f"meaning: {self._engine.vector_source.similarity(similarity):.2f}")
        return tuple(reasons)

    def _keyed(self) -> npt.NDArray[np.bool_]:
        """Return which candidates contain one of the keywords."""
        columns = [place for place, lexeme in enumerate(self._lexemes) if lexeme in self._keywords]
        return np.asarray((self._found.counts[:, columns] > 0).any(axis=1), dtype=np.bool_)

    @cached_property
    def _written(self) -> Sequence[tuple[str, Sequence[str]]]:
        """The words of the question as they were written, with their lexemes; reasons quote these."""
        words: dict[tuple[str, ...], str] = {}
        for word in _WORD.findall(self._text):
            words.setdefault(tuple(query_lexemes(word)), word)
        return [(word, lexemes) for lexemes, word in words.items() if lexemes]


def _matched(word: str, lexemes: Sequence[str], said: Set[str]) -> Sequence[str]:
    """Return the word, or only those parts that matched: of `UnicodeDecodeError` perhaps `Error`."""
    if lexemes[0] in said:
        return (word,)
    if said.isdisjoint(lexemes):
        return ()
    parts = [
        part
        for part in _PART.findall(word)
        if any(lexeme_of_part in said for lexeme_of_part in query_lexemes(part))
    ]
    return parts or [word]


def _within(occurred: Numbers, frame: Timeframe) -> npt.NDArray[np.bool_]:
    start = frame.start.timestamp() if frame.start else -np.inf
    end = frame.end.timestamp() if frame.end else np.inf
    return (occurred >= start) & (occurred < end)


def at_least(engine: Engine, confidence: float) -> float:
    """The minimum score for work that acts on what it finds, which a higher floor in the settings raises."""
    return max(confidence, engine.settings.recall.floor)


SPARE = 4  # read beyond the limit, because of duplicates
MORE_THAN_ASKED = 3  # so that enough is left after duplicates are dropped
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class ChosenMemories:
    """A chosen memory, its score, and why it was found."""

    memory: Memory
    score: float
    evidence: Evidence

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its text."""
        return _words_of(self.memory.content)


async def read_chosen(
    engine: Engine,
    ranked: Sequence[RankedCandidate],
    evidence: Callable[[RankedCandidate, Memory], Evidence],
    *,
    limit: int,
    viewer: str,
    preference: Preference,
    after: Sequence[ChosenMemories] = (),
    known: Mapping[str, Memory] | None = None,
) -> list[ChosenMemories]:
    """Read ranked memories until `limit` distinct ones are chosen, those of `after` included.

    Memories in `known` need not be read.
    """
    chosen, loaded = list(after), known or {}
    waiting = list(ranked)
    while waiting and len(chosen) < limit:
        page, waiting = waiting[: limit + SPARE], waiting[limit + SPARE :]
        missing = [candidate.id for candidate in page if candidate.id not in loaded]
        memories = {**loaded, **(await engine.store.get_many(missing, viewer=viewer) if missing else {})}
        additions = [
            ChosenMemories(memory, candidate.score, evidence(candidate, memory))
            for candidate in page
            if (memory := memories.get(candidate.id)) is not None
        ]
        chosen = distinct([*chosen, *preference.order(additions)], limit)
    return chosen


CLOSE = 0.1  # probabilities that differ by less, and by less than a third, are about equal
CLOSE_SHARE = 1 / 3
MOST_COMPARED = 4  # pairs of statements; each costs as much as all the rest of the order
LONGEST_STATEMENT = 300  # characters
_MOST_REMOVED, _MOST_ADDED = 2, 5  # words that a newer value changes


@dataclass(frozen=True, slots=True)
class Preference:
    """The order of about equally probable answers. It changes places and no score, which stays a probability.

    `lineage` are scopes from near to far; empty if none is preferred.
    """

    lineage: Sequence[str] = ()
    question: str = ""

    def order(self, chosen: Sequence[ChosenMemories]) -> list[ChosenMemories]:
        """Return the answers, best first, in the preferred order and without chatter."""
        # Chatter is found by chatter. Keywords without a question ask for what has them.
        asked = not self.question or is_noise(self.question)
        said = [choice for choice in chosen if asked or not _is_chatter(choice.memory)]
        return self.newer_first(self.nearer_first(said))

    def nearer_first(self, chosen: Sequence[ChosenMemories]) -> list[ChosenMemories]:
        """Of about equally probable answers, return those of the nearest scope first."""
        if not self.lineage or len({choice.memory.scope for choice in chosen}) < 2:
            return list(chosen)
        rest, ordered = list(chosen), []
        while rest:
            best = rest[0].score
            least = best - min(CLOSE, CLOSE_SHARE * best)
            close = [place for place, choice in enumerate(rest) if choice.score >= least]
            ordered.append(rest.pop(min(close, key=lambda place: self._distance(rest[place].memory))))
        return ordered

    def newer_first(self, chosen: Sequence[ChosenMemories]) -> list[ChosenMemories]:
        """Return a statement with a newer value before the older one, and a nearer scope's before a farther one's.

        Not if the question names the older value.
        """
        ordered = list(chosen)
        asked = _words_of(self.question)
        statements = [
            (self._rank(choice.memory), choice, choice.words)
            for choice in chosen
            if not _is_turn(choice.memory) and len(choice.memory.content) <= LONGEST_STATEMENT
        ]
        pairs = [
            (rank, later, earlier)
            for place, (rank, later, words) in enumerate(statements)
            for other_rank, earlier, other_words in statements[:place]
            if rank < other_rank and _may_change(other_words, words, asked)
        ]
        # From old to new, so that of three values the newest comes first.
        for _, later, earlier in sorted(pairs, key=lambda pair: pair[0], reverse=True)[-MOST_COMPARED:]:
            if _opposed(earlier.memory, later.memory):
                put_before(ordered, later, earlier)
        return ordered

    def prefers(self, one: Memory, other: Memory) -> bool:
        """Whether the first of two memories that exclude each other holds: it is of a nearer scope, or newer."""
        return self._rank(one) < self._rank(other)

    def _rank(self, memory: Memory) -> tuple[int, float]:
        return self._distance(memory), -memory.occurred.timestamp()

    def _distance(self, memory: Memory) -> int:
        return self.lineage.index(memory.scope) if memory.scope in self.lineage else len(self.lineage)


def put_before(ordered: list[T], one: T, other: T) -> None:
    """Move `one` directly before `other`, unless it already comes before it."""
    places = {id(item): place for place, item in enumerate(ordered)}
    if places[id(one)] > places[id(other)]:
        ordered.insert(places[id(other)], ordered.pop(places[id(one)]))


def _is_chatter(memory: Memory) -> bool:
    """Whether it only greets, thanks or agrees. What somebody gave a topic or a label says more than its text."""
    if not _is_turn(memory) and (memory.topic or memory.tags or memory.keywords):
        return False
    return is_noise(memory.content)


def _is_turn(memory: Memory) -> bool:
    return memory.provenance.position is not None


def _opposed(one: Memory, other: Memory) -> bool:
    # Imported late: its rules are rarely needed.
    from mindhold.text.contradiction import StatementRelation, compare_statements

    older, newer = sorted((one, other), key=lambda memory: memory.occurred)
    relation = compare_statements(older.content, newer.content).relation
    return relation in (StatementRelation.OPPOSED, StatementRelation.DOUBTFUL)  # enough for an order


def distinct(chosen: Sequence[ChosenMemories], limit: int) -> list[ChosenMemories]:
    """Return the first `limit` memories without near-duplicates.

    What was captured from a message of a project's log takes the place of that message.
    """
    unique: list[ChosenMemories] = []
    for choice in chosen:
        places = [
            place for place, other in enumerate(unique) if _same(choice, other) or _repeats(choice, other)
        ]
        if not places:
            unique.append(choice)
        elif not _is_turn(choice.memory) and all(_is_turn(unique[place].memory) for place in places):
            unique[places[0]] = choice
            for place in reversed(places[1:]):
                del unique[place]
        if len(unique) == limit:
            break
    return unique


# Shares of a message's words with which a captured memory says it: the one that it was captured from, any other.
SAID_THERE, SAID_ANYWHERE = 0.6, 0.9


def _same(one: ChosenMemories, other: ChosenMemories) -> bool:
    """Whether two memories have the same text or make the same statement; turns of a conversation never do."""
    memory, other_memory = one.memory, other.memory
    if memory.content_hash == other_memory.content_hash:
        return True
    words, others = one.words, other.words
    # A cheap test before the exact comparison: whether they share most words.
    if 5 * len(words & others) < 4 * max(len(words), len(others)):
        return False
    if _is_turn(memory) or _is_turn(other_memory) or memory.kind is not other_memory.kind:
        return False
    if _differ_by_number(words - others, others - words):
        return False
    contents = memory.content, other_memory.content
    return same_statement(*contents) or (
        ARTICLES.issuperset(words ^ others) and same_in_other_order(*contents)
    )


def _repeats(one: ChosenMemories, other: ChosenMemories) -> bool:
    """Whether one is a message that hooks saved, and the other was captured from it and says most of it."""
    source, other_source = one.memory.provenance, other.memory.provenance
    if source.source != CAPTURED or other_source.source != CAPTURED:
        return False
    if _is_turn(one.memory) is _is_turn(other.memory):
        return False
    message, memory = (one, other) if _is_turn(one.memory) else (other, one)
    said_there = (source.conversation, source.line) == (other_source.conversation, other_source.line)
    shared = len(message.words & memory.words)
    return shared >= (SAID_THERE if said_there else SAID_ANYWHERE) * len(message.words)


def _words_of(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.casefold()))


def _differ_by_number(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a number is all that differs: a cheap test before the exact comparison."""
    return len(words) == len(others) == 1 and all(word.isdecimal() for word in words | others)


def _may_change(older: frozenset[str], newer: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether two texts may be one statement with two values, of which the question doesn't name the older.

    A cheap test before the exact comparison.
    """
    shared = len(older & newer)
    fewer, more = len(older) - shared, len(newer) - shared
    if fewer > more:
        fewer, more = more, fewer
    if fewer > _MOST_REMOVED or more > _MOST_ADDED or not more or fewer > shared:
        return False
    removed, added = older - newer, newer - older
    # "Service 3 listens on port 8003" and "service 4 on port 8004" are about two things.
    about_two = min(sum(map(str.isdecimal, removed)), sum(map(str.isdecimal, added))) > 1
    return not about_two and removed.isdisjoint(asked)


MORE_ROUNDS = 1  # further rounds of reading if the first doesn't settle it
MOST_SPARE = 50  # read beyond the limit, at most


async def best_equals(engine: Engine, where: Filter, *, limit: int) -> list[Memory]:
    """Return matching memories, best first, a few more than `limit`; newest first while memories are few."""
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
    """Return the scores after importance, age, use, trust and usefulness are applied."""
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
    """Whether enough memories are visible for a ranking; counts no further than that."""
    needed = engine.settings.recall.composite_from
    within = Filter(viewer=where.viewer, scopes=where.scopes)
    return known >= needed or await engine.store.count(within, most=needed) >= needed


async def _with_important(
    engine: Engine, where: Filter, latest: list[Memory], *, needed: int
) -> list[Memory]:
    """Read by importance and by time in turn, until no unread memory could be among the best, or the rounds end.

    Among very many, a better memory that is neither new nor very important may stay unread. Usefulness counts only among
    those that were read.
    """
    memories = {memory.id: memory for memory in latest}
    page = len(latest)
    important = await engine.store.find(where, order=Order.IMPORTANT, limit=page)
    for _ in range(MORE_ROUNDS):
        memories |= {memory.id: memory for memory in important}
        if len(important) < page or _settled(
            engine, list(memories.values()), important[-1], latest[-1], needed
        ):
            break
        more = engine.store.find(where, order=Order.IMPORTANT, limit=page, after=important[-1].id)
        async with run_concurrently(more) as reading:
            latest = await engine.store.find(where, order=Order.NEWEST, limit=page, after=latest[-1].id)
        important = reading.result()
        memories |= {memory.id: memory for memory in latest}
        if len(latest) < page:  # everything was read
            break
    return list((memories | {memory.id: memory for memory in important}).values())


def _settled(engine: Engine, seen: Sequence[Memory], important: Memory, recent: Memory, needed: int) -> bool:
    """Whether no unread memory can be among the best: none is more important, or more recent, than these two."""
    worst = np.sort(_composite(engine, seen))[::-1][min(needed, len(seen)) - 1]
    bound = _composite(engine, [replace(important, occurred=recent.occurred)])[0]
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
