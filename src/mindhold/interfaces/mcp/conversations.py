"""The conversations that a server is in, and who was spoken for in each: the engine is told when one ends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from mcp.server.connection import Connection
from mcp.server.session import ServerSession

from mindhold.model.access import Caller

log = logging.getLogger("mindhold.mcp")


@dataclass(slots=True)
class Conversation:
    """One client's, from its first request to its leaving."""

    id: str
    caller: Caller
    session: ServerSession | None  # None where the protocol has no line back to the client
    agents: set[str] = field(default_factory=set)  # for whom something was written
    session_id: str | None = None  # where it may come back
    log_level: str = "notice"
    told: set[str] = field(default_factory=set)  # of our own notices, so that none is repeated


def new_name() -> str:
    """For a conversation that came without one."""
    return uuid4().hex


Ended = Callable[[Conversation], Awaitable[None]]


class Conversations:
    """Those that are open. Keyed by connection, since an id may come back on another one."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._open: dict[int, Conversation] = {}
        self._lone: Conversation | None = None

    def __len__(self) -> int:
        return len(self._open) + (self._lone is not None)

    def __iter__(self) -> Iterator[Conversation]:
        return iter([*self._open.values(), *([self._lone] if self._lone else [])])

    def lone(self, caller: Caller) -> Conversation:
        """The one conversation of a process whose client speaks without sessions."""
        if self._lone is None:
            self._lone = Conversation(new_name(), caller, None)
        return self._lone

    def of(self, connection: Connection) -> Conversation | None:
        """The conversation on that connection, if one began."""
        return self._open.get(id(connection))

    def begin(self, connection: Connection, conversation: Conversation) -> Conversation:
        """Follow a connection until it closes."""
        self._open[id(connection)] = conversation
        connection.exit_stack.push_async_callback(self._end, connection)
        return conversation

    async def end_all(self) -> None:
        """End every one of them now."""
        for key in list(self._open):
            await self._ended(self._open.pop(key))
        if self._lone is not None:
            lone, self._lone = self._lone, None
            await self._ended(lone)

    async def _end(self, connection: Connection) -> None:
        conversation = self._open.pop(id(connection), None)
        if conversation is not None:
            await self._ended(conversation)
