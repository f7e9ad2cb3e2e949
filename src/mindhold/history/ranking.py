"""Looks a question up in the index: passages by words and by meaning, ranked by their conversations."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from mindhold.engine import Engine
from mindhold.history.vectors import history_model
from mindhold.model.errors import UnknownTime
from mindhold.model.lexemes import lexemes, query_lexemes, stop_lexemes
from mindhold.model.query import Candidates, Numbers, Vector
from mindhold.model.ranking import Cosines, FusedScores, Weights, fuse, rarity
from mindhold.ports.history import IndexedConversation, IndexedStep, Passage, PassageMatch
from mindhold.ports.transcripts import Role
from mindhold.text.timeframe import Timeframe, find_timeframe, parse_timeframe

# Measured by benchmarks/history_quality.py on commits and the conversations that made them; quality is flat around each.
WEIGHTS = Weights(saturation=1.2, length_share=0.5, period=1.0)
AVERAGE_LENGTH = 300.0  # lexemes of a usual passage
FURTHER, FADING, MOST_FURTHER = (
    0.3,
    0.5,
    5,
)  # what a session's second passage is worth, and each one after that
FLOOR = 0.37  # share of the question's weight that one passage must have
MEANT = 0.65  # score from which on meaning makes an answer of what lacks the words
NEARLY = 0.75  # share of the question's words that make the question
MOST_BESIDES = 4  # times as many words as those: what is longer says something of its own
LONGEST_QUESTION = 2_000  # characters
_WORD = re.compile(r"\w[\w'’./+#-]*")
# What people do at any time: they are no subject.
_DOINGS = """work works worked working talk talked discuss discussed discussion happen happened happening chat chats conversation
 conversations session sessions say said speak spoke thing things stuff task tasks progress accomplish accomplished achieve achieved finish
 finished going activity was haben habe hab hatten wir ich gemacht gearbeitet passiert besprochen gespräch gespräche arbeit hice hicimos trabajé trabajamos pasó fait
 travaillé passé"""


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """A question: its lexemes, the words that they stand for, and the time that it speaks of."""

    lexemes: tuple[str, ...]
    surface: Mapping[str, str]
    period: Timeframe | None = None
    only_time: bool = False  # it asks for nothing but what there is of that time


@dataclass(frozen=True, slots=True)
class CurrentConversation:
    """What is said just now, which is often the very question: no answer to it, wherever it stands.

    Of somebody who asks in a conversation that is the question in other words too, else only a tool's call with it.
    """

    since: datetime
    lexemes: frozenset[str]
    conversing: bool

    def has(self, said: IndexedStep, conversation: IndexedConversation) -> bool:
        """Whether it is the question itself. What tells of a whole conversation is as old as that."""
        moment = said.timestamp or conversation.ended
        if moment is None or moment < self.since or not self.lexemes:
            return False
        if not self.conversing and said.role is not Role.TOOL and said.line:
            return False
        words = set(lexemes(said.text[:LONGEST_QUESTION])) - stop_lexemes()
        both = len(words & self.lexemes)
        return both >= NEARLY * len(self.lexemes) and both * MOST_BESIDES >= len(words)


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that may answer, without the question itself. No cosine: nobody compared it."""

    row: int
    conversation: IndexedConversation
    passage: Passage
    cosine: float = math.nan


@dataclass(frozen=True, slots=True)
class PassageStatistics:
    """What the passages are measured against: how many there are, how rare the words are, how cosines lie."""

    passages: int
    frequencies: Mapping[str, int]
    embedded: int = 0
    unrelated: Cosines | None = None
    usual: Cosines = field(default_factory=lambda: Cosines(0.0, 0.0))


@dataclass(frozen=True, slots=True)
class RankedSession:
    """A session that answers: how well from 0 to 1, by which words, and its passages, best first."""

    session_id: str
    score: float
    words: tuple[str, ...]
    likeness: float  # the best passage's cosine; NaN where meaning said nothing
    timely: bool  # held when the question says
    answers: bool  # one of its passages is above the floor
    heard: tuple[PassageHit, ...]
    strengths: tuple[float, ...]

    @property
    def best(self) -> PassageHit:
        return self.heard[0]

    @property
    def standing(self) -> Passage:
        """The best that stands in the file; the head where nothing else answers."""
        return next((one.passage for one in self.heard if not one.passage.head), self.best.passage)

    @property
    def matches(self) -> list[PassageMatch]:
        """Those of the file that has the best one."""
        row = self.best.conversation.row
        pairs = zip(self.heard, self.strengths, strict=True)
        return [
            PassageMatch(one.row, row, strength) for one, strength in pairs if one.conversation.row == row
        ]


_ASIAN_DOINGS = re.compile(
    r"(?:에서|에는|에|뭐|뭘|무엇을?|했(?:지|나|어|니|더라|었|던)?요?|하(?:고|였)|작업(?:을|한)?|일(?:을|했)|우리(?:가|는)?|내가|나는)(?=\W|$|[가-힣])"
    r"|何を|何|した|しました|やった|の|か|は|に|做了|什么|什麼|我们|我們|我|了"
)


def history_question(query: str, period: Timeframe | None) -> HistoryQuestion:
    """Without the words for the time, unless there are no others."""
    rest = query.replace(period.phrase, " ", 1) if period else query
    sought = query_lexemes(rest) or query_lexemes(query)
    subject = set(query_lexemes(_ASIAN_DOINGS.sub(" ", rest))) - stop_lexemes() - _doings()
    surface: dict[str, str] = {}
    for word in _WORD.findall(query):
        for lexeme in query_lexemes(word):
            surface.setdefault(lexeme, word)
    return HistoryQuestion(tuple(sought), surface, period, only_time=period is not None and not subject)


@cache
def _doings() -> frozenset[str]:
    return frozenset(lexemes(_DOINGS))


def rank_sessions(
    asked: HistoryQuestion, heard: Sequence[PassageHit], yardstick: PassageStatistics
) -> list[RankedSession]:
    """Each session once, best first; those too that don't answer."""
    if not heard:
        return []
    counts = _counts(asked.lexemes, heard)
    timely = _timely(asked.period, heard)
    fused = _fused(asked, heard, counts, timely, yardstick)
    strengths = -np.log1p(-np.minimum(fused.score, 1 - 1e-12))  # in proportion to the evidence
    admitted = _admitted(asked, counts, fused, yardstick)
    sessions: dict[str, list[int]] = {}
    for place in np.argsort(-strengths, kind="stable").tolist():
        sessions.setdefault(heard[place].conversation.belongs_to, []).append(place)
    found = []
    for session, places in sessions.items():
        best = next((place for place in places if admitted[place]), places[0])
        places.sort(key=lambda place: place != best)  # what is shown is above the floor
        found.append(
            RankedSession(
                session,
                score=-math.expm1(-_together(strengths[places].tolist())),
                words=tuple(
                    one for one, count in zip(asked.lexemes, counts[best].tolist(), strict=True) if count
                ),
                likeness=heard[best].cosine if fused.meaning[best] > 0 else math.nan,
                timely=bool(timely is not None and timely[best]),
                answers=bool(admitted[best]),
                heard=tuple(heard[place] for place in places),
                strengths=tuple(strengths[places].tolist()),
            )
        )
    return sorted(found, key=lambda one: -one.score)


def unlike(found: Iterable[RankedSession]) -> Iterator[RankedSession]:
    """Those that say something of their own: a fork, or a copy that was resumed, has the words of another."""
    said: set[str] = set()
    moments: set[tuple[datetime, str]] = set()
    for one in found:
        passage = one.standing
        spoken = {(said.timestamp, said.text) for said in passage.utterances if said.timestamp is not None}
        if passage.lexemes not in said and moments.isdisjoint(spoken):
            yield one
        said.add(passage.lexemes)
        moments |= spoken


def relevance(asked: HistoryQuestion, one: RankedSession, similarity: float | None) -> str:
    """Why, in the words of the question."""
    said = dict.fromkeys(asked.surface.get(word, word) for word in one.words)
    wanted = dict.fromkeys(asked.surface.get(word, word) for word in asked.lexemes)
    reasons = [f"{len(said)} of {len(wanted)} words: {', '.join(said)}"] if said else []
    if similarity is not None:
        reasons.append(f"meaning: {similarity:.2f}")
    if one.timely and asked.period is not None:
        reasons.append(f"time: {asked.period.phrase}")
    return "; ".join(reasons)


def without(heard: PassageHit, present: CurrentConversation) -> PassageHit | None:
    """Without the question itself; None where nothing else is said."""
    one = heard.conversation
    if one.ended is None or one.ended < present.since:
        return heard
    kept = tuple(said for said in heard.passage.utterances if not present.has(said, one))
    if len(kept) == len(heard.passage.utterances):
        return heard
    words = " ".join(lexeme for said in kept for lexeme in lexemes(said.text))
    return replace(heard, passage=replace(heard.passage, utterances=kept, lexemes=words)) if kept else None


def held_in(period: Timeframe, moment: datetime | None) -> bool:
    """Whether it was then."""
    if moment is None:
        return False
    return (period.start is None or moment >= period.start) and (period.end is None or moment < period.end)


def _counts(wanted: Sequence[str], heard: Sequence[PassageHit]) -> npt.NDArray[np.int32]:
    """How often each passage says each lexeme."""
    padded = [f" {one.passage.lexemes.replace(' ', '  ')} " for one in heard]
    counts = [[text.count(f" {lexeme} ") for lexeme in wanted] for text in padded]
    return np.array(counts, dtype=np.int32).reshape(len(heard), len(wanted))


def _fused(
    asked: HistoryQuestion,
    heard: Sequence[PassageHit],
    counts: npt.NDArray[np.int32],
    timely: npt.NDArray[np.bool_] | None,
    yardstick: PassageStatistics,
) -> FusedScores:
    nothing = np.zeros(len(heard))
    found = Candidates(
        ids=[""] * len(heard),
        counts=counts,
        lengths=np.array([one.passage.lexemes.count(" ") + 1.0 for one in heard]),
        cosines=np.array([one.cosine for one in heard]),
        importance=nothing,
        trust=nothing,
        uses=nothing,
        usefulness=nothing,
        occurred=nothing,
        conversations=[None] * len(heard),
        positions=np.full(len(heard), -1, dtype=np.int64),
        total=yardstick.passages,
        average_length=AVERAGE_LENGTH,
        frequencies=yardstick.frequencies,
        cosine_mean=yardstick.usual.mean,
        cosine_deviation=yardstick.usual.deviation,
        embedded=yardstick.embedded,
    )
    return fuse(found, asked.lexemes, unrelated=yardstick.unrelated, in_period=timely, weights=WEIGHTS)


def _timely(period: Timeframe | None, heard: Sequence[PassageHit]) -> npt.NDArray[np.bool_] | None:
    if period is None:
        return None
    return np.array([held_in(period, _moment(one)) for one in heard], dtype=np.bool_)


def _moment(heard: PassageHit) -> datetime | None:
    said = [one.timestamp for one in heard.passage.utterances if one.timestamp is not None]
    return min(said, default=heard.conversation.ended)


def _admitted(
    asked: HistoryQuestion, counts: npt.NDArray[np.int32], fused: FusedScores, yardstick: PassageStatistics
) -> npt.NDArray[np.bool_]:
    """What has enough of the words, or means the same."""
    frequencies = np.array([yardstick.frequencies.get(one, 0) for one in asked.lexemes], dtype=np.float64)
    rare: Numbers = rarity(frequencies, total=yardstick.passages, weights=WEIGHTS)
    share = (counts > 0) @ rare / max(float(rare.sum()), 1e-9)
    return np.asarray((share >= FLOOR) | ((fused.meaning > 0) & (fused.score >= MEANT)), dtype=np.bool_)


def _together(strengths: Sequence[float]) -> float:
    further = strengths[1 : 1 + MOST_FURTHER]
    return strengths[0] + FURTHER * sum(one * FADING**place for place, one in enumerate(further))


# What names a season for certain: `spring` alone may be water, and `fall` what things do.
_SEASON = re.compile(
    r"\b(?:in|during|over|since|before|after|of) (?:the (?:early |late )?(?:autumn|fall|winter|summer|spring)"
    r"|(?:early |late )?(?:autumn|winter|summer))\b"
    r"|\b(?:im|seit|vor|nach) (?:dem |der )?(?:Herbst|Winter|Sommer|Frühling|Frühjahr"
    r"|Januar|Februar|März|April|Juni|Juli|August|September|Oktober|November|Dezember)\b"
    r"|\b(?:en|desde|durante) (?:el )?(?:otoño|invierno|verano|primavera|enero|febrero|marzo|abril|junio|julio|agosto"
    r"|septiembre|octubre|noviembre|diciembre)\b"
    r"|(?:봄|여름|가을|겨울)에"
)


def period_of(query: str, *, now: datetime, zone: ZoneInfo, date_order: str) -> Timeframe | None:
    """None where it speaks of none, or of several."""
    found = find_timeframe(query, now=now, zone=zone, date_order=date_order)
    if found is not None:
        return found
    seasons = _SEASON.findall(query[:2000])
    if len(seasons) != 1:
        return None
    try:
        season = parse_timeframe(seasons[0], now=now, zone=zone, date_order=date_order)
    except UnknownTime:
        return None
    return None if season.start and season.start > now else replace(season, phrase=seasons[0])


JUST_NOW = timedelta(minutes=5)  # within which the very question was said
BY_WORDS, BY_MEANING, BY_TIME = 40, 40, 40  # passages that are looked at
SAMPLE, MOST_SAMPLED = 30, 2_000  # conversations and passages that tell how cosines usually lie


@dataclass(frozen=True, slots=True)
class SessionCandidate:
    """A session that may answer: the file of it that has the best passage, that file's passages, and how well."""

    conversation: IndexedConversation
    matches: list[PassageMatch]
    score: float


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A question, and all that has to do with it, best first; what doesn't answer by itself too."""

    asked: HistoryQuestion
    found: Sequence[RankedSession]
    model: str | None = None  # that compared meanings
    present: CurrentConversation | None = None


async def candidates(
    engine: Engine, query: str, *, among: Collection[int] | None, limit: int
) -> list[SessionCandidate]:
    """The sessions that have most to do with the question, best first, of those conversations (rows) where given."""
    every = await asyncio.to_thread(engine.history.conversations)
    wanted = None if among is None else frozenset(among)
    reached = {one.row: one for one in every if not one.silent and (wanted is None or one.row in wanted)}
    looked = await look_up(engine, query, reached=reached, narrowed=among is not None)
    return narrowed_to(looked, limit)


def narrowed_to(looked: LookupResult, limit: int) -> list[SessionCandidate]:
    """The best, for who reads them himself."""
    chosen = islice(unlike(looked.found), limit)
    return [SessionCandidate(one.best.conversation, one.matches, one.score) for one in chosen]


async def look_up(
    engine: Engine,
    query: str,
    *,
    reached: Mapping[int, IndexedConversation],
    narrowed: bool,
    conversing: bool = False,
) -> LookupResult:
    """What those conversations say to it; nothing, where it asks for a time only. `narrowed`: there are others, which aren't
    meant. `conversing`: it is asked in a conversation, which may be among them. Raises StoreError."""
    period = period_of(query, now=engine.clock(), zone=engine.zone(), date_order=engine.settings.date_order)
    asked = history_question(query, period)
    present = CurrentConversation(engine.clock() - JUST_NOW, frozenset(asked.lexemes), conversing)
    if asked.only_time or not asked.lexemes:
        return LookupResult(asked, (), present=present)
    model = history_model(engine)
    matrix = await engine.vector_source.embed_query(query) if model and reached else None
    vector = None if matrix is None else matrix.reshape(-1)
    gathering = _Gathering(engine, asked, present, reached, narrowed=narrowed)
    heard, yardstick = await asyncio.to_thread(gathering.run, vector, model)
    compared = model if vector is not None and yardstick.embedded else None
    return LookupResult(asked, rank_sessions(asked, heard, yardstick), compared, present)


class _Gathering:
    """One question to the index. Blocks."""

    def __init__(
        self,
        engine: Engine,
        asked: HistoryQuestion,
        present: CurrentConversation,
        reached: Mapping[int, IndexedConversation],
        *,
        narrowed: bool,
    ) -> None:
        self._engine = engine
        self._index = engine.history
        self._asked = asked
        self._present = present
        self._reached = reached
        self._among = reached.keys() if narrowed else None

    def run(self, vector: Vector | None, model: str | None) -> tuple[list[PassageHit], PassageStatistics]:
        matches = self._index.search(self._asked.lexemes, among=self._among, limit=BY_WORDS)
        if self._asked.period is not None:
            timely = self._held_in(self._asked.period)
            matches += self._index.search(self._asked.lexemes, among=timely, limit=BY_TIME)
        near: list[PassageMatch] = []
        if vector is not None and model is not None:
            near = self._index.nearest(vector, model=model, among=self._among, limit=BY_MEANING)
        stock = self._index.stock()
        yardstick = PassageStatistics(stock.passages, self._index.frequencies(self._asked.lexemes))
        if vector is not None and model is not None and near:
            yardstick = replace(
                yardstick,
                embedded=stock.embedded,
                unrelated=self._engine.vector_source.unrelated,
                usual=self._usual(vector, model),
            )
        return self._heard([*matches, *near], {one.passage: one.score for one in near}), yardstick

    def _usual(self, vector: Vector, model: str) -> Cosines:
        """How cosines of the question lie, by some conversations: those of one desk are all about the same things."""
        rows = sorted(self._reached)
        some = rows[:: max(1, len(rows) // SAMPLE)]
        near = self._index.nearest(vector, model=model, among=some, limit=MOST_SAMPLED)
        cosines = np.array([one.score for one in near])
        return Cosines(float(cosines.mean()), float(cosines.std())) if near else Cosines(0.0, 0.0)

    def _held_in(self, period: Timeframe) -> list[int]:
        """Conversations that may have something of that time."""
        return [
            row
            for row, one in self._reached.items()
            if (period.end is None or one.started is None or one.started < period.end)
            and (period.start is None or one.ended is None or one.ended >= period.start)
        ]

    def _heard(self, matches: Sequence[PassageMatch], cosines: Mapping[int, float]) -> list[PassageHit]:
        wanted = {one.passage: one.conversation for one in matches if one.conversation in self._reached}
        passages = self._index.passages(wanted.keys())
        heard = [
            without(
                PassageHit(row, self._reached[wanted[row]], passage, cosines.get(row, math.nan)),
                self._present,
            )
            for row, passage in passages.items()
            if passage.utterances
        ]
        return [one for one in heard if one is not None]
