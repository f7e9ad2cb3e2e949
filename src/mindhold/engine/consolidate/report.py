"""What a consolidation did: told for a year, and kept longer for the audit trail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine.consolidate.stage import Stage, Told
from mindhold.engine.core import Engine
from mindhold.model.entry import Entry
from mindhold.model.life import Fate

DRAWER = "consolidations"
TOLD_FOR = timedelta(days=365)
KEPT = timedelta(days=5 * 365)  # for the audit trail
CURSOR = "consolidated"


@dataclass(frozen=True, slots=True)
class Report:
    """Every stage that ran. `notice` says why none did."""

    started: datetime
    seconds: float
    dry: bool = False
    stages: tuple[Stage, ...] = ()
    notice: str = ""

    @property
    def more(self) -> bool:
        """Whether something was left for the next time."""
        return any(stage.more for stage in self.stages)

    @property
    def changed(self) -> int:
        """How much was."""
        return sum(stage.changed for stage in self.stages)

    def told(self, what: str) -> list[Told]:
        """The memories that were archived, erased, merged, ...: the first of them."""
        return [told for stage in self.stages for told in stage.examples if told.what == what]

    def counts(self) -> Counter[str]:
        """How many were archived, erased, merged, ...: all of them."""
        return sum((Counter(stage.counts) for stage in self.stages), Counter[str]())


@dataclass(slots=True)
class Notes:
    """What a run is about to archive, written down first: if it breaks off, that is its report."""

    engine: Engine
    key: str
    started: datetime
    leaving: list[Told] = field(default_factory=list)

    async def before(self, leaving: Sequence[Told]) -> None:
        """These go next."""
        self.leaving += leaving
        stage = Stage(
            "expiry",
            changed=len(self.leaving),
            detail=f"{len(self.leaving)} archived; the run was broken off",
            examples=tuple(self.leaving),
            counts={Fate.ARCHIVED: len(self.leaving)},
        )
        await _put(self.engine, self.key, Report(self.started, 0.0, stages=(stage,)))


async def keep(engine: Engine, report: Report, *, key: str) -> None:
    """For those who ask later, if something was changed; what is erased is named in none but the one that says so."""
    await engine.store.set_cursor(CURSOR, engine.clock().isoformat())
    if report.changed:
        await _put(engine, key, report)
    else:
        await engine.store.drop_entry(DRAWER, key)  # what was about to go, and stayed


async def _put(engine: Engine, key: str, report: Report) -> None:
    now = engine.clock()
    value = {
        "started": report.started.isoformat(),
        "seconds": report.seconds,
        "stages": [_stage_value(stage) for stage in report.stages],
    }
    await engine.store.put_entry(Entry(DRAWER, key, value, now, now + KEPT))


async def reports(engine: Engine, *, limit: int) -> list[Report]:
    """Of the last year, the newest first."""
    now = engine.clock()
    found = [report_of(entry.value) for entry in await engine.store.entries(DRAWER, now=now, limit=limit)]
    return [report for report in found if report.started > now - TOLD_FOR]


async def last_consolidated(engine: Engine) -> datetime | None:
    """None when it never was."""
    noted = await engine.store.cursor(CURSOR)
    return datetime.fromisoformat(noted) if noted else None


def _stage_value(stage: Stage) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "changed": stage.changed,
        "detail": stage.detail,
        "seconds": stage.seconds,
        "more": stage.more,
        "looked": stage.looked,
        "counts": dict(stage.counts),
        "examples": [{"id": told.memory_id, "what": told.what, "why": told.why} for told in stage.examples],
    }


def report_of(value: Mapping[str, Any]) -> Report:
    """As it was kept."""
    return Report(
        started=datetime.fromisoformat(value["started"]),
        seconds=value["seconds"],
        stages=tuple(_stage(one) for one in value["stages"] or ()),
    )


def _stage(value: Mapping[str, Any]) -> Stage:
    return Stage(
        value["stage"],
        changed=value["changed"],
        detail=value["detail"],
        seconds=value["seconds"],
        more=value["more"],
        looked=value["looked"],
        examples=tuple(
            Told(one["id"], one["what"], one["why"])
            for one in value.get("examples") or ()
            if "id" in one  # erased since, it is named no more
        ),
        counts=value.get("counts") or {},
    )
