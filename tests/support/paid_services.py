"""HTTP services on this machine that speak the embedding and language model protocols, with faults on demand."""

from __future__ import annotations

import base64
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar

import numpy as np

from mindhold.model.tokens import count_tokens
from mindhold.ports.embedder import Matrix


class LocalHTTPServer(ThreadingHTTPServer):
    """A server that can close its open connections."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], service: Any) -> None:
        self.service = service
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that gave up."""

    def close_connections(self) -> None:
        with self._guard:
            for connection in self._open:
                with suppress(OSError):  # already closed
                    connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class ServiceFault:
    """A fault, or an answer, for a request; `length` answers with vectors of another length."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    hang: bool = False
    drop: bool = False
    length: int = 0


def limited(after: str = "") -> ServiceFault:
    """Too many requests; `after` is the Retry-After header."""
    return failing(429, headers={"Retry-After": after} if after else {})


def failing(
    status: int, *, message: str = "", code: str = "", headers: Mapping[str, str] | None = None
) -> ServiceFault:
    """An error in OpenAI's format."""
    error = {"message": message or f"failing with {status}", "type": "error", "code": code or None}
    return ServiceFault(status, headers or {}, json.dumps({"error": error}).encode())


HANG = ServiceFault(hang=True)
DROP = ServiceFault(drop=True)
F = TypeVar("F")  # the faults of that service


class FaultyService(ABC, Generic[F]):
    """A service with faults on demand."""

    def __init__(self) -> None:
        self.port = 0  # stays the same after a stop and a start
        self.reached = threading.Event()  # set by the first request
        self._faults: deque[F] = deque()
        self._always: F | None = None
        self._server: LocalHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def running(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    def meet(self, *faults: F) -> None:
        """Queue faults for the next requests."""
        self._faults.extend(faults)

    def always(self, fault: F | None) -> None:
        """Set a fault for every request; None removes it."""
        self._always = fault

    def start(self) -> None:
        """Listen, on the previous port if there was one."""
        self._stopped.clear()
        self._server = LocalHTTPServer(("127.0.0.1", self.port), _Handler, self)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop as if the machine were gone: connections end, new ones are refused. Idempotent."""
        self._stopped.set()
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.close_connections()
        server.server_close()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @abstractmethod
    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> ServiceFault:
        """The response to a request: status, headers and body. Header names are in lower case."""

    def _next_fault(self) -> F | None:
        return self._faults.popleft() if self._faults else self._always

    def _hang(self) -> ServiceFault:
        self._stopped.wait()
        return DROP


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: LocalHTTPServer

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer: ServiceFault = self.server.service.respond(self.path, content, headers)
        if answer.drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


Vectors = Callable[[Sequence[str], int], Matrix]  # texts, and the length of their vectors
_MOST_TEXTS, _MOST_TOKENS = 1_000, 120_000  # of one request
FIELDS = set("model input dimensions output_dimension input_type encoding_format truncation user".split())


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A received request and its key."""

    body: Mapping[str, Any]
    key: str

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


class EmbeddingServer(FaultyService[ServiceFault]):
    """An embedding service that answers with what `vectors` returns.

    An empty `key` accepts any key.
    """

    def __init__(self, vectors: Vectors, *, key: str = "", dimensions: int = 1536) -> None:
        super().__init__()
        self.asked: list[EmbeddingRequest] = []
        self._vectors = vectors
        self._key = key
        self._dimensions = dimensions

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts that were ever sent, in order."""
        return [text for request in self.asked for text in request.texts]

    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> ServiceFault:
        if not path.endswith("/v1/embeddings"):
            return failing(404, message="no such place")
        fault = self._next_fault()
        body = json.loads(content)
        key = headers.get("authorization", "").removeprefix("Bearer ")
        self.asked.append(EmbeddingRequest(body, key))
        self.reached.set()
        if fault is not None and fault.hang:
            return self._hang()
        if fault is not None and not fault.length:
            return fault
        if self._key and key != self._key:
            return failing(401, message=f"Incorrect API key provided: {key}.", code="invalid_api_key")
        if problem := _embedding_error(body):
            return failing(400, message=problem)
        length = body.get("dimensions") or body.get("output_dimension") or self._dimensions
        return ServiceFault(200, body=self._embed(body, fault.length if fault else length))

    def _embed(self, body: Mapping[str, Any], length: int) -> bytes:
        texts: list[str] = body["input"]
        rows = self._vectors(texts, length).astype("<f4")
        tokens = sum(map(count_tokens, texts))
        # In reverse: clients must sort by `index`.
        data = [
            {"object": "embedding", "index": index, "embedding": _encode_row(rows[index], body)}
            for index in reversed(range(len(texts)))
        ]
        usage = {"total_tokens": tokens} | ({} if "input_type" in body else {"prompt_tokens": tokens})
        return json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode()


def _embedding_error(body: Mapping[str, Any]) -> str:
    texts = body.get("input")
    if set(body) - FIELDS:
        return f"unknown fields: {', '.join(sorted(set(body) - FIELDS))}"
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return "input must be texts that are not empty"
    if len(texts) > _MOST_TEXTS or sum(map(count_tokens, texts)) > _MOST_TOKENS:
        return "too many texts or tokens"
    return ""


def _encode_row(row: Matrix, body: Mapping[str, Any]) -> Any:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(row.tobytes()).decode()
    return np.asarray(row, dtype=np.float64).tolist()


Answers = Callable[[str, str], str]  # system prompt and prompt; the model's answer
MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
_FIELDS = {
    MESSAGES: {"model", "max_tokens", "system", "messages", "temperature"},
    CHAT: {"model", "messages", "max_tokens", "max_completion_tokens", "temperature"},
}


@dataclass(frozen=True, slots=True)
class TruncatedAnswer:
    """An answer that ends for another reason than usual, such as max_tokens or length."""

    reason: str
    text: str = "The answer beg"


@dataclass(frozen=True, slots=True)
class LanguageRequest:
    """A received request, its path and its key."""

    path: str
    body: Mapping[str, Any]
    key: str
    headers: Mapping[str, str]

    @property
    def system(self) -> str:
        return str(self.body["system"] if self.path == MESSAGES else self.body["messages"][0]["content"])

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])


class LanguageServer(FaultyService[ServiceFault | TruncatedAnswer]):
    """A language model service that answers with what `answers` returns.

    An empty `key` accepts any key.
    """

    def __init__(self, answers: Answers, *, key: str = "") -> None:
        super().__init__()
        self.asked: list[LanguageRequest] = []
        self._answers = answers
        self._key = key
        self.thought = 0  # hidden tokens that it bills

    @property
    def url(self) -> str:
        """The base URL for clients; OpenAI's clients add a version."""
        return f"http://127.0.0.1:{self.port}"

    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> ServiceFault:
        if path not in _FIELDS:
            return _error_response(path, 404, "no such place")
        fault = self._next_fault()
        body = json.loads(content)
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        request = LanguageRequest(path, body, key, headers)
        self.asked.append(request)
        self.reached.set()
        if isinstance(fault, ServiceFault):
            return self._hang() if fault.hang else fault
        if self._key and key != self._key:
            return _error_response(path, 401, f"invalid key: {key}")
        if problem := _find_error(path, body, headers):
            return _error_response(path, 400, problem)
        text, reason = (
            (fault.text, fault.reason) if fault else (self._answers(request.system, request.prompt), "")
        )
        shape = _message if path == MESSAGES else _completion
        return ServiceFault(200, body=json.dumps(shape(body, text, reason, self.thought)).encode())


def _find_error(path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    unknown = set(body) - _FIELDS[path]
    if unknown:
        return f"unknown fields: {', '.join(sorted(unknown))}"
    if path == MESSAGES and "anthropic-version" not in headers:
        return "anthropic-version: header is required"
    if path == MESSAGES and not isinstance(body.get("max_tokens"), int):
        return "max_tokens: field required"
    if not body.get("messages") or not all(
        isinstance(message.get("content"), str) for message in body["messages"]
    ):
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


def _error_response(path: str, status: int, message: str) -> ServiceFault:
    error = {"type": "authentication_error" if status == 401 else "invalid_request_error", "message": message}
    document = {"type": "error", "error": error} if path == MESSAGES else {"error": error | {"code": None}}
    return ServiceFault(status, body=json.dumps(document).encode())
