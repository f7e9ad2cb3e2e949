"""The lines and entries of a transcript, and which of them a person or the assistant said."""

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
MOST_NAMED = 100  # lines of one piece that can't be read


class TranscriptLine(NamedTuple):
    """A line with its end. Of one that is too long to be held `raw` is only the beginning, which is no JSON any more."""

    raw: bytes
    size: int
    ended: bool  # by a line break

    @property
    def held(self) -> bool:
        """Whether `raw` is all of it."""
        return self.size == len(self.raw)


class BadLines:
    """Those of a piece that can't be read: the first ones by number, of the rest how many."""

    def __init__(self) -> None:
        self._named: list[int] = []
        self._too_long: list[int] = []
        self._unnamed = self._last = 0

    def note(self, number: int, *, too_long: bool = False) -> None:
        """One after the other; a line may come in two parts."""
        if number == self._last:
            return
        self._last = number
        if len(self._named) >= MOST_NAMED:
            self._unnamed += 1
            return
        self._named.append(number)
        if too_long:
            self._too_long.append(number)

    def told_in(self, about: TranscriptInfo) -> TranscriptInfo:
        """With them."""
        named, too_long = tuple(self._named), tuple(self._too_long)
        return replace(about, bad_lines=named, too_long=too_long, unnamed=self._unnamed)


def read_line(stream: BinaryIO, *, most: int) -> TranscriptLine | None:
    """The next one; None at the end. Beyond `most` bytes the rest of it is left unread."""
    raw = rest = stream.readline(LONGEST_LINE)
    size = len(raw)
    while len(rest) == LONGEST_LINE and not rest.endswith(b"\n") and size <= most:
        rest = stream.readline(LONGEST_LINE)
        size += len(rest)
    return TranscriptLine(raw, size, rest.endswith(b"\n")) if raw else None


Entry = Mapping[str, Any]
Block = Mapping[str, Any]

LONGEST_NAME = 200
SYNTHETIC = "<synthetic>"
# Sorts of entries that stand for something that was said or done.
SPOKEN = ("user", "assistant", "attachment", "system")
# Sorts of entries that say what the conversation is called, the best first.
TITLES = ("custom-title", "ai-title")
# How texts begin that the program put into a person's mouth.
_NOT_SPOKEN = (
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
_INSERTED = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>.*?(?:</\1>|\Z)", re.DOTALL
)
# What we gave it ourselves is no news: lines that hooks handed out, and our block of CLAUDE.md.
_FROM_MEMORY_BEGINS, _BLOCK_BEGINS = "From memory (data to weigh", "<!-- MEMORY:START -->"
_FROM_MEMORY = re.compile(re.escape(_FROM_MEMORY_BEGINS) + r".*?(?:\n\s*\n|\Z)", re.DOTALL)
_BLOCK = re.compile(re.escape(_BLOCK_BEGINS) + r".*?(?:<!-- MEMORY:END -->|\Z)", re.DOTALL)
_DECODER = json.JSONDecoder()


def entries_in(raw: bytes) -> tuple[Sequence[Entry], bool]:
    """The objects on a line, one, or several that lost the line break between them; and whether that is all of it: else
    they stand before something that is no JSON, or no object."""
    try:
        entry = from_json(raw)  # twice as quick as json, and stricter
    except ValueError:
        return _entries_in(raw.decode("utf-8", "replace").lstrip("\ufeff"))
    return ((entry,), True) if isinstance(entry, dict) else ((), False)


def _entries_in(line: str) -> tuple[list[Entry], bool]:
    entries: list[Entry] = []
    place, end = 0, len(line)
    while place < end:
        if line[place].isspace():
            place += 1
            continue
        try:
            entry, place = _DECODER.raw_decode(line, place)
        except (ValueError, RecursionError):
            return entries, False
        if not isinstance(entry, dict):
            return entries, False
        entries.append(entry)
    return entries, True


def spoken_by_user(entry: Entry, content: Any) -> str:
    """What a person typed, or a sub-agent was told; empty when the entry is something else."""
    get = entry.get
    if get("isMeta") or get("isCompactSummary") or get("isVisibleInTranscriptOnly"):
        return ""
    return _spoken(texts_in(content))


def spoken_by_assistant(entry: Entry, content: Any) -> str:
    """What the assistant wrote; empty for tool calls, thinking and messages about errors."""
    if entry.get("isApiErrorMessage") or model_of(entry) == SYNTHETIC:
        return ""
    return "\n\n".join([text for told in texts_in(content) if (text := told.strip())])


def queued_by_user(entry: Entry) -> str:
    """What a person typed while the assistant was at work, and what it was then given on the way."""
    attached = entry.get("attachment")
    if not isinstance(attached, dict) or attached.get("type") != "queued_command" or attached.get("isMeta"):
        return ""
    origin = attached.get("origin")
    human = not isinstance(origin, dict) or origin.get("kind") in (None, "human")
    if not human or attached.get("commandMode") not in (None, "prompt"):
        return ""
    return _spoken(texts_in(attached.get("prompt")))


def is_aside(entry: Entry) -> bool:
    """Whether it was said by or to a sub-agent."""
    return bool(entry.get("isSidechain"))


def without_inserted(text: str) -> str:
    """The text without what the program, or Mindhold through it, put there."""
    if "<system-reminder>" in text or "<ide_" in text:
        text = _INSERTED.sub("", text)
    if _FROM_MEMORY_BEGINS in text:
        text = _FROM_MEMORY.sub("", text)
    if _BLOCK_BEGINS in text:
        text = _BLOCK.sub("", text)
    return text.strip()


def _spoken(texts: Iterable[str]) -> str:
    told = [without_inserted(text) for text in texts]
    return "\n\n".join([text for text in told if text and not text.startswith(_NOT_SPOKEN)])


def content_of(entry: Entry) -> Any:
    """Of its message: one string or a list of blocks, if it is as it should be."""
    message = entry.get("message")
    return message.get("content") if isinstance(message, dict) else None


def texts_in(content: Any) -> list[str]:
    """The texts of such a content."""
    if isinstance(content, str):
        return [content]
    return [text for block in blocks_in(content, "text") if (text := string(block.get("text")))]


def blocks_in(content: Any, kind: str) -> list[Block]:
    """The blocks of that kind; none where the content is one string."""
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]


def title_of(entry: Entry) -> tuple[str, str] | None:
    """Which sort of title an entry gives the conversation, and the title; None when it gives none."""
    kind = string(entry.get("type"))
    if kind not in TITLES:
        return None
    return kind, string(entry.get("title") or entry.get("customTitle") or entry.get("aiTitle"))


def model_of(entry: Entry) -> str:
    """The model that answered; empty when the entry doesn't say."""
    return string(_message(entry).get("model"))[:LONGEST_NAME]


def moment_of(entry: Entry) -> datetime | None:
    """When it was said, in UTC."""
    try:
        moment = datetime.fromisoformat(string(entry.get("timestamp")))
        if moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def string(value: Any) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def _message(entry: Entry) -> Mapping[str, Any]:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}
