"""The conversations that Codex CLI keeps: sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl in its own folder.

Each line is one item with its time, `{timestamp, type, payload}`: first what the session is, then what went to the model
and came from it, and events that mostly say the same again, which are passed over. Earlier versions wrote the items
themselves as lines; the first one wrote all of a session as one object (rollout-<date>-<id>.json).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from mindhold.ports.transcripts import About, ConversationFile, Cursor, Followed, Role, Step, beginning
from mindhold.providers.transcripts.about import LONGEST_TOLD
from mindhold.providers.transcripts.codex_items import cwd_in, steps_in
from mindhold.providers.transcripts.earlier import NEAR
from mindhold.providers.transcripts.entries import (
    LONGEST_NAME,
    Entry,
    entries_in,
    moment_of,
    string,
)
from mindhold.providers.transcripts.follow import follow_with, latest_of
from mindhold.providers.transcripts.lines import BadLines, Line, read_line
from mindhold.providers.transcripts.steps import Place, is_ours
from mindhold.providers.transcripts.whole import (
    Members,
    conversation,
    follow_whole,
    head_of,
    is_whole,
    lies_under,
    under,
)

SOURCE = "codex"
FOLDERS = ("sessions", "archived_sessions")
NAMES = "session_index.jsonl"  # what people called their sessions
DEEPEST = 4
HEAD = 4_096  # of a file: whose sub-agent's it is stands at its beginning
MOST_NAMES = 8 << 20
MOST_PARENTS = 10_000  # that are remembered
_PARENT = re.compile(rb'"parent_thread_id"\s*:\s*"([^"\\]{1,200})"')
_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CALL = re.compile(rb'"call_id"\s*:\s*"([^"\\]{1,200})"')


class CodexTranscripts:
    """What is there at the time of the call."""

    name = SOURCE

    def __init__(self, codex_dir: Path) -> None:
        self._folders = [codex_dir / name for name in FOLDERS]
        self._names = codex_dir / NAMES
        self._titles: dict[str, str] = {}
        self._titles_of = (0, 0)  # when the names were written, and their size
        self._parents: dict[str, str] = {}  # by files: how one begins never changes

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too."""
        found = (
            conversation(entry, SOURCE, part_of=self._parent(entry.path))
            for folder in self._folders
            for entry in under(folder, DEEPEST)
            if entry.name.startswith("rollout-") and entry.name.endswith((".jsonl", ".json"))
        )
        return [file for file in found if file]

    def roots(self) -> list[Path]:
        """The folders of sessions, of those that are there."""
        return [folder for folder in self._folders if folder.is_dir()]

    def owns(self, path: Path) -> bool:
        """Whether a file lies in one of them."""
        return lies_under(path, self._folders)

    def note(self, file: Path) -> str:
        """Codex writes none."""
        return ""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        """At most about so many bytes after the cursor, whole lines; None when there is no such file."""
        if is_whole(file, head_of(file, HEAD)):
            followed = follow_whole(file, cursor, _read)
        else:
            followed = follow_with(file, cursor, _Piece, most_bytes=most_bytes)
        if followed is None:
            return None
        found = _ID.search(file.stem)
        session = followed.about.session_id or (found[0] if found else file.stem)
        title = self._title(session)
        about = replace(followed.about, session_id=session, title=title, title_by="custom" if title else "")
        return replace(followed, about=about)

    def _parent(self, path: str) -> str:
        """The session whose sub-agent's it is; a session of a person's names none."""
        if path not in self._parents:
            head = head_of(path, HEAD) if path.endswith(".jsonl") else b""
            found = _PARENT.search(head.partition(b'"base_instructions"')[0])
            if len(head) < HEAD and b"\n" not in head:  # being written, or another form
                return ""
            if len(self._parents) >= MOST_PARENTS:
                self._parents.clear()
            self._parents[path] = found[1].decode("utf-8", "replace") if found else ""
        return self._parents[path]

    def _title(self, session: str) -> str:
        """What the session was called last."""
        with suppress(OSError):
            facts = self._names.stat()
            if (facts.st_mtime_ns, facts.st_size) != self._titles_of:
                self._titles = dict(_titles(head_of(self._names, MOST_NAMES)))
                self._titles_of = (facts.st_mtime_ns, facts.st_size)
            return self._titles.get(session, "")
        return ""


class _Piece:
    """What was taken of the lines after a cursor. What the session is, its first line says."""

    def __init__(self, stream: BinaryIO, cursor: Cursor) -> None:
        self.line = cursor.line
        self.latest = latest_of(cursor.mark)
        self._session = _Session(_first(stream))
        self._offset = cursor.offset
        self._steps: list[Step] = []
        self._tools: dict[str, str] = {}
        self._bad = BadLines()

    @property
    def cwd(self) -> str:
        return self._session.cwd

    def take(self, line: Line, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken."""
        entries, whole = entries_in(line.raw) if line.held else ((), False)
        if not whole and not line.ended:
            return False
        self.line += not within
        if not whole:
            self._bad.note(self.line, too_long=not line.held)
        for entry in entries:
            moment = moment_of(entry) or self._session.began
            place = Place(self.line, end, moment, self._session.aside)
            self._steps += self._session.take(entry, place, self._tools)
            if moment is not None:
                self.latest = max(self.latest or moment, moment)
        return True

    def steps(self, stream: BinaryIO) -> tuple[Step, ...]:
        """What happened, with the names of tools that were called before the piece."""
        asking = {
            step.call for step in self._steps if step.role is Role.RESULT and not step.tool and step.call
        }
        if asking and self._offset:
            self._tools |= _called(stream, asking, before=self._offset)
        named = (
            replace(step, tool=self._tools.get(step.call, "")) if step.role is Role.RESULT else step
            for step in self._steps
        )
        return tuple(step for step in named if not is_ours(step.tool))

    def about(self) -> About:
        """What was said about the conversation itself."""
        return self._bad.told_in(replace(self._session.about(), ended=self.latest))


class _Session:
    """What a session is, as its beginning says, and what of its lines counts."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self.id = string(meta.get("id"))[:LONGEST_NAME]
        self.cwd = string(meta.get("cwd"))
        self.began = moment_of(meta)
        self.aside = bool(meta.get("parent_thread_id"))
        self._model = ""
        source = meta.get("source")
        kind: Any = source if isinstance(source, dict) else {}
        # What Codex asks a model for its own ends is no conversation.
        self._silent = "internal" in kind or kind.get("subagent") in ("compact", "memory_consolidation")
        inherited = meta.get("subagent_history_start_ordinal")
        self._first = inherited if isinstance(inherited, int) else 0

    def take(self, entry: Entry, place: Place, tools: dict[str, str]) -> Iterator[Step]:
        """What happened, as one line says."""
        kind, payload = entry.get("type"), entry.get("payload")
        item: Entry = payload if isinstance(payload, dict) else entry
        ordinal = entry.get("ordinal")
        if self._silent or (isinstance(ordinal, int) and ordinal < self._first):
            return
        if kind == "turn_context":
            self._model = string(item.get("model"))[:LONGEST_NAME] or self._model
        elif kind == "response_item" or item is entry:  # earlier versions wrote the item itself
            self.cwd = self.cwd or cwd_in(item)
            yield from steps_in(item, place, tools)

    def about(self) -> About:
        return About(session_id=self.id, cwd=self.cwd, model=self._model)


def _first(stream: BinaryIO) -> Mapping[str, Any]:
    """What the first line says of the session; nothing where it says nothing."""
    stream.seek(0)
    line = read_line(stream, most=0)
    entry = next(iter(entries_in(line.raw)[0]), None) if line and line.held else None
    if entry is None or "type" not in entry:  # earlier versions wrote what it is as such
        return entry or {}
    payload = entry.get("payload")
    return payload if entry.get("type") == "session_meta" and isinstance(payload, dict) else {}


def _called(stream: BinaryIO, calls: set[str], *, before: int) -> dict[str, str]:
    """The names of tools by calls that stand before a piece; no further back than NEAR."""
    tools: dict[str, str] = {}
    sought = {call.encode("utf-8", "surrogatepass") for call in calls}
    place = max(0, before - NEAR)
    stream.seek(place)
    while place < before and (line := read_line(stream, most=sys.maxsize)):
        if sought.intersection(_CALL.findall(line.raw)):
            for entry in entries_in(line.raw)[0]:
                for _ in _Session({}).take(entry, Place(0, 0), tools):
                    pass
        place += line.size
    return {call: name for call, name in tools.items() if call in calls}


def _read(raw: bytes) -> tuple[Sequence[Step], About]:
    """A session that is one object: what it is, and its items."""
    members = Members(raw, ("items",))
    session, tools, steps = _Session({}), dict[str, str](), list[Step]()
    ended: datetime | None = None
    for key, value, place in members:
        if not isinstance(value, dict):
            continue
        if key == "session":
            session = _Session(value)
            ended = session.began
        elif key == "items":
            steps += session.take(value, Place(place.line, place.end, session.began), tools)
    about = replace(session.about(), bad_lines=(members.bad,) if members.bad else (), ended=ended)
    return [step for step in steps if not is_ours(step.tool)], about


def _titles(raw: bytes) -> Iterator[tuple[str, str]]:
    for line in raw.splitlines():
        for entry in entries_in(line)[0]:
            if session := string(entry.get("id")):
                yield session, beginning(string(entry.get("thread_name")).strip(), LONGEST_TOLD)
