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
from mindhold.capture.items import CAPTURED
from mindhold.capture.project_folder import scope_of_folder
from mindhold.engine import Engine
from mindhold.memories.export import Exported, write_whole
from mindhold.memories.importer import Imported, import_items
from mindhold.memories.prepare import content_hash
from mindhold.memories.serialization import memory_from
from mindhold.memories.validation import LARGEST_NUMBER, checked_content
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
# In the metadata of what came from such a file: its id there, and what else stood there.
THEIRS = "memory_mcp"
OWN = "mindhold"  # in the file: what of a memory has no place in it otherwise
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
LOOKED_AT = 64 << 10  # characters in which such a file shows what it is

_NAMES = "id type content tags created updated confidence accessCount supersedes mergedFrom status"
_FIELDS = frozenset((*_NAMES.split(), OWN))
_EXPORT = re.compile(r'"mindhold"\s*:\s*"export"')
_OURS = re.compile(rf"mem_\d+_([{ID_ALPHABET}]{{26}})")
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: only as an escape can it be written
_MADE = re.compile(r"mem_(\d{10,15})_")


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file as it was read. `rest` is what stands beside the memories; None where the file is but a list of them."""

    memories: tuple[Mapping[str, Any], ...] = ()
    rest: Mapping[str, Any] | None = field(default_factory=lambda: {"version": VERSION})
    keyed: bool = False  # by their ids


def looks_like_state(head: str) -> bool:
    """By the beginning of a file: a list of objects, or an object with memories that isn't the head of an export."""
    start = head.lstrip("\ufeff \t\r\n")
    if start.startswith("["):
        return start[1:].lstrip()[:1] in ("{", "]")
    exported = _EXPORT.search(start.partition("\n")[0])
    return start.startswith("{") and '"memories"' in start and not exported


def parse_state(text: str) -> StateFile:
    """Raises InvalidInput, with the line where it isn't JSON."""
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise _wrong(f"Line {error.lineno} is not JSON: {error.msg}.") from error
    except RecursionError as error:
        raise _wrong("It is nested too deeply.") from error
    if isinstance(document, list):
        return StateFile(_objects(document), rest=None)
    found = document.get("memories") if isinstance(document, dict) else None
    if not isinstance(found, list | dict):
        raise _wrong("There are no memories in it.")
    rest = {name: value for name, value in document.items() if name != "memories"}
    if isinstance(found, dict):
        named = [{"id": key, **each} if isinstance(each, dict) else each for key, each in found.items()]
        return StateFile(_objects(named), rest, keyed=True)
    return StateFile(_objects(found), rest)


def render_state(state: StateFile) -> str:
    """The file's text, in the shape it was read in."""
    memories: Any = list(state.memories)
    if state.keyed:
        memories = {each["id"]: each for each in state.memories}
    document = memories if state.rest is None else {**state.rest, "memories": memories}
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def own_id(theirs: str) -> str | None:
    """The id here of a memory that was written there from here."""
    found = _OURS.fullmatch(theirs)
    return found[1] if found else None


def id_here(theirs: str, *, scope: str, agent: str) -> str:
    """The same one each time, and another one in another scope; it sorts by when the memory was made."""
    made = _MADE.match(theirs)
    digest = hashlib.sha256("\n".join((scope, agent, theirs)).encode("utf-8", "surrogatepass")).digest()
    chance = int.from_bytes(digest[: RANDOM_BITS // 8], "big")
    return encode_id((min(int(made[1]) if made else 0, (1 << 48) - 1) << RANDOM_BITS) | chance)


def id_there(memory: Memory) -> str:
    """The id that it had there, or one of that form which tells which memory it is here."""
    known = _known(memory).get("id")
    return known if isinstance(known, str) and known else f"mem_{_milliseconds(memory.created)}_{memory.id}"


def entry_of(memory: Memory, ids: Mapping[str, str], *, now: datetime) -> dict[str, Any]:
    """A memory as the file has it; `ids` are those there, by those here, of all that are in the file."""
    known = _known(memory)
    further = {name: value for name, value in known.items() if name not in _FIELDS}
    foreign = known.get("type") if memory.kind is Kind.NOTE else None
    entry: dict[str, Any] = {
        "id": ids[memory.id],
        "type": foreign or TYPES[memory.kind],
        "content": memory.content,
        "tags": list(memory.tags),
        "created": stamp(memory.created),
        "updated": stamp(memory.updated),
        "confidence": round(confidence_at(memory, now), 4),
        "accessCount": memory.uses,
        "status": str(memory.status),
    }
    if memory.supersedes is not None and memory.supersedes in ids:
        entry["supersedes"] = ids[memory.supersedes]
    if merged := [ids[source] for source in memory.merged_from if source in ids]:
        entry["mergedFrom"] = merged
    return {**entry, **further, OWN: _own(memory)}


def memory_of(
    entry: Mapping[str, Any], ids: Mapping[str, str], *, scope: str, agent: str, replaced: bool, now: datetime
) -> Memory:
    """`ids` are those here, by those there; `replaced`: another memory of the file took its place.

    Raises InvalidInput, ValueError, TypeError, KeyError.
    """
    own = entry.get(OWN)
    own = own if isinstance(own, dict) else {}
    kind, status = _kind(entry, own), _status(entry, replaced=replaced)
    made = _moment(entry.get("created"), _made(entry["id"]) or now)
    here = ids[entry["id"]]
    supersedes = ids.get(_text(entry, "supersedes"))
    merged = [ids[source] for source in _texts(entry, "mergedFrom") if source in ids]
    kept = own.get("metadata")
    return memory_from(
        {
            "id": here,
            "content": _text(entry, "content"),
            "kind": kind,
            "scope": scope,
            "agent": agent,
            "created": made.isoformat(),
            "updated": _moment(entry.get("updated"), made).isoformat(),
            "occurred": _moment(own.get("occurred"), made).isoformat(),
            "content_hash": "",
            "tokens": 0,
            "topic": _text(own, "topic"),
            "tags": _texts(entry, "tags"),
            "keywords": _texts(own, "keywords"),
            "importance": _share(own.get("importance"), DEFAULT_IMPORTANCE[kind]),
            "confidence": _confidence(entry, own, kind),
            "tier": own.get("tier", Tier.WARM),
            "anchor": own.get("anchor", False),
            "status": status,
            "previous_status": None if status is Status.ACTIVE else Status.ACTIVE,
            "uses": _count(entry.get("accessCount")),
            "verified": None,
            "examined": None,
            "decayed": None,
            "review": now.isoformat(),
            "supersedes": supersedes if supersedes != here else None,
            "merged_from": [source for source in merged if source != here],
            "provenance": _provenance(own),
            "metadata": {**(kept if isinstance(kept, dict) else {}), **_further(entry, ids)},
        },
        now=now,
    )


def sources_of(entry: Mapping[str, Any]) -> list[str]:
    """Whose place it took, by their ids there. Raises TypeError."""
    return list(dict.fromkeys(filter(None, [_text(entry, "supersedes"), *_texts(entry, "mergedFrom")])))


def _objects(found: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """Of two with one id the later."""
    known: dict[str, Mapping[str, Any]] = {}
    for number, each in enumerate(found, 1):
        if not isinstance(each, dict) or not isinstance(each.get("id"), str) or not each["id"]:
            raise _wrong(f"Memory {number} has no id.")
        known[each["id"]] = each
    return tuple(known.values())


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(
        f"It is no state.json of memories. {what}",
        advice="Nothing was read from it. Give the .memory/state.json of a project.",
    )


def _known(memory: Memory) -> Mapping[str, Any]:
    known = memory.metadata.get(THEIRS)
    return known if isinstance(known, Mapping) else {}


def _own(memory: Memory) -> dict[str, Any]:
    """What has no field there, as far as it isn't what it would be anyway."""
    metadata = {name: value for name, value in memory.metadata.items() if name != THEIRS}
    usual = {
        "topic": "",
        "keywords": [],
        "importance": DEFAULT_IMPORTANCE[memory.kind],
        "confidence": 1.0,
        "occurred": stamp(memory.created),
        "tier": str(Tier.WARM),
        "anchor": False,
        "metadata": {},
        "cited": {},
    }
    actual = {
        "topic": memory.topic,
        "keywords": list(memory.keywords),
        "importance": memory.importance,
        "confidence": memory.confidence,
        "occurred": stamp(memory.occurred),
        "tier": str(memory.tier),
        "anchor": memory.anchor,
        "metadata": metadata,
        "cited": _cited(memory.provenance),
    }
    return {"kind": str(memory.kind)} | {
        name: value for name, value in actual.items() if value != usual[name]
    }


def _cited(provenance: Provenance) -> dict[str, Any]:
    """Where a captured memory was said; of others it isn't known, or nobody's business."""
    if provenance.source != CAPTURED:
        return {}
    told = {
        "conversation": provenance.conversation,
        "file": provenance.file,
        "line": provenance.line,
    }
    return {name: value for name, value in told.items() if value is not None}


def _provenance(own: Mapping[str, Any]) -> dict[str, Any]:
    """That of a captured memory, so that it stays one; whatever else stands in such a file came from there."""
    cited = own.get("cited")
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


def _further(entry: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """What came from there and has no field here; nothing for what is ours and has nothing of the sort."""
    theirs = {name: value for name, value in entry.items() if name not in _FIELDS}
    if ids[entry["id"]] != own_id(entry["id"]):
        theirs["id"] = entry["id"]
    given = entry.get("type")
    if isinstance(given, str) and given not in TYPES:
        theirs["type"] = given
    return {THEIRS: theirs} if theirs else {}


def _kind(entry: Mapping[str, Any], own: Mapping[str, Any]) -> Kind:
    """What it was here, unless its type was changed there; a type that nobody knows is a note."""
    given, kept = entry.get("type"), own.get("kind")
    if isinstance(kept, str) and kept in TYPES and TYPES[Kind(kept)] == given:
        return Kind(kept)
    return Kind(given) if isinstance(given, str) and given in TYPES else Kind.NOTE


def _status(entry: Mapping[str, Any], *, replaced: bool) -> Status:
    given = entry.get("status")
    if isinstance(given, str) and given in STATUSES:
        return Status(given)
    return Status.SUPERSEDED if replaced else Status.ACTIVE


def _confidence(entry: Mapping[str, Any], own: Mapping[str, Any], kind: Kind) -> float:
    """What loses it day by day is worked out from its age, there as here: what stands there is no more than that."""
    return _share((own if kind in CONFIDENCE_DAYS else entry).get("confidence"), 1.0)


def _share(value: Any, otherwise: float) -> float:
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(f"{value!r} is no number from 0 to 1")
    return min(1.0, max(0.0, float(value)))


def _count(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(f"accessCount is {value!r}")
    return min(LARGEST_NUMBER, max(0, int(value)))


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value or ""


def _texts(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name)
    found = [value] if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TypeError(f"{name} is no list of texts")
    return found


def _moment(value: Any, otherwise: datetime) -> datetime:
    """A date as text, or milliseconds since 1970."""
    if value is None or value == "":
        return otherwise
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000, UTC)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no time")
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _made(theirs: str) -> datetime | None:
    found = _MADE.match(theirs)
    return datetime.fromtimestamp(int(found[1]) / 1000, UTC) if found and len(found[1]) == 13 else None


def stamp(moment: datetime) -> str:
    """As the file has it; of two the later is the greater."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))


FOLDER, NAME = ".memory", "state.json"
MOST_BYTES = 128 << 20
EXCHANGED_NAMESPACE = "capture:exchanged"  # by scope: which memories state files have had
MOST_EXCHANGED = 20_000  # the newest


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file says, in our terms."""

    memories: Mapping[str, Memory]  # by their ids there
    links: Sequence[Link]


def is_state(path: Path) -> bool:
    """Whether the file looks like one. Raises OSError, UnicodeDecodeError."""
    with path.open(encoding="utf-8") as stream:
        return looks_like_state(stream.read(LOOKED_AT))


async def scope_of_state(engine: Engine, path: Path, *, create: bool) -> str:
    """That of the project in whose .memory folder the file lies; the one in use for a file that lies elsewhere."""
    where = path.expanduser().resolve()
    if where.parent.name != FOLDER:
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
    """All of it or, where something in it is wrong, nothing. What is here already is passed over, but for one thing: what
    was superseded or archived there since then is so here too.

    Without a scope it goes to the project that it lies in, which is made if need be.
    Raises InvalidInput, ScopeNotFound, OSError, UnicodeDecodeError.
    """
    state = await run_uncancelled(asyncio.to_thread(_state_at, path))
    scope = scope or await scope_of_state(engine, path, create=True)
    await find_scope(engine, scope)
    ids = await _ids(engine, state, scope=scope, agent=agent)
    read = await run_uncancelled(asyncio.to_thread(_read, engine, state, ids, scope=scope, agent=agent))
    items = [(f"Memory {theirs}", memory) for theirs, memory in read.memories.items()]
    done = await import_items(
        engine, [*items, *(("A link", link) for link in read.links)], agent=agent, progress=progress
    )
    await _retire(engine, read.memories.values(), agent=agent)
    await _note_exchanged(engine, scope, [memory.id for memory in read.memories.values()])
    return done


async def export_state(engine: Engine, path: Path, *, scope: str, agent: str) -> tuple[Exported, int]:
    """Write it atomically, and how many memories that only the file had stay in it, with whatever else stood there.

    What was forgotten or erased here goes. Raises InvalidInput for a file that is something else, ScopeNotFound, StoreFull,
    StoreReadOnly.
    """
    await find_scope(engine, scope)
    before = await _before(path)
    memories = await _exported(engine, scope=scope, agent=agent)
    ids = {memory.id: id_there(memory) for memory in memories}
    now = engine.clock()
    entries = [entry_of(memory, ids, now=now) for memory in memories]
    kept = await _only_there(engine, before, entries, scope=scope, agent=agent)
    text = render_state(replace(before, memories=(*kept, *entries)))
    await _note_exchanged(engine, scope, list(ids))
    await write_whole(path, text)
    return Exported(str(path), len(entries), 0, 0, 1), len(kept)


def _state_at(path: Path) -> StateFile:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidInput(
            f"{path} has over {MOST_BYTES >> 20} MB.", advice="Nothing was read. Split it into several files."
        )
    return parse_state(path.read_text(encoding="utf-8"))


async def _ids(engine: Engine, state: StateFile, *, scope: str, agent: str) -> dict[str, str]:
    """Ids here by those there, of what is in the file or here. One of ours in another scope becomes a memory of its own."""
    mentioned = {source for entry in state.memories for source in _sources(entry)}
    theirs = list(dict.fromkeys([*(entry["id"] for entry in state.memories), *mentioned]))
    ours = {one: own for one in theirs if (own := own_id(one)) is not None}
    present = await engine.store.get_many(list(ours.values()), viewer="system")
    ids = {one: id_here(one, scope=scope, agent=agent) for one in theirs}
    for one, own in ours.items():
        if own not in present or present[own].scope == scope:
            ids[one] = own
    known = {entry["id"] for entry in state.memories}
    beside = await engine.store.get_many([ids[one] for one in theirs if one not in known], viewer=agent)
    return {one: ids[one] for one in theirs if one in known or ids[one] in beside}


def _sources(entry: Mapping[str, Any]) -> list[str]:
    try:
        return sources_of(entry)
    except TypeError as error:
        raise _refused(entry, error) from error


def _read(engine: Engine, state: StateFile, ids: Mapping[str, str], *, scope: str, agent: str) -> _Read:
    """Raises InvalidInput, naming the memory."""
    now = engine.clock()
    replaced = {source for entry in state.memories for source in _sources(entry)}
    memories: dict[str, Memory] = {}
    links: list[Link] = []
    for entry in state.memories:
        try:
            memory = memory_of(
                entry, ids, scope=scope, agent=agent, replaced=entry["id"] in replaced, now=now
            )
        except InvalidInput as error:
            raise _refused(entry, error.message) from error
        except (ValueError, TypeError, KeyError, OverflowError, OSError) as error:
            raise _refused(entry, error) from error
        memories[entry["id"]] = memory
        links.extend(
            Link(ids[source], memory.id, Relation.SUPERSEDED_BY, memory.created, automatic=True)
            for source in sources_of(entry)
            if source in ids and ids[source] != memory.id
        )
    return _Read(memories, links)


def _refused(entry: Mapping[str, Any], why: object) -> InvalidInput:
    return InvalidInput(
        f"Memory {str(entry['id'])[:64]} is refused: {why}",
        advice="Nothing was imported; correct the file and import again.",
    )


async def _retire(engine: Engine, memories: Iterable[Memory], *, agent: str) -> None:
    """What left the stage there after an earlier import. What is kept for good here, was brought back or amended since, or says
    something else by now, stays."""
    gone = {memory.id: memory for memory in memories if memory.status is not Status.ACTIVE}
    present = await engine.store.get_many(list(gone), viewer=agent)
    now = engine.clock()
    await engine.store.apply(
        [
            Mark(ours.id, gone[ours.id].status, Status.ACTIVE, now, only_from=Status.ACTIVE)
            for ours in present.values()
            if ours.status is Status.ACTIVE
            and not is_kept_for_good(ours)
            and stamp(gone[ours.id].updated) >= stamp(ours.updated)
            and ours.content_hash == content_hash(checked_content(engine, gone[ours.id].content))
        ]
    )


async def _before(path: Path) -> StateFile:
    """What stands there now."""
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


async def _exported(engine: Engine, *, scope: str, agent: str) -> list[Memory]:
    where = Filter(viewer=agent, scopes=(scope,), statuses=STATUSES)
    found = [memory async for batch in engine.store.scan(where) for memory in batch]
    return sorted(
        (memory for memory in found if memory.kind is not Kind.EPISODE and not is_working(memory)),
        key=lambda memory: (memory.created, memory.id),
    )


async def _only_there(
    engine: Engine, before: StateFile, entries: Sequence[Mapping[str, Any]], *, scope: str, agent: str
) -> list[Mapping[str, Any]]:
    """Neither exported now, by id or by content, nor forgotten or erased here: what was exchanged before and is no more."""
    ids, texts = {entry["id"] for entry in entries}, {entry["content"] for entry in entries}
    others = [
        entry for entry in before.memories if entry["id"] not in ids and entry.get("content") not in texts
    ]
    here = {
        entry["id"]: own_id(entry["id"]) or id_here(entry["id"], scope=scope, agent=agent) for entry in others
    }
    known = await engine.store.get_many(list(here.values()), viewer="system")
    exchanged = await _exchanged(engine, scope)

    def stays(theirs: str) -> bool:
        ours = known.get(here[theirs])
        return _mark(here[theirs]) not in exchanged if ours is None else ours.status is not Status.FORGOTTEN

    return [entry for entry in others if stays(entry["id"])]


async def _exchanged(engine: Engine, scope: str) -> list[str]:
    noted = await engine.store.entry(EXCHANGED_NAMESPACE, fingerprint(scope), now=engine.clock())
    return list(noted.value["ids"]) if noted else []


async def _note_exchanged(engine: Engine, scope: str, ids: Sequence[str]) -> None:
    """What came from such a file, or went into one. No id of what may be erased one day stands there itself."""
    before = await _exchanged(engine, scope)
    after = list(dict.fromkeys((*before, *map(_mark, ids))))
    if after != before:
        value = {"ids": after[-MOST_EXCHANGED:]}
        await engine.store.put_entry(Entry(EXCHANGED_NAMESPACE, fingerprint(scope), value, engine.clock()))


def _mark(memory_id: str) -> str:
    return fingerprint(memory_id)[:12]
