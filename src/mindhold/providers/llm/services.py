"""Language models behind a network: Anthropic, OpenAI and compatible services, with their list prices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.model.errors import ModelBroken, ModelError
from mindhold.ports.llm import ModelPrice
from mindhold.providers.llm.retry import ModelAnswer, ModelRequest
from mindhold.providers.remote_service import (
    Advice,
    RemoteService,
    ServiceConnection,
    ServiceFault,
    document_of,
)

_MOST_TOKENS = 10_000_000  # of one call: more is no count


class NoAnswer(Exception):
    """The service answered, but not with a whole text: the next question may fare better.

    `cut` is one that was as long as it might be.
    """

    cut = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way of asking. `read` raises ValueError for what isn't of the protocol, NoAnswer for what is no answer."""

    path: str
    body: Callable[[str, ModelRequest], dict[str, Any]]
    read: Callable[[Any], str]
    counts: tuple[
        tuple[str, ...], tuple[str, ...]
    ]  # where its `usage` has what was sent, and what was answered
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LlmProvider:
    """A service that can be chosen; `usual` is its model unless one is named."""

    title: str
    protocol: Protocol
    address: str = ""
    usual: str = ""


def answer_of(content: bytes, protocol: Protocol) -> ModelAnswer:
    """Raises ValueError, NoAnswer."""
    document = document_of(content)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    text = protocol.read(document)
    if not text.strip():
        raise NoAnswer("an empty answer came")
    sent, answered = (_counted(document.get("usage"), names) for names in protocol.counts)
    return ModelAnswer(text, sent=sent, answered=answered)


def _counted(usage: Any, names: tuple[str, ...]) -> int:
    """What isn't said, or can't be, is 0: it is for the ledger only."""
    said = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    return sum(each for each in said if type(each) is int and 0 < each <= _MOST_TOKENS)


def _messages(model: str, asked: ModelRequest) -> dict[str, Any]:
    return {
        "model": model,
        "max_tokens": asked.most_tokens,
        "system": asked.system,
        "messages": [{"role": "user", "content": asked.prompt}],
    }


def _said(document: dict[str, Any]) -> str:
    blocks = document.get("content")
    if not isinstance(blocks, list):
        raise ValueError("there is no content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is none")
    reason = document.get("stop_reason")
    if reason not in ("end_turn", "stop_sequence"):
        raise _unfinished(reason, cut="max_tokens")
    return "".join(text for text in texts if text)


def _chat(limit: str, more: Mapping[str, Any]) -> Callable[[str, ModelRequest], dict[str, Any]]:
    def body(model: str, asked: ModelRequest) -> dict[str, Any]:
        messages = [
            {"role": "system", "content": asked.system},
            {"role": "user", "content": asked.prompt},
        ]
        return {"model": model, "messages": messages, limit: asked.most_tokens, **more}

    return body


def _chosen(document: dict[str, Any]) -> str:
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
        raise _unfinished(reason, cut="length")
    return text or ""


def _unfinished(reason: Any, *, cut: str) -> NoAnswer:
    if reason == cut:
        short = NoAnswer("the answer was cut off")
        short.cut = True
        return short
    return NoAnswer(f"the answer ended by {str(reason)[:50]!r}")


MESSAGES = Protocol(
    "/v1/messages",
    _messages,
    _said,
    (("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"), ("output_tokens",)),
    key_header="x-api-key",
    key_scheme="",
    headers={"anthropic-version": "2023-06-01"},
)
# OpenAI's newer models take neither `max_tokens` nor another temperature than their own; other servers know no
# `max_completion_tokens`.
_CHAT_COUNTS = (("prompt_tokens",), ("completion_tokens",))
CHAT = Protocol("/chat/completions", _chat("max_completion_tokens", {}), _chosen, _CHAT_COUNTS)
COMPATIBLE = Protocol("/chat/completions", _chat("max_tokens", {"temperature": 0}), _chosen, _CHAT_COUNTS)

PROVIDERS = {
    "anthropic": LlmProvider("Anthropic", MESSAGES, "https://api.anthropic.com", "claude-haiku-4-5"),
    "openai": LlmProvider("OpenAI", CHAT, "https://api.openai.com/v1", "gpt-4.1-mini"),
    "compatible": LlmProvider("The language service", COMPATIBLE),
}

LARGEST_ANSWER = 4 * 1024 * 1024
ADVICE = Advice(
    later="It is tried again by itself; rules do its work meanwhile.",
    address="Correct llm.base_url.",
    model="Check llm.model and llm.base_url.",
    call="Check llm.model and llm.most_output.",
)


class ServiceTransport:
    """The way to one model of one service."""

    attempts = 3

    def __init__(self, provider: LlmProvider, *, model: str, address: str, key: str) -> None:
        protocol = provider.protocol
        self._provider = provider
        self._model = model
        self._line = ServiceConnection(
            RemoteService(
                provider.title,
                address,
                ADVICE,
                key=key,
                key_header=protocol.key_header,
                key_scheme=protocol.key_scheme,
                headers=protocol.headers,
                largest_answer=LARGEST_ANSWER,
            )
        )

    async def ask(self, asked: ModelRequest, *, patience: float) -> ModelAnswer:
        title, protocol = self._provider.title, self._provider.protocol
        content = await self._line.post(protocol.body(self._model, asked), patience=patience)
        try:
            return answer_of(content, protocol)
        except NoAnswer as error:
            advice = "llm.most_output bounds the length of an answer."
            unanswered = ModelError(f"{title} gave no answer: {error}.", advice=advice)
            unanswered.lost = error.cut  # all of it is billed
            raise ServiceFault(unanswered, holds=None) from error
        except ValueError as error:
            raise ServiceFault(
                ModelBroken(f"{title} answers what can't be read: {error}.", advice=ADVICE.address)
            ) from error

    async def close(self) -> None:
        await self._line.close()


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
# What may follow a model's name and leave its price as it is: a date, or that it is the latest.
_EDITION = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest|0)\Z")


def list_price(provider: str, model: str) -> ModelPrice | None:
    """None of a model that isn't known here: its nearest relative may cost ten times as much."""
    return PRICES.get(provider, {}).get(_EDITION.sub("", model.strip().casefold()))
