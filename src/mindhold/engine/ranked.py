"""From candidates to an order with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mindhold.engine.core import Engine
from mindhold.engine.timeframe import Timeframe
from mindhold.model.lexemes import query_lexemes
from mindhold.model.query import Candidates, Numbers
from mindhold.model.ranking import FLOOR, boost, boosted, fuse

DAY = 86_400.0
L1, L2, L3, LISTED = "L1", "L2", "L3", "filter"  # every keyword, words, vectors; no comparing at all
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORD = re.compile(r"\w[\w'’./+#-]*")


@dataclass(frozen=True, slots=True)
class Ranked:
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
        unrelated = engine.meaning.unrelated if found.embedded else None
        in_period = None if preferred is None else _within(found.occurred, preferred)
        self._fused = fuse(found, lexemes, unrelated=unrelated, in_period=in_period)

    def best(
        self,
        *,
        floor: float | None,
        most: int,
        similarity: float | None = None,
        spared: Collection[str] = (),
    ) -> list[Ranked]:
        """At most so many above the floor, best first.

        Those that have a vector above that cosine too, unless they say one of the keywords, or are to be spared.
        """
        found, scores = self._found, self._fused.score
        least = next(value for value in (floor, self._engine.policy.floor, FLOOR) if value is not None)
        age = (self._engine.clock().timestamp() - found.occurred) / DAY
        policy = self._engine.policy
        boosts = boost(
            found.importance,
            age_days=age,
            uses=found.uses,
            trust=found.trust,
            usefulness=found.usefulness,
            importance_weight=policy.importance_weight,
            recency_weight=policy.recency_weight,
        )
        final = boosted(scores, boosts)
        admitted = scores >= least
        if similarity is not None:
            near = np.isnan(found.cosines) | (found.cosines >= similarity)
            let_off = np.array([one in spared for one in found.ids], dtype=np.bool_)
            admitted &= near | self._keyed() | let_off
        passing = np.flatnonzero(admitted)
        rows = passing[np.argsort(-final[passing], kind="stable")][:most].tolist()
        return [Ranked(found.ids[row], float(final[row]), row) for row in rows]

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
            reasons.append(f"meaning: {self._engine.meaning.similarity(cosine):.2f}")
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
