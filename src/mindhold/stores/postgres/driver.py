"""The psycopg driver: encoding of values (NUL in text, vectors, arrays), and translation of its errors."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.types.string import StrDumperUnknown

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
from mindhold.model.query import Vector
from mindhold.stores.columns import storable

Connection = psycopg.Connection[tuple[Any, ...]]

# PostgreSQL's text can't contain NUL. It is written as DLE and 0, and DLE, which is rare, as two DLE.
_ESCAPE, _NUL = "\x10", "\x00"
_ESCAPED = re.compile("\x10(.)", re.DOTALL)
_ARRAY_HEADER = 20


def escaped(text: str) -> str:
    """Text that PostgreSQL can store."""
    if _NUL not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + _ESCAPE).replace(_NUL, _ESCAPE + "0")


def unescaped(text: str) -> str:
    """The original text of escaped()."""
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: _NUL if match[1] == "0" else match[1], text)


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return unescaped(bytes(data).decode())


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


def _array_loader(kind: str) -> type[Loader]:
    """A loader of arrays without NULLs, as array_send() writes them: a header, then size and value of each number."""
    item = np.dtype([("size", ">i4"), ("value", f">{kind}")])

    class ArrayLoader(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> npt.NDArray[Any]:
            return np.frombuffer(bytes(data)[_ARRAY_HEADER:], dtype=item)["value"].astype(kind)

    return ArrayLoader


@cache
def adapters() -> AdaptersMap:
    """The type adapters of the store's connections."""
    registry = AdaptersMap(psycopg.adapters)
    registry.register_dumper(str, _TextDumper)
    registry.register_loader("text", _TextLoader)
    registry.register_loader("text", _BinaryTextLoader)
    registry.register_loader(psycopg.adapters.types["int8"].array_oid, _array_loader("i8"))
    registry.register_loader(psycopg.adapters.types["float8"].array_oid, _array_loader("f8"))
    return registry


def vector_text(vector: Vector) -> str:
    """The text form of a halfvec: a unit vector in half precision, with the same numbers as in every store."""
    flat = np.asarray(vector, dtype=np.float32).ravel()
    if not len(flat):
        raise InvalidInput("A vector has one number at least.", advice="Give what the model made, or none.")
    norm = float(np.linalg.norm(flat))
    unit = flat / np.float32(norm) if norm > 0.0 else flat
    halves = unit.astype(np.float16).tolist()
    # Five digits distinguish all half-precision numbers, and take a tenth of the time of all digits.
    return f"[{'%.5g,' * (len(halves) - 1)}%.5g]" % tuple(halves)


def vector_of(data: bytes) -> Vector:
    """Decodes the output of halfvec_send(): the dimension, a reserved number, then the halves."""
    (dimensions,) = struct.unpack_from(">h", data)
    return np.frombuffer(data, dtype=">f2", count=dimensions, offset=4).astype(np.float32)


def array_text(items: Iterable[str]) -> str:
    """A list as an array literal, for columns of lists that are sent as one array."""
    if not items:
        return "{}"
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"


def numbers_text(numbers: npt.NDArray[np.int64]) -> str:
    """Whole numbers as an array literal: faster than the driver's lists."""
    return "{" + ",".join(map(str, numbers.tolist())) + "}"


def quoted(lexeme: str) -> str:
    """A lexeme as a tsquery that matches exactly it."""
    inner = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{inner}'"


_TRY_AGAIN = "Try again; if it lasts, look at what else uses the server."
_AWAY = "Start it, or check its address; what was stored before is safe there."

# The SQLSTATE or its class (two characters), and our error for it.
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

# Messages of a server that ends a connection while it is being opened. The driver has no code for them.
_ANSWERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'database ".*" does not exist'), "3D"),
    (re.compile(r'role ".*" does not exist|authentication failed|no pg_hba\.conf entry'), "28"),
    (re.compile(r"too many (clients|connections)|connection slots"), "53300"),
)
# What the driver adds to that: the address, which our message has, and a guess.
_AROUND = re.compile(
    r"connection failed: |connection to server (at|on) .*? failed: |FATAL: +|"
    r" ?Is the server running (on that host|locally) and accepting .*? ?connections( on that socket)?\?"
)

_GROWING = frozenset({"mdextend", "mdzeroextend"})  # functions in which the server extends a file


def store_error(error: psycopg.Error, place: str) -> MindholdError:
    """Our error for the driver's. `place` names the database without its password."""
    message = " ".join(str(error).split()) or type(error).__name__
    state = error.sqlstate or ""
    if error.diag.source_function in _GROWING:  # a quota or limit, which has no code of its own
        state = "53100"
    for length in (5, 3, 2):
        if state[:length] in _MEANINGS and len(state) >= length:
            kind, advice = _MEANINGS[state[:length]]
            return kind(f"The database {place} says: {_sentence(message)}", advice=advice)
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"The database takes no such value: {_sentence(message)}")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return _unreached(error, place, message)
    return StoreError(f"The database {place} failed: {_sentence(message)}")


def _unreached(error: psycopg.Error, place: str, said: str) -> MindholdError:
    """The error for a failed connection. libpq gives the reason only in words, and whether a password was requested."""
    reason = _sentence(_AROUND.sub("", said))
    for words, state in _ANSWERS:
        if words.search(said):
            kind, advice = _MEANINGS[state]
            return kind(f"The database {place} refuses the connection: {reason}", advice=advice)
    tried = getattr(error, "pgconn", None)
    if tried is not None and (tried.used_password or tried.needs_password) and not tried.server_version:
        kind, advice = _MEANINGS["28"]
        return kind(f"The database {place} refuses the connection: {reason}", advice=advice)
    return StoreAway(f"The database {place} can't be reached: {reason}", advice=_AWAY)


def _sentence(said: str) -> str:
    said = said.strip()
    return said if said.endswith((".", "?", "!")) else f"{said}."


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Translate the driver's errors to ours."""
    try:
        with storable():
            yield
    except psycopg.Error as error:
        raise store_error(error, place) from error
