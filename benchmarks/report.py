"""Tables for the terminal, rows for the README, JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column heads and rows; a row with one cell is a remark across the table."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Aim:
    """Something promised, and what was measured."""

    promise: str
    measured: str
    met: bool | None  # None when it could not be measured


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies, between neighbours by proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> dict[str, float]:
    """What a row keeps of many samples."""
    return {
        "p50": statistics.median(values),
        "p95": percentile(values, 0.95),
        "best": min(values),
        "samples": float(len(values)),
    }


def milliseconds(value: float | None) -> str:
    """Three figures, so that a table stays narrow."""
    if value is None:
        return "-"
    if value >= 1_000:
        return f"{value / 1_000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def times(value: float | None) -> str:
    """A ratio."""
    if value is None:
        return "-"
    return f"{value:.0f} x" if value >= 20 else f"{value:.1f} x" if value >= 2 else f"{value:.2f} x"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.0f} MB"


def rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} /s" if value >= 10 else f"{value:.1f} /s"


def text(table: Table) -> str:
    """For a terminal: the first column to the left, the others to the right; two columns are words, both to the left."""
    rows = [list(table.heads), *(list(row) for row in table.rows)]
    full = [row for row in rows if len(row) > 1]
    widths = [max(len(row[column]) for row in full) for column in range(len(table.heads))]
    lines = [table.title, "-" * len(table.title)]
    for row in rows:
        if len(row) == 1:
            lines.append(f"  {row[0]}")
            continue
        rest = zip(row[1:], widths[1:], strict=True)
        words = len(table.heads) == 2
        cells = [row[0].ljust(widths[0]), *(c.ljust(width) if words else c.rjust(width) for c, width in rest)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(table: Table) -> str:
    """The same for a document."""
    lines = [f"**{table.title}**", "", "| " + " | ".join(table.heads) + " |", "|---" * len(table.heads) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows if len(row) > 1]
    remarks = [row[0] for row in table.rows if len(row) == 1]
    return "\n".join([*lines, *(["", *remarks] if remarks else [])])


def aims_table(aims: Sequence[Aim]) -> Table:
    words = {True: "met", False: "MISSED", None: "not measured"}
    return Table(
        "Aims", ("aim", "measured", ""), [(aim.promise, aim.measured, words[aim.met]) for aim in aims]
    )


def write(folder: Path, name: str, facts: dict[str, Any], tables: Sequence[Table]) -> Path:
    """JSON and Markdown beside each other; the path of the JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"{name}-{stamp}.json"
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False), encoding="utf-8")
    path.with_suffix(".md").write_text("\n\n".join(map(markdown, tables)) + "\n", encoding="utf-8")
    return path
