"""The lines and entries of a transcript, the words in them, and the steps that they form: messages, tool calls and results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json

from mindhold.ports.transcripts import OMITTED, Role, TranscriptInfo, TranscriptStep, shortened

LONGEST_LINE = 16 << 20
MAX_LISTED_LINES = 100  # line numbers of bad lines that one read reports


class TranscriptLine(NamedTuple):
    """A line with its end. Of a line that is too long, `raw` is only the beginning, which isn't valid JSON."""

    raw: bytes
    size: int
    ended: bool  # by a line break

    @property
    def is_complete(self) -> bool:
        """Whether `raw` is the whole line."""
        return self.size == len(self.raw)


class BadLines:
    """The unreadable lines of one read: the first by number, the rest as a count."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._too_long: list[int] = []
        self._unlisted = self._last = 0

    def note(self, number: int, *, too_long: bool = False) -> None:
        """Record a line, in ascending order; a line may come in two parts."""
        if number == self._last:
            return
        self._last = number
        if len(self._numbers) >= MAX_LISTED_LINES:
            self._unlisted += 1
            return
        self._numbers.append(number)
        if too_long:
            self._too_long.append(number)

    def add_to(self, about: TranscriptInfo) -> TranscriptInfo:
        """Add the bad lines to the info."""
        numbers, too_long = tuple(self._numbers), tuple(self._too_long)
        return replace(about, bad_lines=numbers, too_long=too_long, unnamed=self._unlisted)


def read_line(stream: BinaryIO, *, most: int) -> TranscriptLine | None:
    """Read the next line; None at the end. Beyond `most` bytes the rest of the line stays unread."""
    raw = rest = stream.readline(LONGEST_LINE)
    size = len(raw)
    while len(rest) == LONGEST_LINE and not rest.endswith(b"\n") and size <= most:
        rest = stream.readline(LONGEST_LINE)
        size += len(rest)
    return TranscriptLine(raw, size, rest.endswith(b"\n")) if raw else None


Entry = Mapping[str, Any]
Block = Mapping[str, Any]

LONGEST_NAME = 200
SYNTHETIC_MODEL = "<synthetic>"
# Types of entries that are messages or tool calls.
MESSAGE_TYPES = ("user", "assistant", "attachment", "system", "queue-operation")
# Types of entries that hold the conversation's title, best first.
TITLE_TYPES = ("custom-title", "ai-title")
INTERRUPTION = "[Request interrupted"
# Prefixes of texts that the program inserted in the user's name.
_INSERTED_PREFIXES = (
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<ide_diagnostics>",
    "<teammate-message",
    "<user-memory-input>",
    "<user-prompt-submit-hook>",
    INTERRUPTION,
    "Caveat:",
    '{"task_id":',
)
_INSERTED_TAGS = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>.*?(?:</\1>|\Z)", re.DOTALL
)
# Mindhold's own output is no news: lines from hooks, and its block of CLAUDE.md.
_HOOK_LINES_START, _BLOCK_START = "From memory (data to weigh", "<!-- MEMORY:START -->"
_HOOK_LINES = re.compile(re.escape(_HOOK_LINES_START) + r".*?(?:\n\s*\n|\Z)", re.DOTALL)
_BLOCK = re.compile(re.escape(_BLOCK_START) + r".*?(?:<!-- MEMORY:END -->|\Z)", re.DOTALL)
_COMMAND = re.compile(r"\s*/[a-z][\w:-]*(?:\s|$)")
_DECODER = json.JSONDecoder()


def parse_line(raw: bytes) -> tuple[Sequence[Entry], bool]:
    """Parse the objects on a line, and return whether they are the whole line.

    A line that lost its line break holds several. If the rest is no JSON, or no object, the objects before it are returned.
    """
    try:
        entry = from_json(raw)  # twice as fast as json, and stricter
    except ValueError:
        return _decode_all(raw.decode("utf-8", "replace").lstrip("\ufeff"))
    return ((entry,), True) if isinstance(entry, dict) else ((), False)


def _decode_all(line: str) -> tuple[list[Entry], bool]:
    entries: list[Entry] = []
    position, end = 0, len(line)
    while position < end:
        if line[position].isspace():
            position += 1
            continue
        try:
            entry, position = _DECODER.raw_decode(line, position)
        except (ValueError, RecursionError):
            return entries, False
        if not isinstance(entry, dict):
            return entries, False
        entries.append(entry)
    return entries, True


def spoken_by_user(entry: Entry, content: Any) -> str:
    """Return what the user typed, or a sub-agent was asked; empty for other entries."""
    get = entry.get
    if get("isMeta") or get("isCompactSummary") or get("isVisibleInTranscriptOnly"):
        return ""
    return _join_typed(texts_in(content))


def spoken_by_assistant(entry: Entry, content: Any) -> str:
    """Return what the assistant wrote; empty for tool calls, thinking and error messages."""
    if entry.get("isApiErrorMessage") or model_of(entry) == SYNTHETIC_MODEL:
        return ""
    return "\n\n".join([text for part in texts_in(content) if (text := part.strip())])


def queued_by_user(entry: Entry) -> str:
    """Return what the user typed while the assistant was working: when it was typed, or when the assistant got it."""
    if entry.get("type") == "queue-operation":
        content = entry.get("content") if entry.get("operation") == "enqueue" else None
        return "" if isinstance(content, str) and _COMMAND.match(content) else _join_typed(texts_in(content))
    attached = as_dict(entry.get("attachment"))
    if attached.get("type") != "queued_command" or attached.get("isMeta"):
        return ""
    by_human = as_dict(attached.get("origin")).get("kind") in (None, "human")
    if not by_human or attached.get("commandMode") not in (None, "prompt"):
        return ""
    return _join_typed(texts_in(attached.get("prompt")))


def is_interruption(entry: Entry) -> bool:
    """Whether the user stopped the assistant here."""
    return entry.get("type") == "user" and any(
        text.startswith(INTERRUPTION) for text in texts_in(content_of(entry))
    )


def without_inserted(text: str) -> str:
    """Remove what the program, or Mindhold through it, inserted into the text."""
    if "<system-reminder>" in text or "<ide_" in text:
        text = _INSERTED_TAGS.sub("", text)
    if _HOOK_LINES_START in text:
        text = _HOOK_LINES.sub("", text)
    if _BLOCK_START in text:
        text = _BLOCK.sub("", text)
    return text.strip()


def _join_typed(texts: Iterable[str]) -> str:
    cleaned = [without_inserted(text) for text in texts]
    return "\n\n".join([text for text in cleaned if text and not text.startswith(_INSERTED_PREFIXES)])


def content_of(entry: Entry) -> Any:
    """Return the content of the entry's message: a string or a list of blocks."""
    return as_dict(entry.get("message")).get("content")


def texts_in(content: Any) -> list[str]:
    """Return the texts of a message's content."""
    if isinstance(content, str):
        return [content]
    return [text for block in blocks_in(content, "text") if (text := as_text(block.get("text")))]


def blocks_in(content: Any, kind: str) -> list[Block]:
    """Return the blocks of that kind; none where the content is a string."""
    return [block for block in dicts_in(content) if block.get("type") == kind]


def title_of(entry: Entry) -> tuple[str, str] | None:
    """Return the kind of title and the title; None when the entry is no title."""
    kind = as_text(entry.get("type"))
    if kind not in TITLE_TYPES:
        return None
    return kind, as_text(entry.get("title") or entry.get("customTitle") or entry.get("aiTitle"))


def model_of(entry: Entry) -> str:
    """Return the model that answered; empty when the entry doesn't say."""
    return as_name(as_dict(entry.get("message")).get("model"))


def timestamp_of(entry: Entry) -> datetime | None:
    """Return the entry's time in UTC."""
    try:
        moment = datetime.fromisoformat(as_text(entry.get("timestamp")))
        if moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def as_text(value: Any) -> str:
    """Return the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none where the value is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


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
# What the user said when refusing a call, up to what the program adds.
_REASON = re.compile(
    r"(?:the user said:|reason for the rejection:)\s*(\S.*?)\s*(?:\n\nNote: The user's next message|\Z)",
    re.DOTALL,
)
# Said by the program for someone who wants to talk about its questions first.
_CLARIFYING = "The user wants to clarify these questions."
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
    elif kind in ("attachment", "queue-operation") and (text := queued_by_user(entry)):
        steps.append(message_step(Role.USER, text, position))
    return steps


def is_own_tool(tool: str) -> bool:
    """Whether a tool is Mindhold's own, so that its output is no news."""
    return tool.startswith(OWN_TOOL_PREFIXES)


def _cut_with_margin(text: str, enough: int) -> str:
    """Cut a text to its beginning and end, with a margin; words at the cut are dropped, because half a secret is one."""
    if len(text) <= enough + MARGIN:
        return text
    head, _, tail = shortened(text, enough + MARGIN).partition(OMITTED)
    cut = "" if head[-1:].isspace() else head.rsplit(maxsplit=1)[-1]
    return head[: len(head) - len(cut)] + OMITTED + _CUT_WORD.sub("", tail, count=1)


def message_step(role: Role, text: str, position: EntryPosition) -> TranscriptStep:
    """Make the step of a message by the user or the assistant."""
    return _step(role, text, LONGEST_MESSAGE_STEP, position)


def call_step(
    tool: str, about: str, tool_input: Mapping[str, Any], *, call: str, position: EntryPosition
) -> TranscriptStep:
    """Make the step of a tool call: what it is `about`, else all its input, shortened."""
    text, enough = (about, LONGEST_CALL_STEP) if about else (_encode_input(tool_input), LONGEST_JSON_STEP)
    return _step(Role.TOOL, text, enough, position, tool=tool, call=call)


def result_step(text: str, *, failed: bool, tool: str, call: str, position: EntryPosition) -> TranscriptStep:
    """Make the step of a tool's result."""
    return _step(
        Role.RESULT, text.strip(), LONGEST_RESULT_STEP, position, tool=tool, call=call, failed=failed
    )


def _step(
    role: Role,
    text: str,
    enough: int,
    position: EntryPosition,
    *,
    tool: str = "",
    call: str = "",
    failed: bool = False,
) -> TranscriptStep:
    line, end, moment, aside = position
    text = _cut_with_margin(text, enough)
    return TranscriptStep(role, text, line, end, moment, tool, call, failed, aside, enough)


def _add_call(
    block: Block, position: EntryPosition, tools: dict[str, str], steps: list[TranscriptStep]
) -> None:
    name, call, fields = as_name(block.get("name")), as_name(block.get("id")), as_dict(block.get("input"))
    if not name:
        return
    if call:
        tools[call] = name
    if not is_own_tool(name):
        steps.append(call_step(name, _describe_call(name, fields), fields, call=call, position=position))


def _describe_call(name: str, fields: Mapping[str, Any]) -> str:
    """Return what a tool call is about; empty where no field says so."""
    if name in COMMAND_TOOLS:
        command = as_text(fields.get("command")).strip()
        description = as_text(fields.get("description")).strip()
        return f"{command}\n# {description}" if description else command
    if name == "AskUserQuestion":
        questions = fields.get("questions")
        items = dicts_in(questions) if isinstance(questions, list) else [fields]
        return "\n".join(filter(None, (as_text(item.get("question")) for item in items)))
    return next((value for key in _SUBJECT_FIELDS.get(name, ()) if (value := as_text(fields.get(key)))), "")


def _encode_input(fields: Mapping[str, Any]) -> str:
    """Encode a tool's input as JSON."""
    try:
        return _JSON.encode(fields) if fields else ""
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
    if text.startswith(_REFUSED_PREFIXES) and (reason := _REASON.search(text)):
        said = without_inserted(reason[1])
        if not said.startswith(_CLARIFYING):
            steps.append(replace(message_step(Role.USER, said, position), objecting=True))


def _result_text(content: Any, parts: Sequence[str]) -> str:
    """Return the text of a result; an image becomes a placeholder."""
    text = without_inserted("\n".join([*parts, *["[image]" for _ in blocks_in(content, "image")]]))
    return _TAGS.sub("", text).strip() if _TAGS.search(text) else text


def _failed(block: Block, text: str, parts: Sequence[str], details: Any) -> bool:
    """Whether the call failed; one that the user refused or stopped didn't."""
    fields = as_dict(details)
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


def is_failure(code: int | None, text: str) -> bool:
    """Whether an exit code means failure: not if the user stopped the command, nor if it merely found nothing."""
    return code not in (None, 0, INTERRUPTED) and not (code == 1 and not text.strip())


def first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the fields that has text."""
    return next((text for name in names if (text := as_text(fields.get(name)).strip())), "")


def as_name(value: Any) -> str:
    """Return a name or an id, cut to its longest length."""
    return as_text(value)[:LONGEST_NAME]
