"""How Anthropic's Messages and OpenAI's chat completions are asked, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.providers.llm.patient import Answer, Asked
from mindhold.providers.remote.line import document_of

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
    body: Callable[[str, Asked], dict[str, Any]]
    read: Callable[[Any], str]
    counts: tuple[
        tuple[str, ...], tuple[str, ...]
    ]  # where its `usage` has what was sent, and what was answered
    key_header: str = "Authorization"
    key_scheme: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that can be chosen; `usual` is its model unless one is named."""

    title: str
    protocol: Protocol
    address: str = ""
    usual: str = ""


def answer_of(content: bytes, protocol: Protocol) -> Answer:
    """Raises ValueError, NoAnswer."""
    document = document_of(content)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    text = protocol.read(document)
    if not text.strip():
        raise NoAnswer("an empty answer came")
    sent, answered = (_counted(document.get("usage"), names) for names in protocol.counts)
    return Answer(text, sent=sent, answered=answered)


def _counted(usage: Any, names: tuple[str, ...]) -> int:
    """What isn't said, or can't be, is 0: it is for the ledger only."""
    said = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    return sum(each for each in said if type(each) is int and 0 < each <= _MOST_TOKENS)


def _messages(model: str, asked: Asked) -> dict[str, Any]:
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


def _chat(limit: str, more: Mapping[str, Any]) -> Callable[[str, Asked], dict[str, Any]]:
    def body(model: str, asked: Asked) -> dict[str, Any]:
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
    "anthropic": Provider("Anthropic", MESSAGES, "https://api.anthropic.com", "claude-haiku-4-5"),
    "openai": Provider("OpenAI", CHAT, "https://api.openai.com/v1", "gpt-4.1-mini"),
    "compatible": Provider("The language service", COMPATIBLE),
}
