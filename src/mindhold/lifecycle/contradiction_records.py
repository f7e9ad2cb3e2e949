"""Records of memory pairs that contradict each other or may, and their form in an export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.memories.serialization import LONGEST_ID
from mindhold.memories.validation import in_utc
from mindhold.model.job import Entry
from mindhold.model.memory import Link, Memory, Relation
from mindhold.model.scope import LONGEST_NAME, visible_agents

FOUND, PENDING, SETTLED = "contradictions:found", "contradictions:pending", "contradictions:settled"
REGISTER = "contradictions:drawers"
MOST = 5_000  # lines of a drawer that are read
MOST_NAMESPACES = 100_000
MOST_PENDING = 1_000  # of an agent; the most alike are kept
SPREAD = 2  # letters of the key that choose the drawer: one of 256
_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True)
class MemoryPair:
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
class PairRecord:
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

    def is_of(self, pair: MemoryPair) -> bool:
        """Whether both still say what they said."""
        return self.texts == pair.texts


@dataclass(frozen=True, slots=True)
class PairNamespace:
    """Where lines of one kind and agent lie."""

    kind: str
    agent: str
    name: str


def pair_key(one: str, two: str) -> str:
    """The same whichever is named first. A hash: an entry's key must not name what may be erased."""
    return fingerprint("\n".join(sorted((one, two))))[:_KEY_LENGTH]


def ordered_pair(one: Memory, two: Memory, similarity: float = 0.0) -> MemoryPair:
    """The earlier first, by when it was so, then by when it was stored."""
    older, newer = sorted((one, two), key=lambda memory: (memory.occurred, memory.created, memory.id))
    return MemoryPair(older, newer, similarity)


def new_pair_record(engine: Engine, pair: MemoryPair, *, by: str, confidence: float) -> PairRecord:
    return PairRecord(
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


def pair_namespace(kind: str, agent: str, key: str) -> PairNamespace:
    """What waits is bounded, and lies in one drawer of its agent."""
    name = f"{kind}:{agent}" if kind == PENDING else f"{kind}:{agent}:{key[:SPREAD]}"
    return PairNamespace(kind, agent, name)


async def pair_namespaces(
    engine: Engine, kind: str = "", *, agents: AbstractSet[str] | None = None
) -> list[PairNamespace]:
    """Those in use, by name; of all kinds, and of all agents, unless told."""
    entries = await engine.ledger.entries(REGISTER, now=engine.clock(), limit=MOST_NAMESPACES)
    known = [
        PairNamespace(str(entry.value["kind"]), str(entry.value["agent"]), entry.key) for entry in entries
    ]
    wanted = (one for one in known if kind in ("", one.kind) and (agents is None or one.agent in agents))
    return sorted(wanted, key=lambda one: one.name)


async def pair_records(engine: Engine, drawer: PairNamespace, *, limit: int = MOST) -> list[PairRecord]:
    """The newest first."""
    entries = await engine.ledger.entries(drawer.name, now=engine.clock(), limit=limit)
    return [_line(entry, drawer.agent) for entry in entries]


async def find_pair_record(engine: Engine, kind: str, pair: MemoryPair) -> PairRecord | None:
    """Of the two, whatever they said then."""
    drawer = pair_namespace(kind, pair.older.agent, pair.key)
    entry = await engine.ledger.entry(drawer.name, pair.key, now=engine.clock())
    return None if entry is None else _line(entry, drawer.agent)


async def is_known(engine: Engine, pair: MemoryPair) -> bool:
    """Whether these very texts were found, wait, or were settled."""
    for kind in (SETTLED, FOUND, PENDING):
        line = await find_pair_record(engine, kind, pair)
        if line is not None and line.is_of(pair):
            return True
    return False


async def save_pair_record(engine: Engine, kind: str, line: PairRecord) -> None:
    """Insert, or replace."""
    drawer = pair_namespace(kind, line.agent, line.key)
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


async def delete_pair_record(engine: Engine, kind: str, line: PairRecord) -> None:
    """If it is there."""
    await engine.ledger.drop_entry(pair_namespace(kind, line.agent, line.key).name, line.key)


async def trim_pair_records(engine: Engine, agents: AbstractSet[str]) -> int:
    """So that no queue grows without end: the least alike leave it, the oldest of them first. How many."""
    left = 0
    for drawer in await pair_namespaces(engine, PENDING, agents=agents):
        lines = await pair_records(engine, drawer, limit=MOST)
        lines.sort(key=lambda line: (line.similarity, line.created), reverse=True)
        for line in lines[MOST_PENDING:]:
            await delete_pair_record(engine, PENDING, line)
            left += 1
    return left


def paired_ids(lines: Sequence[PairRecord]) -> list[str]:
    """The memories that they are of."""
    return list({end for line in lines for end in (line.older, line.newer) if end})


def _line(entry: Entry, agent: str) -> PairRecord:
    """What an erasure emptied reads as the name of nobody."""
    value = entry.value
    lowered = str(value.get("lowered") or "")
    return PairRecord(
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


TYPE = "contradiction"
STATES = {"found": FOUND, "pending": PENDING, "settled": SETTLED}
_NAMES = {kind: state for state, kind in STATES.items()}
_DRAWN = (Relation.CONTRADICTS, Relation.SUPERSEDED_BY)
_TEXTS = ("older", "newer", "texts", "by", "tried")
_SHARES = ("confidence", "similarity", "importance", "lowered_to")
_OPTIONAL = ("importance", "lowered_to", "lowered")
_TIMES = ("created", "lowered")


@dataclass(frozen=True, slots=True)
class ExportedPair:
    """A line, and whether it was found, waits, or was settled. Whose it is, the memories say."""

    kind: str
    line: PairRecord


async def exported_pairs(
    engine: Engine, ids: AbstractSet[str], *, viewer: str
) -> AsyncIterator[list[dict[str, Any]]]:
    """Those of which both memories are among these, drawer by drawer, always in the same order."""
    for drawer in await pair_namespaces(engine, agents=visible_agents(viewer)):
        lines = [
            line for line in await pair_records(engine, drawer) if line.older in ids and line.newer in ids
        ]
        yield [_document(drawer.kind, line) for line in sorted(lines, key=lambda line: line.key)]


def parse_exported_pair(document: dict[str, Any]) -> ExportedPair:
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
    return ExportedPair(STATES[state], PairRecord(key=key, agent="", applied=document["applied"], **values))


async def import_pairs(
    engine: Engine, items: Sequence[ExportedPair], *, agent: str, new: AbstractSet[str]
) -> int:
    """Those of which both memories are here and say the same, unless something is known of them here. How many.

    `new` are memories that came in with them, as they were there; another one is lowered by the next review.
    """
    known = (
        await engine.store.get_many(paired_ids([item.line for item in items]), viewer=agent) if items else {}
    )
    brought = 0
    for item in items:
        older, newer = known.get(item.line.older), known.get(item.line.newer)
        if older is None or newer is None or older.agent != newer.agent or older.scope != newer.scope:
            continue
        pair = MemoryPair(older, newer, item.line.similarity)
        if not item.line.is_of(pair) or await is_known(engine, pair):
            continue
        line = replace(item.line, agent=older.agent)
        as_left = older.id in new or (line.lowered_to is not None and older.importance <= line.lowered_to)
        if not as_left:
            line = replace(line, importance=None, lowered_to=None, lowered=None, applied=False)
        await save_pair_record(engine, item.kind, line)
        brought += 1
    return brought


async def is_taken_back(engine: Engine, link: Link, known: Mapping[str, Memory]) -> bool:
    """Whether upkeep drew it for a contradiction of these memories that somebody here said is none."""
    origin, target = known.get(link.origin), known.get(link.target)
    if not link.automatic or link.relation not in _DRAWN or origin is None or target is None:
        return False
    pair = MemoryPair(target, origin) if link.relation is Relation.CONTRADICTS else MemoryPair(origin, target)
    line = await find_pair_record(engine, SETTLED, pair)
    return line is not None and line.is_of(pair)


def _document(kind: str, line: PairRecord) -> dict[str, Any]:
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
