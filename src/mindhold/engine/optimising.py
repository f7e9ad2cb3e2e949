"""The store's own order: files and statistics, and what is derived made anew where it doesn't agree with the records."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from mindhold.engine.consolidate.index import OPTIMISED
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.model.errors import StoreDamaged
from mindhold.ports.findings import Finding

NAME = "optimise"
PAGES = "file"  # what a store calls them when it looks at itself
WHAT_TO_DO = "`mindhold doctor` says what is wrong and what to do."


async def run(engine: Engine, within: Bounds) -> Stage:
    """As a step of maintenance. Raises StoreDamaged for what can't be made anew out of the records."""
    begun = perf_counter()
    wrong = await _wrong(engine)
    if within.dry:
        told = f"to be made anew: {_listed(wrong)}" if wrong else NOTHING
        return Stage(NAME, len(wrong), told, perf_counter() - begun)
    repaired = await engine.store.repair() if wrong else []
    if repaired and (left := await _wrong(engine)):
        raise StoreDamaged(f"What is derived stays wrong: {_listed(left)}.", advice=WHAT_TO_DO)
    freed = await engine.store.optimise()
    await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    counts = {what: count for what, count in (("repaired", len(repaired)), ("bytes freed", freed)) if count}
    told = "; ".join([*repaired, *([f"{freed:,} bytes freed"] if freed else [])])
    changed = len(repaired) + bool(freed)
    return Stage(NAME, changed, told or "in order", perf_counter() - begun, counts=counts)


async def _wrong(engine: Engine) -> list[Finding]:
    """What can be made anew. Raises StoreDamaged where the records themselves may be lost: nothing is written there."""
    findings = await engine.store.check()
    if damaged := [one for one in findings if one.name == PAGES and not one.healthy]:
        raise StoreDamaged(f"The database is damaged: {_listed(damaged)}.", advice=WHAT_TO_DO)
    return [one for one in findings if one.mendable]


def _listed(findings: Sequence[Finding]) -> str:
    return "; ".join(f"{one.name}: {one.detail}" for one in findings)
