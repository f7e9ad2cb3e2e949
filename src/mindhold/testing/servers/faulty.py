"""A service that speaks JSON over a real socket, and meets its clients with faults when told to."""

from __future__ import annotations

import json
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from mindhold.testing.servers.sockets import Server, Sockets


@dataclass(frozen=True, slots=True)
class Fault:
    """What a request meets, an answer too; `length` answers, with vectors of another length."""

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


def _error(message: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": code or None}}).encode()


HANG = Fault(hang=True)
DROP = Fault(drop=True)
F = TypeVar("F")  # what requests of that service may meet


class FaultyService(ABC, Generic[F]):
    """Listens on this machine, on one port through stops and starts."""

    def __init__(self) -> None:
        self.reached = threading.Event()  # by the first request
        self._faults: deque[F] = deque()
        self._always: F | None = None
        self._sockets = Sockets(_Handler, self)
        self._over = threading.Event()

    @property
    def port(self) -> int:
        """The same after a stop and a start."""
        return self._sockets.port

    @property
    def running(self) -> bool:
        """Whether it takes connections."""
        return self._sockets.running

    def meet(self, *faults: F) -> None:
        """The next requests meet these, in order."""
        self._faults.extend(faults)

    def always(self, fault: F | None) -> None:
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

    @abstractmethod
    def respond(self, path: str, content: bytes, headers: Mapping[str, str]) -> Fault:
        """What is sent back, as status, headers and body. Names of headers are in small letters."""

    def _next_fault(self) -> F | None:
        return self._faults.popleft() if self._faults else self._always

    def _hung(self) -> Fault:
        """Waits until the server stops."""
        self._over.wait()
        return DROP


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: Server

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer: Fault = self.server.service.respond(self.path, content, headers)
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
        """Quiet."""
