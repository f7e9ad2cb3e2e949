"""What an entry of a transcript says happened: who spoke, which tool was asked for what, what it gave back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from recollect.ports.transcripts import OMITTED, Role, Step, shortened
from recollect.providers.transcripts.entries import (
    LONGEST_NAME,
    Block,
    Entry,
    blocks_of,
    is_aside,
    moment_of,
    queued_by_user,
    spoken_by_assistant,
    spoken_by_user,
    string,
    texts_in,
    without_inserted,
)

LONGEST_SAID = 20_000
LONGEST_ASKED = 2_000  # of what a tool was given
LONGEST_RESULT = 2_000
LONGEST_JSON = 300
BESIDE = 16_000  # characters more than that: whoever takes out secrets must see them whole
OURS = ("mcp__recollect__", "mcp__plugin_recollect_")  # how tools of Recollect's own are called
COMMANDS = ("Bash", "PowerShell")
# What each of the known tools is about; of the others all that they were given is told, in short.
_ABOUT: Mapping[str, tuple[str, ...]] = {
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "MultiEdit": ("file_path",),
    "Read": ("file_path",),
    "NotebookEdit": ("notebook_path",),
    "NotebookRead": ("notebook_path",),
    "LS": ("path",),
    "Grep": ("pattern",),
    "Glob": ("pattern",),
    "Task": ("description",),
    "Agent": ("description",),
    "WebFetch": ("url",),
    "WebSearch": ("query",),
    "Skill": ("skill", "command"),
    "ExitPlanMode": ("plan",),
}
_EXIT = re.compile(r"(?:Error: )?Exit code (-?\d+)\b|<exit_code>(-?\d+)</exit_code>")
_ENDED_BADLY = re.compile(r"<status>failed</status>")
_CODES = ("exitCode", "exit_code", "returnCode", "code")
_INTERRUPTED = 130  # the exit code of a command that a person stopped
_REFUSED = (
    "[Request interrupted",
    "The user doesn't want to",
    "User rejected",
    "Interrupted by user",
)
_UNTIL_A_CUT, _FROM_A_CUT = re.compile(r"\S*\Z"), re.compile(r"\S*")
_TAGS = re.compile(r"</?tool_use_error>|</?(?:stdout|stderr|output|error)>")


class Place(NamedTuple):
    """Where in the file an entry stands."""

    line: int
    end: int


def steps_in(entry: Entry, place: Place, tools: dict[str, str]) -> Iterator[Step]:
    """In order. `tools` has the names of tools by the calls' ids, and gains those of this entry.

    A result whose call is not among them has no tool's name yet: it may turn out to be one of our own.
    """
    kind, moment, aside = entry.get("type"), moment_of(entry), is_aside(entry)
    if kind == "assistant":
        if text := spoken_by_assistant(entry, aside=True):
            yield _said(Role.CLAUDE, text, place, moment, aside=aside)
        yield from _asked(entry, place, moment, tools)
    elif kind == "user":
        yield from _given_back(entry, place, moment, tools)
        if text := spoken_by_user(entry, aside=True):
            yield _said(Role.USER, text, place, moment, aside=aside)
    elif kind == "attachment" and (text := queued_by_user(entry)):
        yield _said(Role.USER, text, place, moment, aside=aside)


def is_ours(tool: str) -> bool:
    """Whether a tool is Recollect's own, so that nothing of it is news."""
    return tool.startswith(OURS)


def bounded(text: str, enough: int) -> str:
    """Its beginning and its end, more of both than is enough. What a cut went through is left out: half a secret is one."""
    if len(text) <= enough + BESIDE:
        return text
    head, _, tail = shortened(text, enough + BESIDE).partition(OMITTED)
    return _UNTIL_A_CUT.sub("", head, count=1) + OMITTED + _FROM_A_CUT.sub("", tail, count=1)


def _said(role: Role, text: str, place: Place, moment: datetime | None, *, aside: bool) -> Step:
    return Step(
        role, bounded(text, LONGEST_SAID), place.line, place.end, moment, aside=aside, enough=LONGEST_SAID
    )


def _asked(entry: Entry, place: Place, moment: datetime | None, tools: dict[str, str]) -> Iterator[Step]:
    for block in blocks_of(entry):
        name = string(block.get("name"))[:LONGEST_NAME]
        if block.get("type") != "tool_use" or not name:
            continue
        call = string(block.get("id"))[:LONGEST_NAME]
        if call:
            tools[call] = name
        if not is_ours(name):
            text, enough = _about(name, block.get("input"))
            yield Step(
                role=Role.TOOL,
                text=bounded(text, enough),
                line=place.line,
                end=place.end,
                timestamp=moment,
                tool=name,
                call=call,
                aside=is_aside(entry),
                enough=enough,
            )


def _about(name: str, given: Any) -> tuple[str, int]:
    """What it is about, and how much of that is enough."""
    fields: Mapping[str, Any] = given if isinstance(given, dict) else {}
    if name in COMMANDS:
        command, what = string(fields.get("command")).strip(), string(fields.get("description")).strip()
        text = f"{command}\n# {what}" if what else command
    elif name == "AskUserQuestion":
        asked = fields.get("questions")
        each = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else [fields]
        text = "\n".join(filter(None, (string(one.get("question")) for one in each)))
    else:
        text = next((told for key in _ABOUT.get(name, ()) if (told := string(fields.get(key)))), "")
    return (text, LONGEST_ASKED) if text else (_compact(fields), LONGEST_JSON)


def _compact(fields: Mapping[str, Any]) -> str:
    if not fields:
        return ""
    try:
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def _given_back(entry: Entry, place: Place, moment: datetime | None, tools: dict[str, str]) -> Iterator[Step]:
    for block in blocks_of(entry):
        if block.get("type") != "tool_result":
            continue
        call = string(block.get("tool_use_id"))[:LONGEST_NAME]
        tool = tools.get(call, "")
        if is_ours(tool):
            continue
        text = _result(block)
        yield Step(
            role=Role.RESULT,
            text=bounded(text, LONGEST_RESULT),
            line=place.line,
            end=place.end,
            timestamp=moment,
            tool=tool,
            call=call,
            failed=_failed(block, text, entry.get("toolUseResult")),
            aside=is_aside(entry),
            enough=LONGEST_RESULT,
        )


def _result(block: Block) -> str:
    """Its text; a picture is only said to be there."""
    content = block.get("content")
    parts = texts_in(content)
    if isinstance(content, list):
        parts += ["[image]" for part in content if isinstance(part, dict) and part.get("type") == "image"]
    text = without_inserted("\n".join(parts))
    return _TAGS.sub("", text).strip() if "<" in text else text


def _failed(block: Block, text: str, told: Any) -> bool:
    """Whether it didn't work, by itself: what a person refused or stopped is no failure."""
    about: Mapping[str, Any] = told if isinstance(told, dict) else {}
    if about.get("interrupted") is True or text.startswith(_REFUSED) or string(told).startswith(_REFUSED):
        return False
    code = _exit_code(block, about)
    if code == _INTERRUPTED:
        return False
    if block.get("is_error") is True or about.get("success") is False:
        return True
    # A program may end with another code than 0 and mean no failure: then Claude Code says what it means.
    return (code not in (None, 0) and not about.get("returnCodeInterpretation")) or any(
        _ENDED_BADLY.search(part) for part in texts_in(block.get("content"))
    )


def _exit_code(block: Block, about: Mapping[str, Any]) -> int | None:
    for name in _CODES:
        code = about.get(name)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    for text in texts_in(block.get("content")):
        # At the beginning, or in the frame around the output of a command in the background.
        found = _EXIT.match(text) or (_EXIT.search(text[:400]) if text.startswith("<") else None)
        if found is not None:
            return int(found[1] or found[2])
    return None
