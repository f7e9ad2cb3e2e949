"""The language models that were chosen, in the order in which they are asked, and what each costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mindhold.model.errors import ModelError
from mindhold.ports.llm import LanguageModel, OwnModel

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Tariff:
    """Dollars a million tokens: of what is sent, and of what is answered."""

    sent: float = 0.0
    answered: float = 0.0

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """What such a call costs."""
        return (tokens_in * self.sent + tokens_out * self.answered) / MILLION


FREE = Tariff()


@dataclass(frozen=True, slots=True)
class Rung:
    """One model. `tariff` is None where nobody here knows it; `missing` says what it can't be asked without."""

    model: LanguageModel
    tariff: Tariff | None = FREE
    missing: str = ""


class Ladder:
    """An OwnModel of several: the next is asked where one fails, is left alone for now, or lacks something."""

    def __init__(self, rungs: Sequence[Rung], *, own: Sequence[OwnModel] = ()) -> None:
        self.rungs = tuple(rungs)
        self._own = tuple(own)  # that end with the ladder

    @property
    def name(self) -> str:
        """That of the first; who answered is known to whoever asks the rungs one by one."""
        return self.rungs[0].model.name

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError when none answers."""

        async def ask(rung: Rung) -> str:
            return await rung.model.complete(prompt, system=system, most_tokens=most_tokens)

        return await first_answer(self.rungs, ask)

    async def close(self) -> None:
        for model in self._own:
            await model.close()


def rungs_of(model: LanguageModel) -> tuple[Rung, ...]:
    """Of a ladder all; another model, such as a client's own, stands alone, and whoever offers it pays."""
    return model.rungs if isinstance(model, Ladder) else (Rung(model),)


async def first_answer(rungs: Sequence[Rung], ask: Callable[[Rung], Awaitable[str]]) -> str:
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
