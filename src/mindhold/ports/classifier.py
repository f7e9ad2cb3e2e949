"""Whether one text contradicts another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Judgement:
    """How likely each is, of the second text given the first; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float
    by: str = ""  # who judged, where that is not the whole classifier


class Classifier(Protocol):
    """Rules, or a model. Contract: mindhold.testing.classifier_contract."""

    @property
    def name(self) -> str:
        """What a finding says it was made by."""

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """One a pair (earlier text, later text), in order. Raises ModelError."""
