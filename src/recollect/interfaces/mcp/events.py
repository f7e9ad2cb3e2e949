"""What a stream has sent, kept a while so that a client whose line broke can go on where it was.

In memory only: a log of answers on disk would keep remembered text beyond its erasure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import count

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage

MOST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    stream: StreamId
    message: JSONRPCMessage | None


class SessionEvents(EventStore):
    """One session's events: ids of streams repeat from one session to another, so each has its own."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._events: deque[_Event] = deque(maxlen=most)
        self._numbers = count(1)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Its id; the oldest events make room."""
        event = _Event(next(self._numbers), stream_id, message)
        self._events.append(event)
        return str(event.number)

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        """What came after on the same stream; None for an id that is unknown by now."""
        last = next((one for one in self._events if str(one.number) == last_event_id), None)
        if last is None:
            return None
        for event in list(self._events):
            if event.number > last.number and event.stream == last.stream and event.message is not None:
                await send_callback(EventMessage(event.message, str(event.number)))
        return last.stream
