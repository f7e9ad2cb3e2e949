"""Claude Code's settings: hooks, status line, and where the home is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recollect.clients.files import Change, bytes_of, json_of, read, told_of
from recollect.clients.json_text import JsonText
from recollect.clients.notes import HOME, HOOK, STATUS, Notes, noted, pruned
from recollect.clients.program import VARIABLE, Program, called_with
from recollect.model.errors import Conflict

HOOKS, STATUS_LINE, ENV = "hooks", "statusLine", "env"
SECONDS = 10
# Event, which tools, seconds. SessionEnd's hooks share little time, and ours hands its work on at once.
EVENTS: tuple[tuple[str, str | None, int], ...] = (
    ("SessionStart", None, SECONDS),
    ("UserPromptSubmit", None, SECONDS),
    ("PostToolUse", "Bash", SECONDS),
    ("PostToolUseFailure", None, SECONDS),
    ("Stop", None, SECONDS),
    ("SubagentStop", None, SECONDS),
    ("PreCompact", None, SECONDS),
    ("SessionEnd", None, 5),
)


def hook_groups(program: Program) -> dict[str, dict[str, Any]]:
    """What stands in the list of each event."""
    groups: dict[str, dict[str, Any]] = {}
    for event, matcher, seconds in EVENTS:
        handler = {
            "type": "command",
            "command": program.command,
            "args": program.calling("hook", event),
            "timeout": seconds,
        }
        groups[event] = {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}
    return groups


def settings_change(path: Path, program: Program, *, home: str | None, status_line: bool) -> Change:
    """The settings with our hooks. `home` is noted where it isn't the usual one. Raises InvalidInput, Conflict."""
    before = read(path)
    document = json_of(path, before)
    undo: list[dict[str, Any]] = []
    told: list[str] = []
    with told_of(path):
        for event, group in hook_groups(program).items():
            document = _with_hook(document, event, group, undo=undo, told=told)
        if home is not None:
            document = _with_home(path, document, home, undo=undo, told=told)
        if status_line:
            document = _with_status_line(path, document, program, undo=undo, told=told)
    after = bytes_of(document.text, before) if told else before
    return Change(path, before, after, tuple(undo), tuple(told))


def _with_hook(
    document: JsonText, event: str, group: Mapping[str, Any], *, undo: list[dict[str, Any]], told: list[str]
) -> JsonText:
    path = (HOOKS, event)
    wanted = group["hooks"][0]
    ours = [place for place, handler in handlers(document, event) if is_our_hook(handler)]
    if not ours:
        put = document.put_item(path, group)
        undo.append(noted(HOOK, path, put))
        told.append(f"hook {event}")
        return JsonText(put.text, document.comments)
    for number, within in ours:
        for name in ("command", "args"):
            place = (*path, number, "hooks", within, name)
            if document.get(place) != wanted[name]:
                document = JsonText(document.put_member(place, wanted[name]).text, document.comments)
                undo.append({"do": HOOK, "path": list(path)})
                told.append(f"hook {event}: how it is called")
    return document


def handlers(document: JsonText, event: str) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """The handlers of an event, each with its group's place and its own."""
    groups = document.get((HOOKS, event))
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        inner = group.get("hooks") if isinstance(group, dict) else None
        for within, handler in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(handler, dict):
                yield (number, within), handler


def is_our_hook(handler: Any) -> bool:
    """Whether it calls `recollect hook`, by whichever path."""
    if not isinstance(handler, dict):
        return False
    words = called_with(handler.get("command"), handler.get("args"))
    return bool(words) and words is not None and words[0] == "hook"


def is_our_status_line(value: Any) -> bool:
    """Whether it calls `recollect statusline`."""
    words = called_with(value.get("command"), None) if isinstance(value, dict) else None
    return bool(words) and words is not None and words[0] == "statusline"


def without_hooks(document: JsonText, notes: Notes) -> JsonText:
    """Without any hook of ours, wherever among others' it stands."""
    hooks = document.get((HOOKS,))
    emptied = []
    for event in reversed(hooks if isinstance(hooks, dict) else {}):
        path = (HOOKS, event)
        before = document.text
        places: dict[int, list[int]] = {}
        for (number, within), handler in handlers(document, event):
            if is_our_hook(handler):
                places.setdefault(number, []).append(within)
        for number in sorted(places, reverse=True):
            group = document.get((*path, number))
            if len(group["hooks"]) > len(places[number]):
                text = document.drop_items((*path, number, "hooks"), is_our_hook)
            else:
                text = document.drop_place(path, number, inner=notes.inner)
            document = JsonText(text, document.comments)
        if document.text != before:
            emptied.append(path)
    for path in emptied:
        document = pruned(document, notes, path)
    return document


def without_status_line(document: JsonText, notes: Notes) -> JsonText:
    """Without it, if it is ours."""
    if not is_our_status_line(document.get((STATUS_LINE,))):
        return document
    return JsonText(document.drop_member((STATUS_LINE,), inner=notes.inner), document.comments)


def without_home(document: JsonText, notes: Notes) -> JsonText:
    """Without the variable that says which home."""
    text = document.drop_member((ENV, VARIABLE), inner=notes.inner)
    if text == document.text:
        return document
    return pruned(JsonText(text, document.comments), notes, (ENV,))


def _with_home(
    path: Path, document: JsonText, home: str, *, undo: list[dict[str, Any]], told: list[str]
) -> JsonText:
    place = (ENV, VARIABLE)
    known = document.get(place)
    if known == home:
        return document
    if known is not None:
        raise Conflict(
            f"{path} has {VARIABLE} set to {known!r}.", advice="Use that home, or take the line out first."
        )
    put = document.put_member(place, home)
    undo.append(noted(HOME, place, put))
    told.append(f"variable {VARIABLE}")
    return JsonText(put.text, document.comments)


def _with_status_line(
    path: Path, document: JsonText, program: Program, *, undo: list[dict[str, Any]], told: list[str]
) -> JsonText:
    known = document.get((STATUS_LINE,))
    wanted = {"type": "command", "command": program.line("statusline")}
    if known is not None and not is_our_status_line(known):
        raise Conflict(
            f"{path} has a status line already.", advice="Take it out first, or leave out --statusline."
        )
    if known is not None and known.get("command") == wanted["command"]:
        return document
    put = document.put_member((STATUS_LINE,), {**(known or {}), **wanted})
    undo.append(noted(STATUS, (STATUS_LINE,), put))
    told.append("status line")
    return JsonText(put.text, document.comments)
