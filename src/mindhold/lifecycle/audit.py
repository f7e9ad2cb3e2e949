"""The audit trail: what maintenance removed, by which rule, and how to get it back. It holds no removed content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from mindhold.backup.create import backups
from mindhold.backup.folder import PRUNED
from mindhold.engine import Engine
from mindhold.lifecycle.stage_report import (
    KEPT,
    MAX_REMOVALS,
    REPORT_NAMESPACE,
    StageExample,
    example_values,
    examples_of,
    report_of,
)
from mindhold.memories.views import View
from mindhold.model.errors import InvalidInput, NotFound
from mindhold.model.job import Entry
from mindhold.model.lifecycle import Fate
from mindhold.operations import Context, Input, Output, operation

AUDIT_NAMESPACE = "audit"
MOST = 1_000  # records; the oldest are dropped
SHORTEST_ID = 4
SYSTEM = "system"
CONSOLIDATION = "consolidation"
RETENTION = "retention"
CONDENSING = "condensing"
RETIREMENT = "scope retirement"
UNDO = "undo"
UNDER_WAY = "broken off, or under way"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One maintenance run: its operations and counts, the memories concerned, and who started it."""

    id: str
    when: datetime
    what: str
    who: str = SYSTEM
    operations: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    memories: tuple[StageExample, ...] = ()
    scope: str = ""
    files: tuple[str, ...] = ()  # in backups/
    undone: datetime | None = None

    def archived(self) -> list[str]:
        """The ids of the memories that it archived."""
        return [example.memory_id for example in self.memories if example.what == Fate.ARCHIVED]


async def write_audit_record(
    engine: Engine,
    what: str,
    *,
    who: str = SYSTEM,
    operations: Sequence[str] = (),
    counts: Mapping[str, int] | None = None,
    memories: Sequence[StageExample] = (),
    scope: str = "",
    files: Sequence[str] = (),
    key: str | None = None,
) -> AuditRecord:
    """Save a record of a run. `key` replaces the record of that id."""
    record = AuditRecord(
        key or engine.new_id(),
        engine.clock(),
        what,
        who=who,
        operations=tuple(operations),
        counts=dict(counts or Counter(example.what for example in memories)),
        memories=tuple(memories),
        scope=scope,
        files=tuple(files),
    )
    await _put(engine, record)
    await _trim(engine)
    return record


async def audit_records(engine: Engine, *, limit: int) -> list[AuditRecord]:
    """The newest records first, including consolidations."""
    now = engine.clock()
    records = [_record(entry) for entry in await engine.store.entries(AUDIT_NAMESPACE, now=now, limit=limit)]
    reports = [
        _record_of_report(entry)
        for entry in await engine.store.entries(REPORT_NAMESPACE, now=now, limit=limit)
    ]
    newest = sorted([*records, *reports], key=lambda record: (record.when, record.id), reverse=True)[:limit]
    return await _with_files(engine, newest)


async def find_audit_record(engine: Engine, record_id: str) -> AuditRecord:
    """Find a record by its id or the beginning of it. Raises NotFound, or InvalidInput if several match."""
    prefix = record_id.strip()
    matches = [record for record in await audit_records(engine, limit=MOST) if record.id.startswith(prefix)]
    exact = [record for record in matches if record.id == prefix]
    if not exact and (not matches or len(prefix) < SHORTEST_ID):
        raise NotFound(f"There is no record {prefix[:60]!r}.", advice="`mindhold audit` lists them.")
    if not exact and len(matches) > 1:
        raise InvalidInput(f"{prefix!r} begins several records.", advice="Give more of the id.")
    return (exact or matches)[0]


async def mark_undone(engine: Engine, record: AuditRecord) -> None:
    """Mark the record as undone. A consolidation report stays unchanged; the record of the undo mentions it."""
    if record.what != CONSOLIDATION:
        await _put(engine, replace(record, undone=engine.clock()))


class AuditJournal:
    """Records what a run removes before it does, so that a run that breaks off leaves a complete record."""

    def __init__(self, engine: Engine, what: str, *, who: str = SYSTEM) -> None:
        self._engine = engine
        self._what = what
        self._who = who
        self._key = engine.new_id()
        self._planned: dict[str, StageExample] = {}

    async def before(self, leaving: Sequence[StageExample]) -> None:
        """Record that these are removed next."""
        self._planned |= {example.memory_id: example for example in leaving}
        await self._write(tuple(self._planned.values()), operations=(UNDER_WAY,))

    @property
    def full(self) -> bool:
        """Whether the record has no room for more; the next run starts its own."""
        return len(self._planned) >= MAX_REMOVALS

    async def close(
        self, memories: Sequence[StageExample], *, operations: Sequence[str], counts: Mapping[str, int]
    ) -> None:
        """Save the final record; a run that did nothing leaves none."""
        if operations:
            await self._write(memories, operations=operations, counts=counts)
        elif self._planned:
            await self._engine.store.drop_entry(AUDIT_NAMESPACE, self._key)

    async def _write(
        self,
        memories: Sequence[StageExample],
        *,
        operations: Sequence[str],
        counts: Mapping[str, int] | None = None,
    ) -> None:
        await write_audit_record(
            self._engine,
            self._what,
            who=self._who,
            operations=operations,
            counts=counts,
            memories=memories,
            key=self._key,
        )


async def _put(engine: Engine, record: AuditRecord) -> None:
    value = {
        "when": record.when.isoformat(),
        "what": record.what,
        "who": record.who,
        "operations": list(record.operations),
        "counts": dict(record.counts),
        "memories": example_values(record.memories),
        "scope": record.scope,
        "files": list(record.files),
        "undone": record.undone.isoformat() if record.undone else None,
    }
    await engine.store.put_entry(Entry(AUDIT_NAMESPACE, record.id, value, record.when, record.when + KEPT))


async def _trim(engine: Engine) -> None:
    for entry in (await engine.store.entries(AUDIT_NAMESPACE, now=engine.clock(), limit=MOST + 50))[MOST:]:
        await engine.store.drop_entry(AUDIT_NAMESPACE, entry.key)


def _record(entry: Entry) -> AuditRecord:
    value = entry.value
    return AuditRecord(
        entry.key,
        datetime.fromisoformat(value["when"]),
        value["what"],
        who=value["who"] or SYSTEM,
        operations=tuple(value.get("operations") or ()),
        counts=value.get("counts") or {},
        memories=examples_of(value.get("memories")),
        scope=value.get("scope") or "",
        files=tuple(value.get("files") or ()),
        undone=datetime.fromisoformat(value["undone"]) if value.get("undone") else None,
    )


def _record_of_report(entry: Entry) -> AuditRecord:
    report = report_of(entry.value)
    return AuditRecord(
        entry.key,
        report.started,
        CONSOLIDATION,
        operations=tuple(f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed),
        counts=dict(report.counts()),
        memories=tuple(example for stage in report.stages for example in stage.examples),
    )


async def _with_files(engine: Engine, records: Sequence[AuditRecord]) -> list[AuditRecord]:
    """Add to records of an erasure the backup files of that day that still exist."""
    if not any(record.counts.get(Fate.ERASED) for record in records):
        return list(records)
    pruned = [backup.path.name for backup in await backups(engine) if backup.path.name.startswith(PRUNED)]

    def with_files(record: AuditRecord) -> AuditRecord:
        day = f"{PRUNED}{record.when:%Y%m%d}"
        return replace(record, files=(*record.files, *(name for name in pruned if name.startswith(day))))

    return [with_files(record) if record.counts.get(Fate.ERASED) else record for record in records]


MOST_NAMED = 1_000  # memories of one record in an answer


class ListAuditInput(Input):
    """How many records to list."""

    limit: int = Field(default=20, ge=1, le=MOST, description="Maximum number of results.", examples=[3])


class AuditInput(Input):
    """Which record: its id or the beginning of it."""

    id: str = Field(
        min_length=1,
        description="The memory's id, or a unique beginning of it.",
        examples=["01m7gv42a3fzcy3gb19vmek4q7"],
    )


class AuditView(View):
    """One maintenance run: its operations, counts, who started it, and how to undo it."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    when: datetime = Field(description="When it happened.", examples=["2026-11-16T10:30:00Z"])
    what: str = Field(examples=["retention"])
    who: str = Field(examples=["system"])
    operations: list[str] = Field(examples=[["archived 20 messages that summaries stand for"]])
    counts: dict[str, int] = Field(examples=[{"archived": 20}])
    # How to get back what went; empty where nothing did.
    back: str = Field(examples=["mindhold audit undo 01m7gv42a3fzcy3gb19vmek4q7"])
    scope: str = Field(default="", description="Its scope.")
    files: list[str] = []  # in the folder of backups
    undone: datetime | None = None

    @classmethod
    def of(cls, record: AuditRecord, **values: Any) -> Self:
        """The view of a record; `values` are the fields that it doesn't have."""
        return cls.fill(record, back=_undo_commands(record), **values)


class TouchedView(Output):
    """A memory that a run changed, and by which rule. Memories erased since are left out."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    what: str = Field(examples=["archived"])
    why: str = Field(description="The reason.", examples=["a summary stands for it"])


class ShowAuditResult(AuditView):
    """A record with the first of the memories that it concerns."""

    memories: list[TouchedView] = Field(description="Memories.")
    more: int = 0


class ListAuditResult(Output):
    """The newest records first, including consolidations."""

    records: list[AuditView]


def _undo_commands(record: AuditRecord) -> str:
    commands: list[str] = []
    if record.archived() or "retired" in record.counts:
        commands.append(f"mindhold audit undo {record.id}")
    commands += [
        f"mindhold restore {name} --merge" for name in record.files[:3] if "retired" not in record.counts
    ]
    if record.counts.get(Fate.ERASED) and not record.files:
        commands.append("the file of what was removed is gone")
    return "; ".join(commands)


async def _list(context: Context, request: ListAuditInput) -> ListAuditResult:
    """List the maintenance runs, newest first."""
    records = await audit_records(context.engine, limit=request.limit)
    return ListAuditResult(records=[AuditView.of(record) for record in records])


LIST_AUDIT = operation("list_audit", _list, reads=True, owner_only=True)


async def _show(context: Context, request: AuditInput) -> ShowAuditResult:
    """Show one maintenance run in detail."""
    record = await find_audit_record(context.engine, request.id)
    memories = [
        TouchedView(id=example.memory_id, what=example.what, why=example.why)
        for example in record.memories[:MOST_NAMED]
    ]
    more = len(record.memories) - len(memories)
    return ShowAuditResult.of(record, memories=memories, more=more)


SHOW_AUDIT = operation("show_audit", _show, reads=True, owner_only=True)
