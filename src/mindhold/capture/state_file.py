"""Import and export of `.memory/state.json`, the format of another memory program for Claude Code."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from mindhold.access.secrets import fingerprint
from mindhold.aio import run_uncancelled
from mindhold.capture.extracted_items import CAPTURED
from mindhold.capture.project_folder import scope_of_folder
from mindhold.engine import Engine
from mindhold.memories.export import Exported, memory_from, write_whole
from mindhold.memories.importer import Imported, import_items
from mindhold.memories.prepare import LARGEST_NUMBER, checked_content, content_hash
from mindhold.model.errors import InvalidInput
from mindhold.model.job import Entry
from mindhold.model.lifecycle import CONFIDENCE_DAYS, confidence_at, is_kept_for_good, is_working
from mindhold.model.memory import (
    DEFAULT_IMPORTANCE,
    ID_ALPHABET,
    RANDOM_BITS,
    Kind,
    Link,
    Memory,
    Provenance,
    Relation,
    Status,
    Tier,
    encode_id,
)
from mindhold.model.query import Filter
from mindhold.ports.store import Mark
from mindhold.projects.scopes import find_scope

VERSION = 1
# In the metadata of imported memories: their id in the file, and unknown fields.
FILE_FIELDS_KEY = "memory_mcp"
EXTRA_FIELDS_KEY = "mindhold"  # in the file: the fields of a memory that its format lacks
SOURCE = "memory-mcp"
TYPES: Mapping[Kind, str] = {
    Kind.ARCHITECTURE: "architecture",
    Kind.RELATION: "architecture",
    Kind.DECISION: "decision",
    Kind.PATTERN: "pattern",
    Kind.PREFERENCE: "pattern",
    Kind.PROCEDURE: "pattern",
    Kind.GOTCHA: "gotcha",
    Kind.ERROR: "gotcha",
    Kind.PROGRESS: "progress",
    Kind.CONTEXT: "context",
    Kind.FACT: "context",
    Kind.NOTE: "context",
    Kind.EPISODE: "context",
}
STATUSES = (Status.ACTIVE, Status.SUPERSEDED, Status.ARCHIVED)
HEAD_CHARACTERS = 64 << 10  # characters that show whether it is such a file

_NAMES = "id type content tags created updated confidence accessCount supersedes mergedFrom status"
_FIELDS = frozenset((*_NAMES.split(), EXTRA_FIELDS_KEY))
_EXPORT = re.compile(r'"mindhold"\s*:\s*"export"')
_OWN_ID = re.compile(rf"mem_\d+_([{ID_ALPHABET}]{{26}})")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # a lone surrogate, which can only be written as an escape
_TIME_IN_ID = re.compile(r"mem_(\d{10,15})_")


@dataclass(frozen=True, slots=True)
class StateFile:
    """A parsed file. `rest` is what the file has besides the memories; None where the file is a plain list."""

    memories: tuple[Mapping[str, Any], ...] = ()
    rest: Mapping[str, Any] | None = field(default_factory=lambda: {"version": VERSION})
    keyed: bool = False  # by id


def parse_state(text: str) -> StateFile:
    """Parse a state file. Raises InvalidInput, with the line where it isn't JSON."""
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise _format_error(f"Line {error.lineno} is not JSON: {error.msg}.") from error
    except RecursionError as error:
        raise _format_error("It is nested too deeply.") from error
    if isinstance(document, list):
        return StateFile(_check_entries(document), rest=None)
    memories = document.get("memories") if isinstance(document, dict) else None
    if not isinstance(memories, list | dict):
        raise _format_error("There are no memories in it.")
    rest = {name: value for name, value in document.items() if name != "memories"}
    if isinstance(memories, dict):
        entries = [
            {"id": key, **entry} if isinstance(entry, dict) else entry for key, entry in memories.items()
        ]
        return StateFile(_check_entries(entries), rest, keyed=True)
    return StateFile(_check_entries(memories), rest)


def render_state(state: StateFile) -> str:
    """Render the file in the shape it was read in."""
    memories: Any = list(state.memories)
    if state.keyed:
        memories = {entry["id"]: entry for entry in state.memories}
    document = memories if state.rest is None else {**state.rest, "memories": memories}
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    return _LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def own_id(file_id: str) -> str | None:
    """Return the id of a memory of ours that was exported."""
    match = _OWN_ID.fullmatch(file_id)
    return match[1] if match else None


def id_here(file_id: str, *, scope: str, agent: str) -> str:
    """Derive the id of an imported memory: always the same in a scope, and sorted by the memory's creation."""
    match = _TIME_IN_ID.match(file_id)
    digest = hashlib.sha256("\n".join((scope, agent, file_id)).encode("utf-8", "surrogatepass")).digest()
    chance = int.from_bytes(digest[: RANDOM_BITS // 8], "big")
    return encode_id((min(int(match[1]) if match else 0, (1 << 48) - 1) << RANDOM_BITS) | chance)


def id_there(memory: Memory) -> str:
    """Return the id that it had in the file, or a new one of that form which includes our id."""
    file_id = _file_fields(memory).get("id")
    if isinstance(file_id, str) and file_id:
        return file_id
    return f"mem_{max(0, int(memory.created.timestamp() * 1000))}_{memory.id}"


def entry_of(memory: Memory, ids: Mapping[str, str], *, now: datetime) -> dict[str, Any]:
    """Build the file's entry of a memory; `ids` maps our ids to the file's, for all that are in the file."""
    file_fields = _file_fields(memory)
    unknown_fields = {name: value for name, value in file_fields.items() if name not in _FIELDS}
    unknown_type = file_fields.get("type") if memory.kind is Kind.NOTE else None
    entry: dict[str, Any] = {
        "id": ids[memory.id],
        "type": unknown_type or TYPES[memory.kind],
        "content": memory.content,
        "tags": list(memory.tags),
        "created": format_time(memory.created),
        "updated": format_time(memory.updated),
        "confidence": round(confidence_at(memory, now), 4),
        "accessCount": memory.uses,
        "status": str(memory.status),
    }
    if memory.supersedes is not None and memory.supersedes in ids:
        entry["supersedes"] = ids[memory.supersedes]
    if merged := [ids[source] for source in memory.merged_from if source in ids]:
        entry["mergedFrom"] = merged
    return {**entry, **unknown_fields, EXTRA_FIELDS_KEY: _extra_fields(memory)}


def memory_of(
    entry: Mapping[str, Any], ids: Mapping[str, str], *, scope: str, agent: str, replaced: bool, now: datetime
) -> Memory:
    """Build a memory from the file's entry; `ids` maps the file's ids to ours. `replaced`: another memory superseded it.

    Raises InvalidInput, ValueError, TypeError, KeyError.
    """
    extra = entry.get(EXTRA_FIELDS_KEY)
    extra = extra if isinstance(extra, dict) else {}
    kind, status = _kind(entry, extra), _status(entry, replaced=replaced)
    created = _parse_time(entry.get("created"), _created_from_id(entry["id"]) or now)
    memory_id = ids[entry["id"]]
    supersedes = ids.get(_text(entry, "supersedes"))
    merged = [ids[source] for source in _texts(entry, "mergedFrom") if source in ids]
    metadata = extra.get("metadata")
    return memory_from(
        {
            "id": memory_id,
            "content": _text(entry, "content"),
            "kind": kind,
            "scope": scope,
            "agent": agent,
            "created": created.isoformat(),
            "updated": _parse_time(entry.get("updated"), created).isoformat(),
            "occurred": _parse_time(extra.get("occurred"), created).isoformat(),
            "content_hash": "",
            "tokens": 0,
            "topic": _text(extra, "topic"),
            "tags": _texts(entry, "tags"),
            "keywords": _texts(extra, "keywords"),
            "importance": _parse_share(extra.get("importance"), DEFAULT_IMPORTANCE[kind]),
            # One that decays is computed from the age, so the file's value is ignored.
            "confidence": _parse_share((extra if kind in CONFIDENCE_DAYS else entry).get("confidence"), 1.0),
            "tier": extra.get("tier", Tier.WARM),
            "anchor": extra.get("anchor", False),
            "status": status,
            "previous_status": None if status is Status.ACTIVE else Status.ACTIVE,
            "uses": _parse_count(entry.get("accessCount")),
            "verified": None,
            "examined": None,
            "decayed": None,
            "review": now.isoformat(),
            "supersedes": supersedes if supersedes != memory_id else None,
            "merged_from": [source for source in merged if source != memory_id],
            "provenance": _provenance(extra),
            "metadata": {**(metadata if isinstance(metadata, dict) else {}), **_unknown_fields(entry, ids)},
        },
        now=now,
    )


def _superseded_ids(entry: Mapping[str, Any]) -> list[str]:
    """Return the ids in the file of the memories that the entry superseded. Raises InvalidInput."""
    try:
        return list(dict.fromkeys(filter(None, [_text(entry, "supersedes"), *_texts(entry, "mergedFrom")])))
    except TypeError as error:
        raise _refusal(entry, error) from error


def _check_entries(entries: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """Check that each memory has an id; of two with one id keep the later."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"]:
            raise _format_error(f"Memory {number} has no id.")
        by_id[entry["id"]] = entry
    return tuple(by_id.values())


def _format_error(what: str) -> InvalidInput:
    return InvalidInput(
        f"It is no state.json of memories. {what}",
        advice="Nothing was read from it. Give the .memory/state.json of a project.",
    )


def _file_fields(memory: Memory) -> Mapping[str, Any]:
    file_fields = memory.metadata.get(FILE_FIELDS_KEY)
    return file_fields if isinstance(file_fields, Mapping) else {}


def _extra_fields(memory: Memory) -> dict[str, Any]:
    """Return the fields that the format lacks, except default values."""
    metadata = {name: value for name, value in memory.metadata.items() if name != FILE_FIELDS_KEY}
    values_and_defaults: dict[str, tuple[Any, Any]] = {
        "topic": (memory.topic, ""),
        "keywords": (list(memory.keywords), []),
        "importance": (memory.importance, DEFAULT_IMPORTANCE[memory.kind]),
        "confidence": (memory.confidence, 1.0),
        "occurred": (format_time(memory.occurred), format_time(memory.created)),
        "tier": (str(memory.tier), str(Tier.WARM)),
        "anchor": (memory.anchor, False),
        "metadata": (metadata, {}),
        "cited": (_citation(memory.provenance), {}),
    }
    return {"kind": str(memory.kind)} | {
        name: value for name, (value, default) in values_and_defaults.items() if value != default
    }


def _citation(provenance: Provenance) -> dict[str, Any]:
    """Return where a captured memory was said; empty for others."""
    if provenance.source != CAPTURED:
        return {}
    fields = ("conversation", "file", "line")
    return {name: value for name in fields if (value := getattr(provenance, name)) is not None}


def _provenance(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance: of a captured memory its own, of all others that they came from such a file."""
    cited = extra.get("cited")
    if not isinstance(cited, Mapping) or not cited:
        return {"source": SOURCE}
    line = cited.get("line")
    return {
        "source": CAPTURED,
        "dialect": "capture",
        "conversation": _text(cited, "conversation") or None,
        "file": _text(cited, "file") or None,
        "line": line if type(line) is int and 0 <= line <= LARGEST_NUMBER else None,
    }


def _unknown_fields(entry: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata for fields of the file that a memory lacks; empty where there are none."""
    unknown_fields = {name: value for name, value in entry.items() if name not in _FIELDS}
    if ids[entry["id"]] != own_id(entry["id"]):
        unknown_fields["id"] = entry["id"]
    file_type = entry.get("type")
    if isinstance(file_type, str) and file_type not in TYPES:
        unknown_fields["type"] = file_type
    return {FILE_FIELDS_KEY: unknown_fields} if unknown_fields else {}


def _kind(entry: Mapping[str, Any], extra: Mapping[str, Any]) -> Kind:
    """Return its kind here, unless its type was changed in the file; an unknown type becomes a note."""
    file_type, kind = entry.get("type"), extra.get("kind")
    if isinstance(kind, str) and kind in TYPES and TYPES[Kind(kind)] == file_type:
        return Kind(kind)
    return Kind(file_type) if isinstance(file_type, str) and file_type in TYPES else Kind.NOTE


def _status(entry: Mapping[str, Any], *, replaced: bool) -> Status:
    status = entry.get("status")
    if isinstance(status, str) and status in STATUSES:
        return Status(status)
    return Status.SUPERSEDED if replaced else Status.ACTIVE


def _parse_share(value: Any, otherwise: float) -> float:
    if value is not None and not _is_number(value):
        raise TypeError(f"{value!r} is no number from 0 to 1")
    return otherwise if value is None else min(1.0, max(0.0, float(value)))


def _parse_count(value: Any) -> int:
    if value is not None and not _is_number(value):
        raise TypeError(f"accessCount is {value!r}")
    return 0 if value is None else min(LARGEST_NUMBER, max(0, int(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value or ""


def _texts(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name)
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} is no list of texts")
    return texts


def _parse_time(value: Any, otherwise: datetime) -> datetime:
    """Parse a date as text, or milliseconds since 1970."""
    if value is None or value == "":
        return otherwise
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no time")
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _created_from_id(file_id: str) -> datetime | None:
    match = _TIME_IN_ID.match(file_id)
    return datetime.fromtimestamp(int(match[1]) / 1000, UTC) if match and len(match[1]) == 13 else None


def format_time(moment: datetime) -> str:
    """Format a time as in the file; a later time sorts after an earlier one."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


STATE_FOLDER, STATE_FILE_NAME = ".memory", "state.json"
MAX_STATE_BYTES = 128 << 20
EXCHANGED_NAMESPACE = "capture:exchanged"  # by scope: which memories were in state files
MAX_EXCHANGED = 20_000  # the newest


def is_state(path: Path) -> bool:
    """Whether it looks like a state file, by its beginning: a list of objects, or an object with memories that is no export.

    Raises OSError, UnicodeDecodeError.
    """
    with path.open(encoding="utf-8") as stream:
        start = stream.read(HEAD_CHARACTERS).lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        return start[1:].lstrip()[:1] in ("{", "]")
    is_export = _EXPORT.search(start.partition("\n")[0])
    return start.startswith("{") and '"memories"' in start and not is_export


async def scope_of_state(engine: Engine, path: Path, *, create: bool) -> str:
    """Return the scope of the project whose .memory folder holds the file; elsewhere the active scope."""
    where = path.expanduser().resolve()
    if where.parent.name != STATE_FOLDER:
        return engine.settings.scope
    return await scope_of_folder(engine, str(where.parent.parent), create=create) or engine.settings.scope


async def import_state(
    engine: Engine,
    path: Path,
    *,
    scope: str | None,
    agent: str,
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Import the whole file or, if something in it is wrong, nothing. Existing memories are skipped, except that those
    superseded or archived in the file since then become so here too.

    Without a scope it goes to the project of the file, which is created if necessary.
    Raises InvalidInput, ScopeNotFound, OSError, UnicodeDecodeError.
    """
    state = await run_uncancelled(asyncio.to_thread(_state_at, path))
    scope = scope or await scope_of_state(engine, path, create=True)
    await find_scope(engine, scope)
    sources = {entry["id"]: _superseded_ids(entry) for entry in state.memories}
    ids = await _map_ids(engine, sources, scope=scope, agent=agent)
    memories, links = await run_uncancelled(
        asyncio.to_thread(_to_memories, engine, state, sources, ids, scope=scope, agent=agent)
    )
    items = [(f"Memory {file_id}", memory) for file_id, memory in memories.items()]
    imported = await import_items(
        engine, [*items, *(("A link", link) for link in links)], agent=agent, progress=progress
    )
    await _retire(engine, memories.values(), agent=agent)
    await _note_exchanged(engine, scope, [memory.id for memory in memories.values()])
    return imported


async def export_state(engine: Engine, path: Path, *, scope: str, agent: str) -> tuple[Exported, int]:
    """Write the file atomically; return the export, and how many memories that only the file had stay in it.

    Memories that were forgotten or erased here are removed. Raises InvalidInput for a file that is something else,
    ScopeNotFound, StoreFull, StoreReadOnly.
    """
    await find_scope(engine, scope)
    before = await _read_existing(path)
    memories = await _memories_to_export(engine, scope=scope, agent=agent)
    ids = {memory.id: id_there(memory) for memory in memories}
    now = engine.clock()
    entries = [entry_of(memory, ids, now=now) for memory in memories]
    only_in_file = await _only_in_file(engine, before, entries, scope=scope, agent=agent)
    text = render_state(replace(before, memories=(*only_in_file, *entries)))
    await _note_exchanged(engine, scope, list(ids))
    await write_whole(path, text)
    return Exported(str(path), len(entries), 0, 0, 1), len(only_in_file)


def _state_at(path: Path) -> StateFile:
    if path.stat().st_size > MAX_STATE_BYTES:
        raise InvalidInput(
            f"{path} has over {MAX_STATE_BYTES >> 20} MB.",
            advice="Nothing was read. Split it into several files.",
        )
    return parse_state(path.read_text(encoding="utf-8"))


async def _map_ids(
    engine: Engine, sources: Mapping[str, Sequence[str]], *, scope: str, agent: str
) -> dict[str, str]:
    """Map the file's ids to ours, for what is in the file or here. One of ours in another scope becomes a separate memory.

    `sources` has the ids in the file, each with those that it superseded.
    """
    file_ids = list(dict.fromkeys([*sources, *(source for each in sources.values() for source in each)]))
    own_ids = {file_id: own for file_id in file_ids if (own := own_id(file_id)) is not None}
    own_memories = await engine.store.get_many(list(own_ids.values()), viewer="system")
    ids = {file_id: id_here(file_id, scope=scope, agent=agent) for file_id in file_ids}
    for file_id, own in own_ids.items():
        if own not in own_memories or own_memories[own].scope == scope:
            ids[file_id] = own
    existing = await engine.store.get_many(
        [ids[file_id] for file_id in file_ids if file_id not in sources], viewer=agent
    )
    return {file_id: ids[file_id] for file_id in file_ids if file_id in sources or ids[file_id] in existing}


def _to_memories(
    engine: Engine,
    state: StateFile,
    sources: Mapping[str, Sequence[str]],
    ids: Mapping[str, str],
    *,
    scope: str,
    agent: str,
) -> tuple[dict[str, Memory], list[Link]]:
    """Build memories, by their ids in the file, and links. Raises InvalidInput, naming the memory."""
    now = engine.clock()
    replaced = {source for each in sources.values() for source in each}
    memories: dict[str, Memory] = {}
    links: list[Link] = []
    for entry in state.memories:
        try:
            memory = memory_of(
                entry, ids, scope=scope, agent=agent, replaced=entry["id"] in replaced, now=now
            )
        except InvalidInput as error:
            raise _refusal(entry, error.message) from error
        except (ValueError, TypeError, KeyError, OverflowError, OSError) as error:
            raise _refusal(entry, error) from error
        memories[entry["id"]] = memory
        links.extend(
            Link(ids[source], memory.id, Relation.SUPERSEDED_BY, memory.created, automatic=True)
            for source in sources[entry["id"]]
            if source in ids and ids[source] != memory.id
        )
    return memories, links


def _refusal(entry: Mapping[str, Any], why: object) -> InvalidInput:
    return InvalidInput(
        f"Memory {str(entry['id'])[:64]} is refused: {why}",
        advice="Nothing was imported; correct the file and import again.",
    )


async def _retire(engine: Engine, memories: Iterable[Memory], *, agent: str) -> None:
    """Retire what was superseded or archived in the file after an earlier import, unless it is permanent here, was
    restored or amended since, or says something else by now.
    """
    retired_by_id = {memory.id: memory for memory in memories if memory.status is not Status.ACTIVE}
    current_by_id = await engine.store.get_many(list(retired_by_id), viewer=agent)
    now = engine.clock()
    await engine.store.apply(
        [
            Mark(current.id, retired_by_id[current.id].status, Status.ACTIVE, now, only_from=Status.ACTIVE)
            for current in current_by_id.values()
            if current.status is Status.ACTIVE
            and not is_kept_for_good(current)
            and format_time(retired_by_id[current.id].updated) >= format_time(current.updated)
            and current.content_hash
            == content_hash(checked_content(engine, retired_by_id[current.id].content))
        ]
    )


async def _read_existing(path: Path) -> StateFile:
    """Read the file that will be replaced."""
    try:
        return await run_uncancelled(asyncio.to_thread(_state_at, path))
    except FileNotFoundError:
        return StateFile()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} can't be read: {error}.", advice="Choose another place.") from error
    except InvalidInput as error:
        raise InvalidInput(
            f"{path} is there already and would be overwritten. {error.message}",
            advice="Nothing was written. Choose another place, or move that file away.",
        ) from error


async def _memories_to_export(engine: Engine, *, scope: str, agent: str) -> list[Memory]:
    where = Filter(viewer=agent, scopes=(scope,), statuses=STATUSES)
    memories = [memory async for batch in engine.store.scan(where) for memory in batch]
    return sorted(
        (memory for memory in memories if memory.kind is not Kind.EPISODE and not is_working(memory)),
        key=lambda memory: (memory.created, memory.id),
    )


async def _only_in_file(
    engine: Engine, before: StateFile, entries: Sequence[Mapping[str, Any]], *, scope: str, agent: str
) -> list[Mapping[str, Any]]:
    """Return entries that were not exported now, by id or content, and were not forgotten or erased here since an exchange."""
    ids, texts = {entry["id"] for entry in entries}, {entry["content"] for entry in entries}
    others = [
        entry for entry in before.memories if entry["id"] not in ids and entry.get("content") not in texts
    ]
    ids_here = {
        entry["id"]: own_id(entry["id"]) or id_here(entry["id"], scope=scope, agent=agent) for entry in others
    }
    existing = await engine.store.get_many(list(ids_here.values()), viewer="system")
    exchanged = await _exchanged(engine, scope)

    def stays(file_id: str) -> bool:
        current = existing.get(ids_here[file_id])
        if current is not None:
            return current.status is not Status.FORGOTTEN
        return _hash_id(ids_here[file_id]) not in exchanged

    return [entry for entry in others if stays(entry["id"])]


async def _exchanged(engine: Engine, scope: str) -> list[str]:
    entry = await engine.store.entry(EXCHANGED_NAMESPACE, fingerprint(scope), now=engine.clock())
    return list(entry.value["ids"]) if entry else []


async def _note_exchanged(engine: Engine, scope: str, ids: Sequence[str]) -> None:
    """Record which memories were imported or exported, by hash, because a memory may be erased one day."""
    before = await _exchanged(engine, scope)
    after = list(dict.fromkeys((*before, *map(_hash_id, ids))))
    if after != before:
        value = {"ids": after[-MAX_EXCHANGED:]}
        await engine.store.put_entry(Entry(EXCHANGED_NAMESPACE, fingerprint(scope), value, engine.clock()))


def _hash_id(memory_id: str) -> str:
    return fingerprint(memory_id)[:12]
