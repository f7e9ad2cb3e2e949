"""An embedding service on this machine: OpenAI's and Voyage's protocols over a real socket, and their faults."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self

import numpy as np

from recollect.model.tokens import count_tokens
from recollect.ports.embedder import Matrix
from recollect.testing.servers.sockets import Server, Sockets

Vectors = Callable[[Sequence[str], int], Matrix]  # texts, and how long their vectors are to be
FIELDS = {
    "model",
    "input",
    "dimensions",
    "output_dimension",
    "input_type",
    "encoding_format",
    "truncation",
    "user",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What a request meets instead of an answer; `length` answers, with vectors of another length."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    hang: bool = False
    drop: bool = False
    length: int = 0


def limited(after: str = "") -> Fault:
    """Too many requests; `after` is when to come back."""
    return failing(429, headers={"Retry-After": after} if after else {})


def failing(
    status: int, *, message: str = "", code: str = "", headers: Mapping[str, str] | None = None
) -> Fault:
    """An error in OpenAI's shape."""
    return Fault(status, headers or {}, _error(message or f"failing with {status}", code))


HANG = Fault(hang=True)
DROP = Fault(drop=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came, and the key that came with it."""

    body: Mapping[str, Any]
    key: str

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


class EmbeddingServer:
    """Answers with what `vectors` makes. A `key` is wanted unless it is empty; `models` unless there are none."""

    def __init__(
        self,
        vectors: Vectors,
        *,
        key: str = "",
        dimensions: int = 1536,
        models: Sequence[str] = (),
        most_texts: int = 1_000,
        most_tokens: int = 120_000,
    ) -> None:
        self.asked: list[Asked] = []
        self.reached = threading.Event()  # by the first request
        self._vectors = vectors
        self._key = key
        self._dimensions = dimensions
        self._models = frozenset(models)
        self._most = (most_texts, most_tokens)
        self._faults: deque[Fault] = deque()
        self._always: Fault | None = None
        self._sockets = Sockets(_Handler, self)
        self._over = threading.Event()

    @property
    def url(self) -> str:
        """The base that clients are given."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        """The same after a stop and a start."""
        return self._sockets.port

    @property
    def running(self) -> bool:
        """Whether it takes connections."""
        return self._sockets.running

    @property
    def texts(self) -> list[str]:
        """Everything that was ever sent, in order."""
        return [text for asked in self.asked for text in asked.texts]

    def meet(self, *faults: Fault) -> None:
        """The next requests meet these, in order."""
        self._faults.extend(faults)

    def always(self, fault: Fault | None) -> None:
        """Every request meets this, until told otherwise."""
        self._always = fault

    def start(self) -> None:
        """Listen, on the port that it had before."""
        self._over.clear()
        self._sockets.start()

    def stop(self) -> None:
        """As if the machine were gone: connections end, new ones are refused. Idempotent."""
        self._over.set()
        self._sockets.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def answer(self, content: bytes, authorization: str) -> Fault:
        """What is sent back, as status, headers and body; `hang` waits until the server stops."""
        fault = self._faults.popleft() if self._faults else self._always
        body = json.loads(content)
        key = authorization.removeprefix("Bearer ")
        self.asked.append(Asked(body, key))
        self.reached.set()
        if fault is not None and fault.hang:
            self._over.wait()
            return DROP
        if fault is not None and not fault.length:
            return fault
        if self._key and key != self._key:
            return failing(401, message=f"Incorrect API key provided: {key}.", code="invalid_api_key")
        wrong = self._wrong(body)
        if wrong:
            return failing(404 if wrong == "no such model" else 400, message=wrong)
        length = body.get("dimensions") or body.get("output_dimension") or self._dimensions
        return Fault(200, body=self._embedded(body, fault.length if fault else length))

    def _wrong(self, body: Mapping[str, Any]) -> str:
        texts = body.get("input")
        if set(body) - FIELDS:
            return f"unknown fields: {', '.join(sorted(set(body) - FIELDS))}"
        if self._models and body.get("model") not in self._models:
            return "no such model"
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) and text for text in texts)
        ):
            return "input must be texts that are not empty"
        if len(texts) > self._most[0] or sum(map(count_tokens, texts)) > self._most[1]:
            return "too many texts or tokens"
        return ""

    def _embedded(self, body: Mapping[str, Any], length: int) -> bytes:
        texts: list[str] = body["input"]
        rows = self._vectors(texts, length).astype("<f4")
        tokens = sum(map(count_tokens, texts))
        # Backwards: the place of a vector is what its index says.
        data = [
            {"object": "embedding", "index": index, "embedding": _written(rows[index], body)}
            for index in reversed(range(len(texts)))
        ]
        usage = {"total_tokens": tokens} | ({} if "input_type" in body else {"prompt_tokens": tokens})
        return json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode()


def _written(row: Matrix, body: Mapping[str, Any]) -> Any:
    if body.get("encoding_format") == "base64":
        return base64.b64encode(row.tobytes()).decode()
    return np.asarray(row, dtype=np.float64).tolist()


def _error(message: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": code or None}}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: Server

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.endswith("/v1/embeddings"):
            self._send(failing(404, message="no such place"))
            return
        answer = self.server.service.answer(content, self.headers.get("Authorization", ""))
        if answer.drop:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _send(self, answer: Fault) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
