"""Which candidates become memories: the surer of two that say the same, and none that is only talk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from mindhold.engine.capture.item import SIGNS
from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.prototypes import CHATTER, PROTOTYPES
from mindhold.engine.core import Engine
from mindhold.engine.text.expression import Expression
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.embedder import Matrix

SURE = 0.8  # candidates of this weight are not looked at again
LEAST = 0.6  # the weight below which one is dropped that no model speaks for
SAME_WORDS = 0.6  # share of words from which two say the same
WITHIN, FEWEST = 0.9, 3  # share of its words, and their number, that make one a part of another
SAME_MEANING = 0.8  # similarity from which they do
TALK = 0.4  # cosine from which a sentence is like talk at all
DOUBT = 0.06  # by how much it may be more like talk and still stay
MOST_OF_A_LINE = 5
MOST_OF_A_KIND = 12

_COMMAND = Expression(r"`([^`]+)`")
_ORDER = (
    Kind.PREFERENCE,
    Kind.DECISION,
    Kind.ERROR,
    Kind.GOTCHA,
    Kind.ARCHITECTURE,
    Kind.PATTERN,
    Kind.PROCEDURE,
    Kind.PROGRESS,
    Kind.CONTEXT,
)
_NOT_SAID = frozenset((Kind.PROCEDURE, Kind.CONTEXT))  # no sentence of talk is taken for one of them


async def chosen(engine: Engine, candidates: Sequence[Candidate]) -> list[Candidate]:
    """In the order of the conversation."""
    ranked = sorted(candidates, key=lambda one: (-one.weight, _ORDER.index(one.kind), one.line))
    if not ranked:
        return []
    vectors = await engine.meaning.embed([one.content for one in ranked])
    bank = await _bank(engine) if vectors is not None else None
    if vectors is None or bank is None:
        kept = _unrepeated([one for one in ranked if one.weight >= LEAST], _by_words)
    else:
        telling = [index for index, one in enumerate(ranked) if _tells(one, vectors[index], bank)]
        alike = vectors[telling] @ vectors[telling].T

        def same(one: int, two: int, new: Candidate, old: Candidate) -> bool:
            if _by_words(one, two, new, old):
                return True
            said = {new.kind, old.kind}.isdisjoint(_NOT_SAID)
            return said and engine.meaning.similarity(float(alike[one, two])) >= SAME_MEANING

        kept = _unrepeated([ranked[index] for index in telling], same)
    return sorted(_not_too_many(kept), key=lambda one: one.line)


def _tells(one: Candidate, vector: Matrix, bank: dict[Kind | None, Matrix]) -> bool:
    """Whether it is sure, or more like a sentence of any kind than like talk."""
    if one.weight >= SURE or one.kind in _NOT_SAID:
        return True
    talk = float(np.max(bank[None] @ vector))
    own = max(float(np.max(rows @ vector)) for kind, rows in bank.items() if kind is not None)
    return own + DOUBT > talk or talk < TALK


async def _bank(engine: Engine) -> dict[Kind | None, Matrix] | None:
    matrix = await engine.meaning.embed([text for own in PROTOTYPES.values() for text in own] + list(CHATTER))
    if matrix is None:
        return None
    bank: dict[Kind | None, Matrix] = {}
    start = 0
    for kind, own in PROTOTYPES.items():
        bank[kind] = matrix[start : start + len(own)]
        start += len(own)
    bank[None] = matrix[start:]
    return bank


Same = Callable[[int, int, Candidate, Candidate], bool]


def _unrepeated(ranked: Sequence[Candidate], same: Same) -> list[Candidate]:
    kept: list[tuple[int, Candidate]] = []
    for index, one in enumerate(ranked):
        if not any(same(index, other, one, two) for other, two in kept):
            kept.append((index, one))
    return [one for _, one in kept]


def _by_words(_one: int, _two: int, new: Candidate, kept: Candidate) -> bool:
    if new.kind == Kind.PROCEDURE or kept.kind == Kind.PROCEDURE:
        return new.kind == kept.kind and _COMMAND.findall(new.content) == _COMMAND.findall(kept.content)
    if not set(new.metadata.get(SIGNS, ())).isdisjoint(kept.metadata.get(SIGNS, ())):
        return True
    fresh, known = _words(new.content), _words(kept.content)
    both = len(fresh & known)
    if not both:
        return False
    return (both >= FEWEST and both >= WITHIN * len(fresh)) or both >= SAME_WORDS * len(fresh | known)


@lru_cache(1_024)
def _words(text: str) -> frozenset[str]:
    return frozenset(lexemes(text)) - stop_lexemes()


def _not_too_many(kept: Sequence[Candidate]) -> list[Candidate]:
    """The surest of each turn and of each kind."""
    lines: Counter[int] = Counter()
    kinds: Counter[Kind] = Counter()
    found: list[Candidate] = []
    for one in kept:
        if lines[one.line] < MOST_OF_A_LINE and kinds[one.kind] < MOST_OF_A_KIND:
            lines[one.line] += 1
            kinds[one.kind] += 1
            found.append(one)
    return found
