"""Language models: one model, the configured fallbacks with their prices, an RLM server, and the classifier of contradictions. Never required."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mindhold.model.errors import ModelError


class LanguageModel(Protocol):
    """Answers a prompt. Remembered text is handed over as quoted data, never as instruction."""

    @property
    def name(self) -> str:
        """What the answer says it was made by."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The answer's text. Raises ModelError when there is none within a bounded wait."""


class Meter(Protocol):
    """Hears of each attempt of one call, for each may cost something."""

    async def sending(self) -> None:
        """The next is about to be sent. Raises ModelError where it must not be."""

    async def failed(self, error: ModelError) -> None:
        """The last one brought no answer; another may follow."""

    async def counted(self, *, sent: int, answered: int) -> None:
        """How many tokens the last one took, as the service itself says, which may think more than it shows."""


@runtime_checkable
class RetryingModel(LanguageModel, Protocol):
    """One that may send a call several times."""

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """As `complete`; the meter hears of every attempt. Raises ModelError."""


class OwnModel(LanguageModel, Protocol):
    """The one that was configured."""

    async def close(self) -> None:
        """Let go of connections. Idempotent."""


MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Dollars a million tokens: of what is sent, and of what is answered."""

    sent: float = 0.0
    answered: float = 0.0

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """What such a call costs."""
        return (tokens_in * self.sent + tokens_out * self.answered) / MILLION


FREE = ModelPrice()


@dataclass(frozen=True, slots=True)
class ModelLevel:
    """One model. `tariff` is None where nobody here knows it; `missing` says what it can't be asked without."""

    model: LanguageModel
    tariff: ModelPrice | None = FREE
    missing: str = ""


class FallbackModel:
    """An OwnModel of several: the next is asked where one fails, is left alone for now, or lacks something."""

    def __init__(self, rungs: Sequence[ModelLevel], *, own: Sequence[OwnModel] = ()) -> None:
        self.rungs = tuple(rungs)
        self._own = tuple(own)  # that end with the ladder

    @property
    def name(self) -> str:
        """That of the first; who answered is known to whoever asks the rungs one by one."""
        return self.rungs[0].model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError when none answers."""

        async def ask(rung: ModelLevel) -> str:
            return await rung.model.complete(prompt, system=system, most_tokens=most_tokens)

        return await first_answer(self.rungs, ask)

    async def close(self) -> None:
        for model in self._own:
            await model.close()


def levels_of(model: LanguageModel) -> tuple[ModelLevel, ...]:
    """Of a ladder all; another model, such as a client's own, stands alone, and whoever offers it pays."""
    return model.rungs if isinstance(model, FallbackModel) else (ModelLevel(model),)


async def first_answer(rungs: Sequence[ModelLevel], ask: Callable[[ModelLevel], Awaitable[str]]) -> str:
    """Of the first that gives one. Raises ModelError, which says of each why not."""
    failures: dict[str, ModelError] = {}
    for rung in rungs:
        try:
            return await ask(rung)
        except ModelError as error:
            failures[rung.model.name] = error
    raise _together(failures)


def _together(failures: dict[str, ModelError]) -> ModelError:
    """The first of them where all say the same."""
    first, *others = failures.values()
    if all(one.message == first.message for one in others):
        return first
    told = " ".join(f"{name}: {error.message}" for name, error in failures.items())
    advice = next((error.advice for error in failures.values() if error.advice), "")
    whole = type(first)(f"No language model answered. {told}", advice=advice)
    whole.unasked = all(error.unasked for error in failures.values())
    return whole


class RlmServer(Protocol):
    """Started at the first call, kept, and started again when it is gone."""

    @property
    def name(self) -> str:
        """What the answer says it was read by."""

    def doubt(self) -> str:
        """Why it can't be started, as far as a look at the disk tells; empty when nothing speaks against it. Starts nothing."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool answers, read from JSON where it is that. Raises RlmConnectionFailed, RlmToolFailed."""

    async def tidy(self) -> None:
        """What it was given isn't needed any more: where it is ours to remove, nothing of it stays on the disk."""

    async def close(self) -> None:
        """End it. Idempotent."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How likely each is, of the second text given the first; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float
    by: str = ""  # who judged, where that is not the whole classifier


class Classifier(Protocol):
    """Rules, or a model. Contract: mindhold.testing.models."""

    @property
    def name(self) -> str:
        """What a finding says it was made by."""

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """One a pair (earlier text, later text), in order. Raises ModelError."""
