"""How values go over the wire: text that may hold a NUL, vectors in half precision, arrays of numbers as NumPy's."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.types.string import StrDumperUnknown

from mindhold.model.errors import InvalidInput
from mindhold.model.query import Vector

# PostgreSQL's text has no NUL. It is written as DLE and 0, and DLE, which nobody writes either, as two of them.
_ESCAPE, _NUL = "\x10", "\x00"
_ESCAPED = re.compile("\x10(.)", re.DOTALL)
_ARRAY_HEADER = 20
_NUMBERS: dict[str, npt.DTypeLike] = {
    "int8": [("size", ">i4"), ("value", ">i8")],
    "float8": [("size", ">i4"), ("value", ">f8")],
}


def escaped(text: str) -> str:
    """As PostgreSQL can keep it."""
    if _NUL not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + _ESCAPE).replace(_NUL, _ESCAPE + "0")


def unescaped(text: str) -> str:
    """As it was before escaped()."""
    if _ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda found: _NUL if found[1] == "0" else found[1], text)


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return unescaped(bytes(data).decode())


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


class _IntegersLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> npt.NDArray[np.int64]:
        return _numbers(bytes(data), "int8").astype(np.int64)


class _RealsLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> npt.NDArray[np.float64]:
        return _numbers(bytes(data), "float8").astype(np.float64)


def _numbers(data: bytes, kind: str) -> npt.NDArray[Any]:
    """An array without NULLs, as array_send() writes it: a header, then size and value of each."""
    values: npt.NDArray[Any] = np.frombuffer(data[_ARRAY_HEADER:], dtype=np.dtype(_NUMBERS[kind]))["value"]
    return values


@cache
def adapters() -> AdaptersMap:
    """What every connection of the store adapts values by."""
    import psycopg

    known = AdaptersMap(psycopg.adapters)
    known.register_dumper(str, _TextDumper)
    known.register_loader("text", _TextLoader)
    known.register_loader("text", _BinaryTextLoader)
    known.register_loader(psycopg.adapters.types["int8"].array_oid, _IntegersLoader)
    known.register_loader(psycopg.adapters.types["float8"].array_oid, _RealsLoader)
    return known


def vector_text(vector: Vector) -> str:
    """A vector of length 1 in half precision, as halfvec reads it; the same numbers as every store keeps."""
    flat = np.asarray(vector, dtype=np.float32).ravel()
    if not len(flat):
        raise InvalidInput("A vector has one number at least.", advice="Give what the model made, or none.")
    norm = float(np.linalg.norm(flat))
    unit = flat / np.float32(norm) if norm > 0.0 else flat
    halves = unit.astype(np.float16).tolist()
    # Five digits tell every half from its neighbours, and are a tenth of the work of all that Python knows.
    return f"[{'%.5g,' * (len(halves) - 1)}%.5g]" % tuple(halves)


def vector_of(data: bytes) -> Vector:
    """From what halfvec_send() writes: two short numbers, the first the dimension, then the halves."""
    (dimensions,) = struct.unpack_from(">h", data)
    return np.frombuffer(data, dtype=">f2", count=dimensions, offset=4).astype(np.float32)


def array_text(items: Iterable[str]) -> str:
    """A list as an array's literal, for where a column of lists is sent as one array."""
    if not items:
        return "{}"
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"


def numbers_text(numbers: npt.NDArray[np.int64]) -> str:
    """The same of whole numbers: quicker than the driver's way with lists."""
    return "{" + ",".join(map(str, numbers.tolist())) + "}"


def quoted(lexeme: str) -> str:
    """A lexeme as a tsquery that finds exactly it."""
    inner = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{inner}'"
