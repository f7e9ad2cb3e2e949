"""Contradiction classifiers that need no model: the rules alone, or the rules before a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mindhold.ports.llm import Classifier, Judgement

SURE = 0.8  # from this probability on a judgement counts by itself
LONGEST = 2_000  # characters; longer texts make many statements
INLINE_PAIRS = 10
RULES = "rules"
UNSURE = Judgement(0.25, 0.65, 0.1)  # the rules can't tell


class RuleClassifier:
    """Judges by negation, numbers, dates, versions and opposites, in English and Korean.

    It gives a contradiction 0.8 or more only where a rule is sure.
    """

    @property
    def name(self) -> str:
        return RULES

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """One judgement per pair (earlier text, later text), in order. Many pairs are judged in a thread."""
        if len(pairs) <= INLINE_PAIRS:
            return _judge_pairs(pairs)
        return await asyncio.to_thread(_judge_pairs, pairs)


class LayeredClassifier:
    """Uses the rules where they are sure and a model for the rest."""

    def __init__(self, rules: Classifier, model: Classifier) -> None:
        self._rules = rules
        self._model = model

    @property
    def name(self) -> str:
        return f"{self._rules.name} and {self._model.name}"

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Raises ModelError."""
        judgements = await self._rules.judge(pairs)
        unsure = [index for index, judgement in enumerate(judgements) if not is_sure(judgement)]
        if unsure:
            by_model = await self._model.judge([pairs[index] for index in unsure])
            for index, judgement in zip(unsure, by_model, strict=True):
                judgements[index] = replace(judgement, by=judgement.by or self._model.name)
        return judgements


def is_sure(judgement: Judgement) -> bool:
    """Whether one of the three outcomes is likely enough to act on."""
    return max(judgement.entailment, judgement.neutral, judgement.contradiction) >= SURE


def _judge_pairs(pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
    return [judge_by_rules(old, new) for old, new in pairs]


def judge_by_rules(old: str, new: str) -> Judgement:
    """The rules' judgement of two texts, the later one second."""
    return replace(_apply_rules(old, new), by=RULES)


def _apply_rules(old: str, new: str) -> Judgement:
    if max(len(old), len(new)) > LONGEST:
        return UNSURE
    # Imported here: it loads large word lists.
    from mindhold.text.contradiction import StatementRelation, compare_statements

    result = compare_statements(old, new)
    sure, rest = result.confidence, round(1.0 - result.confidence, 4)
    match result.relation:
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
