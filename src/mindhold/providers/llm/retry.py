"""A language model that may be slow, busy or dead: retried within a bounded wait, then left alone for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mindhold.model.errors import ModelError
from mindhold.ports.llm import Meter
from mindhold.providers.remote_service import Circuit, ServiceFault, Timing, pause, unasked


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question."""

    prompt: str
    system: str
    most_tokens: int


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A text, and what it took by the service's own count, in tokens; 0 where that isn't said."""

    text: str
    sent: int = 0
    answered: int = 0


class ModelTransport(Protocol):
    """How a model is reached."""

    attempts: int  # that are worth making

    async def ask(self, asked: ModelRequest, *, patience: float) -> ModelAnswer:
        """The answer, whole and not empty. Raises Fault; within the patience."""

    async def close(self) -> None:
        """Idempotent."""


class RetryModel:
    """A LanguageModel. Making one asks nothing."""

    def __init__(
        self,
        name: str,
        way: ModelTransport,
        *,
        wait_seconds: float,
        most_output: int,
        timing: Timing | None = None,
    ) -> None:
        self._name = name
        self._way = way
        self._wait_seconds = wait_seconds
        self._most_output = most_output
        self._timing = timing or Timing()
        self._circuit = Circuit(self._timing)

    @property
    def name(self) -> str:
        return self._name

    async def close(self) -> None:
        await self._way.close()

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError; at once while the last failure is fresh."""
        return await self.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=_Unmetered())

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Raises ModelError; at once while the last failure is fresh."""
        trial = self._circuit.enter()
        asked = ModelRequest(_sendable(prompt), _sendable(system), min(most_tokens, self._most_output))
        try:
            answer = await self._persist(asked, meter, attempts=1 if trial else self._way.attempts)
        except ServiceFault as fault:
            if fault.holds is not None:
                self._circuit.opened(fault.error, at_least=max(fault.holds, fault.after or 0.0))
            raise fault.error from fault
        finally:
            if trial:
                self._circuit.left()
        self._circuit.closed()
        return answer

    async def _persist(self, asked: ModelRequest, meter: Meter, *, attempts: int) -> str:
        timing = self._timing
        deadline = timing.now() + self._wait_seconds
        for attempt in range(1, attempts + 1):
            await meter.sending()
            try:
                answer = await self._way.ask(asked, patience=max(0.1, deadline - timing.now()))
            except ServiceFault as fault:
                await meter.failed(fault.error)
                delay = pause(attempt, timing.jitter())
                if fault.after is not None:
                    delay = fault.after * (1 + timing.jitter() / 4)
                if not fault.passing or attempt == attempts or timing.now() + delay >= deadline:
                    raise
                await timing.sleep(delay)
            else:
                await meter.counted(sent=answer.sent, answered=answer.answered)
                return answer.text
        raise AssertionError("at least one attempt is made")


class _Unmetered:
    """A meter that nobody reads."""

    async def sending(self) -> None:
        """It may be."""

    async def failed(self, error: ModelError) -> None:
        """That is all."""

    async def counted(self, *, sent: int, answered: int) -> None:
        """Nobody asks."""


class UnavailableModel:
    """A model that was chosen but can't be asked, and says why whenever it is."""

    def __init__(self, name: str, error: ModelError) -> None:
        self._name = name
        self._error = error

    @property
    def name(self) -> str:
        return self._name

    async def close(self) -> None:
        """There is nothing to close."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError."""
        raise unasked(self._error)


def _sendable(text: str) -> str:
    """Half a surrogate pair has no bytes to send."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
