"""Chats that the user exported from Cursor into a folder, as Markdown or JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mindhold.ports.transcripts import (
    ConversationFile,
    Role,
    TranscriptCursor,
    TranscriptInfo,
    TranscriptRead,
    TranscriptStep,
    beginning,
)
from mindhold.providers.transcripts.entries import (
    EntryPosition,
    as_dict,
    as_name,
    as_text,
    first_text,
    message_step,
    result_step,
    timestamp_of,
    without_inserted,
)
from mindhold.providers.transcripts.reader import (
    LONGEST_TITLE,
    JsonMembers,
    TranscriptSource,
    describe_file,
    files_under,
    follow_whole,
    read_head,
)

SOURCE = "cursor"
MAX_DEPTH = 6  # depth of nested folders
HEAD_BYTES = 16 << 10  # bytes of a file that show whether it is a chat
LIST_KEYS = ("messages", "conversation", "chat")
_SPEAKERS = {
    "user": Role.USER,
    "human": Role.USER,
    "cursor": Role.CLAUDE,
    "assistant": Role.CLAUDE,
    "ai": Role.CLAUDE,
    "tool": Role.RESULT,
}
_EXPORTED = re.compile(r"^_Exported on (.+?) from Cursor(?: \([^)]*\))?_\s*$")
# Other exporters write it in italics, with the time or the model.
_SECTION = re.compile(r"^_?\*\*(User|Cursor|Assistant)(?: \([^)]*\))?:?\*\*_?\s*$")
_CHAT_MD = re.compile(rb"^_Exported on |^_?\*\*(?:User|Cursor|Assistant)\b[^*\n]*\*\*", re.MULTILINE)
_CHAT_JSON = re.compile(rb'"(?:role|type|sender)"\s*:\s*"(?:user|human)"', re.IGNORECASE)
_DAY = re.compile(r"\b(\d{1,4})[/.-](\d{1,2})[/.-](\d{1,4})\b")
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([AaPp])\.?[Mm])?")


class CursorTranscripts(TranscriptSource):
    """The chats in the folder, as they are on disk at each call; other files are ignored."""

    name = SOURCE

    def __init__(self, folder: Path) -> None:
        super().__init__([folder])
        self._folder = folder

    def files(self) -> list[ConversationFile]:
        """List all chats in the folder and its subfolders."""
        return [
            file
            for entry in files_under(self._folder, MAX_DEPTH)
            if _is_chat(entry.path)
            for file in describe_file(entry, SOURCE, folder=Path(entry.path).parent.name)
        ]

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """Read the whole file if it changed since the cursor; None when there is no such file."""

        def read(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
            is_json = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")
            steps, about = (_read_json if is_json else _read_markdown)(raw, _modified_at(file))
            title_by = "custom" if about.title else ""
            return steps, replace(about, session_id=self._session(file), title_by=title_by)

        return follow_whole(file, cursor, read)

    def _session(self, file: Path) -> str:
        """Return an id for a chat, which has none: a hash of its path, and its name."""
        relative = file.relative_to(self._folder) if file.is_relative_to(self._folder) else Path(file.name)
        path_hash = hashlib.blake2b(relative.as_posix().encode("utf-8", "surrogatepass"), digest_size=4)
        return f"{path_hash.hexdigest()}-{as_name(file.stem)}"


def _read_markdown(raw: bytes, modified: datetime | None) -> tuple[list[TranscriptStep], TranscriptInfo]:
    chat = _MarkdownChat(raw, modified)
    return chat.steps, TranscriptInfo(title=chat.title, ended=chat.exported)


class _MarkdownChat:
    """A Markdown export."""

    def __init__(self, raw: bytes, modified: datetime | None) -> None:
        self.steps: list[TranscriptStep] = []
        self._modified_at = self.exported = modified
        self.title = ""
        self._lines: list[str] = []
        self._speaker, self._line, self._end = "", 1, 0
        behind_rule = True
        for number, line in enumerate(raw.decode("utf-8", "replace").lstrip("\ufeff").split("\n"), 1):
            text = line.rstrip("\r")
            section = _SECTION.match(text) if behind_rule else None
            if section:
                self._close_section()
                self._speaker, self._line = section[1].lower(), number
            elif self._speaker:
                self._lines.append(text)
            else:
                self._read_header(text)
            self._end += len(line.encode("utf-8", "surrogatepass")) + 1
            behind_rule = text.strip() == "---" or (behind_rule and not text.strip())
        self._close_section()

    def _read_header(self, line: str) -> None:
        """Read a line before the first section: the title, or the time of the export."""
        if line.startswith("# ") and not self.title:
            self.title = beginning(line[2:].strip(), LONGEST_TITLE)
        elif match := _EXPORTED.match(line):
            self.exported = parse_export_time(match[1], self._modified_at) or self._modified_at

    def _close_section(self) -> None:
        """Add the open section as a step, without the rule behind it."""
        text = "\n".join(self._lines).strip()
        text = text.removesuffix("---").rstrip() if text.endswith("\n---") or text == "---" else text
        role, self._lines = _SPEAKERS.get(self._speaker), []
        if role is Role.USER:
            text = without_inserted(text)
        if role and text:
            self.steps.append(message_step(role, text, EntryPosition(self._line, self._end)))


def _read_json(raw: bytes, modified: datetime | None) -> tuple[list[TranscriptStep], TranscriptInfo]:
    """Read a JSON export: a list of messages, by itself or in an object."""
    steps: list[TranscriptStep] = []
    title = ""
    members = JsonMembers(raw, LIST_KEYS)
    for key, value, position in members:
        if isinstance(value, dict) and key in ("", *LIST_KEYS):
            steps += _message_steps(value, position)
        elif key in ("title", "name"):
            title = beginning(as_text(value).strip(), LONGEST_TITLE)
    ended = max((step.timestamp for step in steps if step.timestamp), default=modified)
    bad_lines = (members.bad,) if members.bad else ()
    return steps, TranscriptInfo(title=title, bad_lines=bad_lines, ended=ended)


def _message_steps(message: dict[str, Any], position: EntryPosition) -> Iterator[TranscriptStep]:
    role = _SPEAKERS.get(first_text(message, ("role", "sender", "type")).lower())
    moment = _parse_time(message.get("timestamp", message.get("createdAt")))
    position = EntryPosition(position.line, position.end, moment)
    text = next(filter(None, (_text(message.get(name)) for name in ("content", "text", "message"))), "")
    if role is Role.RESULT and text:
        tool = as_name(message.get("name"))
        call = as_name(message.get("tool_call_id"))
        failed = message.get("is_error") is True
        yield result_step(text, failed=failed, tool=tool, call=call, position=position)
    elif role and (text := without_inserted(text) if role is Role.USER else text):
        yield message_step(role, text, position)


def parse_export_time(text: str, written: datetime | None) -> datetime | None:
    """Parse the time of an export. Neither the order of day and month nor the zone is given, so of the possible
    readings the one closest to the file's modification time is taken.
    """
    day, time = _DAY.search(text), _TIME.search(text)
    if day is None:
        return None
    first, second, third = (int(number) for number in day.groups())
    orders = [(first, second, third)] if first > 31 else [(third, first, second), (third, second, first)]
    hour, minute, meridiem = (int(time[1]), int(time[2]), time[4] or "") if time else (0, 0, "")
    hour = hour % 12 + (12 if meridiem.lower() == "p" else 0) if meridiem else hour
    readings: list[datetime] = []
    for year, month, number in orders:
        try:
            readings.append(datetime(year, month, number, hour, minute, tzinfo=UTC))
        except ValueError:
            continue
    reference = written or next(iter(readings), datetime.min.replace(tzinfo=UTC))
    return min(readings, key=lambda moment: abs(moment - reference), default=None)


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = (part if isinstance(part, str) else as_text(as_dict(part).get("text")) for part in content)
        return "\n\n".join(filter(None, (part.strip() for part in parts)))
    return as_text(content).strip()


def _parse_time(value: Any) -> datetime | None:
    if isinstance(value, int | float) and not isinstance(value, bool):  # milliseconds since 1970
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            return None
    return timestamp_of({"timestamp": value})


def _modified_at(file: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None


def _is_chat(path: str) -> bool:
    kind = Path(path).suffix.lower()
    pattern = {".md": _CHAT_MD, ".json": _CHAT_JSON}.get(kind)
    return pattern is not None and pattern.search(read_head(path, HEAD_BYTES)) is not None
