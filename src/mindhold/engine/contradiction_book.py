"""What is written down of pairs of memories that deny each other, or may: a line each, in drawers by agent.

Drawers have no pages, so what grows without end is spread over many small ones by its key, and a register names those in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.keys import fingerprint
from mindhold.model.entry import Entry
from mindhold.model.memory import Memory

FOUND, PENDING, SETTLED = "contradictions:found", "contradictions:pending", "contradictions:settled"
REGISTER = "contradictions:drawers"
MOST = 5_000  # lines of a drawer that are read
MOST_DRAWERS = 100_000
MOST_PENDING = 1_000  # of an agent; the most alike are kept
SPREAD = 2  # letters of the key that choose the drawer: one of 256
_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories of one agent and scope, in the order of time."""

    older: Memory
    newer: Memory
    similarity: float = 0.0

    @property
    def key(self) -> str:
        return pair_key(self.older.id, self.newer.id)

    @property
    def texts(self) -> str:
        """A hash of what both say, and of neither alone."""
        return fingerprint(f"{self.older.content_hash}\n{self.newer.content_hash}")[:_KEY_LENGTH]


@dataclass(frozen=True, slots=True)
class Line:
    """What is written down of a pair. `texts` is what both said then."""

    key: str
    agent: str
    older: str
    newer: str
    texts: str
    by: str  # rules, a model, or who said so
    confidence: float
    similarity: float
    created: datetime
    importance: float | None = None  # that the older one had; None where it was left alone
    lowered_to: float | None = None  # what upkeep made of that
    lowered: datetime | None = None  # and when
    applied: bool = False  # whether the links are drawn now
    tried: str = ""  # when a model was last asked about it

    def is_of(self, pair: Pair) -> bool:
        """Whether both still say what they said."""
        return self.texts == pair.texts


@dataclass(frozen=True, slots=True)
class Drawer:
    """Where lines of one kind and agent lie."""

    kind: str
    agent: str
    name: str


def pair_key(one: str, two: str) -> str:
    """The same whichever is named first. A hash: an entry's key must not name what may be erased."""
    return fingerprint("\n".join(sorted((one, two))))[:_KEY_LENGTH]


def in_time(one: Memory, two: Memory, similarity: float = 0.0) -> Pair:
    """The earlier first, by when it was so, then by when it was stored."""
    older, newer = sorted((one, two), key=lambda memory: (memory.occurred, memory.created, memory.id))
    return Pair(older, newer, similarity)


def new_line(engine: Engine, pair: Pair, *, by: str, confidence: float) -> Line:
    return Line(
        key=pair.key,
        agent=pair.older.agent,
        older=pair.older.id,
        newer=pair.newer.id,
        texts=pair.texts,
        by=by,
        confidence=round(confidence, 4),
        similarity=round(pair.similarity, 4),
        created=engine.clock(),
    )


def drawer_of(kind: str, agent: str, key: str) -> Drawer:
    """What waits is bounded, and lies in one drawer of its agent."""
    name = f"{kind}:{agent}" if kind == PENDING else f"{kind}:{agent}:{key[:SPREAD]}"
    return Drawer(kind, agent, name)


async def drawers(engine: Engine, kind: str = "", *, agents: AbstractSet[str] | None = None) -> list[Drawer]:
    """Those in use, by name; of all kinds, and of all agents, unless told."""
    entries = await engine.ledger.entries(REGISTER, now=engine.clock(), limit=MOST_DRAWERS)
    known = [Drawer(str(entry.value["kind"]), str(entry.value["agent"]), entry.key) for entry in entries]
    wanted = (one for one in known if kind in ("", one.kind) and (agents is None or one.agent in agents))
    return sorted(wanted, key=lambda one: one.name)


async def lines_in(engine: Engine, drawer: Drawer, *, limit: int = MOST) -> list[Line]:
    """The newest first."""
    entries = await engine.ledger.entries(drawer.name, now=engine.clock(), limit=limit)
    return [_line(entry, drawer.agent) for entry in entries]


async def line_of(engine: Engine, kind: str, pair: Pair) -> Line | None:
    """Of the two, whatever they said then."""
    drawer = drawer_of(kind, pair.older.agent, pair.key)
    entry = await engine.ledger.entry(drawer.name, pair.key, now=engine.clock())
    return None if entry is None else _line(entry, drawer.agent)


async def is_known(engine: Engine, pair: Pair) -> bool:
    """Whether these very texts were found, wait, or were settled."""
    for kind in (SETTLED, FOUND, PENDING):
        line = await line_of(engine, kind, pair)
        if line is not None and line.is_of(pair):
            return True
    return False


async def write(engine: Engine, kind: str, line: Line) -> None:
    """Insert, or replace."""
    drawer = drawer_of(kind, line.agent, line.key)
    if await engine.ledger.entry(REGISTER, drawer.name, now=engine.clock()) is None:  # first: none is lost
        named = {"kind": drawer.kind, "agent": drawer.agent}
        await engine.ledger.put_entry(Entry(REGISTER, drawer.name, named, engine.clock()))
    value: dict[str, Any] = {
        "older": line.older,
        "newer": line.newer,
        "texts": line.texts,
        "by": line.by,
        "confidence": line.confidence,
        "similarity": line.similarity,
        "importance": line.importance,
        "lowered_to": line.lowered_to,
        "lowered": line.lowered.isoformat() if line.lowered else "",
        "applied": line.applied,
        "tried": line.tried,
    }
    await engine.ledger.put_entry(Entry(drawer.name, line.key, value, line.created))


async def drop(engine: Engine, kind: str, line: Line) -> None:
    """If it is there."""
    await engine.ledger.drop_entry(drawer_of(kind, line.agent, line.key).name, line.key)


async def trim(engine: Engine, agents: AbstractSet[str]) -> int:
    """So that no queue grows without end: the least alike leave it, the oldest of them first. How many."""
    left = 0
    for drawer in await drawers(engine, PENDING, agents=agents):
        lines = await lines_in(engine, drawer, limit=MOST)
        lines.sort(key=lambda line: (line.similarity, line.created), reverse=True)
        for line in lines[MOST_PENDING:]:
            await drop(engine, PENDING, line)
            left += 1
    return left


def ends(lines: Sequence[Line]) -> list[str]:
    """The memories that they are of."""
    return list({end for line in lines for end in (line.older, line.newer) if end})


def _line(entry: Entry, agent: str) -> Line:
    """What an erasure emptied reads as the name of nobody."""
    value = entry.value
    lowered = str(value.get("lowered") or "")
    return Line(
        key=entry.key,
        agent=agent,
        older=str(value.get("older") or ""),
        newer=str(value.get("newer") or ""),
        texts=str(value.get("texts") or ""),
        by=str(value.get("by") or ""),
        confidence=float(value.get("confidence") or 0.0),
        similarity=float(value.get("similarity") or 0.0),
        created=entry.created,
        importance=value.get("importance"),
        lowered_to=value.get("lowered_to"),
        lowered=datetime.fromisoformat(lowered) if lowered else None,
        applied=bool(value.get("applied")),
        tried=str(value.get("tried") or ""),
    )
