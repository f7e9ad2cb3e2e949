"""Listening to a server's events from a test: what is heard waits in a queue."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Heard:
    """One event."""

    name: str
    data: dict[str, Any]
    id: str


class Ear:
    """A stream that is open, once it has been `ready`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        last: str | None = None,
        agent: str = "",
        path: str = "/api/events",
        **query: str,
    ) -> None:
        headers = {"Accept-Encoding": "gzip"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        headers |= {"Last-Event-ID": last} if last else {}
        headers |= {"X-Mindhold-Agent": agent} if agent else {}
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=WAIT)
        self._context = self._client.stream("GET", path, params=query)
        self._heard: queue.Queue[Heard | None] = queue.Queue()
        self.headers: Mapping[str, str] = {}
        self.ready: Heard | None = None

    def __enter__(self) -> Self:
        self._answer = self._context.__enter__()
        assert self._answer.status_code == 200, self._answer.read()
        self.headers = self._answer.headers
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ready = self.next()
        assert self.ready.name == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        line = self._answer.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):  # the server was quicker
            line.shutdown(socket.SHUT_RDWR)  # wakes the reader, which closing wouldn't
        self._reader.join(WAIT)
        self._client.close()

    def next(self) -> Heard:
        """The next event."""
        heard = self._heard.get(timeout=WAIT)
        assert heard is not None, "the stream has ended"
        return heard

    def until(self, wanted: Callable[[Heard], bool]) -> list[Heard]:
        """All up to the first that is wanted."""
        heard = [self.next()]
        while not wanted(heard[-1]):
            heard.append(self.next())
        return heard

    def ended(self) -> list[Heard]:
        """What was still said before the stream ended."""
        rest = []
        while (heard := self._heard.get(timeout=WAIT)) is not None:
            rest.append(heard)
        return rest

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self._answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    self._heard.put(Heard(fields["event"], json.loads(fields["data"]), fields.get("id", "")))
                    fields = {}
        except (httpx2.HTTPError, httpx2.StreamError, ValueError, OSError, AttributeError):
            pass  # it was closed
        finally:
            self._heard.put(None)
