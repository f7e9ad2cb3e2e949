"""What init, connect and uninstall share: planned changes to other programs' files, and Claude Code's present settings."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import Any

import click

from mindhold.installers.claude import ENV, EVENTS, foreign_hook_commands, handlers, is_our_hook
from mindhold.installers.files import FileChange, parse_json_file, read
from mindhold.installers.json_text import JsonText
from mindhold.installers.manifest import InstalledFile
from mindhold.installers.mcp_clients import HOME_VARIABLE, NAME, StartCommand, find_start_command
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused
from mindhold.model.host import ClientFolders

NOT_FOR_OTHERS = (
    "The path {command} means nothing on other machines: don't commit these files, or say --local."
)


def program_here(*, absolute: bool = False) -> StartCommand:
    """How this very Mindhold is started."""
    script = f"{NAME}.exe" if sys.platform == "win32" else NAME
    scripts = [Path(sys.executable).parent / script, Path(sysconfig.get_path("scripts")) / script]
    return find_start_command(
        executable=sys.executable, scripts=scripts, on_path=shutil.which(NAME), absolute=absolute
    )


def only_while_active(program: StartCommand) -> bool:
    """Whether the name leads here only as long as this virtual environment is active."""
    found = shutil.which(NAME) if program.command == NAME else None
    return found is not None and sys.prefix != sys.base_prefix and Path(found).is_relative_to(sys.prefix)


def home_as_said() -> str | None:
    """The home folder, where this call named it: nothing else would tell clients of it."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if context.get_parameter_source("home") is click.core.ParameterSource.COMMANDLINE:
            return str(context.ensure_object(CliSession).loaded().settings.home)
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


def show_plan(say: Callable[[str], None], changes: Iterable[FileChange], *, whole: bool = False) -> None:
    """Which files would become what; `whole` line by line."""
    for change in changes:
        if not change.changes:
            continue
        verb = "make" if change.before is None else "remove" if change.after is None else "change"
        told = f": {', '.join(_grouped(change.summary))}" if change.summary else ""
        say(neutral(f"  {verb} {change.path}{told}"))
        for line in difference(change) if whole else ():
            say(f"    {neutral(line)}")


def difference(change: FileChange) -> list[str]:
    """Line by line, what would change."""
    before, after = (_lines(one) for one in (change.before, change.after))
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def agree(console: Console, changes: Sequence[FileChange], *, yes: bool) -> None:
    """Ask on a terminal, where yes is what most mean. Raises Refused where nobody can answer, and on a no."""
    if yes or not any(change.changes for change in changes):
        return
    console.note("Mindhold would")
    show_plan(console.note, changes)
    if not is_person(console):
        confirm(console, "Change these files?")  # refuses, and says how to do without
    if not click.confirm("Go on?", default=True, err=True):
        raise Refused("The answer was no: nothing was done.")


def documents(changes: Iterable[FileChange]) -> list[dict[str, Any]]:
    """For --json."""
    return [
        {
            "file": str(change.path),
            "change": "made" if change.before is None else "removed" if change.after is None else "changed",
            "what": list(change.summary),
            "difference": difference(change),
        }
        for change in changes
        if change.changes
    ]


def this_moment() -> datetime:
    """In UTC."""
    return datetime.now(UTC)


def how_called(program: StartCommand) -> str:
    """In words."""
    words = " ".join((program.command, *program.arguments))
    return f"Clients call it by {'its name' if program.portable else 'its path'}, {words}"


def says_home(home: str) -> str:
    """In words."""
    return f"{HOME_VARIABLE}={home} is written along, since --home said so."


def looked_like_ours(path: Path, place: str, client: str, undo: Sequence[dict[str, Any]]) -> InstalledFile:
    """A file that nobody noted, and that may have something of ours in it."""
    return InstalledFile(path=str(path), place=place, client=client, undo=tuple(undo))


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode("utf-8", errors="replace").splitlines()


def _grouped(told: Sequence[str]) -> list[str]:
    """`hooks Stop, PreCompact` instead of each by itself."""
    hooks = [one.removeprefix("hook ") for one in told if one.startswith("hook ")]
    rest = [one for one in told if not one.startswith("hook ")]
    return [*([f"hooks {', '.join(hooks)}"] if hooks else []), *rest]


PROJECT, LOCAL, PERSON = "project", "local", "global"
# How each level is set up again.
COMMANDS = {
    PROJECT: "mindhold init",
    LOCAL: "mindhold init --local",
    PERSON: "mindhold init --global",
}


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The settings that Claude Code reads for a folder, those that win first; `unread` says which couldn't be looked at."""

    documents: Mapping[str, JsonText]
    files: Mapping[str, Path]
    unread: tuple[str, ...] = ()


def hook_settings_file(level: str, folder: Path, places: ClientFolders) -> Path:
    """Where that level's hooks stand."""
    names = {LOCAL: "settings.local.json", PROJECT: "settings.json"}
    return places.claude_settings if level == PERSON else folder / ".claude" / names[level]


def read_claude_settings(level: str, folder: Path, places: ClientFolders) -> ClaudeSettings:
    """Of a project with the person's own; of the person's alone. A file that can't be read keeps nobody from going on."""
    levels = (PERSON,) if level == PERSON else (LOCAL, PROJECT, PERSON)
    files = {one: hook_settings_file(one, folder, places) for one in levels}
    documents: dict[str, JsonText] = {}
    unread = []
    for one, path in files.items():
        try:
            documents[one] = parse_json_file(path, read(path), comments=True)
        except (InvalidInput, Refused) as error:
            unread.append(f"Only looked at, and passed over: {error}")
    return ClaudeSettings(documents, files, tuple(unread))


def check_home(found: ClaudeSettings, level: str, *, said: str | None, home: Path) -> None:
    """That hooks would write where this call does. `said` is what is about to be written. Raises Conflict."""
    for one, document in found.documents.items():
        value = said if one == level and said else _member(document.value, ENV).get(HOME_VARIABLE)
        if isinstance(value, str) and value:
            check_same_home(found.files[one], value, home=home)
            return


def check_same_home(path: Path, value: Any, *, home: Path) -> None:
    """Raises Conflict."""
    if (
        isinstance(value, str)
        and value
        and os.path.realpath(Path(value).expanduser()) != os.path.realpath(home)
    ):
        raise Conflict(
            f"{path} has {HOME_VARIABLE} set to {value!r}, and this call goes by {str(home)!r}.",
            advice=f"Say --home {value}, or take the line out first.",
        )


def hook_warnings(found: ClaudeSettings, level: str, program: StartCommand) -> Iterator[str]:
    """What keeps hooks from running, or has them run twice."""
    yield from found.unread
    values = [document.value for document in found.documents.values()]
    if any(one.get("disableAllHooks") is True for one in values):
        yield "disableAllHooks is set in Claude Code's settings: nothing is captured until it isn't."
    plugins = [name for one in values for name, on in _member(one, "enabledPlugins").items() if on is True]
    if any(str(name).startswith(f"{NAME}@") for name in plugins):
        yield "The plugin does the same as these hooks: keep one of the two, or all is done twice."
    for one, document in found.documents.items():
        if one != level and _called_otherwise(document, program):
            yield (
                f"{found.files[one]} has hooks of Mindhold too, which call it otherwise: both run, and all is done "
                f"twice. `{COMMANDS[one]}` brings them in line."
            )
        for line in foreign_hook_commands(document.text.encode()):
            yield f"{found.files[one]} has {line!r}, which calls Mindhold among other things: it is left alone."


def _called_otherwise(document: JsonText, program: StartCommand) -> bool:
    """Of hooks that are the same, Claude Code runs one."""
    return any(
        is_our_hook(handler) and not _is_call(handler, program.command, program.arguments_for("hook", event))
        for event, _, _ in EVENTS
        for _, handler in handlers(document, event)
    )


def _is_call(handler: Mapping[str, Any], command: str, words: Sequence[str]) -> bool:
    return handler.get("command") == command and handler.get("args") == list(words)


def _member(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def hooks_here(folder: Path, places: ClientFolders) -> tuple[str, str] | None:
    """Where hooks of ours stand that hold for a folder, in words, and the program that they call."""
    found = read_claude_settings(PROJECT, folder, places)
    for level, document in found.documents.items():
        for event, *_ in EVENTS:
            for _, handler in handlers(document, event):
                if is_our_hook(handler):
                    return _IN_WORDS[level], str(handler.get("command"))
    return None


def is_there(command: str) -> bool:
    """Whether a program can be found, as far as can be told from here."""
    return which(command) is not None


_IN_WORDS = {
    LOCAL: "in this project, for you alone",
    PROJECT: "in this project",
    PERSON: "for all your projects",
}
