"""`make bench-assistant`: the assistant's tools at the sizes that they were asked for, beside the least that they must do.

50,000 and 100,000 memories retrieved and started with; a store of 500 MB backed up and restored; five years of daily use.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from benchmarks.assistant_recall import at_size
from benchmarks.assistant_safety import safekeeping
from benchmarks.assistant_years import QUICK, YEARS, Pace, five_years
from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.peers.door import OWN_HOME, PRECISION
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, share, text, times, write
from benchmarks.served import MODEL

from mindhold.providers.model_pull import PullOptions, pull

SIZES, QUICK_SIZES = (50_000, 100_000), (2_000, 5_000)
STORE, QUICK_STORE = 500_000_000, 50_000_000
QUERIES, QUICK_QUERIES = 200, 40
STARTS, QUICK_STARTS = 7, 3
MOST_RETRIEVE = 30.0  # milliseconds
MOST_START = 1_000.0
MOST_BACKUP = 60.0  # seconds
MOST_GROWTH = 150e6  # bytes that a backup may take of memory
LEAST_KEPT = 0.98
PARTS = ("recall", "safety", "years")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under three minutes")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; may be repeated")
    arguments = parser.parse_args()
    parts, quick = arguments.only or PARTS, arguments.quick
    pull(MODEL, PullOptions(OWN_HOME / "models", precision=PRECISION))
    facts: dict[str, Any] = {"machine": machine(), "model": MODEL, "quick": quick}
    if "recall" in parts:
        queries, starts = (QUICK_QUERIES, QUICK_STARTS) if quick else (QUERIES, STARTS)
        facts["recall"] = [
            at_size(count, queries=queries, starts=starts) for count in (QUICK_SIZES if quick else SIZES)
        ]
    if "safety" in parts:
        print("backups", flush=True)
        facts["safety"] = safekeeping(QUICK_STORE if quick else STORE)
    if "years" in parts:
        print(f"{YEARS} years", flush=True)
        facts["years"] = asyncio.run(five_years(QUICK if quick else Pace()))
    tables = _tables(facts)
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "assistant", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


def _tables(facts: dict[str, Any]) -> list[Table]:
    made = []
    if "recall" in facts:
        made.append(_recall(facts["recall"]))
    if "safety" in facts:
        made.append(_safety(facts["safety"]))
    if "years" in facts:
        made.append(_years(facts["years"]))
    about = facts["machine"]
    words = (
        f"{about['system']}, {about['cores']} cores, Python {about['python']}, load {about['load_average']}"
    )
    return [*made, Table("Conditions", ("what", "measured"), [("machine", words)]), aims_table(_aims(facts))]


def _recall(rows: list[dict[str, Any]]) -> Table:
    heads = (
        "memories",
        "retrieve p50",
        "p95",
        "floor p50",
        "to the floor",
        "initialize",
        "first answer",
        "resident",
        "on disk",
    )
    cells = [
        (
            f"{row['memories']:,}",
            milliseconds(row["retrieve"]["p50"]),
            milliseconds(row["retrieve"]["p95"]),
            milliseconds(row["floor"]["p50"]),
            times(row["retrieve"]["p50"] / row["floor"]["p50"]),
            milliseconds(row["start"]["initialize"]["p50"]),
            milliseconds(row["start"]["answer"]["p50"]),
            megabytes(row["resident"]),
            megabytes(row["disk"]),
        )
        for row in rows
    ]
    remark = "The floor embeds the question and makes one exact product in a process; retrieve_memory goes over MCP by stdio."
    return Table("retrieve_memory and the start of its server", heads, [*cells, (remark,)])


def _safety(facts: dict[str, Any]) -> Table:
    rows = [
        (name, milliseconds(one["seconds"] * 1e3), megabytes(one["bytes"]), megabytes(one["peak"]))
        for name, one in facts["steps"].items()
    ]
    title = f"A store of {facts['store'] / 1e6:,.0f} MB with {facts['memories']:,} memories"
    return Table(title, ("step", "took", "file", "most memory"), rows)


def _years(facts: dict[str, Any]) -> Table:
    rows = [
        (
            name,
            share(one["any@5"]),
            f"{one['active']:,}",
            f"{one['by_status'].get('archived', 0):,}",
            megabytes(one["disk"]),
            milliseconds(one["ask"]["p50"]),
            milliseconds(one["night"]["p50"]),
            milliseconds(one["night"]["p95"]),
        )
        for name, one in facts["lives"].items()
    ]
    heads = ("level", "any@5", "active", "archived", "on disk", "retrieve", "a night p50", "p95")
    told = ", ".join(f"told as a {by}: {share(one)}" for by, one in facts["by"].items())
    remark = (
        f"{facts['asked_for']} things that were asked for now and then; kept of what keep-all finds: {told}."
    )
    return Table(
        f"{YEARS} years, {facts['days']:,} days lived in {facts['seconds']:.0f} s", heads, [*rows, (remark,)]
    )


def _aims(facts: dict[str, Any]) -> list[Aim]:
    found: list[Aim] = []
    if rows := facts.get("recall"):
        slowest = max(row["retrieve"]["p50"] for row in rows)
        opened = max(row["start"]["initialize"]["p50"] for row in rows)
        answered = max(row["start"]["answer"]["p50"] for row in rows)
        found += [
            Aim(
                f"retrieve_memory p50 under {MOST_RETRIEVE:.0f} ms",
                milliseconds(slowest),
                slowest < MOST_RETRIEVE,
            ),
            Aim("initialize under a second with that store", milliseconds(opened), opened < MOST_START),
            Aim("the first answer under a second", milliseconds(answered), answered < MOST_START),
        ]
    if safety := facts.get("safety"):
        for name, one in safety["steps"].items():
            found.append(
                Aim(
                    f"{name} under a minute", milliseconds(one["seconds"] * 1e3), one["seconds"] < MOST_BACKUP
                )
            )
        grown = max(one["peak"] - safety["idle"] for one in safety["steps"].values() if one["bounded"])
        found.append(
            Aim(
                f"an encrypted backup takes at most {MOST_GROWTH / 1e6:.0f} MB of memory, however much there is",
                megabytes(grown),
                grown <= MOST_GROWTH,
            )
        )
    if years := facts.get("years"):
        found.append(
            Aim(
                f"after {YEARS} years {LEAST_KEPT} of what keep-all recalls of what was used",
                share(years["ratio"]),
                years["ratio"] >= LEAST_KEPT,
            )
        )
    return found


if __name__ == "__main__":
    main()
