"""`mindhold sync`: memory into CLAUDE.md and its like, now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_desk
from mindhold.interfaces.cli.output import neutral, plural
from mindhold.interfaces.cli.placing import whole_path
from mindhold.interfaces.cli.session import Desk
from mindhold.model.markers import END, START

if TYPE_CHECKING:
    from mindhold.operations.condensing import WriteDocumentsResult


@command(
    "sync",
    examples=["mindhold sync", "mindhold sync ~/src/app", "mindhold sync --scope work --json"],
)
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--scope", metavar="NAME", help="Whose memory, instead of the project's own.")
@with_desk
async def sync(desk: Desk, /, *, folder: Path | None, scope: str | None) -> int:
    """Write what is remembered into a project's CLAUDE.md, AGENTS.md and GEMINI.md, where they have the markers.

    Each capture does it by itself. Nothing outside the markers is touched, and no file without them. Exit status 1 when
    a file could not be written.
    """
    result: WriteDocumentsResult = await desk.run(
        "write_documents", folder=str(whole_path(folder)), scope=scope
    )
    console = desk.console
    if console.json:
        console.document(result)
    elif not result.documents:
        console.line("No document of this project has the markers.")
        console.note(f"Put {START} and {END} on two lines of CLAUDE.md, or have `mindhold init` do it.")
    for one in () if console.json else result.documents:
        if one.problem:
            console.warn(neutral(one.problem))
        else:
            done = "written" if one.changed else "up to date"
            console.line(f"{neutral(one.path)}: {done}, {plural(one.lines, 'line')} of memory")
    return int(any(one.problem for one in result.documents))
