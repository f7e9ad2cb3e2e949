"""From candidates to an order with reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recollect.engine.core import Engine
from recollect.engine.timeframe import Timeframe
from recollect.model.lexemes import query_lexemes
from recollect.model.query import Candidates, Numbers
from recollect.model.ranking import FLOOR, Fused, boost, boosted, fuse

DAY = 86_400.0
_WORD = re.compile(r"\w[\w'’./+#-]*")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate that passed the floor."""

    id: str
    score: float
    why: tuple[str, ...]


def rank(
    engine: Engine,
    found: Candidates,
    *,
    text: str,
    lexemes: Sequence[str],
    preferred: Timeframe | None,
    floor: float | None,
    most: int,
) -> list[Ranked]:
    """The best `most` above the floor, best first."""
    if not found.ids:
        return []
    unrelated = engine.meaning.unrelated if found.embedded else None
    in_period = None if preferred is None else _within(found.occurred, preferred)
    fused = fuse(found, lexemes, unrelated=unrelated, in_period=in_period)
    least = next(value for value in (floor, engine.policy.floor, FLOOR) if value is not None)
    now = engine.clock().timestamp()
    boosts = boost(
        found.importance, age_days=(now - found.occurred) / DAY, uses=found.uses, trust=found.trust
    )
    final = boosted(fused.score, boosts)
    passing = np.flatnonzero(fused.score >= least)
    best = passing[np.argsort(-final[passing], kind="stable")][:most]
    surface = _surface(text)
    return [
        Ranked(
            found.ids[row],
            float(final[row]),
            _why(engine, found, fused, row=int(row), names=surface, lexemes=lexemes),
        )
        for row in best
    ]


def _within(occurred: Numbers, frame: Timeframe) -> npt.NDArray[np.bool_]:
    start = frame.start.timestamp() if frame.start else -np.inf
    end = frame.end.timestamp() if frame.end else np.inf
    return (occurred >= start) & (occurred < end)


def _surface(text: str) -> Mapping[str, str]:
    """Lexemes are for the index; people are told the words that they wrote."""
    names: dict[str, str] = {}
    for word in _WORD.findall(text):
        for lexeme in query_lexemes(word):
            names.setdefault(lexeme, word)
    return names


def _why(
    engine: Engine,
    found: Candidates,
    fused: Fused,
    *,
    row: int,
    names: Mapping[str, str],
    lexemes: Sequence[str],
) -> tuple[str, ...]:
    reasons: list[str] = []
    said = [
        names[lexeme]
        for lexeme, count in zip(lexemes, found.counts[row], strict=True)
        if count and lexeme in names
    ]
    if said:
        reasons.append("words: " + ", ".join(dict.fromkeys(said)))
    elif fused.words[row] > 0:
        reasons.append("words: nearby in the conversation")
    cosine = float(found.cosines[row])
    if not np.isnan(cosine) and fused.meaning[row] > 0:
        reasons.append(f"meaning: {engine.meaning.similarity(cosine):.2f}")
    return tuple(reasons)
