"""`make bench-consolidate`: the upkeep of 100,000 memories, stage by stage: how long it takes, and how much memory.

First everything is due. Then a hundredth was used since, which is what a day is like. Then nobody came for half a year, and
nearly all of it is archived. The next day has nothing to do. Of 100,000 the first search for contradictions is bounded in
time, for it looks up the neighbours of each: its rate says how long all of it takes, and what it left is marked as seen.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import psutil
from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, text, write
from benchmarks.served import data_folder, filled

from mindhold.app.application import open_app
from mindhold.engine import Engine
from mindhold.lifecycle.consolidation import STAGES, run_consolidation
from mindhold.lifecycle.stage_report import RunReport
from mindhold.memories.evaluation import evaluate
from mindhold.model.query import Filter
from mindhold.ports.store import Change, Tend
from mindhold.settings.loader import LoadedSettings, load_settings

MEMORIES, QUICK_MEMORIES = 100_000, 10_000
CHANGED = 100  # one in so many
UNBOUNDED = 86_400.0
CONTRADICTIONS = 120.0  # seconds for the first search for them; of fewer memories it goes to its end
LOOK_EVERY = 0.02
SWEEP = ("tiers", "decay", "expiry", "duplicates", "utility", "anchors")
FIRST, DAY, LATER, AFTER = "all due", "1 % used", "half a year on", "nothing due"
MOST_MEGABYTES = 150
MOST_OF_FIRST = 0.05


@dataclass
class Watch:
    """The most memory that this process took, by what was told to be under way."""

    stage: str = ""
    peaks: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def tell(self, stage: str, _done: int, _total: int) -> None:
        self.stage = stage

    @contextmanager
    def looking(self) -> Iterator[None]:
        over, own = threading.Event(), psutil.Process()

        def look() -> None:
            while not over.wait(LOOK_EVERY):
                self.peaks[self.stage] = max(self.peaks[self.stage], own.memory_info().rss)

        looker = threading.Thread(target=look, daemon=True)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MEMORIES:,} memories")
    arguments = parser.parse_args()
    store = filled(QUICK_MEMORIES if arguments.quick else MEMORIES, data=data_folder()).copied("consolidated")
    facts: dict[str, Any] = {"machine": machine(), "memories": store.memories, "model": store.model}
    bound = UNBOUNDED if arguments.quick else CONTRADICTIONS
    loaded = load_settings(environ=store.variables)
    asyncio.run(_as_new(loaded))
    facts |= asyncio.run(_runs(loaded, bound=bound))
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "consolidation", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


async def _as_new(loaded: LoadedSettings) -> None:
    """A store that was filled by an older version has its past behind it: here all of it is new."""
    async with open_app(loaded):
        pass
    with closing(sqlite3.connect(loaded.settings.database)) as connection, connection:
        connection.execute("UPDATE memory SET verified = NULL, examined = NULL, decayed = NULL")


async def _runs(loaded: LoadedSettings, *, bound: float) -> dict[str, Any]:
    async with open_app(loaded) as app:
        engine, runs = app.engine, dict[str, Any]()
        found = await engine.store.find(Filter(viewer="system"), limit=1)
        await engine.vector_source.embed([found[0].content])  # the model is there before anything is measured
        print("judging", flush=True)
        begun = time.perf_counter()
        judged = await evaluate(replace(engine, llm=None), seconds=UNBOUNDED)
        judging = {"memories": judged.judged, "seconds": time.perf_counter() - begun}
        others = [name for name in STAGES if name != "contradictions"]
        runs[FIRST] = await _measured(engine, FIRST, stages=others)
        searched = await _measured(engine, "contradictions", stages=["contradictions"], seconds=bound)
        runs[FIRST]["stages"] |= searched["stages"]
        runs[FIRST]["seconds"] += searched["seconds"]
        runs[FIRST]["peak"] = max(runs[FIRST]["peak"], searched["peak"])
        left, ids = await _examined(engine)
        engine = _later(engine, days=1)
        await engine.store.touch(ids[::CHANGED], engine.clock())
        runs[DAY] = await _measured(_later(engine, days=1), DAY)
        runs[LATER] = await _measured(_later(engine, days=182), LATER)
        runs[AFTER] = await _measured(_later(engine, days=182, seconds=1), AFTER)
        return {"runs": runs, "judging": judging, "unsearched": left}


async def _examined(engine: Engine) -> tuple[int, list[str]]:
    """How many the search had not come to, which count as seen from now on; and all there are."""
    ids: list[str] = []
    left = 0
    async for batch in engine.store.scan(Filter(viewer="system")):
        changes: list[Change] = [
            Tend(one.id, examined=engine.clock()) for one in batch if one.examined is None
        ]
        await engine.store.apply(changes)
        left += len(changes)
        ids += [one.id for one in batch]
    return left, ids


def _later(engine: Engine, *, days: int, seconds: int = 0) -> Engine:
    moment = engine.clock() + timedelta(days=days, seconds=seconds)
    begun = time.monotonic()
    return replace(engine, clock=lambda: moment + timedelta(seconds=time.monotonic() - begun))


async def _measured(
    engine: Engine, name: str, *, stages: Sequence[str] = (), seconds: float = UNBOUNDED
) -> dict[str, Any]:
    print(name, flush=True)
    watch, before = Watch(), psutil.Process().memory_info().rss
    with watch.looking():
        report: RunReport = await run_consolidation(engine, seconds=seconds, stages=stages, tell=watch.tell)
    return {
        "seconds": report.seconds,
        "rss_before": before,
        "peak": max(watch.peaks.values(), default=before),
        "stages": {
            stage.name: {
                "seconds": stage.seconds,
                "changed": stage.changed,
                "looked": stage.looked,
                "detail": stage.detail,
                "peak": watch.peaks.get("tiers" if stage.name in SWEEP else stage.name),
            }
            for stage in report.stages
        },
    }


def _tables(facts: dict[str, Any]) -> list[Table]:
    runs = facts["runs"]
    rows = []
    for stage in STAGES:
        cells = [stage]
        for one in runs.values():
            told = one["stages"][stage]
            cells += [milliseconds(told["seconds"] * 1e3), f"{told['changed']:,}"]
        rows.append(cells)
    whole = ["all of it"]
    for one in runs.values():
        changed = sum(told["changed"] for told in one["stages"].values())
        whole += [milliseconds(one["seconds"] * 1e3), f"{changed:,}"]
    stages = Table(
        f"Consolidation of {facts['memories']:,} memories: time, and what was changed",
        ("stage", *(head for name in runs for head in (name, "changed"))),
        [*rows, whole],
    )
    return [stages, _memory(facts), _conditions(facts), aims_table(_aims(facts))]


def _memory(facts: dict[str, Any]) -> Table:
    parts = {
        "the sweep": "tiers",
        "embeddings": "embeddings",
        "contradictions": "contradictions",
        "index": "index",
    }
    runs = facts["runs"]
    rows = [
        [part, *(megabytes(one["stages"][stage]["peak"] or None) for one in runs.values())]
        for part, stage in parts.items()
    ]
    before = ["before it", *(megabytes(one["rss_before"]) for one in runs.values())]
    return Table("The most memory that the process took", ("during", *runs), [before, *rows])


def _conditions(facts: dict[str, Any]) -> Table:
    about = facts["machine"]
    looked = [f"{name}: {one['stages']['tiers']['looked']:,}" for name, one in facts["runs"].items()]
    machine_is = (
        f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}"
    )
    rows = [
        ("looked at", "; ".join(looked)),
        ("first search for contradictions", _search(facts)),
        (
            "judged by rules before",
            f"{facts['judging']['memories']:,} in {facts['judging']['seconds']:.0f} s",
        ),
        ("model", facts["model"]),
        ("machine", machine_is),
    ]
    return Table("Conditions", ("what", "measured"), rows)


def _search(facts: dict[str, Any]) -> str:
    searched = facts["runs"][FIRST]["stages"]["contradictions"]
    rate = searched["looked"] / max(searched["seconds"], 1e-3)
    told = f"{searched['looked']:,} memories in {searched['seconds']:.0f} s, {rate:,.0f}/s"
    if not facts["unsearched"]:
        return f"{told}: all of it"
    whole = facts["memories"] / max(rate, 1e-3)
    return f"{told}: bounded; at that rate all of it takes {whole:,.0f} s ({facts['unsearched']:,} marked as seen)"


def _aims(facts: dict[str, Any]) -> list[Aim]:
    runs = facts["runs"]
    grown = max(one["peak"] - one["rss_before"] for one in runs.values())
    first = runs[FIRST]["seconds"] - runs[FIRST]["stages"]["contradictions"]["seconds"]
    share = runs[DAY]["seconds"] / first
    looked = runs[DAY]["stages"]["tiers"]["looked"]
    most = facts["memories"] // CHANGED
    return [
        Aim(
            f"at most {MOST_MEGABYTES} MB more, however many", megabytes(grown), grown <= MOST_MEGABYTES * 1e6
        ),
        Aim("a day's work is what changed", f"{looked:,} looked at, {most:,} used", looked <= 2 * most),
        Aim(
            f"within {MOST_OF_FIRST:.0%} of a look at all (but for the search)",
            f"{share:.1%}",
            share <= MOST_OF_FIRST,
        ),
    ]


if __name__ == "__main__":
    main()
