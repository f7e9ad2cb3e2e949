"""Language models: a single model, a chain of fallbacks with prices, an RLM server, and the classifier of contradictions. All optional."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mindhold.model.errors import ModelError


class LanguageModel(Protocol):
    """Answers a prompt. Memories are passed as quoted data, never as instructions."""

    @property
    def name(self) -> str:
        """The name that answers give as their author."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The text of the answer. Raises ModelError if none comes within a bounded time."""


class Meter(Protocol):
    """Is notified of every attempt of a call, because each may cost money."""

    async def sending(self) -> None:
        """Called before an attempt is sent. Raises ModelError to forbid it."""

    async def failed(self, error: ModelError) -> None:
        """Called after an attempt without an answer; another may follow."""

    async def counted(self, *, sent: int, answered: int) -> None:
        """Called with the tokens of the last attempt as the service counted them, including tokens it doesn't show."""


@runtime_checkable
class RetryingModel(LanguageModel, Protocol):
    """A model that may send a call several times."""

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Like `complete`, and notifies the meter of every attempt. Raises ModelError."""


class OwnModel(LanguageModel, Protocol):
    """The model that the settings name."""

    async def close(self) -> None:
        """Close connections. Idempotent."""


MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The price in dollars per million tokens, of input and of output."""

    sent: float = 0.0
    answered: float = 0.0

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """The price of a call with that many tokens."""
        return (tokens_in * self.sent + tokens_out * self.answered) / MILLION


FREE = ModelPrice()


@dataclass(frozen=True, slots=True)
class ModelLevel:
    """One model of a fallback chain. `tariff` is None if the price is unknown; `missing` says what it lacks to answer."""

    model: LanguageModel
    tariff: ModelPrice | None = FREE
    missing: str = ""


class FallbackModel:
    """An OwnModel made of several: it asks them in their order until one answers."""

    def __init__(self, rungs: Sequence[ModelLevel], *, own: Sequence[OwnModel] = ()) -> None:
        self.rungs = tuple(rungs)
        self._own = tuple(own)  # closed together with this model

    @property
    def name(self) -> str:
        """The name of the first model. To learn which model answered, ask the levels one by one."""
        return self.rungs[0].model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The first answer of any of the models. Raises ModelError if none answers."""

        async def ask(rung: ModelLevel) -> str:
            return await rung.model.complete(prompt, system=system, most_tokens=most_tokens)

        return await first_answer(self.rungs, ask)

    async def close(self) -> None:
        for model in self._own:
            await model.close()


def levels_of(model: LanguageModel) -> tuple[ModelLevel, ...]:
    """The levels of a fallback chain. Any other model is a single level that costs us nothing, such as a client's own."""
    return model.rungs if isinstance(model, FallbackModel) else (ModelLevel(model),)


async def first_answer(rungs: Sequence[ModelLevel], ask: Callable[[ModelLevel], Awaitable[str]]) -> str:
    """The answer of the first level that gives one. Raises ModelError with the reason of each if none does."""
    failures: dict[str, ModelError] = {}
    for rung in rungs:
        try:
            return await ask(rung)
        except ModelError as error:
            failures[rung.model.name] = error
    raise _together(failures)


def _together(failures: dict[str, ModelError]) -> ModelError:
    """One error for all failures: the first one if all have the same message."""
    first, *others = failures.values()
    if all(failure.message == first.message for failure in others):
        return first
    reasons = " ".join(f"{name}: {error.message}" for name, error in failures.items())
    advice = next((error.advice for error in failures.values() if error.advice), "")
    whole = type(first)(f"No language model answered. {reasons}", advice=advice)
    whole.unasked = all(error.unasked for error in failures.values())
    return whole


class RlmServer(Protocol):
    """A server for recursive language models. Started at the first call, kept running, and restarted if it ends."""

    @property
    def name(self) -> str:
        """The name that answers give as their reader."""

    def doubt(self) -> str:
        """The reason why the server can't be started, judged by files alone; empty if there is none. Starts nothing."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The tool's answer, parsed if it is JSON. Raises RlmConnectionFailed, RlmToolFailed."""

    async def tidy(self) -> None:
        """Remove the data that was passed to the server from the disk, if we own it."""

    async def close(self) -> None:
        """Stop the server. Idempotent."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Probabilities of how the second text relates to the first; they sum to 1."""

    entailment: float
    neutral: float
    contradiction: float
    by: str = ""  # the judge, if it was a part of the classifier


class Classifier(Protocol):
    """Judges whether texts contradict each other, by rules or by a model. Contract: mindhold.testing.providers_contract."""

    @property
    def name(self) -> str:
        """The name that findings give as their author."""

    async def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """One judgement per pair (earlier text, later text), in order. Raises ModelError."""
