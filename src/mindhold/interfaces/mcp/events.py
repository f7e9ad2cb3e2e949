"""What a stream has sent, kept a while so that a client whose line broke can go on where it was.

In memory only: a log of answers on disk would keep remembered text beyond its erasure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from secrets import token_hex
from typing import Any

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage

MOST_EVENTS = 50
MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class _Event:
    id: EventId
    stream: StreamId
    message: JSONRPCMessage | None
    weight: int


class SessionEvents(EventStore):
    """One session's events: ids of streams repeat from one session to another, so each has its own.

    The ids of events differ from those that another server, or this one before a restart, gave to the same session.
    """

    def __init__(self, *, most: int = MOST_EVENTS, characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._room = characters
        self._events: deque[_Event] = deque()
        self._numbers = count(1)
        self._name = token_hex(4)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Its id; the oldest events make room."""
        event = _Event(f"{self._name}-{next(self._numbers)}", stream_id, message, _weight(message))
        self._events.append(event)
        self._room -= event.weight
        while len(self._events) > self._most or (self._room < 0 and len(self._events) > 1):
            self._room += self._events.popleft().weight
        return event.id

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        """What came after on the same stream; None for an id that is unknown here."""
        events = list(self._events)
        last = next((place for place, one in enumerate(events) if one.id == last_event_id), None)
        if last is None:
            return None
        stream = events[last].stream
        for event in events[last + 1 :]:
            if event.stream == stream and event.message is not None:
                await send_callback(EventMessage(event.message, event.id))
        return stream


def _weight(message: JSONRPCMessage | None) -> int:
    return _characters(getattr(message, "result", None)) + _characters(getattr(message, "params", None)) + 100


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _characters(inner) for name, inner in value.items())
    if isinstance(value, list):
        return sum(_characters(inner) for inner in value)
    return 8
