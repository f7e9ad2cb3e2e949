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
from mindhold.memories.prepare import LONGEST_ID, in_utc
from mindhold.model.job import Entry
from mindhold.model.memory import Link, Memory, Relation
from mindhold.model.scope import LONGEST_NAME, visible_agents

FOUND, PENDING, SETTLED = "contradictions:found", "contradictions:pending", "contradictions:settled"
REGISTER = "contradictions:drawers"
MOST = 5_000  # records of a namespace that are read
MOST_NAMESPACES = 100_000
MOST_PENDING = 1_000  # records of an agent; the most similar pairs are kept
SHARD_CHARS = 2  # characters of the key that choose one of 256 namespaces
_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True)
class MemoryPair:
    """Two memories of one agent and scope, in order of time."""

    older: Memory
    newer: Memory
    similarity: float = 0.0

    @property
    def key(self) -> str:
        return pair_key(self.older.id, self.newer.id)

    @property
    def texts(self) -> str:
        """A hash of both texts together."""
        return fingerprint(f"{self.older.content_hash}\n{self.newer.content_hash}")[:_KEY_LENGTH]


@dataclass(frozen=True, slots=True)
class PairRecord:
    """The stored record of a pair. `texts` is the hash of both texts at that time."""

    key: str
    agent: str
    older: str
    newer: str
    texts: str
    by: str  # "rules", a model, or an agent
    confidence: float
    similarity: float
    created: datetime
    importance: float | None = None  # of the older memory before; None if it was not lowered
    lowered_to: float | None = None  # the lowered importance
    lowered: datetime | None = None  # when it was lowered
    applied: bool = False  # whether the links exist now
    tried: str = ""  # when a model was last asked about the pair

    def is_of(self, pair: MemoryPair) -> bool:
        """Whether both texts are unchanged."""
        return self.texts == pair.texts


@dataclass(frozen=True, slots=True)
class PairNamespace:
    """The namespace of one kind of record of one agent."""

    kind: str
    agent: str
    name: str


def pair_key(first: str, second: str) -> str:
    """A key that doesn't depend on the order. It is a hash, so that it names no memory that may be erased."""
    return fingerprint("\n".join(sorted((first, second))))[:_KEY_LENGTH]


def ordered_pair(first: Memory, second: Memory, similarity: float = 0.0) -> MemoryPair:
    """The earlier memory first: by when it happened, then by when it was stored."""
    older, newer = sorted((first, second), key=lambda memory: (memory.occurred, memory.created, memory.id))
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
    """The namespace of a record. Pending records are few and share one namespace per agent."""
    name = f"{kind}:{agent}" if kind == PENDING else f"{kind}:{agent}:{key[:SHARD_CHARS]}"
    return PairNamespace(kind, agent, name)


async def pair_namespaces(
    engine: Engine, kind: str = "", *, agents: AbstractSet[str] | None = None
) -> list[PairNamespace]:
    """The namespaces in use, sorted by name; optionally of one kind or some agents."""
    entries = await engine.ledger.entries(REGISTER, now=engine.clock(), limit=MOST_NAMESPACES)
    namespaces = [
        PairNamespace(str(entry.value["kind"]), str(entry.value["agent"]), entry.key) for entry in entries
    ]
    matches = (
        namespace
        for namespace in namespaces
        if kind in ("", namespace.kind) and (agents is None or namespace.agent in agents)
    )
    return sorted(matches, key=lambda namespace: namespace.name)


async def pair_records(engine: Engine, namespace: PairNamespace, *, limit: int = MOST) -> list[PairRecord]:
    """The records of a namespace, newest first."""
    entries = await engine.ledger.entries(namespace.name, now=engine.clock(), limit=limit)
    return [_parse_record(entry, namespace.agent) for entry in entries]


async def find_pair_record(engine: Engine, kind: str, pair: MemoryPair) -> PairRecord | None:
    """The record of two memories, whatever their texts were then."""
    namespace = pair_namespace(kind, pair.older.agent, pair.key)
    entry = await engine.ledger.entry(namespace.name, pair.key, now=engine.clock())
    return None if entry is None else _parse_record(entry, namespace.agent)


async def is_known(engine: Engine, pair: MemoryPair) -> bool:
    """Whether these exact texts were found, are pending, or were settled."""
    for kind in (SETTLED, FOUND, PENDING):
        record = await find_pair_record(engine, kind, pair)
        if record is not None and record.is_of(pair):
            return True
    return False


async def save_pair_record(engine: Engine, kind: str, record: PairRecord) -> None:
    """Insert or replace a record."""
    namespace = pair_namespace(kind, record.agent, record.key)
    # First, so that no record is lost.
    if await engine.ledger.entry(REGISTER, namespace.name, now=engine.clock()) is None:
        owner = {"kind": namespace.kind, "agent": namespace.agent}
        await engine.ledger.put_entry(Entry(REGISTER, namespace.name, owner, engine.clock()))
    lowered = record.lowered.isoformat() if record.lowered else ""
    value = {**_plain_values(record), "lowered": lowered, "applied": record.applied}
    await engine.ledger.put_entry(Entry(namespace.name, record.key, value, record.created))


async def delete_pair_record(engine: Engine, kind: str, record: PairRecord) -> None:
    """Delete the record if it exists."""
    await engine.ledger.drop_entry(pair_namespace(kind, record.agent, record.key).name, record.key)


async def trim_pair_records(engine: Engine, agents: AbstractSet[str]) -> int:
    """Delete the least similar pending records above the limit, oldest first; return how many."""
    deleted = 0
    for namespace in await pair_namespaces(engine, PENDING, agents=agents):
        records = await pair_records(engine, namespace, limit=MOST)
        records.sort(key=lambda record: (record.similarity, record.created), reverse=True)
        for record in records[MOST_PENDING:]:
            await delete_pair_record(engine, PENDING, record)
            deleted += 1
    return deleted


def paired_ids(records: Sequence[PairRecord]) -> list[str]:
    """The ids of all memories in the records."""
    return list({end for record in records for end in (record.older, record.newer) if end})


def current_pair(record: PairRecord, memories: Mapping[str, Memory]) -> MemoryPair | None:
    """The pair of a record; None if one memory is gone or has another text now."""
    older, newer = memories.get(record.older), memories.get(record.newer)
    if older is None or newer is None:
        return None
    pair = MemoryPair(older, newer, record.similarity)
    return pair if record.is_of(pair) else None


_TEXTS = ("older", "newer", "texts", "by", "tried")
_SHARES = ("confidence", "similarity", "importance", "lowered_to")
_OPTIONAL = ("importance", "lowered_to", "lowered")
_TIMES = ("created", "lowered")


def _plain_values(record: PairRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in (*_TEXTS, *_SHARES)}


def _parse_record(entry: Entry, agent: str) -> PairRecord:
    value = entry.value
    texts = {name: str(value.get(name) or "") for name in _TEXTS}
    lowered = str(value.get("lowered") or "")
    return PairRecord(
        key=entry.key,
        agent=agent,
        **texts,
        confidence=float(value.get("confidence") or 0.0),
        similarity=float(value.get("similarity") or 0.0),
        created=entry.created,
        importance=value.get("importance"),
        lowered_to=value.get("lowered_to"),
        lowered=datetime.fromisoformat(lowered) if lowered else None,
        applied=bool(value.get("applied")),
    )


TYPE = "contradiction"
STATES = {"found": FOUND, "pending": PENDING, "settled": SETTLED}
_STATE_NAMES = {kind: state for state, kind in STATES.items()}
_CONTRADICTION_RELATIONS = (Relation.CONTRADICTS, Relation.SUPERSEDED_BY)


@dataclass(frozen=True, slots=True)
class ExportedPair:
    """A record, and whether it was found, is pending, or was settled. Its agent comes from the memories."""

    kind: str
    record: PairRecord


async def exported_pairs(
    engine: Engine, ids: AbstractSet[str], *, viewer: str
) -> AsyncIterator[list[dict[str, Any]]]:
    """The records of pairs whose memories are both among `ids`, per namespace, always in the same order."""
    for namespace in await pair_namespaces(engine, agents=visible_agents(viewer)):
        records = [
            record
            for record in await pair_records(engine, namespace)
            if record.older in ids and record.newer in ids
        ]
        yield [_document(namespace.kind, record) for record in sorted(records, key=lambda record: record.key)]


def parse_exported_pair(document: dict[str, Any]) -> ExportedPair:
    """Read an exported record. Raises KeyError, ValueError or TypeError if it is malformed."""
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
    """Save records whose memories are both here with the same texts, unless a record exists here; return how many.

    `new` are the memories of the same import. The importance of an older memory that is not new is lowered by the next
    review.
    """
    if not items:
        return 0
    memories = await engine.store.get_many(paired_ids([item.record for item in items]), viewer=agent)
    imported = 0
    for item in items:
        pair = current_pair(item.record, memories)
        if pair is None or (pair.older.agent, pair.older.scope) != (pair.newer.agent, pair.newer.scope):
            continue
        if await is_known(engine, pair):
            continue
        older = pair.older
        record = replace(item.record, agent=older.agent)
        already_lowered = older.id in new or (
            record.lowered_to is not None and older.importance <= record.lowered_to
        )
        if not already_lowered:
            record = replace(record, importance=None, lowered_to=None, lowered=None, applied=False)
        await save_pair_record(engine, item.kind, record)
        imported += 1
    return imported


async def is_dismissed_link(engine: Engine, link: Link, memories: Mapping[str, Memory]) -> bool:
    """Whether the link was drawn for a contradiction that somebody here dismissed."""
    origin, target = memories.get(link.origin), memories.get(link.target)
    if not link.automatic or link.relation not in _CONTRADICTION_RELATIONS or not origin or not target:
        return False
    pair = MemoryPair(target, origin) if link.relation is Relation.CONTRADICTS else MemoryPair(origin, target)
    record = await find_pair_record(engine, SETTLED, pair)
    return record is not None and record.is_of(pair)


def _document(kind: str, record: PairRecord) -> dict[str, Any]:
    times = {name: getattr(record, name) for name in _TIMES}
    formatted = {name: time.astimezone(UTC).isoformat() if time else None for name, time in times.items()}
    state = {"type": TYPE, "state": _STATE_NAMES[kind], "applied": record.applied}
    return {**state, **_plain_values(record), **formatted}


def _check_share(name: str, value: Any) -> None:
    if value is None and name in _OPTIONAL:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}"[:120])
    if not isfinite(value) or not 0 <= value <= 1.01:  # rounding may take a similarity above 1
        raise ValueError(f"{name} is not between 0 and 1")
