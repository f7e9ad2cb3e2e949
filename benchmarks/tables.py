"""From the figures to the tables: which columns, which ratios, which aims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contestants import ENTRIES, Entry
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, rate, share, times

Facts = Mapping[str, Any]


def all_tables(facts: Facts) -> list[Table]:
    """In the order in which they are read."""
    made = [_machine(facts), *(_recall(row, facts) for row in facts["recall"]), _others(facts)]
    if facts.get("growth"):
        made.append(_growth(facts["growth"]))
    return [*made, aims_table(aims(facts))]


def _machine(facts: Facts) -> Table:
    before, after = facts["machine"], facts["machine_after"]
    rows = [
        (
            "machine",
            f"{before['system']}, {before['cores']} cores, {before['memory_gb']} GB, Python {before['python']}",
        ),
        ("load average", f"{before['load_average']} before, {after['load_average']} after"),
        ("model", str(facts["model"])),
        *((f"{name}", f"version {version}") for name, version in facts["versions"].items()),
        *((f"missing: {label}", reason) for label, reason in facts["missing"].items()),
    ]
    return Table("Conditions", ("what", "value"), rows)


def _taking_part(figures: Mapping[str, Any]) -> list[Entry]:
    return [entry for entry in ENTRIES if entry.key in figures]


def _ratio(value: float | None, to: float | None) -> float | None:
    return value / to if value and to else None


def _recall(row: Facts, facts: Facts) -> Table:
    figures = row["recall"]
    floor, ours = _p50(figures, "floor"), _p50(figures, "mindhold")
    rows: list[Sequence[str]] = []
    for entry in _taking_part(figures):
        own = figures[entry.key]
        exact = row["exact"].get(entry.key, {}).get("of_exact")
        rows.append(
            (
                entry.label,
                milliseconds(own["p50"]),
                milliseconds(own["p95"]),
                milliseconds(own["processor"]),
                times(_ratio(own["p50"], floor)),
                times(_ratio(own["p50"], ours)),
                share(exact),
                megabytes(own["resident"]),
                megabytes(own["disk"]),
            )
        )
    rows.extend((f"{label}: missing",) for label in facts["missing"])
    heads = (
        "contestant",
        "p50",
        "p95",
        "processor",
        "to the floor",
        "to ours",
        "of the exact 10",
        "resident",
        "on disk",
    )
    return Table(f"Recall of ten from {row['count']:,} memories", heads, rows)


def _others(facts: Facts) -> Table:
    sizes = [f"{row['count']:,}" for row in facts["recall"]]
    heads = [
        "contestant",
        *(f"store one at {size}" for size in sizes),
        "to ours",
        "in bulk",
        "of the bare embedder",
        *(f"first answer at {size}" for size in sizes),
    ]
    bare = facts["bulk"].get("floor", {}).get("per_second")
    ours = _p50(facts["recall"][-1]["store"], "mindhold")
    rows: list[Sequence[str]] = []
    for entry in ENTRIES:
        stores = [_p50(row["store"], entry.key) for row in facts["recall"]]
        bulk = facts["bulk"].get(entry.key, {}).get("per_second")
        starts = [_p50(row["start"], entry.key) for row in facts["recall"]]
        if any((*stores, bulk, *starts)):
            cells = [
                *map(milliseconds, stores),
                times(_ratio(stores[-1], ours)),
                rate(bulk),
                share(_ratio(bulk, bare)),
            ]
            rows.append((entry.label, *cells, *map(milliseconds, starts)))
    for key, label in (
        ("command", "`mindhold recall`, whole process"),
        ("python", "an empty Python process"),
    ):
        starts = [_p50(row["start"], key) for row in facts["recall"]]
        rows.append((label, *("-" for _ in range(len(sizes) + 3)), *map(milliseconds, starts)))
    refused = sum(
        own["refused"] for row in facts["recall"] for key, own in row["store"].items() if "service" in key
    )
    if refused:
        rows.append((f"mcp-memory-service refused {refused} of these texts as near-duplicates",))
    return Table("Storing and starting", heads, rows)


def _growth(rows: Sequence[Facts]) -> Table:
    heads = (
        "memories",
        "recall p50",
        "p95",
        "floor p50",
        "to the floor",
        "of the exact 10",
        "resident",
        "on disk",
        "filled",
    )
    cells = [
        (
            f"{row['count']:,}",
            milliseconds(row["mindhold"]["p50"]),
            milliseconds(row["mindhold"]["p95"]),
            milliseconds(row["floor"]["p50"]),
            times(_ratio(row["mindhold"]["p50"], row["floor"]["p50"])),
            share(row["mindhold"]["of_exact"]),
            megabytes(row["mindhold"]["resident"]),
            megabytes(row["mindhold"]["disk"]),
            rate(row["mindhold"]["loaded"] / row["mindhold"]["load_seconds"]),
        )
        for row in rows
    ]
    remark = "Vectors beyond the real ones lie between two real ones, texts are the generator's; `filled` is without embedding."
    return Table("Growth", heads, [*cells, (remark,)])


def _p50(figures: Mapping[str, Any], key: str) -> float | None:
    value = figures.get(key, {}).get("p50")
    return None if value is None else float(value)


def aims(facts: Facts) -> list[Aim]:
    """What was promised, against what was measured in this run."""
    floor = [_ratio(_p50(row["recall"], "mindhold"), _p50(row["recall"], "floor")) for row in facts["recall"]]
    found = [_most("recall within 1.6 times the floor, at every size", floor, 1.6)]
    for promise, key, least in (
        ("5 times faster than mcp-memory-service over MCP", "service", 5.0),
        ("5 times faster than its hybrid mode", "service-hybrid", 5.0),
        ("10 times faster than ChromaDB with its default embedder", "chroma", 10.0),
    ):
        ratios = [
            _ratio(_p50(row["recall"], key), _p50(row["recall"], "mindhold")) for row in facts["recall"]
        ]
        found.append(_least(f"{promise}, at every size", ratios, least, times))
    exact = [row["exact"].get("mindhold", {}).get("of_exact") for row in facts["recall"]]
    found.append(_least("the exact ten by vectors", exact, 0.9995, share))
    bulk = facts["bulk"]
    ours, bare = (bulk.get(key, {}).get("per_second") for key in ("mindhold", "floor"))
    found.append(_least("bulk store at 0.85 of the bare embedder", [_ratio(ours, bare)], 0.85, share))
    if facts.get("growth"):
        found += _growth_aims(facts["growth"])
    return found


def _growth_aims(rows: Sequence[Facts]) -> list[Aim]:
    first, last = rows[0], rows[-1]
    cost = last["mindhold"]["p50"] / first["mindhold"]["p50"]
    size = last["count"] / first["count"]
    words = f"{times(cost)} the time for {times(size)} the memories"
    return [
        Aim("cost grows no faster than linearly", words, cost <= size),
        _least(
            "0.98 of the exact answer at the end of the growth", [last["mindhold"]["of_exact"]], 0.98, share
        ),
    ]


def _most(promise: str, ratios: Sequence[float | None], most: float) -> Aim:
    known = _all_known(ratios)
    return Aim(promise, ", ".join(map(times, known)) or "-", max(known) <= most if known else None)


def _least(promise: str, values: Sequence[float | None], least: float, words: Any) -> Aim:
    known = _all_known(values)
    return Aim(promise, ", ".join(map(words, known)) or "-", min(known) >= least if known else None)


def _all_known(values: Sequence[float | None]) -> list[float]:
    """The values; none if one is missing, because then the promise can't be judged."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
