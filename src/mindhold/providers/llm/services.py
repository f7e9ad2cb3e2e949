"""Language models on the network: Anthropic, OpenAI and compatible services, with list prices, bounded retries and a pause after failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mindhold.model.errors import ModelBroken, ModelError
from mindhold.ports.llm import Meter, ModelPrice
from mindhold.providers.remote_service import (
    Advice,
    Circuit,
    RemoteService,
    ServiceConnection,
    ServiceFault,
    Timing,
    as_unsent,
    encodable,
    parse_json,
    with_retries,
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


@dataclass(eq=False)
class RetryModel:
    """A LanguageModel with retries and a circuit breaker. Creating it sends nothing."""

    name: str
    transport: ModelTransport
    wait_seconds: float
    most_output: int
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        self._circuit = Circuit(self.timing)

    async def close(self) -> None:
        await self.transport.close()

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Answer a prompt. Raises ModelError, at once while the circuit is open."""
        return await self.complete_metered(prompt, system=system, most_tokens=most_tokens, meter=_NoMeter())

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """Answer a prompt and report each attempt to the meter. Raises ModelError, at once while the circuit is open."""
        timing = self.timing
        request = ModelRequest(encodable(prompt), encodable(system), min(most_tokens, self.most_output))
        deadline = timing.now() + self.wait_seconds

        async def ask() -> str:
            await meter.sending()
            try:
                answer = await self.transport.ask(request, patience=max(0.1, deadline - timing.now()))
            except ServiceFault as fault:
                await meter.failed(fault.error)
                raise
            await meter.counted(sent=answer.sent, answered=answer.answered)
            return answer.text

        with self._circuit.guard() as trial:
            attempts = 1 if trial else self.transport.attempts
            return await with_retries(ask, attempts=attempts, deadline=deadline, timing=timing)


class _NoMeter:
    """A meter that allows every attempt and counts nothing."""

    async def sending(self) -> None: ...

    async def failed(self, error: ModelError) -> None: ...

    async def counted(self, *, sent: int, answered: int) -> None: ...


class UnavailableModel:
    """A configured model that can't be called; every call raises the reason."""

    def __init__(self, name: str, error: ModelError) -> None:
        self.name = name
        self._error = error

    async def close(self) -> None:
        """Do nothing."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Raises ModelError."""
        raise as_unsent(self._error)


_MAX_TOKENS = 10_000_000  # of one call: a larger count is an error of the service


class NoAnswer(Exception):
    """The service answered, but not with a complete text; the next call may succeed.

    `cut`: the answer reached its longest length.
    """

    cut = False


@dataclass(frozen=True, slots=True)
class ApiFormat:
    """One API format. `read` raises ValueError for a malformed answer, NoAnswer for an answer without text."""

    path: str
    body: Callable[[str, ModelRequest], dict[str, Any]]
    read: Callable[[Any], str]
    counts: tuple[tuple[str, ...], tuple[str, ...]]  # fields of `usage`: tokens sent, tokens answered
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LlmProvider:
    """A service that can be configured; `usual` is its default model."""

    title: str
    api: ApiFormat
    address: str = ""
    usual: str = ""


def parse_answer(content: bytes, api: ApiFormat) -> ModelAnswer:
    """Parse an answer. Raises ValueError, NoAnswer."""
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    text = api.read(document)
    if not text.strip():
        raise NoAnswer("an empty answer came")
    sent, answered = (_sum_tokens(document.get("usage"), names) for names in api.counts)
    return ModelAnswer(text, sent=sent, answered=answered)


def _sum_tokens(usage: Any, names: tuple[str, ...]) -> int:
    """Sum the token counts, for the ledger; a missing or impossible count is 0."""
    counts = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    return sum(count for count in counts if type(count) is int and 0 < count <= _MAX_TOKENS)


def _messages_body(model: str, request: ModelRequest) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": request.most_tokens,
        "system": request.system,
        "messages": [{"role": "user", "content": request.prompt}],
    }


def _read_messages(document: dict[str, Any]) -> str:
    blocks = document.get("content")
    if not isinstance(blocks, list):
        raise ValueError("there is no content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is none")
    reason = document.get("stop_reason")
    if reason not in ("end_turn", "stop_sequence"):
        raise _unfinished_error(reason, cut="max_tokens")
    return "".join(text for text in texts if text)


def _chat_body(limit: str, more: Mapping[str, Any]) -> Callable[[str, ModelRequest], dict[str, Any]]:
    def body(model: str, request: ModelRequest) -> dict[str, Any]:
        messages = [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.prompt},
        ]
        return {"model": model, "messages": messages, limit: request.most_tokens, **more}

    return body


def _read_chat(document: dict[str, Any]) -> str:
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ValueError("there is no choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise ValueError("there is no message")
    if message.get("refusal"):
        raise NoAnswer("the model declined")
    text = message.get("content")
    if text is not None and not isinstance(text, str):
        raise ValueError("the message is no text")
    reason = choices[0].get("finish_reason")
    if reason not in ("stop", None):  # some servers don't say
        raise _unfinished_error(reason, cut="length")
    return text or ""


def _unfinished_error(reason: Any, *, cut: str) -> NoAnswer:
    if reason == cut:
        failure = NoAnswer("the answer was cut off")
        failure.cut = True
        return failure
    return NoAnswer(f"the answer ended by {str(reason)[:50]!r}")


MESSAGES_API = ApiFormat(
    "/v1/messages",
    _messages_body,
    _read_messages,
    (("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"), ("output_tokens",)),
    key_header="x-api-key",
    key_scheme="",
    headers={"anthropic-version": "2023-06-01"},
)
# OpenAI's newer models accept neither `max_tokens` nor a temperature; other servers don't know
# `max_completion_tokens`.
_CHAT_COUNTS = (("prompt_tokens",), ("completion_tokens",))
CHAT_API = ApiFormat("/chat/completions", _chat_body("max_completion_tokens", {}), _read_chat, _CHAT_COUNTS)
COMPATIBLE_API = ApiFormat(
    "/chat/completions", _chat_body("max_tokens", {"temperature": 0}), _read_chat, _CHAT_COUNTS
)

PROVIDERS = {
    "anthropic": LlmProvider("Anthropic", MESSAGES_API, "https://api.anthropic.com", "claude-haiku-4-5"),
    "openai": LlmProvider("OpenAI", CHAT_API, "https://api.openai.com/v1", "gpt-4.1-mini"),
    "compatible": LlmProvider("The language service", COMPATIBLE_API),
}

LARGEST_ANSWER = 4 * 1024 * 1024
ADVICE = Advice(
    later="It is tried again by itself; rules do its work meanwhile.",
    address="Correct llm.base_url.",
    model="Check llm.model and llm.base_url.",
    call="Check llm.model and llm.most_output.",
)


class ServiceTransport:
    """The transport to one model of one service."""

    attempts = 3

    def __init__(self, provider: LlmProvider, *, model: str, address: str, key: str) -> None:
        api = provider.api
        self._provider = provider
        self._model = model
        self._connection = ServiceConnection(
            RemoteService(
                provider.title,
                address,
                ADVICE,
                key=key,
                key_header=api.key_header,
                key_scheme=api.key_scheme,
                headers=api.headers,
                largest_answer=LARGEST_ANSWER,
            )
        )

    async def ask(self, request: ModelRequest, *, patience: float) -> ModelAnswer:
        title, api = self._provider.title, self._provider.api
        content = await self._connection.post(api.body(self._model, request), patience=patience)
        try:
            return parse_answer(content, api)
        except NoAnswer as error:
            advice = "llm.most_output bounds the length of an answer."
            failure = ModelError(f"{title} gave no answer: {error}.", advice=advice)
            failure.lost = error.cut  # all of it is billed
            raise ServiceFault(failure, hold_seconds=None) from error
        except ValueError as error:
            raise ServiceFault(
                ModelBroken(f"{title} answers what can't be read: {error}.", advice=ADVICE.address)
            ) from error

    async def close(self) -> None:
        await self._connection.close()


# Dollars a million tokens, sent and answered. Models whose price depends on more than that are left out.
_ANTHROPIC = {
    "claude-opus-5-5": ModelPrice(4.00, 20.00),
    "claude-opus-5": ModelPrice(5.00, 25.00),
    "claude-opus-4-8": ModelPrice(5.00, 25.00),
    "claude-opus-4-7": ModelPrice(5.00, 25.00),
    "claude-opus-4-6": ModelPrice(5.00, 25.00),
    "claude-opus-4-5": ModelPrice(5.00, 25.00),
    "claude-opus-4-1": ModelPrice(15.00, 75.00),
    "claude-opus-4": ModelPrice(15.00, 75.00),
    "claude-sonnet-5-5": ModelPrice(2.00, 10.00),
    "claude-sonnet-4-6": ModelPrice(3.00, 15.00),
    "claude-sonnet-4-5": ModelPrice(3.00, 15.00),
    "claude-sonnet-4": ModelPrice(3.00, 15.00),
    "claude-haiku-4-5": ModelPrice(1.00, 5.00),
    "claude-3-5-haiku": ModelPrice(0.80, 4.00),
}
_OPENAI = {
    "gpt-5.4": ModelPrice(2.50, 15.00),
    "gpt-5.1": ModelPrice(1.25, 10.00),
    "gpt-5": ModelPrice(1.25, 10.00),
    "gpt-5-mini": ModelPrice(0.25, 2.00),
    "gpt-5-nano": ModelPrice(0.05, 0.40),
    "gpt-4.1": ModelPrice(2.00, 8.00),
    "gpt-4.1-mini": ModelPrice(0.40, 1.60),
    "gpt-4.1-nano": ModelPrice(0.10, 0.40),
    "gpt-4o": ModelPrice(2.50, 10.00),
    "gpt-4o-mini": ModelPrice(0.15, 0.60),
    "o4-mini": ModelPrice(1.10, 4.40),
    "o3": ModelPrice(2.00, 8.00),
}
PRICES: Mapping[str, Mapping[str, ModelPrice]] = {"anthropic": _ANTHROPIC, "openai": _OPENAI}
# The endings of a model's name that don't change its price: a date, or `latest`.
_VERSION_SUFFIX = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest|0)\Z")


def list_price(provider: str, model: str) -> ModelPrice | None:
    """Return the list price; None for an unknown model, because its nearest relative may cost ten times as much."""
    return PRICES.get(provider, {}).get(_VERSION_SUFFIX.sub("", model.strip().casefold()))
