"""The driver's errors as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    StoreAway,
    StoreBusy,
    StoreDamaged,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from mindhold.stores.values import storable

_TRY_AGAIN = "Try again; if it lasts, look at what else uses the server."
_AWAY = "Start it, or check its address; what was stored before is safe there."

# The SQLSTATE, or its class (two characters), and what it means to us.
_MEANINGS: dict[str, tuple[type[MindholdError], str]] = {
    "08": (StoreAway, _AWAY),
    "57P": (StoreAway, _AWAY),
    "25P03": (StoreAway, _AWAY),
    "28": (
        StoreDenied,
        "Check the name and the password (in postgres.url, or postgres.user and postgres.password).",
    ),
    "3D": (
        StoreDenied,
        "`CREATE DATABASE` makes it; or check its name (in postgres.url, or postgres.database).",
    ),
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
    "XX": (StoreDamaged, "`mindhold doctor` says more; the server's log says most."),
    "22": (InvalidInput, ""),
    "54": (InvalidInput, "Give less, or a smaller number."),
    "23502": (InvalidInput, ""),
    "23514": (InvalidInput, ""),
    "23": (Conflict, ""),
}

# What a server says when it ends a connection that is being made. The driver has no code for it then.
_ANSWERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'database ".*" does not exist'), "3D"),
    (re.compile(r'role ".*" does not exist|authentication failed|no pg_hba\.conf entry'), "28"),
    (re.compile(r"too many (clients|connections)|connection slots"), "53300"),
)
# What the driver puts around that: where it tried, which our message says, and a guess.
_AROUND = re.compile(
    r"connection failed: |connection to server (at|on) .*? failed: |FATAL: +|"
    r" ?Is the server running (on that host|locally) and accepting .*? ?connections( on that socket)?\?"
)

_GROWING = frozenset({"mdextend", "mdzeroextend"})  # where the server makes a file longer


def ours(error: psycopg.Error, place: str) -> MindholdError:
    """`place` says which database, without its password."""
    said = " ".join(str(error).split()) or type(error).__name__
    state = error.sqlstate or ""
    if error.diag.source_function in _GROWING:  # a quota or a limit, which has no code of its own
        state = "53100"
    for length in (5, 3, 2):
        if state[:length] in _MEANINGS and len(state) >= length:
            kind, advice = _MEANINGS[state[:length]]
            return kind(f"The database {place} says: {_sentence(said)}", advice=advice)
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"The database takes no such value: {_sentence(said)}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return _unreached(error, place, said)
    return StoreError(f"The database {place} failed: {_sentence(said)}")


def _unreached(error: psycopg.Error, place: str, said: str) -> MindholdError:
    """No statement failed, but the connection: libpq says why in words alone, but also whether a password was asked for."""
    told = _sentence(_AROUND.sub("", said))
    for words, state in _ANSWERS:
        if words.search(said):
            kind, advice = _MEANINGS[state]
            return kind(f"The database {place} refuses the connection: {told}", advice=advice)
    tried = getattr(error, "pgconn", None)
    if tried is not None and (tried.used_password or tried.needs_password) and not tried.server_version:
        kind, advice = _MEANINGS["28"]
        return kind(f"The database {place} refuses the connection: {told}", advice=advice)
    return StoreAway(f"The database {place} can't be reached: {told}", advice=_AWAY)


def _sentence(said: str) -> str:
    said = said.strip()
    return said if said.endswith((".", "?", "!")) else f"{said}."


@contextmanager
def translated(place: str) -> Iterator[None]:
    """No error of the driver leaves the store."""
    try:
        with storable():
            yield
    except psycopg.Error as error:
        raise ours(error, place) from error
