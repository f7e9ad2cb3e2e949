"""A language model that may be slow, busy or dead: retried within a bounded wait, then left alone for a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mindhold.model.errors import ModelError
from mindhold.ports.llm import Meter
from mindhold.providers.remote_service import (
    Circuit,
    ServiceFault,
    Timing,
    as_unsent,
    encodable,
    retry_delay,
)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model."""

    prompt: str
    system: str
    most_tokens: int


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The model's text and the tokens that the service counted; 0 where it doesn't say."""

    text: str
    sent: int = 0
    answered: int = 0


class ModelTransport(Protocol):
    """How a model is reached."""

    attempts: int  # how many are worth making

    async def ask(self, request: ModelRequest, *, patience: float) -> ModelAnswer:
        """Return a complete answer that isn't empty, within `patience` seconds. Raises ServiceFault."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""


class RetryModel:
    """A LanguageModel with retries and a circuit breaker. Creating it sends nothing."""

    def __init__(
        self,
        name: str,
        transport: ModelTransport,
        *,
        wait_seconds: float,
        most_output: int,
        timing: Timing | None = None,
    ) -> None:
        self._name = name
        self._transport = transport
        self._wait_seconds = wait_seconds
        self._most_output = most_output
        self._timing = timing or Timing()
        self._circuit = Circuit(self._timing)

    @property
    def name(self) -> str:
        return self._name

    async def close(self) -> None:
        await self._transport.close()

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Answer a prompt. Raises ModelError, at once while the circuit is open."""
        return await self.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=_NoMeter())

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Answer a prompt and report each attempt to the meter. Raises ModelError, at once while the circuit is open."""
        with self._circuit.guard() as trial:
            request = ModelRequest(encodable(prompt), encodable(system), min(most_tokens, self._most_output))
            attempts = 1 if trial else self._transport.attempts
            return await self._ask_with_retries(request, meter, attempts=attempts)

    async def _ask_with_retries(self, request: ModelRequest, meter: Meter, *, attempts: int) -> str:
        timing = self._timing
        deadline = timing.now() + self._wait_seconds
        for attempt in range(1, attempts + 1):
            await meter.sending()
            try:
                answer = await self._transport.ask(request, patience=max(0.1, deadline - timing.now()))
            except ServiceFault as fault:
                await meter.failed(fault.error)
                delay = retry_delay(fault, attempt, timing)
                if not fault.temporary or attempt == attempts or timing.now() + delay >= deadline:
                    raise
                await timing.sleep(delay)
            else:
                await meter.counted(sent=answer.sent, answered=answer.answered)
                return answer.text
        raise AssertionError("at least one attempt is made")


class _NoMeter:
    """A meter that counts nothing."""

    async def sending(self) -> None:
        """Allow the attempt."""

    async def failed(self, error: ModelError) -> None:
        """Ignore the error."""

    async def counted(self, *, sent: int, answered: int) -> None:
        """Ignore the count."""


class UnavailableModel:
    """A configured model that can't be called; every call raises the reason."""

    def __init__(self, name: str, error: ModelError) -> None:
        self._name = name
        self._error = error

    @property
    def name(self) -> str:
        return self._name

    async def close(self) -> None:
        """Do nothing."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError."""
        raise as_unsent(self._error)
