"""The lines and entries of a transcript, and the words of the user and the assistant in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json

from mindhold.ports.transcripts import TranscriptInfo

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
MESSAGE_TYPES = ("user", "assistant", "attachment", "system")
# Types of entries that hold the conversation's title, best first.
TITLE_TYPES = ("custom-title", "ai-title")
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
    "[Request interrupted",
    "Caveat:",
)
_INSERTED_TAGS = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>.*?(?:</\1>|\Z)", re.DOTALL
)
# Mindhold's own output is no news: lines from hooks, and its block of CLAUDE.md.
_HOOK_LINES_START, _BLOCK_START = "From memory (data to weigh", "<!-- MEMORY:START -->"
_HOOK_LINES = re.compile(re.escape(_HOOK_LINES_START) + r".*?(?:\n\s*\n|\Z)", re.DOTALL)
_BLOCK = re.compile(re.escape(_BLOCK_START) + r".*?(?:<!-- MEMORY:END -->|\Z)", re.DOTALL)
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
    """Return what the user typed while the assistant was working."""
    attached = entry.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "queued_command" or attached.get("isMeta"):
        return ""
    origin = attached.get("origin")
    human = not isinstance(origin, dict) or origin.get("kind") in (None, "human")
    if not human or attached.get("commandMode") not in (None, "prompt"):
        return ""
    return _join_typed(texts_in(attached.get("prompt")))


def is_subagent(entry: Entry) -> bool:
    """Whether a sub-agent said it or was asked it."""
    return bool(entry.get("isSidechain"))


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
    message = entry.get("message")
    return message.get("content") if isinstance(message, dict) else None


def texts_in(content: Any) -> list[str]:
    """Return the texts of a message's content."""
    if isinstance(content, str):
        return [content]
    return [text for block in blocks_in(content, "text") if (text := as_text(block.get("text")))]


def blocks_in(content: Any, kind: str) -> list[Block]:
    """Return the blocks of that kind; none where the content is a string."""
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]


def title_of(entry: Entry) -> tuple[str, str] | None:
    """Return the kind of title and the title; None when the entry is no title."""
    kind = as_text(entry.get("type"))
    if kind not in TITLE_TYPES:
        return None
    return kind, as_text(entry.get("title") or entry.get("customTitle") or entry.get("aiTitle"))


def model_of(entry: Entry) -> str:
    """Return the model that answered; empty when the entry doesn't say."""
    return as_text(_message(entry).get("model"))[:LONGEST_NAME]


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


def _message(entry: Entry) -> Mapping[str, Any]:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}
