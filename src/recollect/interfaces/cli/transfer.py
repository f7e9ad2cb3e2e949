"""`recollect export` and `import`: everything as JSON lines, and back."""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recollect.interfaces.cli.command import command, with_desk
from recollect.interfaces.cli.output import plural
from recollect.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from recollect.operations.keeping import ExportResult, ImportResult
    from recollect.operations.upkeep import RunJobsResult


@command(
    "export",
    examples=[
        "recollect export",
        "recollect export backup.jsonl",
        "recollect export - --scope work | gzip > work.jsonl.gz",
    ],
)
@click.argument("path", required=False)
@click.option("--scope", metavar="NAME", help="Only this scope.")
@with_desk
async def export(desk: Desk, /, *, path: str | None, scope: str | None) -> None:
    """Write everything as JSON lines.

    Memories, versions, links, scopes and what is known of contradictions go to PATH, to stdout for `-`, else into the export folder.
    """
    if path == "-":
        with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
            whole = Path(folder) / "export.jsonl"
            written: ExportResult = await desk.run("export", path=str(whole), scope=scope)
            _copy_to_stdout(whole)
        desk.console.note(_summary(written))
        return
    name = f"recollect-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl"
    target = path or str(desk.running.loaded.settings.export_dir / name)
    result: ExportResult = await desk.run("export", path=target, scope=scope)
    if desk.console.json:
        desk.console.document(result)
    else:
        desk.console.line(f"{_summary(result)} in {result.path}")


@command("import", examples=["recollect import backup.jsonl", "gunzip -c work.jsonl.gz | recollect import -"])
@click.argument("path")
@click.option("--no-jobs", is_flag=True, help="Leave follow-up work in the queue.")
@with_desk
async def import_file(desk: Desk, /, *, path: str, no_jobs: bool) -> None:
    """Read an export. What is here already is passed over, so it can be run twice."""
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        source = path
        if path == "-":
            source = str(Path(folder) / "import.jsonl")
            _copy_from_stdin(Path(source))
        result: ImportResult = await desk.run("import", path=source)
    ran: RunJobsResult | None = None if no_jobs else await desk.run("run_jobs", scheduled=False)
    if desk.console.json:
        desk.console.document({**result.model_dump(mode="json"), "jobs": len(ran.ran) if ran else 0})
        return
    parts = [
        plural(result.memories, "memory"),
        plural(result.versions, "version"),
        plural(result.links, "link"),
        *([plural(result.contradictions, "contradiction")] if result.contradictions else []),
    ]
    desk.console.line(f"Imported {', '.join(parts)}; {result.skipped:,} were here already.")
    if result.redacted:
        desk.console.line(f"  redacted in {plural(result.redacted, 'memory')}")
    desk.console.note(result.notice)


def _summary(result: ExportResult) -> str:
    parts = [
        plural(result.memories, "memory"),
        plural(result.versions, "version"),
        plural(result.links, "link"),
        *([plural(result.contradictions, "contradiction")] if result.contradictions else []),
    ]
    return f"Exported {', '.join(parts)}, {plural(result.scopes, 'scope')}"


def _copy_to_stdout(path: Path) -> None:
    with path.open("rb") as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _copy_from_stdin(path: Path) -> None:
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
