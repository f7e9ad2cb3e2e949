"""Whether anyone listens at the server's addresses: who is refused isn't kept waiting as for an election."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pymongo.monitoring import (
    ServerHeartbeatFailedEvent,
    ServerHeartbeatListener,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
)

Address = tuple[str, int | None]

# A call that the driver wakes in the same turn would not see that it was given up (asyncio.wait_for before 3.12).
_ASIDE_SECONDS = 0.02
KNOWN_SECONDS = 1.0  # so long what a monitor found is not asked for again
# The driver's monitors hand on the text of an error alone.
_NUMBERS = re.compile(r"\[(?:Errno|WinError) (-?\d+)\]")
_NOBODY = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENOENT, socket.EAI_NONAME, 10061, 1225}


class Reach(ServerHeartbeatListener):
    """Told by the driver's monitors, in the loop that the calls run in.

    Calls are given up when all addresses have refused connections for `patience` seconds. A server that steps down
    goes on listening, and of a replica set some other does: for those a call waits as long as it may.
    """

    def __init__(self, addresses: Callable[[], Iterable[Address]]) -> None:
        self._addresses = addresses
        self.patience = 0.0
        self._refusing: dict[Address, float] = {}
        self._last = 0.0
        self._calls: set[asyncio.Timeout] = set()

    @property
    def away(self) -> bool:
        """Whether nobody has listened for too long, as far as is known."""
        since = [self._refusing.get(address) for address in self._addresses()]
        known = [moment for moment in since if moment is not None]
        return bool(known) and len(known) == len(since) and time.monotonic() - max(known) >= self.patience

    @property
    def known(self) -> bool:
        """Whether that was found just now."""
        return time.monotonic() - self._last < KNOWN_SECONDS

    @contextmanager
    def waiting(self, call: asyncio.Timeout) -> Iterator[None]:
        """A call that ends when the server is found to be away."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Says nothing yet."""

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        self._refusing.pop(event.connection_id, None)

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        self._last = time.monotonic()
        numbers = {int(number) for number in _NUMBERS.findall(str(event.reply))}
        if numbers and numbers <= _NOBODY:
            self._refusing.setdefault(event.connection_id, self._last)
        else:
            self._refusing.pop(event.connection_id, None)
        if self.away:
            moment = asyncio.get_running_loop().time() + _ASIDE_SECONDS
            for call in self._calls:
                call.reschedule(moment)
            self._calls.clear()
