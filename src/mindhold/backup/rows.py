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
_NUMBERS = "<f2"  # as precise as the stores
_TIMES = {"job": ("created", "due", "lease_until", "finished"), "entry": ("created", "expires")}


class RowCounter:
    """Counts rows of a snapshot; removals are subtracted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._content = 0
        self._scopes: set[str] = set()
        self._records: dict[
            str, tuple[int, bool]
        ] = {}  # by id: its number in the content sum, and whether it has a vector

    def add(self, items: Iterable[SnapshotItem]) -> None:
        """Add rows in the order of the snapshot."""
        for item in items:
            if isinstance(item, Record):
                number = checksum_part(item.memory.id, item.memory.content_hash)
                self._records[item.memory.id] = number, item.vector is not None
                self._content += number
            elif isinstance(item, Scope):
                self._scopes.add(item.name)
            elif isinstance(item, SnapshotRemoval):
                self._scopes.discard(item.scope)
                self._content -= self._records.pop(item.memory_id, (0, False))[0]
            else:
                self._counts[type(item).__name__] += 1

    @property
    def totals(self) -> Totals:
        """The totals so far."""
        count = self._counts
        return Totals(
            memories=len(self._records),
            vectors=sum(vector for _, vector in self._records.values()),
            versions=count["Version"],
            links=count["Link"],
            scopes=len(self._scopes),
            jobs=count["Job"],
            entries=count["Entry"],
            cursors=count["Cursor"],
            content=format_checksum(self._content),
        )


def encode_rows(batch: Sequence[SnapshotItem]) -> bytes:
    """The rows as JSON lines."""
    lines = (json.dumps(_to_json(item), ensure_ascii=False, separators=(",", ":")) for item in batch)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def decode_rows(blocks: Iterable[bytes], *, now: datetime) -> Iterator[list[SnapshotItem]]:
    """Decode rows in batches. Raises Refused for an unknown line."""
    batch: list[SnapshotItem] = []
    for number, line in enumerate(split_lines(blocks), 1):
        try:
            batch.append(_parse_row(json.loads(line), now=now))
        except (KeyError, ValueError, TypeError) as error:
            message = f"Line {number} of the backup is none that this Mindhold knows: {error}."
            raise Refused(message[:300], advice="Upgrade Mindhold, or choose another backup.") from error
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def split_lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Split blocks that end anywhere into text lines."""
    tail = b""
    for block in blocks:
        *complete, tail = (tail + block).split(b"\n")
        for line in complete:
            yield line.decode("utf-8", "surrogatepass")
    if tail:
        yield tail.decode("utf-8", "surrogatepass")


def _to_json(item: SnapshotItem) -> JsonObject:
    if isinstance(item, Record):
        line = memory_line(item.memory)
        if item.vector is not None:
            numbers = np.asarray(item.vector, dtype=_NUMBERS).tobytes()
            line |= {"embedded_by": item.memory.embedded_by, "vector": b64encode(numbers).decode("ascii")}
        return line
    if isinstance(item, Version):
        return version_line(item)
    if isinstance(item, Link):
        return link_line(item)
    if isinstance(item, Scope):
        return scope_line(item)
    if isinstance(item, SnapshotRemoval):
        return {"type": "gone", "id": item.memory_id, "scope": item.scope}
    if isinstance(item, Cursor):
        return {"type": "cursor", "name": item.name, "value": item.value}
    kind = "job" if isinstance(item, Job) else "entry"
    return {"type": kind, **{name: _plain(getattr(item, name)) for name in item.__dataclass_fields__}}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _parse_row(line: JsonObject, *, now: datetime) -> SnapshotItem:
    kind = line.pop("type")
    if kind == "memory":
        vector = line.pop("vector", None)
        memory: Memory = memory_from(line, now=now)
        return Record(memory, None if vector is None else _parse_vector(vector))
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


def _parse_vector(text: str) -> Any:
    return np.frombuffer(b64decode(text), dtype=_NUMBERS).astype(np.float32)
