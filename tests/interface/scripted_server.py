"""A server that answers as it is told, over a real socket: for what a good one doesn't do."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Told:
    """One answer; without a status the connection is cut. One that drips comes by bytes, and has no end."""

    status: int | None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drips: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """One request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Answers one after the other, the last one for ever; remembers what it was asked."""

    def __init__(self, *script: Told) -> None:
        self.heard: list[Heard] = []
        self._script = list(script)
        self._ended = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _body(self) -> bytes:
                if "transfer-encoding" not in self.headers:
                    return self.rfile.read(int(self.headers.get("content-length", 0)))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def _answer(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.heard.append(Heard(self.command, self.path, headers, self._body()))
                told = owner._script.pop(0) if len(owner._script) > 1 else owner._script[0]
                if told.status is None:
                    self.close_connection = True
                    return
                body = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
                self.send_response(told.status)
                for name, value in told.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(2**40 if told.drips else len(body)))
                self.end_headers()
                self.wfile.write(body)
                while told.drips and not owner._ended.wait(0.02):
                    try:
                        self.wfile.write(b" ")
                    except OSError:
                        return

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
