"""A small HTTP server in a thread, which can be gone at once and come back on the same port."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Sockets:
    """Listens on this machine. Handlers find `service` at their server."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], service: Any) -> None:
        self.port = 0  # the same after a stop and a start
        self._handler = handler
        self._service = service
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it takes connections."""
        return self._server is not None

    def start(self) -> None:
        """Listen, on the port that it had before."""
        self._server = Server(("127.0.0.1", self.port), self._handler, self._service)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """As if the machine were gone: connections end, new ones are refused. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.hang_up()
        server.server_close()
        if self._thread is not None:
            self._thread.join(timeout=5)


class Server(ThreadingHTTPServer):
    """Knows its connections."""

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
        """Clients that gave up are no news."""

    def hang_up(self) -> None:
        """On everybody."""
        with self._guard:
            for one in self._open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:  # gone already
                    continue
