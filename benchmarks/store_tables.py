"""From the figures of the stores to tables and aims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contestants import FLOOR
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, rate, share, times
from benchmarks.sites import LOCAL, MONGODB, NAMES, POSTGRES
from benchmarks.store_measures import BARE, BESIDE, LABELS

Facts = Mapping[str, Any]

MOST_OF_BARE = 2.0  # recall on PostgreSQL, of the bare query and the embedding
MOST_WITH_REDIS = 1.15  # recall with Redis beside, of recall without: what is left over is noise
_LABELS = {FLOOR.key: FLOOR.label, **LABELS}


def all_tables(facts: Facts) -> list[Table]:
    """In the order in which they are read."""
    made = [_conditions(facts), *map(_recall, facts["recall"]), _keywords(facts), _storing(facts)]
    made.append(_migration(facts["migration"]))
    if facts["together"]:
        made.append(_together(facts))
    return [*made, aims_table(aims(facts))]


def _conditions(facts: Facts) -> Table:
    before, after = facts["machine"], facts["machine_after"]
    about = (
        f"{before['system']}, {before['cores']} cores, {before['memory_gb']} GB, Python {before['python']}"
    )
    rows = [
        ("machine", f"{about}; the servers run on it too"),
        ("load average", f"{before['load_average']} before, {after['load_average']} after"),
        ("model", str(facts["model"])),
        *((f"missing: {NAMES[name]}", reason) for name, reason in facts["missing"].items()),
        *((f"dropped out: {_LABELS[key]}", reason) for key, reason in facts["dropped"].items()),
        *((f"failed: {phase}", reason) for phase, reason in facts["failed"].items()),
    ]
    return Table("Conditions", ("what", "value"), rows)


def _ratio(value: float | None, to: float | None) -> float | None:
    return value / to if value and to else None


def _p50(figures: Facts, key: str) -> float | None:
    value = figures.get(key, {}).get("p50")
    return None if value is None else float(value)


def _recall(row: Facts) -> Table:
    heads = ["store", "p50", "p95", "processor", "to bare pgvector", "to SQLite"]
    heads += ["of the exact 10", "of SQLite's 10", "resident", "size of the store"]
    figures, near = row["recall"], row["near"]
    rows: list[Sequence[str]] = []
    for key, own in figures.items():
        rows.append(
            (
                _LABELS[key],
                milliseconds(own["p50"]),
                milliseconds(own["p95"]),
                milliseconds(own["processor"]),
                times(_ratio(own["p50"], _p50(figures, BARE))),
                times(_ratio(own["p50"], _p50(figures, LOCAL))),
                share(near.get(key, {}).get("of_exact")),
                share(near.get(key, {}).get("of_local")),
                megabytes(own["resident"]),
                megabytes(row["size"].get(key, {}).get("bytes")),
            )
        )
    rows.append(("`processor` counts the database server's too; `resident` is Mindhold's process alone.",))
    if row["by_index"] is False:
        rows.append(("PostgreSQL answered the bare query without an index.",))
    return Table(f"Recall of ten from {row['count']:,} memories", heads, rows)


def _keywords(facts: Facts) -> Table:
    heads = ["store"]
    for row in facts["recall"]:
        heads += [f"p50 at {row['count']:,}", "p95", "by the sets"]
    heads.append("to PostgreSQL")
    last = facts["recall"][-1]["keywords"]
    rows: list[Sequence[str]] = []
    for key in last:
        cells = []
        for row in facts["recall"]:
            own = row["keywords"].get(key, {})
            cells += [milliseconds(own.get("p50")), milliseconds(own.get("p95")), share(own.get("by_sets"))]
        rows.append((_LABELS[key], *cells, times(_ratio(_p50(last, key), _p50(last, POSTGRES)))))
    rows.append(("`by the sets` is the share that Redis's keyword sets answered.",))
    return Table("Recall by a keyword", heads, rows)


def _storing(facts: Facts) -> Table:
    heads = ["store"]
    for row in facts["recall"]:
        heads += [f"store one at {row['count']:,}", "p95"]
    heads += ["in bulk", "of the bare embedder", "filled without embedding"]
    bare = facts["bulk"].get(FLOOR.key, {}).get("per_second")
    rows: list[Sequence[str]] = [
        (FLOOR.label, *("-" for _ in range(2 * len(facts["recall"]))), rate(bare), "1.000", "-")
    ]
    for key in facts["recall"][-1]["store"]:
        cells = []
        for row in facts["recall"]:
            own = row["store"].get(key, {})
            cells += [milliseconds(own.get("p50")), milliseconds(own.get("p95"))]
        bulk = facts["bulk"].get(key, {}).get("per_second")
        filled = facts["recall"][-1]["load"].get(key)
        speed = filled["loaded"] / filled["load_seconds"] if filled else None
        rows.append((_LABELS[key], *cells, rate(bulk), share(_ratio(bulk, bare)), rate(speed)))
    return Table("Storing", heads, rows)


def _migration(moves: Sequence[Facts]) -> Table:
    rows = [
        (
            f"{NAMES[move['source']]} to {NAMES[move['target']]}",
            f"{move['memories']:,}",
            milliseconds(move["seconds"] * 1e3),
            rate(move["memories"] / move["seconds"]),
        )
        for move in moves
    ]
    return Table("Migration of a project", ("way", "memories", "took", "memories a second"), rows)


def _together(facts: Facts) -> Table:
    found = facts["together"]
    heads = ("servers", "answered", "a second", "p50", "p99", "cores of the servers", "errors")
    rows: list[Sequence[str]] = [
        (
            servers,
            f"{own['requests']:,}",
            rate(own["per_second"]),
            milliseconds(own["p50"]),
            milliseconds(own["p99"]),
            f"{own['server_cores']:.2f}",
            f"{sum(own['errors'].values())}",
        )
        for servers, own in found["servers"].items()
    ]
    one, two = found["servers"]["1"], found["servers"]["2"]
    ratio = times(_ratio(two["per_second"], one["per_second"]))
    cores = facts["machine"]["cores"]
    rows.append(
        (f"Two servers answer {ratio} what one does; clients, servers and database share {cores} cores.",)
    )
    kinds = {what: many for own in found["servers"].values() for what, many in own["errors"].items()}
    rows += [(f"{many} x {what}",) for what, many in kinds.items()]
    title = f"{found['clients']} MCP clients without rest, {found['memories']:,} memories in one PostgreSQL"
    return Table(title, heads, rows)


def aims(facts: Facts) -> list[Aim]:
    """What was promised, against what was measured in this run."""
    last = facts["recall"][-1]
    figures, near = last["recall"], last["near"]
    size = f"{last['count']:,}"
    found = [
        _most(
            f"PostgreSQL at {size}: recall within {MOST_OF_BARE:.0f} times bare pgvector + embedding",
            _ratio(_p50(figures, POSTGRES), _p50(figures, BARE)),
            MOST_OF_BARE,
        ),
        _most(
            f"Redis beside slows no recall down at {size}",
            _ratio(_p50(figures, BESIDE), _p50(figures, POSTGRES)),
            MOST_WITH_REDIS,
        ),
        _least(
            f"PostgreSQL at {size}: of the exact ten no less than bare pgvector finds",
            near.get(POSTGRES, {}).get("of_exact"),
            near.get(BARE, {}).get("of_exact"),
        ),
        _least(f"MongoDB at {size}: the exact ten", near.get(MONGODB, {}).get("of_exact"), 0.9995),
        _moved(facts["migration"]),
    ]
    return [*found, *_together_aims(facts["together"])]


def _most(promise: str, ratio: float | None, most: float) -> Aim:
    return Aim(promise, times(ratio), None if ratio is None else ratio <= most)


def _least(promise: str, value: float | None, least: float | None) -> Aim:
    if value is None or least is None:
        return Aim(promise, "-", None)
    return Aim(promise, share(value), value >= least)


def _moved(moves: Sequence[Facts]) -> Aim:
    whole = [move["arrived"] == move["memories"] for move in moves]
    words = f"{sum(whole)} of {len(whole)} moves"
    return Aim("every memory arrives, with its vector", words, all(whole) if whole else None)


def _together_aims(found: Facts | None) -> list[Aim]:
    if found is None:
        return [Aim("64 clients on two servers: no error", "-", None)]
    one, two = found["servers"]["1"], found["servers"]["2"]
    errors = sum(sum(own["errors"].values()) for own in (one, two))
    ratio = _ratio(two["per_second"], one["per_second"])
    return [
        Aim(f"{found['clients']} clients on one server and on two: no error", str(errors), not errors),
        Aim("two servers answer no less than one", times(ratio), None if ratio is None else ratio >= 1),
    ]
