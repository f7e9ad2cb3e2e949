"""A language service on this machine: Anthropic's Messages and OpenAI's chat completions over a real socket, and their
faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mindhold.model.tokens import count_tokens
from mindhold.testing.servers.faulty import Fault, FaultyService

Answers = Callable[[str, str], str]  # the system's words and the prompt; what the model says to them
MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
_FIELDS = {
    MESSAGES: {"model", "max_tokens", "system", "messages", "temperature"},
    CHAT: {"model", "messages", "max_tokens", "max_completion_tokens", "temperature"},
}


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer whose end is another than usual, such as max_tokens or length."""

    reason: str
    text: str = "The answer beg"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came, where to, and the key that came with it."""

    path: str
    body: Mapping[str, Any]
    key: str
    headers: Mapping[str, str]

    @property
    def system(self) -> str:
        """What the model is told to be."""
        return str(self.body["system"] if self.path == MESSAGES else self.body["messages"][0]["content"])

    @property
    def prompt(self) -> str:
        """What it is asked."""
        return str(self.body["messages"][-1]["content"])


class LanguageServer(FaultyService[Fault | Cut]):
    """Answers with what `answers` says. A `key` is wanted unless it is empty; `thought` are tokens that it bills and doesn't show."""

    def __init__(self, answers: Answers, *, key: str = "", thought: int = 0) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self._answers = answers
        self._key = key
        self.thought = thought

    @property
    def url(self) -> str:
        """The base that clients are given; OpenAI's has a version besides."""
        return f"http://127.0.0.1:{self.port}"

    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> Fault:
        if path not in _FIELDS:
            return _failing(path, 404, "no such place")
        fault = self._next_fault()
        body = json.loads(content)
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        asked = Asked(path, body, given, headers)
        self.asked.append(asked)
        self.reached.set()
        if isinstance(fault, Fault):
            return self._hung() if fault.hang else fault
        if self._key and given != self._key:
            return _failing(path, 401, f"invalid key: {given}")
        if wrong := _wrong(path, body, headers):
            return _failing(path, 400, wrong)
        text, reason = (
            (fault.text, fault.reason) if fault else (self._answers(asked.system, asked.prompt), "")
        )
        shape = _message if path == MESSAGES else _completion
        return Fault(200, body=json.dumps(shape(body, text, reason, self.thought)).encode())


def _wrong(path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    unknown = set(body) - _FIELDS[path]
    if unknown:
        return f"unknown fields: {', '.join(sorted(unknown))}"
    if path == MESSAGES and "anthropic-version" not in headers:
        return "anthropic-version: header is required"
    if path == MESSAGES and not isinstance(body.get("max_tokens"), int):
        return "max_tokens: field required"
    if not body.get("messages") or not all(isinstance(one.get("content"), str) for one in body["messages"]):
        return "messages: field required"
    return ""


def _message(body: Mapping[str, Any], text: str, reason: str, thought: int) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": reason or "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": count_tokens(text) + thought},
    }


def _completion(body: Mapping[str, Any], text: str, reason: str, thought: int) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": reason or "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": count_tokens(text) + thought},
    }


def _failing(path: str, status: int, message: str) -> Fault:
    error = {"type": "authentication_error" if status == 401 else "invalid_request_error", "message": message}
    document = {"type": "error", "error": error} if path == MESSAGES else {"error": error | {"code": None}}
    return Fault(status, body=json.dumps(document).encode())
