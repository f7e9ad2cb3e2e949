"""Contradiction classifiers that need no model: the rules alone, or the rules before a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mindhold.ports.llm import Classifier, Judgement

SURE = 0.8  # from here on a judgement stands by itself
LONGEST = 2_000  # characters of a text; longer ones say many things
FEW = 10
RULES = "rules"
UNSURE = Judgement(0.25, 0.65, 0.1)  # where nothing is known


class RuleClassifier:
    """Negation, numbers, dates, versions and opposites, in English and Korean. Contradiction from 0.8 on only where a rule is sure."""

    @property
    def name(self) -> str:
        return RULES

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """One a pair (earlier text, later text), in order; many of them in a thread, for others are served meanwhile."""
        if len(pairs) <= FEW:
            return _judged(pairs)
        return await asyncio.to_thread(_judged, pairs)


class LayeredClassifier:
    """The rules where they are sure, a model for the rest: it reads better, and counts worse."""

    def __init__(self, rules: Classifier, model: Classifier) -> None:
        self._rules = rules
        self._model = model

    @property
    def name(self) -> str:
        return f"{self._rules.name} and {self._model.name}"

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Raises ModelError."""
        found = await self._rules.judge(pairs)
        left = [place for place, judgement in enumerate(found) if not is_sure(judgement)]
        if left:
            by_model = await self._model.judge([pairs[place] for place in left])
            for place, judgement in zip(left, by_model, strict=True):
                found[place] = replace(judgement, by=judgement.by or self._model.name)
        return found


def is_sure(judgement: Judgement) -> bool:
    """Whether one of the three is likely enough to act on."""
    return max(judgement.entailment, judgement.neutral, judgement.contradiction) >= SURE


def _judged(pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
    return [judged(old, new) for old, new in pairs]


def judged(old: str, new: str) -> Judgement:
    """What the rules make of two texts, the later one second."""
    return replace(_judged_by_rules(old, new), by=RULES)


def _judged_by_rules(old: str, new: str) -> Judgement:
    if max(len(old), len(new)) > LONGEST:
        return UNSURE
    from mindhold.text.contradiction import (  # its word lists are for those who judge
        StatementRelation,
        compare_statements,
    )

    found = compare_statements(old, new)
    sure, rest = found.confidence, round(1.0 - found.confidence, 4)
    match found.relation:
        case StatementRelation.OPPOSED:
            return Judgement(0.0, rest, sure)
        case StatementRelation.DOUBTFUL:
            return Judgement(0.0, rest, sure)
        case StatementRelation.SAME:
            return Judgement(sure, rest, 0.0)
        case StatementRelation.APART:
            return Judgement(0.0, max(sure, SURE), min(rest, round(1.0 - SURE, 4)))
        case StatementRelation.UNKNOWN:
            return UNSURE
