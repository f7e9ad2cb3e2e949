"""The steps of a conversation: who spoke, which tool was called, what it returned."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mindhold.ports.transcripts import OMITTED, Role, TranscriptStep, shortened
from mindhold.providers.transcripts.entries import (
    LONGEST_NAME,
    Block,
    Entry,
    blocks_in,
    content_of,
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
# How tools of Mindhold's own are called, by Claude Code, Codex and Gemini.
OURS = ("mcp__mindhold__", "mcp__plugin_mindhold_", "mindhold__", "mcp_mindhold_")
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
_ENDED_BADLY = "<status>failed</status>"
_CODES = ("exitCode", "exit_code", "returnCode", "code")
_INTERRUPTED = 130  # the exit code of a command that a person stopped
_REFUSED = (
    "[Request interrupted",
    "The user doesn't want to",
    "User rejected",
    "Interrupted by user",
)
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_FROM_A_CUT = re.compile(r"\S*")
_TAGS = re.compile(r"</?(?:tool_use_error|stdout|stderr|output|error)>")


class EntryPosition(NamedTuple):
    """Where in the file an entry stands, and when and to whom it was said."""

    line: int
    end: int
    moment: datetime | None = None
    aside: bool = False


def steps_in(entry: Entry, place: EntryPosition, tools: dict[str, str]) -> list[TranscriptStep]:
    """In order. `tools` has the names of tools by the calls' ids, and gains those of this entry.

    A result whose call is not among them has no tool's name yet: it may turn out to be one of our own.
    """
    kind = entry.get("type")
    content = content_of(entry)
    steps: list[TranscriptStep] = []
    if kind == "assistant":
        if text := spoken_by_assistant(entry, content):
            steps.append(said_step(Role.CLAUDE, text, place))
        for block in blocks_in(content, "tool_use"):
            _ask(block, place, tools, steps)
    elif kind == "user":
        for block in blocks_in(content, "tool_result"):
            _give_back(block, entry.get("toolUseResult"), place, tools, steps)
        if text := spoken_by_user(entry, content):
            steps.append(said_step(Role.USER, text, place))
    elif kind == "attachment" and (text := queued_by_user(entry)):
        steps.append(said_step(Role.USER, text, place))
    return steps


def is_ours(tool: str) -> bool:
    """Whether a tool is Mindhold's own, so that nothing of it is news."""
    return tool.startswith(OURS)


def bounded(text: str, enough: int) -> str:
    """Its beginning and its end, more of both than is enough. What a cut went through is left out: half a secret is one."""
    if len(text) <= enough + BESIDE:
        return text
    head, _, tail = shortened(text, enough + BESIDE).partition(OMITTED)
    cut = "" if head[-1:].isspace() else head.rsplit(maxsplit=1)[-1]
    return head[: len(head) - len(cut)] + OMITTED + _FROM_A_CUT.sub("", tail, count=1)


def said_step(role: Role, text: str, place: EntryPosition) -> TranscriptStep:
    """What a person or the assistant said."""
    line, end, moment, aside = place
    return TranscriptStep(
        role, bounded(text, LONGEST_SAID), line, end, moment, aside=aside, enough=LONGEST_SAID
    )


def _ask(block: Block, place: EntryPosition, tools: dict[str, str], steps: list[TranscriptStep]) -> None:
    name = string(block.get("name"))[:LONGEST_NAME]
    if not name:
        return
    call = string(block.get("id"))[:LONGEST_NAME]
    if call:
        tools[call] = name
    if is_ours(name):
        return
    text, enough = _about(name, block.get("input"))
    line, end, moment, aside = place
    text = bounded(text, enough)
    steps.append(TranscriptStep(Role.TOOL, text, line, end, moment, name, call, aside=aside, enough=enough))


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
    return (text, LONGEST_ASKED) if text else (compact(fields), LONGEST_JSON)


def compact(fields: Mapping[str, Any]) -> str:
    """All that a tool was given, as JSON."""
    if not fields:
        return ""
    try:
        return _JSON.encode(fields)
    except (ValueError, RecursionError):
        return ""


def _give_back(
    block: Block, told: Any, place: EntryPosition, tools: dict[str, str], steps: list[TranscriptStep]
) -> None:
    call = string(block.get("tool_use_id"))[:LONGEST_NAME]
    tool = tools.get(call, "")
    if is_ours(tool):
        return
    content = block.get("content")
    parts = texts_in(content)
    text = _result(content, parts)
    failed = _failed(block, text, parts, told)
    line, end, moment, aside = place
    text = bounded(text, LONGEST_RESULT)
    steps.append(
        TranscriptStep(Role.RESULT, text, line, end, moment, tool, call, failed, aside, LONGEST_RESULT)
    )


def _result(content: Any, parts: Sequence[str]) -> str:
    """Its text; a picture is only said to be there."""
    text = without_inserted("\n".join([*parts, *["[image]" for _ in blocks_in(content, "image")]]))
    return _TAGS.sub("", text).strip() if _TAGS.search(text) else text


def _failed(block: Block, text: str, parts: Sequence[str], told: Any) -> bool:
    """Whether it didn't work, by itself: what a person refused or stopped is no failure."""
    about: Mapping[str, Any] = told if isinstance(told, dict) else {}
    if about.get("interrupted") is True or text.startswith(_REFUSED) or string(told).startswith(_REFUSED):
        return False
    code = _exit_code(parts, about)
    if code == _INTERRUPTED:
        return False
    if block.get("is_error") is True or about.get("success") is False:
        return True
    # A program may end with another code than 0 and mean no failure: then Claude Code says what it means.
    failed = code not in (None, 0) and not about.get("returnCodeInterpretation")
    return failed or any(_ENDED_BADLY in part for part in parts)


def _exit_code(parts: Sequence[str], about: Mapping[str, Any]) -> int | None:
    if about:
        for name in _CODES:
            code = about.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code
    for text in parts:
        # At the beginning, or in the frame around the output of a command in the background.
        found = _EXIT.match(text) or (_EXIT.search(text[:400]) if text.startswith("<") else None)
        if found is not None:
            return int(found[1] or found[2])
    return None


INTERRUPTED = 130  # the exit code of a command that a person stopped


def call_step(
    tool: str, about: str, given: Mapping[str, Any], *, call: str, place: EntryPosition
) -> TranscriptStep:
    """A tool was asked for something: what it is `about`, else all that it was given, in short."""
    text, enough = (about, LONGEST_ASKED) if about else (compact(given), LONGEST_JSON)
    return TranscriptStep(
        role=Role.TOOL,
        text=bounded(text, enough),
        line=place.line,
        end=place.end,
        timestamp=place.moment,
        tool=tool,
        call=call,
        aside=place.aside,
        enough=enough,
    )


def result_step(text: str, *, failed: bool, tool: str, call: str, place: EntryPosition) -> TranscriptStep:
    """And that is what it gave back."""
    return TranscriptStep(
        role=Role.RESULT,
        text=bounded(text.strip(), LONGEST_RESULT),
        line=place.line,
        end=place.end,
        timestamp=place.moment,
        tool=tool,
        call=call,
        failed=failed,
        aside=place.aside,
        enough=LONGEST_RESULT,
    )


def is_failure(code: int | None, text: str) -> bool:
    """Whether a command's exit code says so: not of one that a person stopped, nor of one that merely found nothing."""
    return code not in (None, 0, INTERRUPTED) and not (code == 1 and not text.strip())


def first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of the fields that has a text."""
    return next((text for name in names if (text := string(fields.get(name)).strip())), "")


def short(value: Any) -> str:
    """A name or an id, no longer than those are."""
    return string(value)[:LONGEST_NAME]
