"""Language models for work that must be over at a certain moment: who is too slow is done without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from mindhold.model.errors import ModelAway
from mindhold.ports.ladder import Ladder, rungs_of
from mindhold.ports.llm import LanguageModel, Meter, TryingModel


def in_time(model: LanguageModel, seconds: float) -> Ladder:
    """The same, and all its answers together within so many seconds. To be closed by whoever has the model itself."""
    until = time.monotonic() + seconds
    return Ladder([replace(rung, model=_bounded(rung.model, until)) for rung in rungs_of(model)])


def _bounded(model: LanguageModel, until: float) -> LanguageModel:
    return _TryingInTime(model, until) if isinstance(model, TryingModel) else _InTime(model, until)


class _InTime:
    def __init__(self, model: LanguageModel, until: float) -> None:
        self._model = model
        self._until = until

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError, also when there is no more time."""
        return await self._within(self._model.complete(prompt, system=system, most_tokens=most_tokens))

    async def _within(self, asking: Coroutine[Any, Any, str]) -> str:
        left = self._until - time.monotonic()
        late = ModelAway(
            f"{self.name} doesn't answer within the time that there is for a conversation.",
            advice="Raise capture.worker_seconds, or lower llm.wait_seconds.",
        )
        if left <= 0:
            asking.close()
            late.unasked = True
            raise late
        try:
            async with asyncio.timeout(left):
                return await asking
        except TimeoutError as error:
            late.lost = True
            raise late from error


class _TryingInTime(_InTime):
    _model: TryingModel

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Raises ModelError, also when there is no more time."""
        asking = self._model.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=meter)
        try:
            return await self._within(asking)
        except ModelAway as error:
            if error.lost:  # in the midst of an attempt, which the model can tell nobody of
                await meter.failed(error)
            raise
