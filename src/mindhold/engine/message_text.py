"""The texts of long messages: kept in parts, given back whole, and found by any of their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from mindhold.engine.core import Engine
from mindhold.engine.recall import Hit
from mindhold.engine.surroundings import HIDDEN
from mindhold.engine.verbatim import GAP, PARAGRAPH, PART, PARTS
from mindhold.model.link import Relation
from mindhold.model.memory import LOG, Memory

MOST_WHOLE = 4_000_000  # characters of long messages that one answer has room for


async def whole_texts(
    engine: Engine, messages: Sequence[Memory], *, agent: str, most: int | None = None
) -> dict[str, str]:
    """By id, all of each one's text; the first have the room where there is a most. Those without are absent."""
    long = [message for message in messages if PARTS in message.metadata]
    if most is not None:
        long = _within(engine, long, most)
    ids = [message.id for message in long]
    parts: dict[str, list[Memory]] = defaultdict(list)
    if ids:
        links = await engine.store.links_of(ids, relations=(Relation.PART_OF,), viewer=agent)
        first_of = {link.origin: link.target for link in links if link.automatic and link.target in ids}
        for part in (await engine.store.get_many(list(first_of), viewer=agent)).values():
            parts[first_of[part.id]].append(part)
    joined = {message.id: _joined(message, parts[message.id]) for message in long}
    return {message.id: message.content for message in messages if PARTS not in message.metadata} | joined


async def firsts_of(engine: Engine, parts: Sequence[Memory], *, agent: str) -> dict[str, Memory]:
    """By a part's id, the first part of its message, by whose id the message is known."""
    ids = [part.id for part in parts if is_part(part)]
    if not ids:
        return {}
    links = await engine.store.links_of(ids, relations=(Relation.PART_OF,), viewer=agent)
    first_of = {link.origin: link.target for link in links if link.automatic and link.origin in ids}
    found = await engine.store.get_many(list(dict.fromkeys(first_of.values())), viewer=agent)
    return {part: found[first] for part, first in first_of.items() if first in found}


async def folded(engine: Engine, hits: Sequence[Hit], *, agent: str) -> list[Hit]:
    """Each message once, under its own id, with the words of its part that answers best."""
    firsts = await firsts_of(engine, [hit.memory for hit in hits], agent=agent)
    kept: dict[str, Hit] = {}
    for hit in hits:
        first = firsts.get(hit.memory.id)
        if first is None or first.status in HIDDEN:
            kept.setdefault(hit.memory.id, hit)
        else:
            kept.setdefault(first.id, replace(hit, memory=first, truncated=True))
    return list(kept.values())


def is_part(memory: Memory) -> bool:
    """Whether it is a later part of a message."""
    return memory.provenance.dialect == LOG and PART in memory.metadata


def _within(engine: Engine, long: Sequence[Memory], most: int) -> list[Memory]:
    """By how long they may be: told before any part is read."""
    chosen: list[Memory] = []
    for message in long:
        length = int(message.metadata[PARTS]) * max(engine.policy.part_length, len(message.content))
        if length <= most:
            chosen.append(message)
            most -= length
    return chosen


def _joined(first: Memory, parts: Sequence[Memory]) -> str:
    rest = sorted(parts, key=lambda part: int(part.metadata.get(PART, 0)))
    return first.content + "".join(f"{part.metadata.get(GAP, PARAGRAPH)}{part.content}" for part in rest)
