"""`mindhold export` and `mindhold import`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_open_session
from mindhold.interfaces.cli.output import plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.memories.transfer import ExportResult, ImportResult


STATE = Path(".memory") / "state.json"
ENDINGS = {"jsonl": ".jsonl", "json": ".json", "markdown": ".md", "csv": ".csv"}


@command(
    "export",
    remote=True,
    examples=[
        "mindhold export",
        "mindhold export backup.jsonl",
        "mindhold export - --scope work | gzip > work.jsonl.gz",
        "mindhold export --format markdown",
        "mindhold export --memory-mcp",
    ],
)
@click.argument("path", required=False)
@click.option("--scope", metavar="NAME", help="Only this scope.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(ENDINGS)),
    default="jsonl",
    show_default=True,
    help="Only jsonl can be imported again; the others are for reading.",
)
@click.option(
    "--memory-mcp", is_flag=True, help="A state.json of one project (default: .memory/state.json here)."
)
@with_open_session
async def export(
    session: OpenSession, /, *, path: str | None, scope: str | None, form: str, memory_mcp: bool
) -> None:
    """Write everything into a file.

    JSON lines hold memories, versions, links, scopes and contradictions. A JSON document, Markdown and CSV hold the
    memories by scope, for reading. The file is PATH, stdout for `-`, else a new file in the export folder.
    """
    from mindhold.memories.transfer import EXPORT

    if memory_mcp and form != "jsonl":
        raise click.UsageError("--memory-mcp has a format of its own.")
    scope_name = scope or (_chosen_scope(session) if memory_mcp else None)
    fields = {"scope": scope_name, "memory_mcp": memory_mcp, "format": form}
    if path == "-":
        with tempfile.TemporaryDirectory(prefix="mindhold-") as folder:
            file = Path(folder) / f"export{ENDINGS[form]}"
            exported = await session.run(EXPORT, path=str(file), **fields)
            _copy_to_stdout(file)
        session.console.note(f"{_summary(exported)}. {exported.notice}")
        return
    target = str(Path.cwd() / STATE) if memory_mcp else None
    if session.server and target is None:  # the file is written on this machine
        name = f"full_export_{datetime.now(UTC):%Y-%m-%d-%H%M%S}{ENDINGS[form]}"
        target = str(session.running.loaded.settings.export_dir / name)
    result = await session.run(EXPORT, path=path or target, **fields)
    if not session.console.as_json(result):
        session.console.line(f"{_summary(result)} in {result.path}")
        session.console.note(result.notice)


@command(
    "import",
    examples=[
        "mindhold import backup.jsonl",
        "gunzip -c work.jsonl.gz | mindhold import -",
        "mindhold import .memory/state.json",
    ],
)
@click.argument("path")
@click.option("--scope", metavar="NAME", help="The scope for a state.json (default: its project).")
@click.option("--memory-mcp", is_flag=True, help="Read it as a state.json.")
@click.option("--no-jobs", is_flag=True, help="Leave follow-up work in the queue.")
@with_open_session
async def import_file(
    session: OpenSession, /, *, path: str, scope: str | None, memory_mcp: bool, no_jobs: bool
) -> None:
    """Read an export or a .memory/state.json. Known memories are skipped, so it can run twice."""
    from mindhold.jobs.queue import RUN_JOBS
    from mindhold.memories.transfer import IMPORT

    with tempfile.TemporaryDirectory(prefix="mindhold-") as folder:
        source = path
        if path == "-":
            source = str(Path(folder) / "import.jsonl")
            _copy_from_stdin(Path(source))
        result = await session.run(
            IMPORT, path=source, scope=scope, usual_scope=_chosen_scope(session), memory_mcp=memory_mcp
        )
    jobs_run = 0 if no_jobs else len((await session.run(RUN_JOBS, scheduled=False)).ran)
    if session.console.as_json({**result.model_dump(mode="json"), "jobs": jobs_run}):
        return
    session.console.line(f"Imported {_transferred(result)}; {result.skipped:,} were here already.")
    if result.redacted:
        session.console.line(f"  redacted in {plural(result.redacted, 'memory')}")
    session.console.note(result.notice)


def _chosen_scope(session: OpenSession) -> str | None:
    """Return the scope of the settings; None if it only comes from this folder."""
    from mindhold.settings.loader import THIS_FOLDER

    loaded = session.running.loaded
    return loaded.settings.scope if loaded.sources.get("scope") not in (None, THIS_FOLDER) else None


def _summary(result: ExportResult) -> str:
    return f"Exported {_transferred(result)}, {plural(result.scopes, 'scope')}"


def _transferred(result: ExportResult | ImportResult) -> str:
    counts = [(result.memories, "memory"), (result.versions, "version"), (result.links, "link")]
    if result.contradictions:
        counts.append((result.contradictions, "contradiction"))
    return ", ".join(plural(count, noun) for count, noun in counts)


def _copy_to_stdout(path: Path) -> None:
    with path.open("rb") as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _copy_from_stdin(path: Path) -> None:
    with path.open("wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
