"""Claude Code's settings (hooks, status line, home folder) and the markers in CLAUDE.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mindhold.installers.config_text import JsonText
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
    parse_json_or_empty,
    read,
    remove_empty,
)
from mindhold.installers.mcp_clients import HOME_VARIABLE, CommandCall, StartCommand, merge_call, parse_call
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
        handler = {
            "type": "command",
            "command": program.command,
            "args": program.arguments_for("hook", event),
            "timeout": seconds,
        }
        groups[event] = {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}
    return groups


def settings_change(path: Path, program: StartCommand, *, home: str | None, status_line: bool) -> FileChange:
    """The settings file with our hooks; `home` is written if it isn't the default. Raises InvalidInput, Conflict."""
    before = read(path)
    document = parse_json_file(path, before)
    undo: list[dict[str, Any]] = []
    summary: list[str] = []
    with errors_name_file(path):
        for event, group in hook_groups(program).items():
            document = _with_hook(document, event, group, undo=undo, summary=summary)
        if home is not None:
            document = _with_home(path, document, home, undo=undo, summary=summary)
        if status_line:
            document = _with_status_line(path, document, program, undo=undo, summary=summary)
    after = encode_text(document.text, before) if summary else before
    return FileChange(path, before, after, tuple(undo), tuple(summary))


def _with_hook(
    document: JsonText,
    event: str,
    group: Mapping[str, Any],
    *,
    undo: list[dict[str, Any]],
    summary: list[str],
) -> JsonText:
    path = (HOOKS, event)
    target = group["hooks"][0]
    our_calls = [
        (position, call) for position, handler in handlers(document, event) if (call := hook_call(handler))
    ]
    if not our_calls:
        insertion = document.put_item(path, group)
        undo.append(insertion_note(HOOK, path, insertion))
        summary.append(f"hook {event}")
        return JsonText(insertion.text, document.comments)
    for (number, within), call in our_calls:
        command, arguments = merge_call(call, target["command"], target["args"])
        for name, value in (("command", command), ("args", arguments)):
            position = (*path, number, "hooks", within, name)
            if document.get(position) != value:
                document = JsonText(document.put_member(position, value).text, document.comments)
                undo.append({"do": HOOK, "path": list(path)})
                summary.append(f"hook {event}: how it is called")
    return document


def handlers(document: JsonText, event: str) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """The handlers of an event, each with the index of its group and its own."""
    groups = document.get((HOOKS, event))
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        inner = group.get("hooks") if isinstance(group, dict) else None
        for within, handler in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(handler, dict):
                yield (number, within), handler


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


def foreign_hook_commands(content: bytes | None) -> tuple[str, ...]:
    """Commands of other people's hooks that also call `mindhold hook`; these are left alone."""
    hooks = parse_json_or_empty(content).get(HOOKS)
    groups = (
        [group for event in hooks.values() if isinstance(event, list) for group in event]
        if isinstance(hooks, dict)
        else []
    )
    inner = [group.get("hooks") for group in groups if isinstance(group, dict)]
    all_handlers = [
        handler
        for group_handlers in inner
        if isinstance(group_handlers, list)
        for handler in group_handlers
        if isinstance(handler, dict)
    ]
    lines = [str(handler.get("command")) for handler in all_handlers if not is_our_hook(handler)]
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
                text = document.drop_items((*path, number, "hooks"), is_our_hook)
            else:
                text = document.drop_place(path, number, inner=notes.inner)
            document = JsonText(text, document.comments)
        if document.text != before:
            emptied.append(path)
    for path in emptied:
        document = remove_empty(document, notes, path)
    return document


def without_status_line(document: JsonText, notes: InsertionNotes) -> JsonText:
    """The document without the status line, if it is ours."""
    if not is_our_status_line(document.get((STATUS_LINE,))):
        return document
    return JsonText(document.drop_member((STATUS_LINE,), inner=notes.inner), document.comments)


def without_home(document: JsonText, notes: InsertionNotes) -> JsonText:
    """The document without the variable for the home folder."""
    text = document.drop_member((ENV, HOME_VARIABLE), inner=notes.inner)
    if text == document.text:
        return document
    return remove_empty(JsonText(text, document.comments), notes, (ENV,))


def _with_home(
    path: Path, document: JsonText, home: str, *, undo: list[dict[str, Any]], summary: list[str]
) -> JsonText:
    keys = (ENV, HOME_VARIABLE)
    current = document.get(keys)
    if current == home:
        return document
    if current is not None:
        raise Conflict(
            f"{path} has {HOME_VARIABLE} set to {current!r}.",
            advice="Use that home, or take the line out first.",
        )
    insertion = document.put_member(keys, home)
    undo.append(insertion_note(HOME, keys, insertion))
    summary.append(f"variable {HOME_VARIABLE}")
    return JsonText(insertion.text, document.comments)


def _with_status_line(
    path: Path, document: JsonText, program: StartCommand, *, undo: list[dict[str, Any]], summary: list[str]
) -> JsonText:
    current = document.get((STATUS_LINE,))
    target = {"type": "command", "command": program.line("statusline")}
    if current is not None and not is_our_status_line(current):
        raise Conflict(
            f"{path} has a status line already.", advice="Take it out first, or leave out --statusline."
        )
    if current is not None and current.get("command") == target["command"]:
        return document
    insertion = document.put_member((STATUS_LINE,), {**(current or {}), **target})
    undo.append(insertion_note(STATUS, (STATUS_LINE,), insertion))
    summary.append("status line")
    return JsonText(insertion.text, document.comments)


_UTF8, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def markers_change(path: Path) -> FileChange:
    """The document with markers, unchanged if it already has them. Raises MarkersWrong."""
    before = read(path)
    data = before or b""
    if data.startswith(_UTF16):
        raise MarkersWrong(f"{path} is in UTF-16.", advice="Save it as UTF-8, which its readers expect.")
    if find_block(data, name=str(path)) is not None:
        return FileChange(path, before, before)
    eol = b"\r\n" if b"\r\n" in data else b"\n"
    empty = not data.removeprefix(_UTF8)
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
    if begin == 0 and data.startswith(_UTF8):
        begin = len(_UTF8)
    line = data.find(b"\n", block.end)
    end = len(data) if line < 0 else line + 1
    if note.get("stay") and (data[:begin].removeprefix(_UTF8) + data[end:]).strip():
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
