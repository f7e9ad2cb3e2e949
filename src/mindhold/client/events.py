"""Listening to what happens on a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindhold.client.wire import Lost, Reply, Wire


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `id` is for who wants to listen on from here."""

    kind: str
    data: Mapping[str, Any]
    id: str


class Listening:
    """Where a listener is in the stream of events, through however many connections."""

    def __init__(
        self, wire: Wire, *, project: str | None, topics: tuple[str, ...], last: str | None = None
    ) -> None:
        self._wire = wire
        self.target = wire.target("events", {"project": project, "topics": list(topics) or None})
        self._last = last
        self._failures = 0

    def headers(self) -> dict[bytes, bytes]:
        """Of the next connection. Raises InvalidInput."""
        resumed = {"Last-Event-ID": self._last} if self._last else {}
        return self._wire.headers(Accept="text/event-stream", **resumed)

    def heard(self, kind: str, data: str, event_id: str) -> Event | None:
        """What was said; nothing where it can't be understood. Connections are as good as new from here."""
        self._failures = 0
        self._last = event_id or self._last
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return Event(kind, document, event_id) if isinstance(document, dict) else None

    def ended(self) -> float:
        """Seconds until the next connection, after one that the server ended."""
        return self.failed(Lost(""))

    def failed(self, heard: Reply | Lost) -> float:
        """Seconds until the next connection. Raises MindholdError for what won't pass, or has failed too often."""
        self._failures += 1
        error = self._wire.trouble(heard)
        patient = Lost(heard.why) if isinstance(heard, Lost) else heard  # silence is a connection that broke
        wait = self._wire.wait(patient, error, self._failures)
        if wait is None or self._failures >= self._wire.tries:
            raise error
        return wait
