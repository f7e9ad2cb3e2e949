"""The contents of a store as JSON lines, vectors included, counted while they are written or read."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mindhold.memories.serialization import (
    JsonObject,
    link_from,
    link_line,
    memory_from,
    memory_line,
    scope_from,
    scope_line,
    version_from,
    version_line,
)
from mindhold.model.errors import Refused
from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import Link, Memory, Version, checksum_part, format_checksum
from mindhold.model.scope import Scope
from mindhold.ports.backend import Cursor, Record, SnapshotItem, SnapshotRemoval, Totals

BATCH = 500
_NUMBERS = "<f2"  # as precise as stores keep them
_TIMES = {
    "job": ("created", "due", "lease_until", "finished"),
    "entry": ("created", "expires"),
}


class RowCounter:
    """Counts what goes by: what is gone again is taken off."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._content = 0
        self._scopes: set[str] = set()
        self._given: dict[
            str, tuple[int, bool]
        ] = {}  # by id: its number in the sum, and whether it has a vector

    def add(self, kept: Iterable[SnapshotItem]) -> None:
        """In the order of the snapshot."""
        for one in kept:
            if isinstance(one, Record):
                number = checksum_part(one.memory.id, one.memory.content_hash)
                self._given[one.memory.id] = number, one.vector is not None
                self._content += number
            elif isinstance(one, Scope):
                self._scopes.add(one.name)
            elif isinstance(one, SnapshotRemoval):
                self._scopes.discard(one.scope)
                self._content -= self._given.pop(one.memory_id, (0, False))[0]
            else:
                self._counts[type(one).__name__] += 1

    @property
    def totals(self) -> Totals:
        """So far."""
        count = self._counts
        return Totals(
            memories=len(self._given),
            vectors=sum(vector for _, vector in self._given.values()),
            versions=count["Version"],
            links=count["Link"],
            scopes=len(self._scopes),
            jobs=count["Job"],
            entries=count["Entry"],
            cursors=count["Cursor"],
            content=format_checksum(self._content),
        )


def as_lines(batch: Sequence[SnapshotItem]) -> bytes:
    """Each with its end of line."""
    lines = (json.dumps(_line(one), ensure_ascii=False, separators=(",", ":")) for one in batch)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def from_lines(blocks: Iterable[bytes], *, now: datetime) -> Iterator[list[SnapshotItem]]:
    """In batches. Raises Refused for a line that nobody wrote."""
    batch: list[SnapshotItem] = []
    for number, line in enumerate(lines_of(blocks), 1):
        try:
            batch.append(_kept(json.loads(line), now=now))
        except (KeyError, ValueError, TypeError) as error:
            said = f"Line {number} of the backup is none that this Mindhold knows: {error}."
            raise Refused(said[:300], advice="Upgrade Mindhold, or choose another backup.") from error
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def lines_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """Text lines, of blocks that end anywhere."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "surrogatepass")
    if rest:
        yield rest.decode("utf-8", "surrogatepass")


def _line(one: SnapshotItem) -> JsonObject:
    if isinstance(one, Record):
        line = memory_line(one.memory)
        if one.vector is not None:
            numbers = np.asarray(one.vector, dtype=_NUMBERS).tobytes()
            line |= {"embedded_by": one.memory.embedded_by, "vector": b64encode(numbers).decode("ascii")}
        return line
    if isinstance(one, Version):
        return version_line(one)
    if isinstance(one, Link):
        return link_line(one)
    if isinstance(one, Scope):
        return scope_line(one)
    if isinstance(one, SnapshotRemoval):
        return {"type": "gone", "id": one.memory_id, "scope": one.scope}
    if isinstance(one, Cursor):
        return {"type": "cursor", "name": one.name, "value": one.value}
    kind = "job" if isinstance(one, Job) else "entry"
    return {"type": kind, **{name: _plain(getattr(one, name)) for name in one.__dataclass_fields__}}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _kept(line: JsonObject, *, now: datetime) -> SnapshotItem:
    kind = line.pop("type")
    if kind == "memory":
        vector = line.pop("vector", None)
        memory: Memory = memory_from(line, now=now)
        return Record(memory, None if vector is None else _vector(vector))
    if kind == "version":
        return version_from(line)
    if kind == "link":
        return link_from(line)
    if kind == "scope":
        return scope_from(line)
    if kind == "gone":
        return SnapshotRemoval(line["id"], line["scope"])
    if kind == "cursor":
        return Cursor(line["name"], line["value"])
    for name in _TIMES[kind]:
        if line.get(name) is not None:
            line[name] = datetime.fromisoformat(line[name])
    if kind == "job":
        return Job(**{**line, "state": JobState(line["state"])})
    return Entry(**line)


def _vector(text: str) -> Any:
    return np.frombuffer(b64decode(text), dtype=_NUMBERS).astype(np.float32)
