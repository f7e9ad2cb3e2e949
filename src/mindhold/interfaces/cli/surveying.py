"""What stands in Claude Code's settings already that whoever sets up Mindhold should know. Only looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from mindhold.clients.claude import ENV, EVENTS, handlers, is_our_hook, others_calling
from mindhold.clients.files import json_of, read
from mindhold.clients.json_text import JsonText
from mindhold.clients.program import NAME, VARIABLE, Program
from mindhold.model.errors import Conflict, InvalidInput, Refused
from mindhold.model.places import Places

PROJECT, LOCAL, PERSON = "project", "local", "global"
# How each level is set up again.
COMMANDS = {
    PROJECT: "mindhold init",
    LOCAL: "mindhold init --local",
    PERSON: "mindhold init --global",
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings that Claude Code reads for a folder, those that win first; `unread` says which couldn't be looked at."""

    documents: Mapping[str, JsonText]
    files: Mapping[str, Path]
    unread: tuple[str, ...] = ()


def settings_file(level: str, folder: Path, places: Places) -> Path:
    """Where that level's hooks stand."""
    names = {LOCAL: "settings.local.json", PROJECT: "settings.json"}
    return places.claude_settings if level == PERSON else folder / ".claude" / names[level]


def survey(level: str, folder: Path, places: Places) -> Surroundings:
    """Of a project with the person's own; of the person's alone. A file that can't be read keeps nobody from going on."""
    levels = (PERSON,) if level == PERSON else (LOCAL, PROJECT, PERSON)
    files = {one: settings_file(one, folder, places) for one in levels}
    documents: dict[str, JsonText] = {}
    unread = []
    for one, path in files.items():
        try:
            documents[one] = json_of(path, read(path), comments=True)
        except (InvalidInput, Refused) as error:
            unread.append(f"Only looked at, and passed over: {error}")
    return Surroundings(documents, files, tuple(unread))


def check_home(found: Surroundings, level: str, *, said: str | None, home: Path) -> None:
    """That hooks would write where this call does. `said` is what is about to be written. Raises Conflict."""
    for one, document in found.documents.items():
        value = said if one == level and said else _member(document.value, ENV).get(VARIABLE)
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
            f"{path} has {VARIABLE} set to {value!r}, and this call goes by {str(home)!r}.",
            advice=f"Say --home {value}, or take the line out first.",
        )


def told_of_others(found: Surroundings, level: str, program: Program) -> Iterator[str]:
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
        for line in others_calling(document.text.encode()):
            yield f"{found.files[one]} has {line!r}, which calls Mindhold among other things: it is left alone."


def _called_otherwise(document: JsonText, program: Program) -> bool:
    """Of hooks that are the same, Claude Code runs one."""
    return any(
        is_our_hook(handler) and not _is_call(handler, program.command, program.calling("hook", event))
        for event, _, _ in EVENTS
        for _, handler in handlers(document, event)
    )


def _is_call(handler: Mapping[str, Any], command: str, words: Sequence[str]) -> bool:
    return handler.get("command") == command and handler.get("args") == list(words)


def _member(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def hooks_here(folder: Path, places: Places) -> tuple[str, str] | None:
    """Where hooks of ours stand that hold for a folder, in words, and the program that they call."""
    found = survey(PROJECT, folder, places)
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
