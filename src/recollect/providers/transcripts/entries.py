"""What stands in a transcript's lines, and which of it a person or the assistant said.

The format is Claude Code's own and changes: whatever is not understood is passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

Entry = Mapping[str, Any]

LONGEST_NAME = 200
SYNTHETIC = "<synthetic>"
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


def spoken_by_user(entry: Entry) -> str:
    """What a person typed; empty when the entry is something else."""
    if any(
        entry.get(mark) for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isSidechain")
    ):
        return ""
    texts = (_INSERTED.sub("", text).strip() for text in texts_of(entry))
    return "\n\n".join(text for text in texts if text and not text.startswith(_NOT_SPOKEN))


def spoken_by_assistant(entry: Entry) -> str:
    """What the assistant wrote; empty for tool calls, thinking and messages about errors."""
    if entry.get("isSidechain") or entry.get("isApiErrorMessage") or model_of(entry) == SYNTHETIC:
        return ""
    return "\n\n".join(filter(None, (text.strip() for text in texts_of(entry))))


def texts_of(entry: Entry) -> list[str]:
    """The texts of a message, whose content may be one string or a list of blocks."""
    content = _message(entry).get("content")
    if isinstance(content, str):
        return [content]
    return [
        text
        for block in _blocks(entry)
        if block.get("type") == "text" and (text := string(block.get("text")))
    ]


def tools_of(entry: Entry) -> list[str]:
    """Names of the tools that the message calls."""
    names = (string(block.get("name")) for block in _blocks(entry) if block.get("type") == "tool_use")
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


def _blocks(entry: Entry) -> list[Mapping[str, Any]]:
    content = _message(entry).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
