"""What the commands share that put Mindhold into the files of other programs."""

from __future__ import annotations

import difflib
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mindhold.clients.files import Change
from mindhold.clients.installed import Record
from mindhold.clients.program import NAME, VARIABLE, Program, this_program
from mindhold.interfaces.cli.forgetting import confirm
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.session import Session
from mindhold.model.errors import NotFound, Refused

NOT_FOR_OTHERS = (
    "The path {command} means nothing on other machines: don't commit these files, or say --local."
)


def program_here(*, absolute: bool = False) -> Program:
    """How this very Mindhold is started."""
    script = f"{NAME}.exe" if sys.platform == "win32" else NAME
    scripts = [Path(sys.executable).parent / script, Path(sysconfig.get_path("scripts")) / script]
    return this_program(
        executable=sys.executable, scripts=scripts, on_path=shutil.which(NAME), absolute=absolute
    )


def only_while_active(program: Program) -> bool:
    """Whether the name leads here only as long as this virtual environment is active."""
    found = shutil.which(NAME) if program.command == NAME else None
    return found is not None and sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)


def home_as_said() -> str | None:
    """The home folder, where this call named it: nothing else would tell clients of it."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if context.get_parameter_source("home") is click.core.ParameterSource.COMMANDLINE:
            return str(context.ensure_object(Session).loaded().settings.home)
        context = context.parent
    return None


def is_person(console: Console) -> bool:
    """Whether somebody is there to be asked."""
    return not console.json and sys.stdin is not None and sys.stdin.isatty()


def whole_path(given: Path | None) -> Path:
    """The folder's, or that of the one that is worked in, as it is known everywhere. Raises NotFound."""
    try:
        return (given or Path()).expanduser().resolve()
    except OSError as error:
        raise NotFound(
            "The folder that you are in is gone.", advice="Go to another, and name the project's folder."
        ) from error


def folder_of(given: Path | None) -> Path:
    """The project's. Raises NotFound."""
    folder = whole_path(given)
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.", advice="Give the project's folder.")
    return folder


def show_plan(say: Callable[[str], None], changes: Iterable[Change], *, whole: bool = False) -> None:
    """Which files would become what; `whole` line by line."""
    for change in changes:
        if not change.changes:
            continue
        verb = "make" if change.before is None else "remove" if change.after is None else "change"
        told = f": {', '.join(_grouped(change.told))}" if change.told else ""
        say(neutral(f"  {verb} {change.path}{told}"))
        for line in difference(change) if whole else ():
            say(f"    {neutral(line)}")


def difference(change: Change) -> list[str]:
    """Line by line, what would change."""
    before, after = (_lines(one) for one in (change.before, change.after))
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def agree(console: Console, changes: Sequence[Change], *, yes: bool) -> None:
    """Ask on a terminal, where yes is what most mean. Raises Refused where nobody can answer, and on a no."""
    if yes or not any(change.changes for change in changes):
        return
    console.note("Mindhold would")
    show_plan(console.note, changes)
    if not is_person(console):
        confirm(console, "Change these files?")  # refuses, and says how to do without
    if not click.confirm("Go on?", default=True, err=True):
        raise Refused("The answer was no: nothing was done.")


def documents(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """For --json."""
    return [
        {
            "file": str(change.path),
            "change": "made" if change.before is None else "removed" if change.after is None else "changed",
            "what": list(change.told),
            "difference": difference(change),
        }
        for change in changes
        if change.changes
    ]


def this_moment() -> datetime:
    """In UTC."""
    return datetime.now(UTC)


def how_called(program: Program) -> str:
    """In words."""
    words = " ".join((program.command, *program.arguments))
    return f"Clients call it by {'its name' if program.portable else 'its path'}, {words}"


def says_home(home: str) -> str:
    """In words."""
    return f"{VARIABLE}={home} is written along, since --home said so."


def looked_like_ours(path: Path, place: str, client: str, undo: Sequence[dict[str, Any]]) -> Record:
    """A file that nobody noted, and that may have something of ours in it."""
    return Record(path=str(path), place=place, client=client, undo=tuple(undo))


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode("utf-8", errors="replace").splitlines()


def _grouped(told: Sequence[str]) -> list[str]:
    """`hooks Stop, PreCompact` instead of each by itself."""
    hooks = [one.removeprefix("hook ") for one in told if one.startswith("hook ")]
    rest = [one for one in told if not one.startswith("hook ")]
    return [*([f"hooks {', '.join(hooks)}"] if hooks else []), *rest]
