"""The journal of captures: items that are not stored yet, and items that were erased."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from mindhold.access.secrets import fingerprint
from mindhold.capture.extracted_items import CAPTURED, CapturedItem
from mindhold.engine import Engine
from mindhold.memories.prepare import content_hash
from mindhold.model.job import Entry
from mindhold.model.memory import Memory

PENDING_NAMESPACE = "capture:pending"
PENDING_KEPT = timedelta(days=7)  # after that the file is read again
MAX_PENDING_NOTES = 10_000


@dataclass(frozen=True, slots=True)
class Pending:
    """Extracted items that are not stored yet. `old` is the cursor before them, `next_` the one after."""

    old: str | None
    next_: str
    scope: str | None
    items: tuple[CapturedItem, ...]


async def put_pending(engine: Engine, key: str, pending: Pending) -> None:
    """Write the pending items. Raises the store's errors."""
    now = engine.clock()
    value = {
        "old": pending.old,
        "next": pending.next_,
        "scope": pending.scope,
        "items": [
            {**asdict(item), "kind": item.kind.value, "said": item.said and item.said.isoformat()}
            for item in pending.items
        ],
    }
    await engine.store.put_entry(Entry(PENDING_NAMESPACE, key, value, now, now + PENDING_KEPT))


def parse_pending(value: Mapping[str, Any]) -> Pending:
    """Parse pending items. Raises ValueError for what another version wrote and can't be understood."""
    return _pending_adapter().validate_python({**value, "next_": value.get("next")})


@cache
def _pending_adapter() -> TypeAdapter[Pending]:
    return TypeAdapter(Pending)


async def drop_pending_of(engine: Engine, scope: str, hashes: Collection[str] = ()) -> None:
    """Drop the pending items of a scope; with `hashes` only those with one of these contents. They are found again in the file."""
    for entry in await engine.store.entries(PENDING_NAMESPACE, now=engine.clock(), limit=MAX_PENDING_NOTES):
        items = entry.value.get("items")
        items = [item for item in items if isinstance(item, dict)] if isinstance(items, list | tuple) else []
        pending_hashes = {content_hash(str(item.get("content"))) for item in items}
        if entry.value.get("scope") == scope and (not hashes or pending_hashes.intersection(hashes)):
            await engine.store.drop_entry(PENDING_NAMESPACE, entry.key)


ERASED_NAMESPACE = "capture:erased"
ERASED_KEPT = timedelta(days=365)
MAX_ERASED = 100_000


async def note_erased(engine: Engine, memories: Sequence[Memory]) -> None:
    """Record that captured memories are erased, and drop them from the pending items. Call it before the erasure."""
    captured = [memory for memory in memories if memory.provenance.source == CAPTURED]
    if not captured:
        return
    now = engine.clock()
    erased_hashes: dict[str, set[str]] = defaultdict(set)
    for memory, hashes in await all_hashes(engine, captured):
        erased_hashes[memory.scope] |= hashes
        for digest in hashes:
            key = _erased_key(digest, scope=memory.scope, agent=memory.agent)
            value = {"scope": memory.scope, "agent": memory.agent, "hash": digest}
            if memory.provenance.conversation:
                value["conversation"] = memory.provenance.conversation
            await engine.store.put_entry(Entry(ERASED_NAMESPACE, key, value, now, now + ERASED_KEPT))
    for scope, hashes in erased_hashes.items():
        await drop_pending_of(engine, scope, hashes)


async def all_hashes(engine: Engine, memories: Sequence[Memory]) -> list[tuple[Memory, set[str]]]:
    """Return each memory with the hashes of its current and earlier contents."""
    versions = await engine.store.versions_among([memory.id for memory in memories])
    return [
        (memory, {memory.content_hash, *(content_hash(old.content) for old in versions.get(memory.id, ()))})
        for memory in memories
    ]


async def follow_erased(engine: Engine, old: str, new: str) -> None:
    """Move the records of erased memories to a scope's new name."""
    for entry in await engine.store.entries(ERASED_NAMESPACE, now=engine.clock(), limit=MAX_ERASED):
        value = {**entry.value, "scope": new}
        if entry.value.get("scope") == old:
            key = _erased_key(value["hash"], scope=new, agent=value["agent"])
            await engine.store.put_entry(replace(entry, key=key, value=value))
            await engine.store.drop_entry(ERASED_NAMESPACE, entry.key)


async def drop_erased_of(engine: Engine, conversations: Collection[str], *, since: datetime) -> int:
    """Let erased memories of these conversations be captured again; return how many records were dropped."""
    dropped = 0
    for entry in await engine.store.entries(ERASED_NAMESPACE, now=engine.clock(), limit=MAX_ERASED):
        if entry.value.get("conversation") in conversations and entry.created >= since:
            dropped += await engine.store.drop_entry(ERASED_NAMESPACE, entry.key)
    return dropped


async def erased_at(engine: Engine, digest: str, *, scope: str, agent: str) -> datetime | None:
    """Return when the content with that hash was erased; None if it wasn't."""
    key = _erased_key(digest, scope=scope, agent=agent)
    entry = await engine.store.entry(ERASED_NAMESPACE, key, now=engine.clock())
    return entry.created if entry else None


def _erased_key(digest: str, *, scope: str, agent: str) -> str:
    return fingerprint(f"{scope}\n{agent}\n{digest}")
