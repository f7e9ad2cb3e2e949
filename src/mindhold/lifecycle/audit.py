"""The audit trail: what maintenance removed, by which rule, and how to get it back. It holds no removed content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import Field

from mindhold.backup.create import backups
from mindhold.backup.folder import PRUNED
from mindhold.engine import Engine
from mindhold.lifecycle.stages import (
    KEPT,
    MOST_GONE,
    REPORT_NAMESPACE,
    ConsolidationReport,
    StageExample,
    report_of,
)
from mindhold.model.errors import InvalidInput, NotFound
from mindhold.model.job import Entry
from mindhold.model.lifecycle import Fate
from mindhold.operations import Context, Input, Output, operation

AUDIT_NAMESPACE = "audit"
MOST = 1_000  # records; the oldest make room
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
    """One run: what it did in words and numbers, to which memories, who had it done."""

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
        """The memories that it archived."""
        return [told.memory_id for told in self.memories if told.what == Fate.ARCHIVED]


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
    """Write down what was done; with the `key` of a record, instead of that."""
    kept = AuditRecord(
        key or engine.new_id(),
        engine.clock(),
        what,
        who=who,
        operations=tuple(operations),
        counts=dict(counts or Counter(told.what for told in memories)),
        memories=tuple(memories),
        scope=scope,
        files=tuple(files),
    )
    await _put(engine, kept)
    await _trim(engine)
    return kept


async def audit_records(engine: Engine, *, limit: int) -> list[AuditRecord]:
    """The newest first, consolidations among them."""
    now = engine.clock()
    own = [_record(entry) for entry in await engine.store.entries(AUDIT_NAMESPACE, now=now, limit=limit)]
    reports = [
        _of_report(entry) for entry in await engine.store.entries(REPORT_NAMESPACE, now=now, limit=limit)
    ]
    found = sorted([*own, *reports], key=lambda one: (one.when, one.id), reverse=True)[:limit]
    return await _with_files(engine, found)


async def find_audit_record(engine: Engine, named: str) -> AuditRecord:
    """By its id, or the beginning of it. Raises NotFound, InvalidInput where several begin so."""
    wanted = named.strip()
    found = [one for one in await audit_records(engine, limit=MOST) if one.id.startswith(wanted)]
    exact = [one for one in found if one.id == wanted]
    if not exact and (not found or len(wanted) < SHORTEST_ID):
        raise NotFound(f"There is no record {wanted[:60]!r}.", advice="`mindhold audit` lists them.")
    if not exact and len(found) > 1:
        raise InvalidInput(f"{wanted!r} begins several records.", advice="Give more of the id.")
    return (exact or found)[0]


async def mark_undone(engine: Engine, kept: AuditRecord) -> None:
    """That what it archived is back. A consolidation's report stays as it is: the record of the undoing tells."""
    if kept.what != CONSOLIDATION:
        await _put(engine, replace(kept, undone=engine.clock()))


class AuditJournal:
    """What a run takes away, written down before it goes: one that breaks off leaves word of all that it did."""

    def __init__(self, engine: Engine, what: str, *, who: str = SYSTEM) -> None:
        self._engine = engine
        self._what = what
        self._who = who
        self._key = engine.new_id()
        self._planned: dict[str, StageExample] = {}

    async def before(self, leaving: Sequence[StageExample]) -> None:
        """These go next."""
        self._planned |= {told.memory_id: told for told in leaving}
        await write_audit_record(
            self._engine,
            self._what,
            who=self._who,
            operations=(UNDER_WAY,),
            memories=tuple(self._planned.values()),
            key=self._key,
        )

    @property
    def full(self) -> bool:
        """Whether there is no room for more: the next run has a record of its own."""
        return len(self._planned) >= MOST_GONE

    async def close(
        self, memories: Sequence[StageExample], *, operations: Sequence[str], counts: Mapping[str, int]
    ) -> None:
        """What was done in the end; nothing leaves no record."""
        if operations:
            await write_audit_record(
                self._engine,
                self._what,
                who=self._who,
                operations=operations,
                counts=counts,
                memories=memories,
                key=self._key,
            )
        elif self._planned:
            await self._engine.store.drop_entry(AUDIT_NAMESPACE, self._key)


async def _put(engine: Engine, kept: AuditRecord) -> None:
    value = {
        "when": kept.when.isoformat(),
        "what": kept.what,
        "who": kept.who,
        "operations": list(kept.operations),
        "counts": dict(kept.counts),
        "memories": [{"id": told.memory_id, "what": told.what, "why": told.why} for told in kept.memories],
        "scope": kept.scope,
        "files": list(kept.files),
        "undone": kept.undone.isoformat() if kept.undone else None,
    }
    await engine.store.put_entry(Entry(AUDIT_NAMESPACE, kept.id, value, kept.when, kept.when + KEPT))


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
        memories=_told(value.get("memories")),
        scope=value.get("scope") or "",
        files=tuple(value.get("files") or ()),
        undone=datetime.fromisoformat(value["undone"]) if value.get("undone") else None,
    )


def _told(values: Any) -> tuple[StageExample, ...]:
    """Erased since, one is named no more."""
    return tuple(StageExample(one["id"], one["what"], one["why"]) for one in values or () if "id" in one)


def _of_report(entry: Entry) -> AuditRecord:
    report: ConsolidationReport = report_of(entry.value)
    return AuditRecord(
        entry.key,
        report.started,
        CONSOLIDATION,
        operations=tuple(f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed),
        counts=dict(report.counts()),
        memories=tuple(told for stage in report.stages for told in stage.examples),
    )


async def _with_files(engine: Engine, found: Sequence[AuditRecord]) -> list[AuditRecord]:
    """Where something was removed: the files of that day, as far as they are there still."""
    if not any(one.counts.get(Fate.ERASED) for one in found):
        return list(found)
    pruned = [one.path.name for one in await backups(engine) if one.path.name.startswith(PRUNED)]
    return [
        replace(one, files=(*one.files, *_files_of(one, pruned))) if one.counts.get(Fate.ERASED) else one
        for one in found
    ]


def _files_of(kept: AuditRecord, pruned: Sequence[str]) -> list[str]:
    return [name for name in pruned if name.startswith(f"{PRUNED}{kept.when:%Y%m%d}")]


MOST_NAMED = 1_000  # memories of one record in an answer


class ListAuditInput(Input):
    """How many."""

    limit: int = Field(default=20, ge=1, le=MOST, description="Maximum number of results.", examples=[3])


class AuditInput(Input):
    """Which record; the beginning of its id is enough."""

    id: str = Field(
        min_length=1,
        description="The memory's id, or a unique beginning of it.",
        examples=["01m7gv42a3fzcy3gb19vmek4q7"],
    )


class AuditView(Output):
    """One run: what it did in words, how many of what, by whom, and how to get it back."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    when: datetime = Field(description="When it happened.", examples=["2026-11-16T10:30:00Z"])
    what: str = Field(examples=["retention"])
    who: str = Field(examples=["system"])
    operations: list[str] = Field(examples=[["archived 20 messages that summaries stand for"]])
    counts: dict[str, int] = Field(examples=[{"archived": 20}])
    back: str = Field(
        examples=["mindhold audit undo 01m7gv42a3fzcy3gb19vmek4q7"]
    )  # how to get back what went; empty where nothing did
    scope: str = Field(default="", description="Its scope.")
    files: list[str] = []  # in the folder of backups
    undone: datetime | None = None

    @classmethod
    def of(cls, kept: AuditRecord) -> AuditView:
        return cls(
            id=kept.id,
            when=kept.when,
            what=kept.what,
            who=kept.who,
            operations=list(kept.operations),
            counts=dict(kept.counts),
            back=_back(kept),
            scope=kept.scope,
            files=list(kept.files),
            undone=kept.undone,
        )


class TouchedView(Output):
    """A memory that something was done to, and by which rule. What was erased since is named no more."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    what: str = Field(examples=["archived"])
    why: str = Field(description="The reason.", examples=["a summary stands for it"])


class ShowAuditResult(AuditView):
    """With the first of the memories that it concerns."""

    memories: list[TouchedView] = Field(description="Memories.")
    more: int = 0


class ListAuditResult(Output):
    """The newest first, consolidations among them."""

    records: list[AuditView]


def _back(kept: AuditRecord) -> str:
    said: list[str] = []
    if kept.archived() or "retired" in kept.counts:
        said.append(f"mindhold audit undo {kept.id}")
    said += [f"mindhold restore {name} --merge" for name in kept.files[:3] if "retired" not in kept.counts]
    if kept.counts.get(Fate.ERASED) and not kept.files:
        said.append("the file of what was removed is gone")
    return "; ".join(said)


async def _list(context: Context, request: ListAuditInput) -> ListAuditResult:
    """What upkeep did, run by run."""
    found = await audit_records(context.engine, limit=request.limit)
    return ListAuditResult(records=[AuditView.of(one) for one in found])


LIST_AUDIT = operation("list_audit", _list, reads=True, owner_only=True)


async def _show(context: Context, request: AuditInput) -> ShowAuditResult:
    """One run of upkeep, closely."""
    kept = await find_audit_record(context.engine, request.id)
    named = [
        TouchedView(id=told.memory_id, what=told.what, why=told.why) for told in kept.memories[:MOST_NAMED]
    ]
    more = len(kept.memories) - len(named)
    return ShowAuditResult(**dict(AuditView.of(kept)), memories=named, more=more)


SHOW_AUDIT = operation("show_audit", _show, reads=True, owner_only=True)
