"""Claude Code's settings (hooks, status line, home folder) and the markers in CLAUDE.md."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mindhold.installers.config_text import JsonInsertion, JsonText, KeyPath
from mindhold.installers.files import (
    BLOCK,
    HOME,
    HOOK,
    STATUS,
    FileChange,
    InsertionNotes,
    encode_text,
    errors_name_file,
    insertion_note,
    parse_json_file,
    read,
    remove_empty,
)
from mindhold.installers.mcp_clients import (
    HOME_VARIABLE,
    CommandCall,
    StartCommand,
    handler_call,
    merge_call,
    parse_call,
)
from mindhold.model.errors import Conflict, MarkersWrong
from mindhold.model.markers import END, START, find_block

HOOKS, STATUS_LINE, ENV = "hooks", "statusLine", "env"
SECONDS = 10
# Event, matcher, seconds. SessionEnd's hooks share little time, and ours hands its work on at once.
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

_MINDHOLD_HOOK = re.compile(
    r"""(?:^|[\s;|&('"/\\])mindhold(?:\.exe)?["']?\s+(?:-\S+\s+\S+\s+)?hook\s+[A-Z]"""
)


def hook_groups(program: StartCommand) -> dict[str, dict[str, Any]]:
    """The hook group for each event."""
    groups: dict[str, dict[str, Any]] = {}
    for event, matcher, seconds in EVENTS:
        handler = {"type": "command", **program.hook(event), "timeout": seconds}
        groups[event] = {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}
    return groups


def settings_change(path: Path, program: StartCommand, *, home: str | None, status_line: bool) -> FileChange:
    """The settings file with our hooks; `home` is written if it isn't the default. Raises InvalidInput, Conflict."""
    before = read(path)
    edit = _SettingsEdit(path, parse_json_file(path, before))
    with errors_name_file(path):
        for event, group in hook_groups(program).items():
            edit.add_hook(event, group, program)
        if home is not None:
            edit.add_home(home)
        if status_line:
            edit.add_status_line(program)
    after = encode_text(edit.document.text, before) if edit.summary else before
    return FileChange(path, before, after, tuple(edit.undo), tuple(edit.summary))


class _SettingsEdit:
    """A settings file with what was inserted so far. Raises WrongShape, Conflict."""

    def __init__(self, path: Path, document: JsonText) -> None:
        self.path, self.document = path, document
        self.undo: list[dict[str, Any]] = []
        self.summary: list[str] = []

    def add_hook(self, event: str, group: Mapping[str, Any], program: StartCommand) -> None:
        path = (HOOKS, event)
        our_calls = [
            (position, call)
            for position, handler in handlers(self.document, event)
            if (call := hook_call(handler))
        ]
        if not our_calls:
            self._note(HOOK, path, self.document.put_item(path, group), f"hook {event}")
        for (number, within), call in our_calls:
            command, arguments = merge_call(call, program.command, program.arguments_for("hook", event))
            if self._set_call((*path, number, "hooks", within), call, [command, *arguments]):
                self.undo.append({"do": HOOK, "path": list(path)})
                self.summary.append(f"hook {event}: how it is called")

    def _set_call(self, position: KeyPath, call: CommandCall, words: list[str]) -> bool:
        """Write how a handler calls us, if it differs in more than in its quotation marks; whether it did."""
        handler, target = self.document.get(position), handler_call(words[0], words[1:])
        same_form = ("args" in handler) == ("args" in target)
        if same_form and ([*call.start, *call.options, *call.words] == words or call_of(handler) == target):
            return False
        for name, value in target.items():
            self.document = self.document.put_member((*position, name), value).document
        if "args" not in target:
            self.document = self.document.drop_member((*position, "args"))
        return True

    def add_home(self, home: str) -> None:
        keys = (ENV, HOME_VARIABLE)
        current = self.document.get(keys)
        if current == home:
            return
        if current is not None:
            raise Conflict(
                f"{self.path} has {HOME_VARIABLE} set to {current!r}.",
                advice="Use that home, or take the line out first.",
            )
        self._note(HOME, keys, self.document.put_member(keys, home), f"variable {HOME_VARIABLE}")

    def add_status_line(self, program: StartCommand) -> None:
        keys = (STATUS_LINE,)
        current = self.document.get(keys)
        target = {"type": "command", "command": program.line("statusline")}
        if current is not None and not is_our_status_line(current):
            raise Conflict(
                f"{self.path} has a status line already.",
                advice="Take it out first, or leave out --statusline.",
            )
        if current is None or current.get("command") != target["command"]:
            insertion = self.document.put_member(keys, {**(current or {}), **target})
            self._note(STATUS, keys, insertion, "status line")

    def _note(self, do: str, path: KeyPath, insertion: JsonInsertion, summary: str) -> None:
        self.document = insertion.document
        self.undo.append(insertion_note(do, path, insertion))
        self.summary.append(summary)


def handlers(document: JsonText, event: str) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """The handlers of an event, each with the index of its group and its own."""
    return _handlers(document.get((HOOKS, event)))


def _handlers(groups: Any) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        inner = group.get("hooks") if isinstance(group, dict) else None
        for within, handler in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(handler, dict):
                yield (number, within), handler


def call_of(handler: Mapping[str, Any]) -> dict[str, Any]:
    """What of a handler says how it calls its program."""
    return {name: handler[name] for name in ("command", "args") if name in handler}


def hook_call(handler: Any) -> CommandCall | None:
    """The call, if the handler runs `mindhold hook EVENT` and nothing else, by any path."""
    if not isinstance(handler, dict) or handler.get("type", "command") != "command":
        return None
    call = parse_call(handler.get("command"), handler.get("args"))
    if call is None or len(call.words) < 2 or not call.words[1].isalpha():
        return None
    return call if call.words[0] == "hook" and _ends_in_home(call.words[2:]) else None


def is_our_hook(handler: Any) -> bool:
    """Whether the handler is ours and does nothing else."""
    return hook_call(handler) is not None


def is_our_status_line(value: Any) -> bool:
    """Whether it calls `mindhold statusline`, and nothing else."""
    call = parse_call(value.get("command"), None) if isinstance(value, dict) else None
    return call is not None and call.words[:1] == ("statusline",) and _ends_in_home(call.words[1:])


def _ends_in_home(words: tuple[str, ...]) -> bool:
    return not words or (len(words) == 2 and words[0] == "--home") or words[0].startswith("--home=")


def foreign_hook_commands(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Commands of other people's hooks that also call `mindhold hook`; these are left alone."""
    hooks = settings.get(HOOKS)
    events = hooks.values() if isinstance(hooks, dict) else ()
    others = [handler for groups in events for _, handler in _handlers(groups) if not is_our_hook(handler)]
    lines = [str(handler.get("command")) for handler in others]
    return tuple(dict.fromkeys(line for line in lines if _MINDHOLD_HOOK.search(line)))


def without_hooks(document: JsonText, notes: InsertionNotes) -> JsonText:
    """The document without our hooks, even among other people's."""
    hooks = document.get((HOOKS,))
    emptied = []
    for event in reversed(hooks if isinstance(hooks, dict) else {}):
        path = (HOOKS, event)
        before = document.text
        ours_by_group: dict[int, list[int]] = {}
        for (number, within), handler in handlers(document, event):
            if is_our_hook(handler):
                ours_by_group.setdefault(number, []).append(within)
        for number in sorted(ours_by_group, reverse=True):
            group = document.get((*path, number))
            if len(group["hooks"]) > len(ours_by_group[number]):
                document = document.drop_items((*path, number, "hooks"), is_our_hook)
            else:
                document = document.drop_place(path, number, inner=notes.inner)
        if document.text != before:
            emptied.append(path)
    for path in emptied:
        document = remove_empty(document, notes, path)
    return document


def without_status_line(document: JsonText, notes: InsertionNotes) -> JsonText:
    """The document without the status line, if it is ours."""
    if not is_our_status_line(document.get((STATUS_LINE,))):
        return document
    return document.drop_member((STATUS_LINE,), inner=notes.inner)


def without_home(document: JsonText, notes: InsertionNotes) -> JsonText:
    """The document without the variable for the home folder."""
    remaining = document.drop_member((ENV, HOME_VARIABLE), inner=notes.inner)
    return document if remaining is document else remove_empty(remaining, notes, (ENV,))


def markers_change(path: Path) -> FileChange:
    """The document with markers, unchanged if it already has them. Raises MarkersWrong."""
    before = read(path)
    data = before or b""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise MarkersWrong(f"{path} is in UTF-16.", advice="Save it as UTF-8, which its readers expect.")
    if find_block(data, name=str(path)) is not None:
        return FileChange(path, before, before)
    eol = b"\r\n" if b"\r\n" in data else b"\n"
    empty = not data.removeprefix(BOM_UTF8)
    ends = data.endswith(b"\n")
    lead = b"" if empty or data.endswith(eol * 2) else eol if ends else eol * 2
    tail = eol if empty or ends else b""
    after = data + lead + START.encode() + eol + END.encode() + tail
    note = {"do": BLOCK, "path": [], "lead": lead.decode()}
    return FileChange(path, before, after, (note,), ("markers for what is remembered",))


def without_markers(path: Path, data: bytes, note: Mapping[str, Any]) -> bytes:
    """The document without the block; everything else stays. `lead` in the note precedes it. Raises MarkersWrong."""
    block = find_block(data, name=str(path))
    if block is None:
        return data
    begin = data.rfind(b"\n", 0, max(0, block.start - 1)) + 1
    if begin == 0 and data.startswith(BOM_UTF8):
        begin = len(BOM_UTF8)
    line = data.find(b"\n", block.end)
    end = len(data) if line < 0 else line + 1
    if note.get("stay") and (data[:begin].removeprefix(BOM_UTF8) + data[end:]).strip():
        return data[: block.start] + data[block.end :]
    lead = note.get("lead")
    lead = lead.encode() if isinstance(lead, str) else _likely_lead(data[:begin], ended=line >= 0)
    remaining = data[:begin]
    if lead and remaining.endswith(lead):
        shorter = remaining[: -len(lead)]
        if end < len(data) and shorter and not shorter.endswith(b"\n"):
            # text was added below: it keeps its own line
            shorter = remaining[: len(remaining) - len(lead) // 2]
        remaining = shorter
    return remaining + data[end:]


def _likely_lead(before: bytes, *, ended: bool) -> bytes:
    eol = b"\r\n" if before.endswith(b"\r\n") else b"\n"
    if not before.endswith(eol * 2):
        return b""
    return eol if ended else eol * 2
