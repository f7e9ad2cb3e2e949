"""What stands in a transcript's lines, and which of it a person or the assistant said.

The format is Claude Code's own and changes: whatever is not understood is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

Entry = Mapping[str, Any]
Block = Mapping[str, Any]

LONGEST_NAME = 200
SYNTHETIC = "<synthetic>"
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


class BadLine(ValueError):
    """Not JSON, or no object."""


def entries_in(raw: bytes) -> Iterator[Entry]:
    """The objects on a line: one, or several that lost the line break between them. Raises BadLine."""
    try:
        entry = from_json(raw)  # twice as quick as json, and stricter
    except ValueError:
        yield from _entries_in(raw.decode("utf-8", "replace").lstrip("\ufeff"))
        return
    if not isinstance(entry, dict):
        raise BadLine
    yield entry


def _entries_in(line: str) -> Iterator[Entry]:
    place, end = 0, len(line)
    while place < end:
        if line[place].isspace():
            place += 1
            continue
        try:
            entry, place = _DECODER.raw_decode(line, place)
        except (ValueError, RecursionError) as error:
            raise BadLine from error
        if not isinstance(entry, dict):
            raise BadLine
        yield entry


def spoken_by_user(entry: Entry, *, aside: bool = False) -> str:
    """What a person typed; empty when the entry is something else. With `aside` also what a sub-agent was told."""
    if is_aside(entry) and not aside:
        return ""
    if any(entry.get(mark) for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")):
        return ""
    return _spoken(texts_of(entry))


def spoken_by_assistant(entry: Entry, *, aside: bool = False) -> str:
    """What the assistant wrote; empty for tool calls, thinking and messages about errors. With `aside` sub-agents too."""
    if (is_aside(entry) and not aside) or entry.get("isApiErrorMessage") or model_of(entry) == SYNTHETIC:
        return ""
    return "\n\n".join(filter(None, (text.strip() for text in texts_of(entry))))


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
    """The text without what the program, or Recollect through it, put there."""
    if "<" in text:
        text = _INSERTED.sub("", text)
    if _FROM_MEMORY_BEGINS in text:
        text = _FROM_MEMORY.sub("", text)
    if _BLOCK_BEGINS in text:
        text = _BLOCK.sub("", text)
    return text.strip()


def _spoken(texts: Iterable[str]) -> str:
    told = (without_inserted(text) for text in texts)
    return "\n\n".join(text for text in told if text and not text.startswith(_NOT_SPOKEN))


def texts_of(entry: Entry) -> list[str]:
    """The texts of a message, whose content may be one string or a list of blocks."""
    return texts_in(_message(entry).get("content"))


def texts_in(content: Any) -> list[str]:
    """The texts of such a content."""
    if isinstance(content, str):
        return [content]
    return [
        text
        for block in _blocks_in(content)
        if block.get("type") == "text" and (text := string(block.get("text")))
    ]


def title_of(entry: Entry) -> tuple[str, str] | None:
    """Which sort of title an entry gives the conversation, and the title; None when it gives none."""
    kind = string(entry.get("type"))
    if kind not in TITLES:
        return None
    return kind, string(entry.get("title") or entry.get("customTitle") or entry.get("aiTitle"))


def tools_of(entry: Entry) -> list[str]:
    """Names of the tools that the message calls."""
    names = (string(block.get("name")) for block in blocks_of(entry) if block.get("type") == "tool_use")
    return [name[:LONGEST_NAME] for name in names if name]


def message_id(entry: Entry) -> str:
    """What the lines of one answer share; empty when it has none."""
    return string(_message(entry).get("id"))


def model_of(entry: Entry) -> str:
    """The model that answered; empty when the entry doesn't say."""
    return string(_message(entry).get("model"))[:LONGEST_NAME]


def moment_of(entry: Entry) -> datetime | None:
    """When it was said, in UTC."""
    try:
        moment = datetime.fromisoformat(string(entry.get("timestamp")))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def string(value: Any) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def _message(entry: Entry) -> Mapping[str, Any]:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def blocks_of(entry: Entry) -> list[Block]:
    """The blocks of a message; none where its content is one string."""
    return _blocks_in(_message(entry).get("content"))


def _blocks_in(content: Any) -> list[Block]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
