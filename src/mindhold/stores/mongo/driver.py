"""The pymongo driver, an optional extra: translation of its errors, and a monitor of addresses that refuse connections."""

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

from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    SettingsError,
    StoreAway,
    StoreBusy,
    StoreDenied,
    StoreError,
    StoreFull,
)
from mindhold.stores.columns import storable

try:
    from bson.errors import BSONError
    from pymongo.errors import (
        BulkWriteError,
        ConfigurationError,
        ConnectionFailure,
        DocumentTooLarge,
        DuplicateKeyError,
        ExecutionTimeout,
        InvalidOperation,
        InvalidURI,
        NetworkTimeout,
        OperationFailure,
        PyMongoError,
        WaitQueueTimeoutError,
        WriteConcernError,
    )
except ImportError as error:
    raise SettingsError("MongoDB needs a driver.", advice="`pip install 'mindhold[mongodb]'`.") from error

# Error codes of the server.
_NO_RIGHT = 13
_DENIED = {_NO_RIGHT, 18, 8000}  # wrong name or password, and Atlas's code for it
_SLOW = {24, 50, 112, 202, 262, 290}  # locks, time limits, write conflicts
_FULL = {14031}
_AWAY = {6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436}  # stepping down or shutting down
_WAITS = re.compile(r" ?\(configured timeouts: [^)]*\)")
_COMMAND = re.compile(r" to execute command \{ (\w+):.*", re.DOTALL)
_TOO_LARGE = {10334, 17280}


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Translate the driver's errors to ours; `place` is the server's address without secrets."""
    try:
        with storable():
            yield
    except (PyMongoError, BSONError) as error:
        raise store_error(error, place) from error


@contextmanager
def readable() -> Iterator[None]:
    """Translate errors of reading mongodb.uri. The driver's text is left out: what it takes for a port may be a password."""
    try:
        yield
    except (InvalidURI, ValueError):
        raise SettingsError(
            "mongodb.uri can't be read.",
            advice="It is mongodb://NAME:PASSWORD@HOST:PORT/; in name and password write : / @ % as %3A %2F %40 %25.",
        ) from None


def store_error(error: Exception, place: str) -> MindholdError:
    """Our error for the driver's."""
    code = getattr(error, "code", None)
    if isinstance(error, BulkWriteError):
        failures = error.details.get("writeErrors") or [{}]
        code = failures[0].get("code")
    if code == _NO_RIGHT:
        return StoreDenied(
            f"MongoDB at {place} doesn't let the user do that ({_told(error)}).",
            advice="Give the user of mongodb.uri the role readWrite on the database (mongodb.database).",
        )
    if code in _DENIED:
        return StoreDenied(
            f"MongoDB at {place} refuses the name or the password ({_told(error)}).",
            advice="Check them in mongodb.uri, and its authSource.",
        )
    if isinstance(error, (WaitQueueTimeoutError, NetworkTimeout, ExecutionTimeout)) or code in _SLOW:
        return StoreBusy(
            f"MongoDB at {place} took too long ({_told(error)}).",
            advice="Try again; mongodb.timeout_ms says how long to wait, mongodb.max_connections how many may.",
        )
    if isinstance(error, ConnectionFailure) or code in _AWAY:
        return StoreAway(
            f"MongoDB at {place} can't be reached ({_told(error)}).",
            advice="Start it, or check mongodb.uri; nothing else is needed once it is back.",
        )
    if code in _FULL:
        return StoreFull(
            f"There is no room left where MongoDB at {place} keeps its data.", advice="Free some space there."
        )
    if isinstance(error, (BSONError, DocumentTooLarge)) or code in _TOO_LARGE:
        return InvalidInput(f"The database takes no such value: {_told(error)}.")
    if isinstance(error, DuplicateKeyError) or code == 11000:
        return Conflict(f"The database refused the change: {_told(error)}.")
    if isinstance(error, ConfigurationError):
        return SettingsError(f"mongodb.uri can't be used: {_told(error)}.")
    if isinstance(error, InvalidOperation):
        return StoreError(f"MongoDB at {place} is not open ({_told(error)}).", advice="Call open() first.")
    return StoreError(f"MongoDB at {place} failed: {_told(error)}.")


def refused_error(place: str) -> StoreAway:
    """The error for a server that refuses connections."""
    return StoreAway(
        f"MongoDB at {place} can't be reached: nobody listens there.",
        advice="Start it, or check mongodb.uri; nothing else is needed once it is back.",
    )


def is_transient(error: PyMongoError) -> bool:
    """Whether the whole change may be tried again: the server went away or another change interfered."""
    if isinstance(error, OperationFailure) and error.code in _DENIED:
        return False
    return (
        error.has_error_label("TransientTransactionError")
        or isinstance(error, (ConnectionFailure, DuplicateKeyError))
        or (isinstance(error, OperationFailure) and error.code in _AWAY | {112})
    )


def is_refusal(error: PyMongoError) -> bool:
    """Whether the server would always refuse the same operation."""
    if not isinstance(error, BulkWriteError):
        return isinstance(error, DocumentTooLarge)
    codes = {failure.get("code") for failure in error.details.get("writeErrors") or ()}
    return bool(codes) and not codes & (_DENIED | _SLOW | _FULL | _AWAY)


def may_be_done(error: OperationFailure) -> bool:
    """Whether the operation may have succeeded despite the error: it came midway, or was about durability."""
    return isinstance(error, (ExecutionTimeout, WriteConcernError)) or error.code in _SLOW | _AWAY


def _told(error: Exception) -> str:
    """The first sentence of the message; the rest describes servers, waits and the command."""
    failures = error.details.get("writeErrors") if isinstance(error, BulkWriteError) else None
    whole = str(failures[0].get("errmsg", error)) if failures else str(error)
    message = _COMMAND.sub(r" to \1", whole.split(", full error")[0].split(", Timeout:")[0])
    return _WAITS.sub("", message).rstrip(".")[:300]


Address = tuple[str, int | None]

# asyncio.wait_for before 3.12 misses a cancellation in the same turn in which the driver wakes the call.
_ASIDE_SECONDS = 0.02
KNOWN_SECONDS = 1.0  # seconds for which a monitor's finding is used without asking again
# The driver's monitors pass on only the text of an error.
_NUMBERS = re.compile(r"\[(?:Errno|WinError) (-?\d+)\]")
_NOBODY = {errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENOENT, socket.EAI_NONAME, 10061, 1225}


class AddressMonitor(ServerHeartbeatListener):
    """Listens to the driver's monitors, in the event loop of the calls.

    Calls are given up when all addresses have refused connections for `patience` seconds. A server that steps down keeps
    listening, and in a replica set another one does: in these cases a call waits for its full time limit.
    """

    def __init__(self, addresses: Callable[[], Iterable[Address]]) -> None:
        self._addresses = addresses
        self.patience = 0.0
        self._refusing: dict[Address, float] = {}
        self._last = 0.0
        self._calls: set[asyncio.Timeout] = set()

    @property
    def away(self) -> bool:
        """Whether all known addresses have refused connections for too long."""
        since = [self._refusing.get(address) for address in self._addresses()]
        refused_since = [moment for moment in since if moment is not None]
        return (
            bool(refused_since)
            and len(refused_since) == len(since)
            and time.monotonic() - max(refused_since) >= self.patience
        )

    @property
    def known(self) -> bool:
        """Whether that was found just now."""
        return time.monotonic() - self._last < KNOWN_SECONDS

    @contextmanager
    def waiting(self, call: asyncio.Timeout) -> Iterator[None]:
        """Register a call, which ends when the server is found to be away."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Does nothing."""

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
