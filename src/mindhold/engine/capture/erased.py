"""Captured memories that somebody erased for good must not come back when their conversation is read again.

Of each a fingerprint is kept for a while, with the conversation's id, and nothing that could be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mindhold.engine.capture.item import CAPTURED
from mindhold.engine.capture.pending import drop_pending_of
from mindhold.engine.core import Engine
from mindhold.engine.draft import content_hash
from mindhold.engine.keys import fingerprint
from mindhold.model.entry import Entry
from mindhold.model.memory import Memory

DRAWER = "capture:erased"
KEPT = timedelta(days=365)
MOST = 100_000


async def note_erased(engine: Engine, memories: Sequence[Memory]) -> None:
    """Before they are erased: that they were, and nothing of them stays among what is still to be stored."""
    captured = [memory for memory in memories if memory.provenance.source == CAPTURED]
    if not captured:
        return
    now = engine.clock()
    versions = await engine.store.versions_among([memory.id for memory in captured])
    gone: dict[str, set[str]] = defaultdict(set)
    for memory in captured:
        once = (content_hash(one.content) for one in versions.get(memory.id, ()))
        hashes = {memory.content_hash, *once}
        gone[memory.scope] |= hashes
        for digest in hashes:
            key = _key(digest, scope=memory.scope, agent=memory.agent)
            value = {"scope": memory.scope, "agent": memory.agent, "hash": digest}
            if memory.provenance.conversation:
                value["conversation"] = memory.provenance.conversation
            await engine.store.put_entry(Entry(DRAWER, key, value, now, now + KEPT))
    for scope, hashes in gone.items():
        await drop_pending_of(engine, scope, hashes)


async def follow_erased(engine: Engine, old: str, new: str) -> None:
    """What was erased of a scope that is called otherwise now."""
    for entry in await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST):
        value = {**entry.value, "scope": new}
        if entry.value.get("scope") == old:
            key = _key(value["hash"], scope=new, agent=value["agent"])
            await engine.store.put_entry(replace(entry, key=key, value=value))
            await engine.store.drop_entry(DRAWER, entry.key)


async def drop_erased_of(engine: Engine, conversations: Collection[str], *, since: datetime) -> int:
    """Let what was erased of these conversations since then be captured again; how many marks went."""
    dropped = 0
    for entry in await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST):
        if entry.value.get("conversation") in conversations and entry.created >= since:
            dropped += await engine.store.drop_entry(DRAWER, entry.key)
    return dropped


async def erased_at(engine: Engine, digest: str, *, scope: str, agent: str) -> datetime | None:
    """When what has that content hash was erased there; None if it wasn't."""
    key = _key(digest, scope=scope, agent=agent)
    entry = await engine.store.entry(DRAWER, key, now=engine.clock())
    return entry.created if entry else None


def _key(digest: str, *, scope: str, agent: str) -> str:
    return fingerprint(f"{scope}\n{agent}\n{digest}")
