"""Chats exported from Cursor into a folder that the user named, as Markdown or JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
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
from mindhold.providers.transcripts.entries import moment_of, string, without_inserted
from mindhold.providers.transcripts.reader import LONGEST_TOLD
from mindhold.providers.transcripts.steps import EntryPosition, first_of, result_step, said_step, short
from mindhold.providers.transcripts.whole_files import (
    Members,
    conversation,
    follow_whole,
    head_of,
    lies_under,
    under,
)

SOURCE = "cursor"
DEEPEST = 6  # folders within one another
HEAD = 16 << 10  # of a file, to see whether it is a chat at all
LISTS = ("messages", "conversation", "chat")
_SPEAKERS = {
    "user": Role.USER,
    "human": Role.USER,
    "cursor": Role.CLAUDE,
    "assistant": Role.CLAUDE,
    "ai": Role.CLAUDE,
    "tool": Role.RESULT,
}
_EXPORTED = re.compile(r"^_Exported on (.+?) from Cursor(?: \([^)]*\))?_\s*$")
# Other exporters write it slanted, with the time or the model.
_SECTION = re.compile(r"^_?\*\*(User|Cursor|Assistant)(?: \([^)]*\))?:?\*\*_?\s*$")
_CHAT_MD = re.compile(rb"^_Exported on |^_?\*\*(?:User|Cursor|Assistant)\b[^*\n]*\*\*", re.MULTILINE)
_CHAT_JSON = re.compile(rb'"(?:role|type|sender)"\s*:\s*"(?:user|human)"', re.IGNORECASE)
_DAY = re.compile(r"\b(\d{1,4})[/.-](\d{1,2})[/.-](\d{1,4})\b")
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([AaPp])\.?[Mm])?")


class CursorTranscripts:
    """What is in the folder at the time of the call; other files in it are passed over."""

    name = SOURCE

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[ConversationFile]:
        """All chats in it and in the folders within it."""
        found = (
            conversation(entry, SOURCE, folder=Path(entry.path).parent.name)
            for entry in under(self._folder, DEEPEST)
            if _is_chat(entry.path)
        )
        return [file for file in found if file]

    def roots(self) -> list[Path]:
        """The folder."""
        return [self._folder] if self._folder.is_dir() else []

    def owns(self, path: Path) -> bool:
        """Whether a file lies in it."""
        return lies_under(path, [self._folder])

    def note(self, file: Path) -> str:
        """There are none."""
        return ""

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """All of it if it changed since the cursor; None when there is no such file."""

        def read(raw: bytes) -> tuple[Sequence[TranscriptStep], TranscriptInfo]:
            written = _written(file)
            is_list = raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{")
            told = _Listed(raw, written) if is_list else _Chat(raw, written)
            return told.steps, told.about(self._session(file))

        return follow_whole(file, cursor, read)

    def _session(self, file: Path) -> str:
        """A chat has no id of its own: eight letters for where it lies, and its name."""
        place = file.relative_to(self._folder) if file.is_relative_to(self._folder) else Path(file.name)
        mark = hashlib.blake2b(place.as_posix().encode("utf-8", "surrogatepass"), digest_size=4)
        return f"{mark.hexdigest()}-{short(file.stem)}"


class _Chat:
    """What an export in Markdown says."""

    def __init__(self, raw: bytes, written: datetime | None) -> None:
        self.steps: list[TranscriptStep] = []
        self._written = self._exported = written
        self._title = ""
        self._said: list[str] = []
        self._speaker, self._line, self._end = "", 1, 0
        behind_rule = True
        for number, line in enumerate(raw.decode("utf-8", "replace").lstrip("\ufeff").split("\n"), 1):
            text = line.rstrip("\r")
            section = _SECTION.match(text) if behind_rule else None
            if section:
                self._close()
                self._speaker, self._line = section[1].lower(), number
            elif self._speaker:
                self._said.append(text)
            else:
                self._head(text)
            self._end += len(line.encode("utf-8", "surrogatepass")) + 1
            behind_rule = text.strip() == "---" or (behind_rule and not text.strip())
        self._close()

    def about(self, session: str) -> TranscriptInfo:
        by = "custom" if self._title else ""
        return TranscriptInfo(session_id=session, title=self._title, title_by=by, ended=self._exported)

    def _head(self, line: str) -> None:
        """What stands before the first section."""
        if line.startswith("# ") and not self._title:
            self._title = beginning(line[2:].strip(), LONGEST_TOLD)
        elif found := _EXPORTED.match(line):
            self._exported = exported_at(found[1], self._written) or self._written

    def _close(self) -> None:
        """The section that was open, without the rule behind it."""
        text = "\n".join(self._said).strip()
        text = text.removesuffix("---").rstrip() if text.endswith("\n---") or text == "---" else text
        role, self._said = _SPEAKERS.get(self._speaker), []
        if role is Role.USER:
            text = without_inserted(text)
        if role and text:
            self.steps.append(said_step(role, text, EntryPosition(self._line, self._end)))


class _Listed:
    """What an export in JSON says: a list of messages, by itself or in an object."""

    def __init__(self, raw: bytes, written: datetime | None) -> None:
        self.steps: list[TranscriptStep] = []
        self._written, self._title = written, ""
        members = Members(raw, LISTS)
        for key, value, place in members:
            if isinstance(value, dict) and key in ("", *LISTS):
                self._message(value, place)
            elif key in ("title", "name"):
                self._title = beginning(string(value).strip(), LONGEST_TOLD)
        self._bad = (members.bad,) if members.bad else ()

    def about(self, session: str) -> TranscriptInfo:
        moments = [step.timestamp for step in self.steps if step.timestamp]
        return TranscriptInfo(
            session_id=session,
            title=self._title,
            title_by="custom" if self._title else "",
            bad_lines=self._bad,
            ended=max(moments, default=self._written),
        )

    def _message(self, message: dict[str, Any], place: EntryPosition) -> None:
        role = _SPEAKERS.get(first_of(message, ("role", "sender", "type")).lower())
        moment = _moment(message.get("timestamp", message.get("createdAt")))
        place = EntryPosition(place.line, place.end, moment)
        text = next(filter(None, (_text(message.get(name)) for name in ("content", "text", "message"))), "")
        if role is Role.RESULT and text:
            tool = short(message.get("name"))
            call = short(message.get("tool_call_id"))
            failed = message.get("is_error") is True
            self.steps.append(result_step(text, failed=failed, tool=tool, call=call, place=place))
        elif role and (text := without_inserted(text) if role is Role.USER else text):
            self.steps.append(said_step(role, text, place))


def exported_at(told: str, written: datetime | None) -> datetime | None:
    """The moment in the words of whoever exported it. Which number is the month, and which zone is meant, isn't said: it
    is the reading that is next to when the file was written."""
    day, time = _DAY.search(told), _TIME.search(told)
    if day is None:
        return None
    first, second, third = (int(number) for number in day.groups())
    orders = [(first, second, third)] if first > 31 else [(third, first, second), (third, second, first)]
    hour, minute, after = (int(time[1]), int(time[2]), time[4] or "") if time else (0, 0, "")
    hour = hour % 12 + (12 if after.lower() == "p" else 0) if after else hour
    readings: list[datetime] = []
    for year, month, number in orders:
        try:
            readings.append(datetime(year, month, number, hour, minute, tzinfo=UTC))
        except ValueError:
            continue
    near = written or next(iter(readings), datetime.min.replace(tzinfo=UTC))
    return min(readings, key=lambda moment: abs(moment - near), default=None)


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = (part if isinstance(part, str) else _field(part) for part in content)
        return "\n\n".join(filter(None, (part.strip() for part in parts)))
    return string(content).strip()


def _field(part: Any) -> str:
    return string(part.get("text")) if isinstance(part, dict) else ""


def _moment(told: Any) -> datetime | None:
    if isinstance(told, int | float) and not isinstance(told, bool):  # milliseconds since 1970
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=told)
        except (OverflowError, ValueError):
            return None
    return moment_of({"timestamp": told})


def _written(file: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None


def _is_chat(path: str) -> bool:
    kind = Path(path).suffix.lower()
    sought = {".md": _CHAT_MD, ".json": _CHAT_JSON}.get(kind)
    return sought is not None and sought.search(head_of(path, HEAD)) is not None
