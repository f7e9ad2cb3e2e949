"""Lines of an export that say what is known of pairs of memories, and reading them again elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from mindhold.engine.checks import in_utc
from mindhold.engine.contradiction_book import (
    FOUND,
    PENDING,
    SETTLED,
    Line,
    Pair,
    drawers,
    ends,
    is_known,
    line_of,
    lines_in,
    pair_key,
    write,
)
from mindhold.engine.core import Engine
from mindhold.engine.records import LONGEST_ID
from mindhold.model.access import visible_agents
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory
from mindhold.model.scope import LONGEST_NAME

TYPE = "contradiction"
STATES = {"found": FOUND, "pending": PENDING, "settled": SETTLED}
_NAMES = {kind: state for state, kind in STATES.items()}
_DRAWN = (Relation.CONTRADICTS, Relation.SUPERSEDED_BY)
_TEXTS = ("older", "newer", "texts", "by", "tried")
_SHARES = ("confidence", "similarity", "importance", "lowered_to")
_OPTIONAL = ("importance", "lowered_to", "lowered")
_TIMES = ("created", "lowered")


@dataclass(frozen=True, slots=True)
class Carried:
    """A line, and whether it was found, waits, or was settled. Whose it is, the memories say."""

    kind: str
    line: Line


async def carried(
    engine: Engine, ids: AbstractSet[str], *, viewer: str
) -> AsyncIterator[list[dict[str, Any]]]:
    """Those of which both memories are among these, drawer by drawer, always in the same order."""
    for drawer in await drawers(engine, agents=visible_agents(viewer)):
        lines = [line for line in await lines_in(engine, drawer) if line.older in ids and line.newer in ids]
        yield [_document(drawer.kind, line) for line in sorted(lines, key=lambda line: line.key)]


def carried_from(document: dict[str, Any]) -> Carried:
    """Raises KeyError, ValueError, TypeError on what no export wrote."""
    state, values = document["state"], {name: document[name] for name in (*_TEXTS, *_SHARES, *_TIMES)}
    for name in _TEXTS:
        if not isinstance(values[name], str) or not (values[name] + ".").isprintable():
            raise TypeError(f"{name} is {values[name]!r}"[:120])
    for name in ("older", "newer", "texts"):
        if not values[name] or len(values[name]) > LONGEST_ID:
            raise ValueError(f"{values[name][:LONGEST_ID]!r} is no {name}")
    if len(values["by"]) > LONGEST_NAME or len(values["tried"]) > LONGEST_ID:
        raise ValueError("by or tried is too long")
    for name in _SHARES:
        _check_share(name, values[name])
    for name in _TIMES:
        if values[name] is not None or name not in _OPTIONAL:
            values[name] = in_utc(datetime.fromisoformat(values[name]))
    if not isinstance(document["applied"], bool):
        raise TypeError("applied is neither true nor false")
    if values["older"] == values["newer"]:
        raise ValueError("a memory can't contradict itself")
    key = pair_key(values["older"], values["newer"])
    return Carried(STATES[state], Line(key=key, agent="", applied=document["applied"], **values))


async def bring(engine: Engine, items: Sequence[Carried], *, agent: str, new: AbstractSet[str]) -> int:
    """Those of which both memories are here and say the same, unless something is known of them here. How many.

    `new` are memories that came in with them, as they were there; another one is lowered by the next review.
    """
    known = await engine.store.get_many(ends([item.line for item in items]), viewer=agent) if items else {}
    brought = 0
    for item in items:
        older, newer = known.get(item.line.older), known.get(item.line.newer)
        if older is None or newer is None or older.agent != newer.agent or older.scope != newer.scope:
            continue
        pair = Pair(older, newer, item.line.similarity)
        if not item.line.is_of(pair) or await is_known(engine, pair):
            continue
        line = replace(item.line, agent=older.agent)
        as_left = older.id in new or (line.lowered_to is not None and older.importance <= line.lowered_to)
        if not as_left:
            line = replace(line, importance=None, lowered_to=None, lowered=None, applied=False)
        await write(engine, item.kind, line)
        brought += 1
    return brought


async def is_taken_back(engine: Engine, link: Link, known: Mapping[str, Memory]) -> bool:
    """Whether upkeep drew it for a contradiction of these memories that somebody here said is none."""
    origin, target = known.get(link.origin), known.get(link.target)
    if not link.automatic or link.relation not in _DRAWN or origin is None or target is None:
        return False
    pair = Pair(target, origin) if link.relation is Relation.CONTRADICTS else Pair(origin, target)
    line = await line_of(engine, SETTLED, pair)
    return line is not None and line.is_of(pair)


def _document(kind: str, line: Line) -> dict[str, Any]:
    values = {name: getattr(line, name) for name in (*_TEXTS, *_SHARES)}
    times = {name: getattr(line, name) for name in _TIMES}
    told = {name: time.astimezone(UTC).isoformat() if time else None for name, time in times.items()}
    return {"type": TYPE, "state": _NAMES[kind], "applied": line.applied, **values, **told}


def _check_share(name: str, value: Any) -> None:
    if value is None and name in _OPTIONAL:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}"[:120])
    if not isfinite(value) or not 0 <= value <= 1.01:  # rounding may take a likeness past 1
        raise ValueError(f"{name} is not between 0 and 1")
