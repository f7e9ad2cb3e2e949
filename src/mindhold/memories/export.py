"""Converts records to JSON objects and back without losing anything, and exports memories as JSON lines."""

from __future__ import annotations

import asyncio
import csv
import errno
import io
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import cache
from math import isfinite, log
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Protocol, TextIO, TypeVar, get_args, get_origin, get_type_hints

from mindhold.aio import run_uncancelled
from mindhold.engine import Engine
from mindhold.lifecycle.contradiction_records import exported_pairs
from mindhold.memories.prepare import LARGEST_NUMBER, LONGEST_ID, in_utc
from mindhold.model.errors import StoreFull, StoreReadOnly
from mindhold.model.memory import (
    ANY_STATUS,
    PRIVACY_NOTICE,
    Link,
    Memory,
    Provenance,
    Status,
    Version,
)
from mindhold.model.prompt_markup import neutralize
from mindhold.model.query import Filter
from mindhold.model.scope import LONGEST_NAME, Scope

MOST_MERGED = 1_000
UTMOST = 1 + log(LARGEST_NUMBER)  # the utility of a memory of full importance with the most uses
HEAVIEST = 2.0  # a weight is a similarity, and rounding may take it past 1

JsonObject = dict[str, Any]
R = TypeVar("R", Memory, Version, Link, Scope, Provenance)


def record_line(record: Memory | Version | Link | Scope) -> JsonObject:
    """Convert a record, without `embedded_by`, since vectors are derived."""
    line = {"type": type(record).__name__.lower(), **_values(record)}
    line.pop("embedded_by", None)
    return line


def memory_from(line: JsonObject, *, now: datetime) -> Memory:
    """Read a memory. Records from before there were review dates get `now`, and count as evaluated and compared.

    Raises KeyError, ValueError, TypeError for anything that no export wrote.
    """
    reviewed = dict.fromkeys(("review", "decayed", "verified", "examined"), now.isoformat())
    memory = _record(Memory, reviewed | line)
    if not memory.content:
        raise ValueError("a memory needs content")
    _check_ids(memory.id, *memory.merged_from, *filter(None, [memory.supersedes]))
    _check_agent(memory.agent)
    _check_shares(importance=memory.importance, confidence=memory.confidence, trust=memory.trust)
    if not 0 <= memory.utility <= UTMOST:
        raise ValueError(f"utility is {memory.utility}")
    if abs(memory.usefulness) > 1:
        raise ValueError("usefulness is not between -1 and 1")
    if len(memory.merged_from) > MOST_MERGED:
        raise ValueError(f"it was merged from more than {MOST_MERGED}")
    return memory


def version_from(line: JsonObject) -> Version:
    """Read a version. Raises KeyError, ValueError, TypeError."""
    version = _record(Version, line)
    _check_ids(version.memory_id)
    _check_agent(version.amended_by)
    _check_shares(importance=version.importance)
    if version.number < 1:
        raise ValueError("versions are numbered from 1")
    return version


def link_from(line: JsonObject) -> Link:
    """Read a link. Raises KeyError, ValueError, TypeError."""
    link = _record(Link, line)
    _check_ids(link.origin, link.target)
    if link.origin == link.target:
        raise ValueError("a memory can't be linked to itself")
    if abs(link.weight) > HEAVIEST:
        raise ValueError(f"weight is {link.weight}")
    return link


def scope_from(line: JsonObject) -> Scope:
    """Read a scope. Raises KeyError, ValueError, TypeError."""
    return _record(Scope, line)


def _values(record: Memory | Version | Link | Scope | Provenance) -> JsonObject:
    # Not asdict(): its deep copies took most of an export's time.
    return {name: _value(getattr(record, name)) for name in _types()[type(record).__name__]}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Provenance):
        return _values(value)
    return list(value) if isinstance(value, tuple) else value


def _record(kind: type[R], line: JsonObject) -> R:
    """Read a record: each value is converted to the type of its field. Raises KeyError, ValueError, TypeError."""
    values = {name: value for name, value in line.items() if name != "type"}
    for name, types in _types()[kind.__name__].items():
        enum = next((option for option in types if issubclass(option, StrEnum)), None)
        if tuple in types:
            if not isinstance(values[name], list):
                raise TypeError(f"{name} is no list")
            values[name] = tuple(values[name])
        elif Provenance in types:
            values[name] = _checked(Provenance(**values[name]))
        elif NoneType in types and values.get(name) is None:
            continue
        elif datetime in types:
            values[name] = in_utc(datetime.fromisoformat(values[name]))
        elif enum is not None:
            values[name] = enum(values[name])
    return _checked(kind(**values))


def _check_ids(*ids: str) -> None:
    for each in ids:
        if not each or len(each) > LONGEST_ID or not each.isprintable():
            raise ValueError(f"{each[:LONGEST_ID]!r} is no id")


def _check_agent(name: str) -> None:
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"{name[:LONGEST_ID]!r} is no agent")


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is not between 0 and 1")


@cache
def _types() -> dict[str, dict[str, tuple[type, ...]]]:
    """Return by class the types that each field may have; of containers only the outer type."""
    return {kind.__name__: _types_of(kind) for kind in (Memory, Version, Link, Scope, Provenance)}


def _types_of(kind: type[Any]) -> dict[str, tuple[type, ...]]:
    types = {}
    for name, hint in get_type_hints(kind).items():
        options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        plain = tuple(get_origin(option) or option for option in options)
        types[name] = (*plain, int) if float in plain else plain
    return types


def _checked(record: R) -> R:
    """Return the record if its fields have their types and its numbers are in range. Raises TypeError, ValueError."""
    for name, types in _types()[type(record).__name__].items():
        value = getattr(record, name)
        wrong = not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
        if wrong or (isinstance(value, tuple) and not all(isinstance(item, str) for item in value)):
            raise TypeError(f"{name} is {value!r}"[:120])
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{name} is {value}")
        if type(value) is int and not 0 <= value <= LARGEST_NUMBER:
            raise ValueError(f"{name} is not between 0 and {LARGEST_NUMBER}")
    return record


CONVERSATIONS, SUMMARIES, FACTS, PROFILE = "conversations", "summaries", "facts", "profile"


@dataclass(frozen=True, slots=True)
class ExportHead:
    """Starts an export."""

    created: datetime


@dataclass(frozen=True, slots=True)
class ExportSection:
    """Starts a section of a scope."""

    name: str


@dataclass(frozen=True, slots=True)
class ExportConversation:
    """Starts a conversation; None for messages without one."""

    conversation: str | None


@dataclass(frozen=True, slots=True)
class ExportItem:
    """One complete memory."""

    id: str
    text: str
    scope: str
    section: str
    kind: str
    source: str
    status: str
    occurred: datetime
    created: datetime
    tags: tuple[str, ...] = ()
    topic: str = ""
    importance: float = 0.5
    speaker: str = ""
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class ExportConversationEnd:
    """Ends a conversation."""


@dataclass(frozen=True, slots=True)
class SectionEnd:
    """Ends a section."""


@dataclass(frozen=True, slots=True)
class ScopeEnd:
    """Ends a scope."""


@dataclass(frozen=True, slots=True)
class ExportEnd:
    """Ends an export."""

    memories: int


ExportPart = (
    ExportHead
    | Scope
    | ExportSection
    | ExportConversation
    | ExportItem
    | ExportConversationEnd
    | SectionEnd
    | ScopeEnd
    | ExportEnd
)


class ExportFormat(Protocol):
    """A format that writes an export part by part, in order; it only keeps track of its position."""

    ending: str  # of the file name

    def written(self, part: ExportPart) -> str:
        """Return the text of this part."""


COLUMNS = (
    "id scope section conversation_id speaker timestamp text tags topic kind source status importance created privacy"
).split()
PRIVATE = "personal data"  # in every row: a head line of another shape would break readers of the table
_FORMULA = frozenset("=+-@＝＋－＠")
_BREAKING = frozenset("\t\r\n\x0b\x0c")


class CsvForm:
    """CSV by RFC 4180, in UTF-8."""

    ending = ".csv"

    def written(self, part: ExportPart) -> str:
        """Return the text of this part."""
        match part:
            case ExportHead():
                return row(COLUMNS)
            case ExportItem():
                return row(_cells(part))
            case _:
                return ""


def row(cells: list[str]) -> str:
    """Return one line, quoted where necessary."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow([harmless_cell(cell) for cell in cells])
    return line.getvalue()


def harmless_cell(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    begun = text.lstrip()[:1]
    return f"'{text}" if begun in _FORMULA or text[:1] in _BREAKING else text


def _cells(item: ExportItem) -> list[str]:
    return [
        item.id,
        item.scope,
        item.section,
        item.conversation or "",
        item.speaker,
        item.occurred.isoformat(),
        item.text,
        "; ".join(item.tags),
        item.topic,
        item.kind,
        item.source,
        item.status,
        f"{item.importance:.4g}",
        item.created.isoformat(),
        PRIVATE,
    ]


class JsonForm:
    """One JSON document, written part by part; `_following` says whether the next item needs a comma."""

    ending = ".json"

    def __init__(self) -> None:
        self._following = False

    def written(self, part: ExportPart) -> str:
        """Return the text of this part."""
        match part:
            case ExportHead():
                head = {"mindhold": "readable export", "personal_data": True, "notice": PRIVACY_NOTICE}
                return self._open({**head, "created": part.created.isoformat()}, "scopes")
            case Scope():
                return self._comma() + self._open(_scope(part))
            case ExportSection():
                self._following = False
                return f", {_text(part.name)}: ["
            case ExportConversation():
                return self._comma() + self._open({"conversation_id": part.conversation}, "messages")
            case ExportItem():
                comma, self._following = self._comma(), True
                return comma + _text(_item(part))
            case SectionEnd():
                return "\n]"
            case ExportConversationEnd():
                return self._close("\n]}")
            case ScopeEnd():
                return self._close("}")
            case ExportEnd():
                return f'\n], "memories": {part.memories}}}\n'

    def _comma(self) -> str:
        return ",\n" if self._following else "\n"

    def _open(self, fields: dict[str, Any], inside: str = "") -> str:
        self._following = False
        begun = _text(fields).removesuffix("}")
        return f"{begun}, {_text(inside)}: [" if inside else begun

    def _close(self, text: str) -> str:
        self._following = True
        return text


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "name": scope.name,
        "description": scope.description,
        "parent": scope.parent,
        "active": scope.active,
        "created": scope.created.isoformat(),
        "related_keywords": list(scope.keywords),
    }


def _item(item: ExportItem) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "id": item.id,
        "text": item.text,
        "timestamp": item.occurred.isoformat(),
        "status": item.status,
        "tags": list(item.tags),
    }
    if item.speaker:
        return {"speaker": item.speaker, **shared}
    return {
        **shared,
        "kind": item.kind,
        "source": item.source,
        "topic": item.topic,
        "importance": round(item.importance, 4),
        "created": item.created.isoformat(),
        "conversation_id": item.conversation,
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")
_BEGUN = re.compile(r"^([-+=:]|\d{1,9}[.)])")
_INDENT = "\u00a0"  # leading blanks would make the line code


class MarkdownForm:
    """Markdown with local times. A section's heading is written before its first item."""

    ending = ".md"

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._heading = ""

    def written(self, part: ExportPart) -> str:
        """Return the text of this part."""
        match part:
            case ExportHead():
                return f"# Memories\n\n> **Personal data.** {PRIVACY_NOTICE}\n\nExported {self._time(part.created)}.\n"
            case Scope():
                about = f"\n{plain(part.description)}\n" if part.description.strip() else ""
                off = " (switched off)" if not part.active else ""
                return f"\n## {plain(part.name, lines=False)}{off}\n{about}"
            case ExportSection():
                self._heading = f"\n### {part.name.capitalize()}\n\n"
                return ""
            case ExportConversation():
                named = plain(part.conversation, lines=False) if part.conversation else "Without a name"
                return f"{self._headed()}#### {named}\n\n"
            case ExportItem():
                return self._headed() + self._item(part)
            case ExportEnd():
                return f"\n---\n\n{part.memories} memories.\n"
            case _:
                return ""

    def _headed(self) -> str:
        heading, self._heading = self._heading, ""
        return heading

    def _item(self, item: ExportItem) -> str:
        speaker = f"**{plain(item.speaker, lines=False)}** " if item.speaker else ""
        labels = [f"\\#{plain(tag, lines=False)}" for tag in item.tags]
        if item.status != Status.ACTIVE:
            labels.append(f"({item.status})")
        label_text = f" {' '.join(labels)}" if labels else ""
        return f"- {speaker}{self._time(item.occurred)}{label_text}\n\n  {plain(item.text)}\n\n"

    def _time(self, moment: datetime) -> str:
        return f"{moment.astimezone(self._zone):%Y-%m-%d %H:%M}"


def plain(text: str, *, lines: bool = True) -> str:
    """Escape a text for an item of a list; without `lines`, join it into one line."""
    rows = neutralize(text).splitlines() or [""]
    if not lines:
        return _escaped(" ".join(" ".join(rows).split()))
    result = ""
    for before, line in zip(["", *rows], rows, strict=False):
        if result:
            result += "\\\n  " if before.strip() and line.strip() else "\n  " if line.strip() else "\n"
        result += _escaped(line.rstrip()) if line.strip() else ""
    return result


def _escaped(line: str) -> str:
    bare = line.lstrip()
    blanks = _INDENT * len(line[: len(line) - len(bare)].expandtabs(4))
    signs = _SIGNS.sub(r"\\\1", bare)
    return blanks + _BEGUN.sub(lambda found: f"{found[1][:-1]}\\{found[1][-1]}", signs)


T = TypeVar("T")

FORMAT = 1
BATCH = 256
IN_THE_WAY_SECONDS = 2.0  # how long a virus scanner or a reader may keep the old file open
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Exported:
    """How much was exported, and where to."""

    path: str
    memories: int
    links: int
    versions: int
    scopes: int
    contradictions: int = 0


async def export_to(engine: Engine, path: Path, *, where: Filter | None = None) -> Exported:
    """Export into a file atomically: it is complete or not there. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> Exported:
        return await export_stream(engine, stream, where=where)

    return replace(await in_one_piece(path, write), path=str(path))


async def write_whole(path: Path, text: str) -> None:
    """Write a text into a file atomically. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> None:
        await run_uncancelled(asyncio.to_thread(stream.write, text))

    await in_one_piece(path, write)


async def in_one_piece(path: Path, write: Callable[[TextIO], Awaitable[T]]) -> T:
    """Write a file, readable by its owner only, that appears when it is complete. Raises StoreFull, StoreReadOnly."""
    partial = partial_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            partial.chmod(0o600)
            written = await write(stream)
            await run_uncancelled(asyncio.to_thread(to_disk, stream))
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
    """Return a unique temporary path beside `path`, so that concurrent writers don't collide."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def to_disk(stream: IO[Any]) -> None:
    """Flush the stream to disk, so that it survives a power cut."""
    stream.flush()
    os.fsync(stream.fileno())


def put_in_place(partial: Path, path: Path) -> None:
    """Replace `path` by `partial`; retried, since Windows refuses it while the old file is open. Raises OSError."""
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
    """Write a head line, scopes, memories each followed by its versions, links, then contradictions.

    Threads write it, batch by batch. A link needs one exported end: it is restored where the other end exists. A contradiction
    needs both.
    """
    selection = where or Filter(viewer="system", statuses=ANY_STATUS)
    scopes = await engine.store.scopes()
    head = {"mindhold": "export", "format": FORMAT, "notice": PRIVACY_NOTICE}
    await _write(stream, [head, *map(record_line, scopes)])
    versions = links = pairs = 0
    ids: list[str] = []
    async for batch in engine.store.scan(selection):
        earlier = await engine.store.versions_among([memory.id for memory in batch])
        await _write(stream, _with_versions(batch, earlier))
        ids.extend(memory.id for memory in batch)
        versions += sum(len(some) for some in earlier.values())
    async for some in _links(engine, sorted(ids), viewer=selection.viewer):
        await _write(stream, map(record_line, some))
        links += len(some)
    async for pair_batch in exported_pairs(engine, frozenset(ids), viewer=selection.viewer):
        await _write(stream, pair_batch)
        pairs += len(pair_batch)
    return Exported("-", len(ids), links, versions, len(scopes), contradictions=pairs)


async def _links(engine: Engine, ids: Sequence[str], *, viewer: str) -> AsyncIterator[list[Link]]:
    """Yield each link once, in batches."""
    seen: set[tuple[str, str, str]] = set()
    for start in range(0, len(ids), BATCH):
        page = await engine.store.links_of(ids[start : start + BATCH], viewer=viewer)
        new = {key: link for link in page if (key := (link.origin, link.target, link.relation)) not in seen}
        seen |= new.keys()
        yield [new[key] for key in sorted(new)]


def _with_versions(
    batch: Sequence[Memory], earlier: Mapping[str, Sequence[Version]]
) -> Iterator[dict[str, Any]]:
    for memory in batch:
        yield record_line(memory)
        yield from map(record_line, earlier.get(memory.id, ()))


async def _write(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    """Write in a thread, to the end of the batch even if cancelled: the stream must not be closed while it is written to."""
    await run_uncancelled(asyncio.to_thread(_write_now, stream, lines))


def _write_now(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        stream.write(json.dumps(line, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n")
