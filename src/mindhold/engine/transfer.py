"""Export: JSON lines, a round trip that loses nothing. Vectors are derived and are made anew."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar

from mindhold.engine.contradiction_carry import carried
from mindhold.engine.core import Engine, unbroken
from mindhold.engine.records import link_line, memory_line, scope_line, version_line
from mindhold.model.errors import StoreFull, StoreReadOnly
from mindhold.model.link import Link
from mindhold.model.memory import ANY_STATUS, Memory, Version
from mindhold.model.privacy import PERSONAL
from mindhold.model.query import Filter

T = TypeVar("T")

FORMAT = 1
BATCH = 256
IN_THE_WAY_SECONDS = 2.0  # how long a scanner or reader may have open what is to be replaced
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Exported:
    """How much was written where."""

    path: str
    memories: int
    links: int
    versions: int
    scopes: int
    contradictions: int = 0


async def export_to(engine: Engine, path: Path, *, where: Filter | None = None) -> Exported:
    """Write atomically: the file is there whole, or not at all. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> Exported:
        return await export_stream(engine, stream, where=where)

    return replace(await in_one_piece(path, write), path=str(path))


async def write_whole(path: Path, text: str) -> None:
    """A text, atomically. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> None:
        await unbroken(asyncio.to_thread(stream.write, text))

    await in_one_piece(path, write)


async def in_one_piece(path: Path, write: Callable[[TextIO], Awaitable[T]]) -> T:
    """For the owner's eyes, and there when all of it is written. Raises StoreFull, StoreReadOnly."""
    partial = partial_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            partial.chmod(0o600)
            written = await write(stream)
            await unbroken(asyncio.to_thread(to_disk, stream))
        await asyncio.to_thread(put_in_place, partial, path)
    except OSError as error:
        problem = StoreFull if error.errno == errno.ENOSPC else StoreReadOnly
        raise problem(
            f"The export to {path} failed: {error.strerror}.", advice="Choose another place."
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return written


def partial_of(path: Path) -> Path:
    """A file of one's own to write into, whoever else writes to the same place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def to_disk(stream: IO[Any]) -> None:
    """All that was written, so that a power cut leaves it."""
    stream.flush()
    os.fsync(stream.fileno())


def put_in_place(partial: Path, path: Path) -> None:
    """Windows refuses it while anybody has the old file open: that passes. Raises OSError."""
    deadline = time.monotonic() + IN_THE_WAY_SECONDS
    while True:
        try:
            partial.replace(path)
            return
        except PermissionError:
            if os.name != "nt" or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


async def export_stream(engine: Engine, stream: TextIO, *, where: Filter | None = None) -> Exported:
    """A head line, scopes, then each memory followed by its versions, then links, then what is known of contradictions.

    Written by threads, batch by batch. A link with one end among them is written too: it is drawn again where the other
    end is there. Of contradictions both are wanted.
    """
    chosen = where or Filter(viewer="system", statuses=ANY_STATUS)
    scopes = await engine.store.scopes()
    head = {"mindhold": "export", "format": FORMAT, "notice": PERSONAL}
    await _write(stream, [head, *(scope_line(scope) for scope in scopes)])
    versions = links = pairs = 0
    ids: list[str] = []
    async for batch in engine.store.scan(chosen):
        earlier = await engine.store.versions_among([memory.id for memory in batch])
        await _write(stream, _with_versions(batch, earlier))
        ids.extend(memory.id for memory in batch)
        versions += sum(len(some) for some in earlier.values())
    async for some in _links(engine, sorted(ids), viewer=chosen.viewer):
        await _write(stream, (link_line(link) for link in some))
        links += len(some)
    async for known in carried(engine, frozenset(ids), viewer=chosen.viewer):
        await _write(stream, known)
        pairs += len(known)
    return Exported("-", len(ids), links, versions, len(scopes), contradictions=pairs)


async def _links(engine: Engine, ids: Sequence[str], *, viewer: str) -> AsyncIterator[list[Link]]:
    """Each once, in batches."""
    seen: set[tuple[str, str, str]] = set()
    for start in range(0, len(ids), BATCH):
        found = await engine.store.links_of(ids[start : start + BATCH], viewer=viewer)
        new = {key: link for link in found if (key := (link.origin, link.target, link.relation)) not in seen}
        seen |= new.keys()
        yield [new[key] for key in sorted(new)]


def _with_versions(
    batch: Sequence[Memory], earlier: Mapping[str, Sequence[Version]]
) -> Iterator[dict[str, Any]]:
    for memory in batch:
        yield memory_line(memory)
        for version in earlier.get(memory.id, ()):
            yield version_line(version)


async def _write(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    """In a thread, and to the end of the batch: nobody may close what is being written to."""
    await unbroken(asyncio.to_thread(_write_now, stream, lines))


def _write_now(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        stream.write(json.dumps(line, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n")
