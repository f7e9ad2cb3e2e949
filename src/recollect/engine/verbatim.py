"""Writing what stands as it was said: nothing is merged with it, and it takes nothing else's place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recollect.engine.core import Engine
from recollect.engine.draft import PART_OF, Draft, Prepared, content_hash, prepare
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory
from recollect.ports.store import Change, Connect, Put

PART = "part"  # metadata of the later parts of a long text: which one it is
PARTS = "parts"  # and of the first: how many there are


@dataclass(frozen=True, slots=True)
class Kept:
    """What was written; `memory` is the first part of a long text."""

    memory: Memory
    parts: int
    embedded: bool
    suspicious: tuple[str, ...]


async def keep_verbatim(engine: Engine, draft: Draft) -> Kept:
    """Store a draft, whatever else says the same.

    Raises InvalidInput, ContentTooLarge, ScopeNotFound and the store's errors.
    """
    prepared = prepare(engine, draft)
    parts = [_standing_alone(part, number, of=len(prepared)) for number, part in enumerate(prepared)]
    matrix = await engine.meaning.embed([part.memory.content for part in parts])
    first = parts[0].memory
    changes: list[Change] = []
    for number, part in enumerate(parts):
        memory = part.memory if matrix is None else replace(part.memory, embedded_by=engine.meaning.model)
        vector = None if matrix is None else matrix[number]
        changes.append(Put(memory, part.lexemes, labels=part.labels, gist=part.gist, vector=vector))
    changes.extend(
        Connect(Link(part.memory.id, first.id, Relation.PART_OF, first.created, automatic=True))
        for part in parts[1:]
    )
    await engine.store.apply(changes)
    reasons = dict.fromkeys(reason for part in parts for reason in part.suspicious)
    return Kept(first, len(parts), matrix is not None, tuple(reasons))


def _standing_alone(part: Prepared, number: int, *, of: int) -> Prepared:
    """Hashed by its own id, so that the same words may be there twice; no gist, so that bulk finds no twin."""
    memory = replace(part.memory, content_hash=PART_OF + content_hash(part.memory.id))
    if of > 1:
        place = {PART: number} if number else {PARTS: of}
        memory = replace(memory, metadata={**memory.metadata, **place})
    return replace(part, memory=memory, gist="")
