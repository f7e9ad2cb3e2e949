"""`make bench-capture`: a transcript of 200 MB, followed and captured by rules: how fast, and in how much memory.

It is made of the conversations in `transcripts/*.jsonl` under MINDHOLD_BENCH_DATA (default ../shared/data), one after the other
and over again, each time with ids and times of its own. What is said repeats itself, so that most of what is found is known
already. Each figure is of a process of its own; a small file beside the large one shows that memory doesn't grow with it.
`--gigabyte` takes 1 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from benchmarks.environment import HERE, RESULTS, machine
from benchmarks.report import Aim, Table, aims_table, megabytes, milliseconds, text, write
from benchmarks.served import data_folder

from mindhold.app.application import open_app
from mindhold.capture.capture import CAPTURE
from mindhold.ports.transcripts import TranscriptCursor
from mindhold.providers.transcripts.claude import ClaudeTranscripts
from mindhold.settings.loader import load_settings

SMALL, LARGE, GIGABYTE, QUICK = 10_000_000, 200_000_000, 1_000_000_000, 40_000_000
PIECE = 4 << 20
MOST_GROWTH = 60_000_000  # bytes of memory that a large file may take more than a small one
FOLLOW, WHOLE = "follow", "capture by rules"
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK // 1_000_000} MB")
    parser.add_argument("--gigabyte", action="store_true", help="1 GB")
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "FILE", "HOME"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        what, file, home = chosen.measure
        print(json.dumps(_measured(what, Path(file), Path(home))))
        return
    large = GIGABYTE if chosen.gigabyte else QUICK if chosen.quick else LARGE
    facts: dict[str, Any] = {"machine": machine(), "rows": []}
    with TemporaryDirectory() as folder:
        for size in (SMALL, large):
            file = _made(Path(folder) / f"{size}.jsonl", size)
            for what in (FOLLOW, WHOLE):
                print(f"{what}, {size // 1_000_000} MB", flush=True)
                facts["rows"].append({"what": what, **_alone(what, file, Path(folder) / f"home-{size}")})
    tables = [_table(facts["rows"]), aims_table(_aims(facts["rows"]))]
    print("\n" + "\n\n".join(map(text, tables)))
    path = write(RESULTS, "transcripts", facts, tables)
    print(f"\n{path.relative_to(HERE.parent)} and .md")


def _made(file: Path, size: int) -> Path:
    sources = sorted((data_folder() / "transcripts").glob("*.jsonl"))
    entries = [entry for source in sources for entry in _entries(source)]
    if not entries:
        raise SystemExit(
            f"There are no conversations in {data_folder() / 'transcripts'}: set MINDHOLD_BENCH_DATA."
        )
    number = written = 0
    with file.open("w", encoding="utf-8") as stream:
        while written < size:
            copy, place = divmod(number, len(entries))
            entry = _anew(entries[place], copy)
            if "timestamp" in entry:
                entry["timestamp"] = (BEGUN + timedelta(seconds=number)).isoformat()
            written += stream.write(json.dumps(entry, ensure_ascii=False) + "\n")
            number += 1
    return file


def _entries(source: Path) -> Iterator[dict[str, Any]]:
    for line in source.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _anew(value: Any, copy: int) -> Any:
    """The same with ids of the copy's own."""
    if isinstance(value, list):
        return [_anew(one, copy) for one in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, one in value.items():
        if key in ("uuid", "id", "tool_use_id", "parentUuid") and isinstance(one, str):
            made[key] = f"{one}-{copy}"
        else:
            made[key] = _anew(one, copy)
    return made


def _alone(what: str, file: Path, home: Path) -> dict[str, Any]:
    """Measured by a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.transcripts", "--measure", what, str(file), str(home)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HERE.parent)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measured(what: str, file: Path, home: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    counts = _follow(file) if what == FOLLOW else asyncio.run(_capture(file, home))
    seconds = time.perf_counter() - begun
    return {"bytes": file.stat().st_size, "seconds": seconds, "peak": _peak(), **counts}


def _follow(file: Path) -> dict[str, int]:
    transcripts, cursor, steps = ClaudeTranscripts(file.parent), TranscriptCursor(), 0
    while (piece := transcripts.follow(file, cursor, most_bytes=PIECE)) is not None:
        steps += len(piece.steps)
        cursor = piece.cursor
        if not piece.more:
            break
    return {"steps": steps}


async def _capture(file: Path, home: Path) -> dict[str, int]:
    folder = home.with_name(f"{home.name}-project")
    folder.mkdir()
    given = {"home": home, "embedding.provider": "hashing", "time_zone": "UTC"}
    async with open_app(load_settings(given, environ={})) as app:
        asked = CAPTURE.takes(file=str(file), folder=str(folder), event="SessionEnd")
        done = await app.run(CAPTURE, asked)
    return {"lines": done.lines, "found": done.found, "stored": len(done.stored)}


def _peak() -> int:
    """The most memory that this process ever held."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _table(rows: list[dict[str, Any]]) -> Table:
    def told(row: dict[str, Any]) -> list[str]:
        found = (
            f"{row['steps']:,} steps" if "steps" in row else f"{row['found']:,} found, {row['stored']:,} new"
        )
        speed = f"{row['bytes'] / row['seconds'] / 1e6:.1f} MB/s"
        taken = milliseconds(row["seconds"] * 1_000)
        return [row["what"], megabytes(row["bytes"]), taken, speed, megabytes(row["peak"]), found]

    heads = ("", "file", "time", "speed", "peak memory", "")
    return Table("A transcript, from its beginning to its end", heads, [told(row) for row in rows])


def _aims(rows: list[dict[str, Any]]) -> list[Aim]:
    aims: list[Aim] = []
    for what in (FOLLOW, WHOLE):
        small, large = (row["peak"] for row in rows if row["what"] == what)
        more = large - small
        promise = f"{what}: a large file takes at most {megabytes(MOST_GROWTH)} more memory than a small one"
        aims.append(Aim(promise, megabytes(more), more <= MOST_GROWTH))
    return aims


if __name__ == "__main__":
    main()
