"""`.memory/state.json` in and out, so that whoever keeps memories in such a file can come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindhold.engine.capture.place import scope_of_folder
from mindhold.engine.capture.state_form import (
    LOOKED_AT,
    STATUSES,
    State,
    entry_of,
    id_here,
    id_there,
    looks_like_state,
    memory_of,
    own_id,
    parse_state,
    sources_of,
    stamp,
    written,
)
from mindhold.engine.checks import checked_content
from mindhold.engine.core import Engine, unbroken
from mindhold.engine.draft import content_hash
from mindhold.engine.imports import Imported, import_items
from mindhold.engine.keys import fingerprint
from mindhold.engine.reach import find_scope
from mindhold.engine.transfer import Exported, write_whole
from mindhold.model.entry import Entry
from mindhold.model.errors import InvalidInput
from mindhold.model.life import is_kept_for_good, is_working
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Filter
from mindhold.ports.store import Mark

FOLDER, NAME = ".memory", "state.json"
MOST_BYTES = 128 << 20
DRAWER = "capture:exchanged"  # by scope: which memories state files have had
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
        return engine.policy.scope
    return await scope_of_folder(engine, str(where.parent.parent), create=create) or engine.policy.scope


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
    state = await unbroken(asyncio.to_thread(_state_at, path))
    scope = scope or await scope_of_state(engine, path, create=True)
    await find_scope(engine, scope)
    ids = await _ids(engine, state, scope=scope, agent=agent)
    read = await unbroken(asyncio.to_thread(_read, engine, state, ids, scope=scope, agent=agent))
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
    text = written(replace(before, memories=(*kept, *entries)))
    await _note_exchanged(engine, scope, list(ids))
    await write_whole(path, text)
    return Exported(str(path), len(entries), 0, 0, 1), len(kept)


def _state_at(path: Path) -> State:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidInput(
            f"{path} has over {MOST_BYTES >> 20} MB.", advice="Nothing was read. Split it into several files."
        )
    return parse_state(path.read_text(encoding="utf-8"))


async def _ids(engine: Engine, state: State, *, scope: str, agent: str) -> dict[str, str]:
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


def _read(engine: Engine, state: State, ids: Mapping[str, str], *, scope: str, agent: str) -> _Read:
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


async def _before(path: Path) -> State:
    """What stands there now."""
    try:
        return await unbroken(asyncio.to_thread(_state_at, path))
    except FileNotFoundError:
        return State()
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
    engine: Engine, before: State, entries: Sequence[Mapping[str, Any]], *, scope: str, agent: str
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
    noted = await engine.store.entry(DRAWER, fingerprint(scope), now=engine.clock())
    return list(noted.value["ids"]) if noted else []


async def _note_exchanged(engine: Engine, scope: str, ids: Sequence[str]) -> None:
    """What came from such a file, or went into one. No id of what may be erased one day stands there itself."""
    before = await _exchanged(engine, scope)
    after = list(dict.fromkeys((*before, *map(_mark, ids))))
    if after != before:
        value = {"ids": after[-MOST_EXCHANGED:]}
        await engine.store.put_entry(Entry(DRAWER, fingerprint(scope), value, engine.clock()))


def _mark(memory_id: str) -> str:
    return fingerprint(memory_id)[:12]
