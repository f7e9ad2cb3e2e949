"""Looks up a question in the index: passages by words and by meaning, ranked by conversation."""

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
from mindhold.history.passages import history_model
from mindhold.model.errors import UnknownTime
from mindhold.model.lexemes import lexemes, query_lexemes, stop_lexemes
from mindhold.model.query import Candidates, Numbers, Vector
from mindhold.model.ranking import Cosines, FusedScores, Weights, fuse, rarity
from mindhold.ports.history import IndexedConversation, IndexedStep, Passage, PassageMatch
from mindhold.ports.transcripts import Role
from mindhold.text.timeframe import Timeframe, find_timeframe, parse_timeframe

# Measured by benchmarks/history_quality.py on commits and the conversations that made them; quality is flat around each.
WEIGHTS = Weights(saturation=1.2, length_share=0.5, period=1.0)
AVERAGE_LENGTH = 300.0  # lexemes of an average passage
# Weight of a session's second passage, factor for each later one, and how many count.
FURTHER, FADING, MOST_FURTHER = 0.3, 0.5, 5
FLOOR = 0.37  # share of the question's weight that a passage must have
MEANT = 0.65  # score from which on meaning makes an answer without the words
NEARLY = 0.75  # share of the question's words that make a text the question itself
MOST_BESIDES = 4  # longest text, as a multiple of the shared words, that counts as the question itself
LONGEST_QUESTION = 2_000  # characters
_WORD = re.compile(r"\w[\w'’./+#-]*")
# Words for what people do at any time: they are no subject.
_DOINGS = """work works worked working talk talked discuss discussed discussion happen happened happening chat chats conversation
 conversations session sessions say said speak spoke thing things stuff task tasks progress accomplish accomplished achieve achieved finish
 finished going activity was haben habe hab hatten wir ich gemacht gearbeitet passiert besprochen gespräch gespräche arbeit hice hicimos trabajé trabajamos pasó fait
 travaillé passé"""


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """A question: its lexemes, the words they come from, and the period it names."""

    lexemes: tuple[str, ...]
    surface: Mapping[str, str]
    period: Timeframe | None = None
    only_time: bool = False  # it names a period and no subject


@dataclass(frozen=True, slots=True)
class CurrentConversation:
    """Recognizes the question itself in recent text, where it is no answer.

    Within a conversation other wordings of the question count too, else only a tool's call with it.
    """

    since: datetime
    lexemes: frozenset[str]
    conversing: bool

    def has(self, said: IndexedStep, conversation: IndexedConversation) -> bool:
        """Whether the step is the question itself. A step without a time is as old as its conversation's end."""
        moment = said.timestamp or conversation.ended
        if moment is None or moment < self.since or not self.lexemes:
            return False
        if not self.conversing and said.role is not Role.TOOL and said.line:
            return False
        words = set(lexemes(said.text[:LONGEST_QUESTION])) - stop_lexemes()
        shared = len(words & self.lexemes)
        return shared >= NEARLY * len(self.lexemes) and shared * MOST_BESIDES >= len(words)


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that may answer, without the question itself. The cosine is NaN if it wasn't compared."""

    row: int
    conversation: IndexedConversation
    passage: Passage
    cosine: float = math.nan


@dataclass(frozen=True, slots=True)
class PassageStatistics:
    """Statistics that passages are compared with: their number, word frequencies, and the usual cosines."""

    passages: int
    frequencies: Mapping[str, int]
    embedded: int = 0
    unrelated: Cosines | None = None
    usual: Cosines = field(default_factory=lambda: Cosines(0.0, 0.0))


@dataclass(frozen=True, slots=True)
class RankedSession:
    """A session that answers: its score from 0 to 1, the matching words, and its passages, best first."""

    session_id: str
    score: float
    words: tuple[str, ...]
    likeness: float  # cosine of the best passage; NaN without a comparison by meaning
    timely: bool  # held in the question's period
    answers: bool  # one of its passages is above the floor
    heard: tuple[PassageHit, ...]
    strengths: tuple[float, ...]

    @property
    def best(self) -> PassageHit:
        return self.heard[0]

    @property
    def standing(self) -> Passage:
        """The best passage of the transcript; the head if nothing else answers."""
        return next((hit.passage for hit in self.heard if not hit.passage.head), self.best.passage)

    @property
    def matches(self) -> list[PassageMatch]:
        """The matches in the file of the best passage."""
        row = self.best.conversation.row
        pairs = zip(self.heard, self.strengths, strict=True)
        return [
            PassageMatch(hit.row, row, strength) for hit, strength in pairs if hit.conversation.row == row
        ]


_ASIAN_DOINGS = re.compile(
    r"(?:에서|에는|에|뭐|뭘|무엇을?|했(?:지|나|어|니|더라|었|던)?요?|하(?:고|였)|작업(?:을|한)?|일(?:을|했)|우리(?:가|는)?|내가|나는)(?=\W|$|[가-힣])"
    r"|何を|何|した|しました|やった|の|か|は|に|做了|什么|什麼|我们|我們|我|了"
)


def history_question(query: str, period: Timeframe | None) -> HistoryQuestion:
    """Parse a query, without the words for the period unless there are no others."""
    rest = query.replace(period.phrase, " ", 1) if period else query
    query_words = query_lexemes(rest) or query_lexemes(query)
    subject = set(query_lexemes(_ASIAN_DOINGS.sub(" ", rest))) - stop_lexemes() - _doings()
    surface: dict[str, str] = {}
    for word in _WORD.findall(query):
        for lexeme in query_lexemes(word):
            surface.setdefault(lexeme, word)
    return HistoryQuestion(tuple(query_words), surface, period, only_time=period is not None and not subject)


@cache
def _doings() -> frozenset[str]:
    return frozenset(lexemes(_DOINGS))


def rank_sessions(
    asked: HistoryQuestion, heard: Sequence[PassageHit], yardstick: PassageStatistics
) -> list[RankedSession]:
    """Rank the sessions, each once, best first, including those that don't answer."""
    if not heard:
        return []
    counts = _counts(asked.lexemes, heard)
    timely = _timely(asked.period, heard)
    fused = _fused(asked, heard, counts, timely, yardstick)
    strengths = -np.log1p(-np.minimum(fused.score, 1 - 1e-12))  # proportional to the evidence
    admitted = _admitted(asked, counts, fused, yardstick)
    sessions: dict[str, list[int]] = {}
    for place in np.argsort(-strengths, kind="stable").tolist():
        sessions.setdefault(heard[place].conversation.belongs_to, []).append(place)
    ranked = []
    for session, places in sessions.items():
        best = next((place for place in places if admitted[place]), places[0])
        places.sort(key=lambda place: place != best)  # the shown passage is above the floor
        ranked.append(
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
    return sorted(ranked, key=lambda one: -one.score)


def unlike(found: Iterable[RankedSession]) -> Iterator[RankedSession]:
    """Skip sessions that repeat the words of an earlier one, such as forks and resumed copies."""
    said: set[str] = set()
    moments: set[tuple[datetime, str]] = set()
    for session in found:
        passage = session.standing
        spoken = {(said.timestamp, said.text) for said in passage.utterances if said.timestamp is not None}
        if passage.lexemes not in said and moments.isdisjoint(spoken):
            yield session
        said.add(passage.lexemes)
        moments |= spoken


def relevance(asked: HistoryQuestion, one: RankedSession, similarity: float | None) -> str:
    """Why the session matches, in the words of the question."""
    matched = dict.fromkeys(asked.surface.get(word, word) for word in one.words)
    all_words = dict.fromkeys(asked.surface.get(word, word) for word in asked.lexemes)
    reasons = [f"{len(matched)} of {len(all_words)} words: {', '.join(matched)}"] if matched else []
    if similarity is not None:
        reasons.append(f"meaning: {similarity:.2f}")
    if one.timely and asked.period is not None:
        reasons.append(f"time: {asked.period.phrase}")
    return "; ".join(reasons)


def without(heard: PassageHit, present: CurrentConversation) -> PassageHit | None:
    """Remove the question itself from a passage; None if nothing else is said."""
    conversation = heard.conversation
    if conversation.ended is None or conversation.ended < present.since:
        return heard
    utterances = tuple(step for step in heard.passage.utterances if not present.has(step, conversation))
    if len(utterances) == len(heard.passage.utterances):
        return heard
    words = " ".join(lexeme for step in utterances for lexeme in lexemes(step.text))
    return (
        replace(heard, passage=replace(heard.passage, utterances=utterances, lexemes=words))
        if utterances
        else None
    )


def held_in(period: Timeframe, moment: datetime | None) -> bool:
    """Whether the moment is in the period."""
    if moment is None:
        return False
    return (period.start is None or moment >= period.start) and (period.end is None or moment < period.end)


def _counts(wanted: Sequence[str], heard: Sequence[PassageHit]) -> npt.NDArray[np.int32]:
    """How often each passage contains each lexeme."""
    padded = [f" {hit.passage.lexemes.replace(' ', '  ')} " for hit in heard]
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
    candidates = Candidates(
        ids=[""] * len(heard),
        counts=counts,
        lengths=np.array([hit.passage.lexemes.count(" ") + 1.0 for hit in heard]),
        cosines=np.array([hit.cosine for hit in heard]),
        importance=nothing,
        trust=nothing,
        uses=nothing,
        usefulness=nothing,
        occurred=nothing,
        conversations=[None] * len(heard),
        openings=[""] * len(heard),
        positions=np.full(len(heard), -1, dtype=np.int64),
        total=yardstick.passages,
        average_length=AVERAGE_LENGTH,
        frequencies=yardstick.frequencies,
        cosine_mean=yardstick.usual.mean,
        cosine_deviation=yardstick.usual.deviation,
        embedded=yardstick.embedded,
    )
    return fuse(candidates, asked.lexemes, unrelated=yardstick.unrelated, in_period=timely, weights=WEIGHTS)


def _timely(period: Timeframe | None, heard: Sequence[PassageHit]) -> npt.NDArray[np.bool_] | None:
    if period is None:
        return None
    return np.array([held_in(period, _moment(hit)) for hit in heard], dtype=np.bool_)


def _moment(heard: PassageHit) -> datetime | None:
    moments = [step.timestamp for step in heard.passage.utterances if step.timestamp is not None]
    return min(moments, default=heard.conversation.ended)


def _admitted(
    asked: HistoryQuestion, counts: npt.NDArray[np.int32], fused: FusedScores, yardstick: PassageStatistics
) -> npt.NDArray[np.bool_]:
    """Which passages have enough of the words, or the same meaning."""
    frequencies = np.array(
        [yardstick.frequencies.get(lexeme, 0) for lexeme in asked.lexemes], dtype=np.float64
    )
    rare: Numbers = rarity(frequencies, total=yardstick.passages, weights=WEIGHTS)
    share = (counts > 0) @ rare / max(float(rare.sum()), 1e-9)
    return np.asarray((share >= FLOOR) | ((fused.meaning > 0) & (fused.score >= MEANT)), dtype=np.bool_)


def _together(strengths: Sequence[float]) -> float:
    further = strengths[1 : 1 + MOST_FURTHER]
    return strengths[0] + FURTHER * sum(strength * FADING**place for place, strength in enumerate(further))


# Phrases that certainly name a season: `spring` and `fall` alone may mean something else.
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
    """The period that the query names; None if it names none, or several."""
    timeframe = find_timeframe(query, now=now, zone=zone, date_order=date_order)
    if timeframe is not None:
        return timeframe
    seasons = _SEASON.findall(query[:2000])
    if len(seasons) != 1:
        return None
    try:
        season = parse_timeframe(seasons[0], now=now, zone=zone, date_order=date_order)
    except UnknownTime:
        return None
    return None if season.start and season.start > now else replace(season, phrase=seasons[0])


JUST_NOW = timedelta(minutes=5)  # age within which text may be the question itself
BY_WORDS, BY_MEANING, BY_TIME = 40, 40, 40  # passages that are considered
SAMPLE, MOST_SAMPLED = 30, 2_000  # conversations and passages that the usual cosines are estimated from


@dataclass(frozen=True, slots=True)
class SessionCandidate:
    """A session that may answer: the file with its best passage, the matches in it, and the score."""

    conversation: IndexedConversation
    matches: list[PassageMatch]
    score: float


@dataclass(frozen=True, slots=True)
class LookupResult:
    """A question and everything related to it, best first, including what doesn't answer by itself."""

    asked: HistoryQuestion
    found: Sequence[RankedSession]
    model: str | None = None  # the model that compared meanings
    present: CurrentConversation | None = None


def narrowed_to(looked: LookupResult, limit: int) -> list[SessionCandidate]:
    """The best sessions, for readers that judge them themselves."""
    return [
        SessionCandidate(session.best.conversation, session.matches, session.score)
        for session in islice(unlike(looked.found), limit)
    ]


async def look_up(
    engine: Engine,
    query: str,
    *,
    reached: Mapping[int, IndexedConversation],
    narrowed: bool,
    conversing: bool = False,
) -> LookupResult:
    """Search the given conversations; finds nothing if the question only names a period.

    `narrowed`: other conversations exist that aren't meant. `conversing`: the question is asked in a
    conversation that may be among them. Raises StoreError.
    """
    period = period_of(query, now=engine.clock(), zone=engine.zone(), date_order=engine.settings.date_order)
    question = history_question(query, period)
    present = CurrentConversation(engine.clock() - JUST_NOW, frozenset(question.lexemes), conversing)
    if question.only_time or not question.lexemes:
        return LookupResult(question, (), present=present)
    model = history_model(engine)
    matrix = await engine.vector_source.embed_query(query) if model and reached else None
    vector = None if matrix is None else matrix.reshape(-1)
    among = reached.keys() if narrowed else None
    matches, near, yardstick = await asyncio.to_thread(
        _gather, engine, question, vector, model, reached, among
    )
    hits = await asyncio.to_thread(_heard, engine, matches, near, reached, present)
    compared = model if vector is not None and yardstick.embedded else None
    return LookupResult(question, rank_sessions(question, hits, yardstick), compared, present)


def _gather(
    engine: Engine,
    asked: HistoryQuestion,
    vector: Vector | None,
    model: str | None,
    reached: Mapping[int, IndexedConversation],
    among: Collection[int] | None,
) -> tuple[list[PassageMatch], list[PassageMatch], PassageStatistics]:
    """The matches by words and by meaning, and what they are compared with. Blocks."""
    index = engine.history
    matches = index.search(asked.lexemes, among=among, limit=BY_WORDS)
    if asked.period is not None:
        timely = _held_in(asked.period, reached)
        matches += index.search(asked.lexemes, among=timely, limit=BY_TIME)
    near: list[PassageMatch] = []
    stock = index.stock()
    yardstick = PassageStatistics(stock.passages, index.frequencies(asked.lexemes))
    if vector is not None and model is not None:
        near = index.nearest(vector, model=model, among=among, limit=BY_MEANING)
    if vector is not None and model is not None and near:
        yardstick = replace(
            yardstick,
            embedded=stock.embedded,
            unrelated=engine.vector_source.unrelated,
            usual=_usual(engine, vector, model, reached),
        )
    return matches, near, yardstick


def _usual(engine: Engine, vector: Vector, model: str, reached: Mapping[int, IndexedConversation]) -> Cosines:
    """The question's usual cosines, from a sample: one person's conversations are all about similar things."""
    rows = sorted(reached)
    some = rows[:: max(1, len(rows) // SAMPLE)]
    near = engine.history.nearest(vector, model=model, among=some, limit=MOST_SAMPLED)
    cosines = np.array([match.score for match in near])
    return Cosines(float(cosines.mean()), float(cosines.std())) if near else Cosines(0.0, 0.0)


def _held_in(period: Timeframe, reached: Mapping[int, IndexedConversation]) -> list[int]:
    """Conversations that may overlap the period."""
    return [
        row
        for row, conversation in reached.items()
        if (period.end is None or conversation.started is None or conversation.started < period.end)
        and (period.start is None or conversation.ended is None or conversation.ended >= period.start)
    ]


def _heard(
    engine: Engine,
    matches: Sequence[PassageMatch],
    near: Sequence[PassageMatch],
    reached: Mapping[int, IndexedConversation],
    present: CurrentConversation,
) -> list[PassageHit]:
    """The matching passages, without the question itself. Blocks."""
    cosines = {match.passage: match.score for match in near}
    conversation_rows = {
        match.passage: match.conversation for match in (*matches, *near) if match.conversation in reached
    }
    hits = (
        without(
            PassageHit(row, reached[conversation_rows[row]], passage, cosines.get(row, math.nan)), present
        )
        for row, passage in engine.history.passages(conversation_rows.keys()).items()
        if passage.utterances
    )
    return [hit for hit in hits if hit is not None]
