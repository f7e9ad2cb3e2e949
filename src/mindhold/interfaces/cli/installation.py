"""Helpers of init, connect and uninstall: planned changes of other programs' files, and Claude Code's settings."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mindhold.installers.claude import (
    ENV,
    EVENTS,
    call_of,
    foreign_hook_commands,
    handlers,
    hook_call,
    is_our_hook,
)
from mindhold.installers.config_text import JsonText
from mindhold.installers.files import FileChange, parse_json_file, read
from mindhold.installers.manifest import InstalledFile, server_undo, table_undo
from mindhold.installers.mcp_clients import (
    HOME_VARIABLE,
    NAME,
    TOML,
    McpClient,
    StartCommand,
    find_start_command,
)
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.session import CliSession
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused
from mindhold.model.host import ClientFolders

NOT_FOR_OTHERS = "The path {command} means nothing on other machines: don't commit these files"


def program_here(*, absolute: bool = False) -> StartCommand:
    """Return the command that starts this installation."""
    script = f"{NAME}.exe" if sys.platform == "win32" else NAME
    scripts = [Path(sys.executable).parent / script, Path(sysconfig.get_path("scripts")) / script]
    return find_start_command(
        executable=sys.executable, scripts=scripts, on_path=shutil.which(NAME), absolute=absolute
    )


def only_while_active(program: StartCommand) -> bool:
    """Whether the PATH finds this installation only while its virtual environment is active."""
    path = shutil.which(NAME) if program.command == NAME else None
    return path is not None and sys.prefix != sys.base_prefix and Path(path).is_relative_to(sys.prefix)


def home_of_option() -> str | None:
    """Return the home folder if this call has --home: clients must then be told of it."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if context.get_parameter_source("home") is click.core.ParameterSource.COMMANDLINE:
            return str(context.ensure_object(CliSession).loaded().settings.home)
        context = context.parent
    return None


def whole_path(folder: Path | None) -> Path:
    """Resolve a folder, by default the current one. Raises NotFound."""
    try:
        return (folder or Path()).expanduser().resolve()
    except OSError as error:
        raise NotFound(
            "The folder that you are in is gone.", advice="Go to another, and name the project's folder."
        ) from error


def folder_of(path: Path | None) -> Path:
    """Resolve the project's folder, which must exist. Raises NotFound."""
    folder = whole_path(path)
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.", advice="Give the project's folder.")
    return folder


def show_plan(say: Callable[[str], None], changes: Iterable[FileChange], *, whole: bool = False) -> None:
    """Print the planned changes; `whole` adds the lines."""
    for change in changes:
        if not change.changes:
            continue
        verb = "make" if change.before is None else "remove" if change.after is None else "change"
        details = f": {', '.join(_group_hooks(change.summary))}" if change.summary else ""
        say(neutral(f"  {verb} {change.path}{details}"))
        for line in difference(change) if whole else ():
            say(f"    {neutral(line)}")


def difference(change: FileChange) -> list[str]:
    """Return the change as lines of a diff."""
    before, after = (
        (content or b"").decode("utf-8", errors="replace").splitlines()
        for content in (change.before, change.after)
    )
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]


def agree(console: Console, changes: Sequence[FileChange], *, yes: bool) -> None:
    """Ask for consent on the terminal; the default is yes. Raises Refused on a no, and without a terminal."""
    if yes or not any(change.changes for change in changes):
        return
    console.note("Mindhold would")
    show_plan(console.note, changes)
    if not console.is_interactive:
        confirm(console, "Change these files?")  # refuses and advises --yes
    if not click.confirm("Go on?", default=True, err=True):
        raise Refused("The answer was no: nothing was done.")


def documents(changes: Iterable[FileChange]) -> list[dict[str, Any]]:
    """Return the changes for --json."""
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


def unrecorded_file(path: Path, place: str, client: str, undo: Sequence[dict[str, Any]]) -> InstalledFile:
    """Return a record of a file that isn't in the manifest but may contain entries of Mindhold."""
    return InstalledFile(path=str(path), place=place, client=client, undo=tuple(undo))


def unrecorded_entry(path: Path, place: str, client: McpClient) -> InstalledFile:
    """Return such a record of the file with a client's server entry."""
    undo = (table_undo if path.suffix == TOML else server_undo)(*client.keys())
    return unrecorded_file(path, place, client.name, undo)


def _group_hooks(texts: Sequence[str]) -> list[str]:
    """Join hooks into one entry: `hooks Stop, PreCompact`."""
    hooks = [text.removeprefix("hook ") for text in texts if text.startswith("hook ")]
    rest = [text for text in texts if not text.startswith("hook ")]
    return [*([f"hooks {', '.join(hooks)}"] if hooks else []), *rest]


PROJECT, LOCAL, PERSON = "project", "local", "global"
# The command that sets up each level.
COMMANDS = {
    PROJECT: "mindhold init",
    LOCAL: "mindhold init --local",
    PERSON: "mindhold init --global",
}


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The settings that Claude Code reads for a folder, by precedence; `unread` names files that can't be read."""

    documents: Mapping[str, JsonText]
    files: Mapping[str, Path]
    unread: tuple[str, ...] = ()


def hook_settings_file(level: str, folder: Path, places: ClientFolders) -> Path:
    """Return the settings file with the hooks of a level."""
    names = {LOCAL: "settings.local.json", PROJECT: "settings.json"}
    return places.claude_settings if level == PERSON else folder / ".claude" / names[level]


def read_claude_settings(level: str, folder: Path, places: ClientFolders) -> ClaudeSettings:
    """Read the settings of a level and those below it. A file that can't be read is noted in `unread`."""
    levels = (PERSON,) if level == PERSON else (LOCAL, PROJECT, PERSON)
    files = {current: hook_settings_file(current, folder, places) for current in levels}
    documents: dict[str, JsonText] = {}
    unread = []
    for current, path in files.items():
        try:
            documents[current] = parse_json_file(path, read(path), comments=True)
        except (InvalidInput, Refused) as error:
            unread.append(f"Only looked at, and passed over: {error}")
    return ClaudeSettings(documents, files, tuple(unread))


def check_home(settings: ClaudeSettings, level: str, *, new_home: str | None, home: Path) -> None:
    """Check that hooks use the home of this call; `new_home` is about to be written. Raises Conflict."""
    for current, document in settings.documents.items():
        written = new_home if current == level else None
        value = written or _member(document.value, ENV).get(HOME_VARIABLE)
        if isinstance(value, str) and value:
            check_same_home(settings.files[current], value, home=home)
            return


def check_same_home(path: Path, value: Any, *, home: Path) -> None:
    """Check that a file names the same home folder. Raises Conflict."""
    if not isinstance(value, str) or not value:
        return
    if os.path.realpath(Path(value).expanduser()) != os.path.realpath(home):
        raise Conflict(
            f"{path} has {HOME_VARIABLE} set to {value!r}, and this call goes by {str(home)!r}.",
            advice=f"Say --home {value}, or take the line out first.",
        )


def hook_warnings(settings: ClaudeSettings, level: str, program: StartCommand) -> Iterator[str]:
    """Yield what keeps hooks from running or makes them run twice."""
    yield from settings.unread
    values = [document.value for document in settings.documents.values()]
    if any(value.get("disableAllHooks") is True for value in values):
        yield "disableAllHooks is set in Claude Code's settings: nothing is captured until it isn't."
    plugins = [
        name for value in values for name, on in _member(value, "enabledPlugins").items() if on is True
    ]
    if any(str(name).startswith(f"{NAME}@") for name in plugins):
        yield "The plugin does the same as these hooks: keep one of the two, or all is done twice."
    for other, document in settings.documents.items():
        if other != level and _calls_otherwise(document, program):
            yield (
                f"{settings.files[other]} has hooks of Mindhold too, which call it otherwise: both run, and all is done "
                f"twice. `{COMMANDS[other]}` brings them in line."
            )
        for line in foreign_hook_commands(document.value):
            yield f"{settings.files[other]} has {line!r}, which calls Mindhold among other things: it is left alone."


def _calls_otherwise(document: JsonText, program: StartCommand) -> bool:
    """Whether hooks call Mindhold in another way; Claude Code runs identical hooks once only."""
    calls = {event: program.hook(event) for event, *_ in EVENTS}
    return any(
        is_our_hook(handler) and call_of(handler) != call
        for event, call in calls.items()
        for _, handler in handlers(document, event)
    )


def _member(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def hooks_here(folder: Path, places: ClientFolders) -> tuple[str, str] | None:
    """Return where Mindhold's hooks for a folder are, in words, and the program that they call."""
    settings = read_claude_settings(PROJECT, folder, places)
    for level, document in settings.documents.items():
        for event, *_ in EVENTS:
            for _, handler in handlers(document, event):
                if call := hook_call(handler):
                    return _LEVEL_TEXTS[level], call.start[0]
    return None


_LEVEL_TEXTS = {
    LOCAL: "in this project, for you alone",
    PROJECT: "in this project",
    PERSON: "for all your projects",
}
