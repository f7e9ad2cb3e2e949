"""The driver's errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from recollect.model.errors import (
    Conflict,
    InvalidInput,
    RecollectError,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreReadOnly,
)

_TRY_AGAIN = "Try again; if it lasts, look at what else uses the server."
_AWAY = "Start it, or check its address; what was stored before is safe there."

# The SQLSTATE, or its class (two characters), and what it means to us.
_MEANINGS: dict[str, tuple[type[RecollectError], str]] = {
    "08": (StoreAway, _AWAY),
    "57P": (StoreAway, _AWAY),
    "25P03": (StoreAway, _AWAY),
    "28": (StoreDenied, "Check the name and the password (settings postgres.user and postgres.password)."),
    "3D": (StoreDenied, "Make the database, or check its name (setting postgres.database)."),
    "42501": (StoreDenied, "Give the role that right, or connect as the owner of the schema agent_memory."),
    "40": (StoreBusy, _TRY_AGAIN),
    "55P03": (StoreBusy, _TRY_AGAIN),
    "57014": (StoreBusy, "Ask for less at once, or raise the setting postgres.query_timeout_ms."),
    "53300": (StoreBusy, "Lower postgres.max_connections, or let the server have more."),
    "53200": (StoreBusy, _TRY_AGAIN),
    "53100": (StoreFull, "Free some space on the server's disk and try again; nothing was written."),
    "53": (StoreBusy, _TRY_AGAIN),
    "58": (StoreFull, "Look at the server's disk and its log."),
    "25006": (StoreReadOnly, "Connect to the primary server."),
    "XX": (StoreDamaged, "`recollect doctor` says more; the server's log says most."),
    "22": (InvalidInput, ""),
    "54": (InvalidInput, "Give less, or a smaller number."),
    "23502": (InvalidInput, ""),
    "23514": (InvalidInput, ""),
    "23": (Conflict, ""),
}

_GROWING = frozenset({"mdextend", "mdzeroextend"})  # where the server makes a file longer


def ours(error: psycopg.Error, place: str) -> RecollectError:
    """`place` says which database, without its password."""
    said = " ".join(str(error).split()) or type(error).__name__
    state = error.sqlstate or ""
    if error.diag.source_function in _GROWING:  # a quota or a limit, which has no code of its own
        state = "53100"
    for length in (5, 3, 2):
        if state[:length] in _MEANINGS and len(state) >= length:
            kind, advice = _MEANINGS[state[:length]]
            return kind(f"The database {place} says: {said}.", advice=advice)
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"The database takes no such value: {said}.")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return _unreached(error, place, said)
    return StoreError(f"The database {place} failed: {said}.")


def _unreached(error: psycopg.Error, place: str, said: str) -> RecollectError:
    """No statement failed, but the connection: libpq says why in words alone, but also whether a password was asked for."""
    tried = getattr(error, "pgconn", None)
    if tried is not None and (tried.used_password or tried.needs_password) and not tried.server_version:
        return StoreDenied(f"The database {place} refuses us: {said}.", advice=_MEANINGS["28"][1])
    return StoreAway(f"The database {place} can't be reached: {said}.", advice=_AWAY)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """No error of the driver leaves the store."""
    try:
        yield
    except psycopg.Error as error:
        raise ours(error, place) from error
    except OverflowError as error:
        raise InvalidInput(
            f"A number is too large for the database: {error}.", advice="Give a smaller one."
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "The text has half of a surrogate pair.", advice="Send text that can be written as UTF-8."
        ) from error
