"""The steps of a conversation: messages, tool calls and their results."""

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
    as_text,
    blocks_in,
    content_of,
    queued_by_user,
    spoken_by_assistant,
    spoken_by_user,
    texts_in,
    without_inserted,
)

LONGEST_MESSAGE_STEP = 20_000
LONGEST_CALL_STEP = 2_000  # characters of a tool's input
LONGEST_RESULT_STEP = 2_000
LONGEST_JSON_STEP = 300
MARGIN = 16_000  # characters beyond those limits: redaction must see a secret whole
# Prefixes of Mindhold's own tools in Claude Code, Codex and Gemini.
OWN_TOOL_PREFIXES = ("mcp__mindhold__", "mcp__plugin_mindhold_", "mindhold__", "mcp_mindhold_")
COMMAND_TOOLS = ("Bash", "PowerShell")
# The field that describes a call of each known tool; other calls are described by all their input, shortened.
_SUBJECT_FIELDS: Mapping[str, tuple[str, ...]] = {
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
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d+)\b|<exit_code>(-?\d+)</exit_code>")
_FAILED_STATUS = "<status>failed</status>"
_EXIT_CODE_FIELDS = ("exitCode", "exit_code", "returnCode", "code")
INTERRUPTED = 130  # the exit code of a command that the user stopped
_REFUSED_PREFIXES = (
    "[Request interrupted",
    "The user doesn't want to",
    "User rejected",
    "Interrupted by user",
)
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CUT_WORD = re.compile(r"\S*")
_TAGS = re.compile(r"</?(?:tool_use_error|stdout|stderr|output|error)>")


class EntryPosition(NamedTuple):
    """The position of an entry in the file, its time, and whether it belongs to a sub-agent."""

    line: int
    end: int
    moment: datetime | None = None
    aside: bool = False


def steps_in(entry: Entry, position: EntryPosition, tools: dict[str, str]) -> list[TranscriptStep]:
    """List the steps of an entry. `tools` maps call ids to tool names; the entry's own calls are added.

    A result whose call is unknown has no tool name yet: it may turn out to be a tool of Mindhold's.
    """
    kind = entry.get("type")
    content = content_of(entry)
    steps: list[TranscriptStep] = []
    if kind == "assistant":
        if text := spoken_by_assistant(entry, content):
            steps.append(message_step(Role.CLAUDE, text, position))
        for block in blocks_in(content, "tool_use"):
            _add_call(block, position, tools, steps)
    elif kind == "user":
        for block in blocks_in(content, "tool_result"):
            _add_result(block, entry.get("toolUseResult"), position, tools, steps)
        if text := spoken_by_user(entry, content):
            steps.append(message_step(Role.USER, text, position))
    elif kind == "attachment" and (text := queued_by_user(entry)):
        steps.append(message_step(Role.USER, text, position))
    return steps


def is_own_tool(tool: str) -> bool:
    """Whether a tool is Mindhold's own, so that its output is no news."""
    return tool.startswith(OWN_TOOL_PREFIXES)


def cut_with_margin(text: str, enough: int) -> str:
    """Cut a text to its beginning and end, with a margin; words at the cut are dropped, because half a secret is one."""
    if len(text) <= enough + MARGIN:
        return text
    head, _, tail = shortened(text, enough + MARGIN).partition(OMITTED)
    cut = "" if head[-1:].isspace() else head.rsplit(maxsplit=1)[-1]
    return head[: len(head) - len(cut)] + OMITTED + _CUT_WORD.sub("", tail, count=1)


def message_step(role: Role, text: str, position: EntryPosition) -> TranscriptStep:
    """Make the step of a message by the user or the assistant."""
    line, end, moment, aside = position
    return TranscriptStep(
        role,
        cut_with_margin(text, LONGEST_MESSAGE_STEP),
        line,
        end,
        moment,
        aside=aside,
        enough=LONGEST_MESSAGE_STEP,
    )


def _add_call(
    block: Block, position: EntryPosition, tools: dict[str, str], steps: list[TranscriptStep]
) -> None:
    name, call, tool_input = as_name(block.get("name")), as_name(block.get("id")), block.get("input")
    if not name:
        return
    if call:
        tools[call] = name
    if not is_own_tool(name):
        fields: Mapping[str, Any] = tool_input if isinstance(tool_input, dict) else {}
        steps.append(call_step(name, _describe_call(name, fields), fields, call=call, position=position))


def _describe_call(name: str, fields: Mapping[str, Any]) -> str:
    """Return what a tool call is about; empty where no field says so."""
    if name in COMMAND_TOOLS:
        command = as_text(fields.get("command")).strip()
        description = as_text(fields.get("description")).strip()
        return f"{command}\n# {description}" if description else command
    if name == "AskUserQuestion":
        questions = fields.get("questions")
        items = (
            [item for item in questions if isinstance(item, dict)]
            if isinstance(questions, list)
            else [fields]
        )
        return "\n".join(filter(None, (as_text(item.get("question")) for item in items)))
    return next((value for key in _SUBJECT_FIELDS.get(name, ()) if (value := as_text(fields.get(key)))), "")


def encode_input(fields: Mapping[str, Any]) -> str:
    """Encode a tool's input as JSON."""
    if not fields:
        return ""
    try:
        return _JSON.encode(fields)
    except (ValueError, RecursionError):
        return ""


def _add_result(
    block: Block, details: Any, position: EntryPosition, tools: dict[str, str], steps: list[TranscriptStep]
) -> None:
    call = as_name(block.get("tool_use_id"))
    tool = tools.get(call, "")
    if is_own_tool(tool):
        return
    content = block.get("content")
    parts = texts_in(content)
    text = _result_text(content, parts)
    failed = _failed(block, text, parts, details)
    steps.append(result_step(text, failed=failed, tool=tool, call=call, position=position))


def _result_text(content: Any, parts: Sequence[str]) -> str:
    """Return the text of a result; an image becomes a placeholder."""
    text = without_inserted("\n".join([*parts, *["[image]" for _ in blocks_in(content, "image")]]))
    return _TAGS.sub("", text).strip() if _TAGS.search(text) else text


def _failed(block: Block, text: str, parts: Sequence[str], details: Any) -> bool:
    """Whether the call failed; one that the user refused or stopped didn't."""
    fields: Mapping[str, Any] = details if isinstance(details, dict) else {}
    if (
        fields.get("interrupted") is True
        or text.startswith(_REFUSED_PREFIXES)
        or as_text(details).startswith(_REFUSED_PREFIXES)
    ):
        return False
    code = _exit_code(parts, fields)
    if code == INTERRUPTED:
        return False
    if block.get("is_error") is True or fields.get("success") is False:
        return True
    # A program may exit with another code than 0 without a failure: then Claude Code interprets it.
    failed = code not in (None, 0) and not fields.get("returnCodeInterpretation")
    return failed or any(_FAILED_STATUS in part for part in parts)


def _exit_code(parts: Sequence[str], fields: Mapping[str, Any]) -> int | None:
    if fields:
        for name in _EXIT_CODE_FIELDS:
            code = fields.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code
    for text in parts:
        # At the beginning, or in the frame around a background command's output.
        match = _EXIT_CODE.match(text) or (_EXIT_CODE.search(text[:400]) if text.startswith("<") else None)
        if match is not None:
            return int(match[1] or match[2])
    return None


def call_step(
    tool: str, about: str, tool_input: Mapping[str, Any], *, call: str, position: EntryPosition
) -> TranscriptStep:
    """Make the step of a tool call: what it is `about`, else all its input, shortened."""
    text, enough = (about, LONGEST_CALL_STEP) if about else (encode_input(tool_input), LONGEST_JSON_STEP)
    return TranscriptStep(
        role=Role.TOOL,
        text=cut_with_margin(text, enough),
        line=position.line,
        end=position.end,
        timestamp=position.moment,
        tool=tool,
        call=call,
        aside=position.aside,
        enough=enough,
    )


def result_step(text: str, *, failed: bool, tool: str, call: str, position: EntryPosition) -> TranscriptStep:
    """Make the step of a tool's result."""
    return TranscriptStep(
        role=Role.RESULT,
        text=cut_with_margin(text.strip(), LONGEST_RESULT_STEP),
        line=position.line,
        end=position.end,
        timestamp=position.moment,
        tool=tool,
        call=call,
        failed=failed,
        aside=position.aside,
        enough=LONGEST_RESULT_STEP,
    )


def is_failure(code: int | None, text: str) -> bool:
    """Whether an exit code means failure: not if the user stopped the command, nor if it merely found nothing."""
    return code not in (None, 0, INTERRUPTED) and not (code == 1 and not text.strip())


def first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the fields that has text."""
    return next((text for name in names if (text := as_text(fields.get(name)).strip())), "")


def as_name(value: Any) -> str:
    """Return a name or an id, cut to its longest length."""
    return as_text(value)[:LONGEST_NAME]
