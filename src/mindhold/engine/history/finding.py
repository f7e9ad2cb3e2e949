"""Looking a question up in the index: passages by words and by meaning, ranked by the sessions that they are of."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

import numpy as np

from mindhold.engine.core import Engine
from mindhold.engine.history.period import period_of
from mindhold.engine.history.ranking import (
    Asked,
    Heard,
    Present,
    Ranked,
    Yardstick,
    asked_of,
    ranked,
    unlike,
    without,
)
from mindhold.engine.history.vectors import history_model
from mindhold.engine.timeframe import Timeframe
from mindhold.model.query import Vector
from mindhold.model.ranking import Cosines
from mindhold.ports.history import Conversation, Match

JUST_NOW = timedelta(minutes=5)  # within which the very question was said
BY_WORDS, BY_MEANING, BY_TIME = 40, 40, 40  # passages that are looked at
SAMPLE, MOST_SAMPLED = 30, 2_000  # conversations and passages that tell how cosines usually lie


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may answer: the file of it that has the best passage, that file's passages, and how well."""

    conversation: Conversation
    matches: list[Match]
    score: float


@dataclass(frozen=True, slots=True)
class Looked:
    """A question, and all that has to do with it, best first; what doesn't answer by itself too."""

    asked: Asked
    found: Sequence[Ranked]
    model: str | None = None  # that compared meanings
    present: Present | None = None


async def candidates(
    engine: Engine, query: str, *, among: Collection[int] | None, limit: int
) -> list[Candidate]:
    """The sessions that have most to do with the question, best first, of those conversations (rows) where given."""
    every = await asyncio.to_thread(engine.history.conversations)
    wanted = None if among is None else frozenset(among)
    reached = {one.row: one for one in every if not one.silent and (wanted is None or one.row in wanted)}
    looked = await look(engine, query, reached=reached, narrowed=among is not None)
    return narrowed_to(looked, limit)


def narrowed_to(looked: Looked, limit: int) -> list[Candidate]:
    """The best, for who reads them himself."""
    chosen = islice(unlike(looked.found), limit)
    return [Candidate(one.best.conversation, one.matches, one.score) for one in chosen]


async def look(
    engine: Engine,
    query: str,
    *,
    reached: Mapping[int, Conversation],
    narrowed: bool,
    conversing: bool = False,
) -> Looked:
    """What those conversations say to it; nothing, where it asks for a time only. `narrowed`: there are others, which aren't
    meant. `conversing`: it is asked in a conversation, which may be among them. Raises StoreError."""
    period = period_of(query, now=engine.clock(), zone=engine.zone(), date_order=engine.policy.date_order)
    asked = asked_of(query, period)
    present = Present(engine.clock() - JUST_NOW, frozenset(asked.lexemes), conversing)
    if asked.only_time or not asked.lexemes:
        return Looked(asked, (), present=present)
    model = history_model(engine)
    matrix = await engine.meaning.embed_query(query) if model and reached else None
    vector = None if matrix is None else matrix.reshape(-1)
    gathering = _Gathering(engine, asked, present, reached, narrowed=narrowed)
    heard, yardstick = await asyncio.to_thread(gathering.run, vector, model)
    compared = model if vector is not None and yardstick.embedded else None
    return Looked(asked, ranked(asked, heard, yardstick), compared, present)


class _Gathering:
    """One question to the index. Blocks."""

    def __init__(
        self,
        engine: Engine,
        asked: Asked,
        present: Present,
        reached: Mapping[int, Conversation],
        *,
        narrowed: bool,
    ) -> None:
        self._engine = engine
        self._index = engine.history
        self._asked = asked
        self._present = present
        self._reached = reached
        self._among = reached.keys() if narrowed else None

    def run(self, vector: Vector | None, model: str | None) -> tuple[list[Heard], Yardstick]:
        matches = self._index.search(self._asked.lexemes, among=self._among, limit=BY_WORDS)
        if self._asked.period is not None:
            timely = self._held_in(self._asked.period)
            matches += self._index.search(self._asked.lexemes, among=timely, limit=BY_TIME)
        near: list[Match] = []
        if vector is not None and model is not None:
            near = self._index.nearest(vector, model=model, among=self._among, limit=BY_MEANING)
        stock = self._index.stock()
        yardstick = Yardstick(stock.passages, self._index.frequencies(self._asked.lexemes))
        if vector is not None and model is not None and near:
            yardstick = replace(
                yardstick,
                embedded=stock.embedded,
                unrelated=self._engine.meaning.unrelated,
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

    def _heard(self, matches: Sequence[Match], cosines: Mapping[int, float]) -> list[Heard]:
        wanted = {one.passage: one.conversation for one in matches if one.conversation in self._reached}
        passages = self._index.passages(wanted.keys())
        heard = [
            without(
                Heard(row, self._reached[wanted[row]], passage, cosines.get(row, math.nan)), self._present
            )
            for row, passage in passages.items()
            if passage.utterances
        ]
        return [one for one in heard if one is not None]
