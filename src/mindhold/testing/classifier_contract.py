"""What every classifier must do. Subclass it, give a `classifier` fixture, and run pytest."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from math import isclose

from mindhold.ports.classifier import Classifier

PAIRS = (
    ("The port is 5432.", "The port is 5433."),
    ("The cat sleeps.", "Deployments run on Fridays."),
    ("", ""),
    ("포트는 5432이다.", "포트는 5433이다."),
    ("word " * 2_000, "another " * 2_000),
)


class ClassifierContract(ABC):
    """Rules or models alike."""

    @abstractmethod
    def classifier(self) -> Classifier:
        """A pytest fixture."""

    async def test_has_a_name(self, classifier: Classifier) -> None:
        assert classifier.name

    async def test_no_pairs_give_no_judgements(self, classifier: Classifier) -> None:
        assert await classifier.judge([]) == []

    async def test_each_pair_has_three_shares_of_one(self, classifier: Classifier) -> None:
        judgements = await classifier.judge(PAIRS)
        assert len(judgements) == len(PAIRS)
        for one in judgements:
            shares = (one.entailment, one.neutral, one.contradiction)
            assert all(0 <= share <= 1 for share in shares)
            assert isclose(sum(shares), 1, abs_tol=1e-6)

    async def test_a_judgement_is_the_same_alone_and_among_others(self, classifier: Classifier) -> None:
        among = await classifier.judge(PAIRS)
        for pair, one in zip(PAIRS, among, strict=True):
            [alone] = await classifier.judge([pair])
            assert isclose(alone.contradiction, one.contradiction, abs_tol=1e-4)

    async def test_several_may_ask_at_once(self, classifier: Classifier) -> None:
        answers = await asyncio.gather(*(classifier.judge(PAIRS) for _ in range(4)))
        assert all(len(answer) == len(PAIRS) for answer in answers)
