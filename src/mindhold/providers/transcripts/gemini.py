"""The conversations that Gemini CLI keeps: tmp/<project>/chats/session-<time>-<id>.jsonl in its own folder, and those of
sub-agents in chats/<session>/<id>.jsonl.

The first line says what the session is, the others are messages; one that grew is written again under the same id. Before
0.39 all of a session was one object, session-<time>-<id>.json, written anew each time. Both are read as a whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from mindhold.ports.transcripts import About, ConversationFile, Cursor, Followed, Step, beginning
from mindhold.providers.transcripts.about import LONGEST_TOLD
from mindhold.providers.transcripts.entries import Entry, entries_in, moment_of, string
from mindhold.providers.transcripts.gemini_messages import steps_of
from mindhold.providers.transcripts.lines import BadLines
from mindhold.providers.transcripts.steps import Place, is_ours
from mindhold.providers.transcripts.told import short
from mindhold.providers.transcripts.whole import (
    Members,
    conversation,
    entries_of,
    follow_whole,
    head_of,
    is_whole,
    lies_under,
    under,
)

SOURCE = "gemini"
CHATS, ROOT, REGISTRY = "chats", ".project_root", "projects.json"
ENDS = (".jsonl", ".json")
LONGEST_PATH = 4_096
MOST_REGISTRY = 8 << 20


class GeminiTranscripts:
    """What is there at the time of the call."""

    name = SOURCE

    def __init__(self, gemini_dir: Path) -> None:
        self._tmp = gemini_dir / "tmp"
        self._registry = gemini_dir / REGISTRY

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too; of one that was taken over into a newer form or folder only that."""
        folders = [entry for entry in entries_of(self._tmp) if _is_folder(entry)]
        named = {entry.name: _root_in(Path(entry.path)) for entry in folders}
        newer = {hashlib.sha256(root.encode()).hexdigest(): name for name, root in named.items() if root}
        found = {entry.name: list(_chats(entry)) for entry in folders}
        held: list[ConversationFile] = []
        for name, files in found.items():
            taken = {_stem(file) for file in found.get(newer.get(name, ""), ()) if newer.get(name) != name}
            whole = {_stem(file) for file in files if file.path.suffix == ".jsonl"}
            held += (
                file
                for file in files
                if _stem(file) not in taken and (file.path.suffix == ".jsonl" or _stem(file) not in whole)
            )
        return held

    def roots(self) -> list[Path]:
        """The folder of what Gemini CLI keeps of projects."""
        return [self._tmp] if self._tmp.is_dir() else []

    def owns(self, path: Path) -> bool:
        """Whether a file lies in it."""
        return lies_under(path, [self._tmp])

    def note(self, file: Path) -> str:
        """Gemini CLI writes none."""
        return ""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        """All of it if it changed since the cursor; None when there is no such file."""

        def read(raw: bytes) -> tuple[Sequence[Step], About]:
            session = _Session(file.stem)
            (session.take_object if is_whole(file, raw) else session.take_lines)(raw)
            return session.steps(), session.about(self._project(file))

        return follow_whole(file, cursor, read)

    def _project(self, file: Path) -> str:
        """The folder that was worked in. Where its hash is all there is, it is one of those known, or isn't told."""
        parts = file.relative_to(self._tmp).parts if file.is_relative_to(self._tmp) else ()
        if not parts:
            return ""
        if root := _root_in(self._tmp / parts[0]):
            return root
        for root, name in self._registered():
            if parts[0] == name or parts[0] == hashlib.sha256(root.encode()).hexdigest():
                return root
        return ""

    def _registered(self) -> Iterator[tuple[str, str]]:
        """The projects that Gemini CLI has given names to."""
        try:
            told = from_json(head_of(self._registry, MOST_REGISTRY))
        except ValueError:
            return
        projects = told.get("projects") if isinstance(told, dict) else None
        for root, name in projects.items() if isinstance(projects, dict) else ():
            yield root, string(name)


class _Session:
    """What a session's file says, as it stands at the end of it."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._about: dict[str, Any] = {}
        self._messages: dict[str, tuple[Entry, Place]] = {}
        self._bad = BadLines()

    def take_lines(self, raw: bytes) -> None:
        """A form that goes on: a last line that isn't whole yet is left."""
        end, lines = 0, raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            end += len(line) + (number < len(lines))
            entries, whole = entries_in(line) if line.strip() else ((), True)
            if not whole and number < len(lines):
                self._bad.note(number)
            for entry in entries if whole or number < len(lines) else ():
                self._record(entry, Place(number, end))

    def take_object(self, raw: bytes) -> None:
        """The form before that; of one that breaks off, what stands before."""
        members = Members(raw, ("messages",))
        for key, value, place in members:
            if key != "messages":
                self._about[key] = value
            elif isinstance(value, dict):
                self._message(value, place)
        if members.bad:
            self._bad.note(members.bad)

    def _record(self, entry: Entry, place: Place) -> None:
        update = entry.get("$set")
        if isinstance(back := entry.get("$rewindTo"), str):
            self._rewind(back)
        elif isinstance(entry.get("id"), str):
            self._message(entry, place)
        else:
            told = update if isinstance(update, dict) else entry
            messages = told.get("messages")
            # After the history was shortened this has what is left of it; what was said before stays.
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict) and string(message.get("id")) not in self._messages:
                    self._message(message, place)
            self._about |= {key: value for key, value in told.items() if key != "messages"}

    def _message(self, message: Entry, place: Place) -> None:
        name = string(message.get("id")) or f"#{len(self._messages)}"
        self._messages[name] = (message, place)

    def _rewind(self, name: str) -> None:
        """A person took back what was said from there on."""
        names = list(self._messages)
        for gone in names[names.index(name) if name in names else 0 :]:
            del self._messages[gone]

    def steps(self) -> list[Step]:
        """In order."""
        aside = self._about.get("kind") == "subagent"
        tools: dict[str, str] = {}
        answered: set[str] = set()
        made: list[Step] = []
        for message, (line, end, *_) in self._messages.values():
            place = Place(line, end, moment_of(message), aside)
            made += steps_of(message, place, tools, answered)
        return [step for step in made if not is_ours(step.tool)]

    def about(self, project: str) -> About:
        """What it says of itself. Its one-line summary is what Gemini CLI lists it by."""
        models = [short(message.get("model")) for message, _ in self._messages.values()]
        title = beginning(string(self._about.get("summary")).strip(), LONGEST_TOLD)
        shared = self._about.get("directories")
        within = next(filter(None, map(string, shared)), "") if isinstance(shared, list) else ""
        about = About(
            session_id=short(self._about.get("sessionId")) or self._stem,
            cwd=project or within,
            model=next(filter(None, reversed(models)), ""),
            title=title,
            title_by="ai" if title else "",
            ended=self._ended(),
        )
        return self._bad.told_in(about)

    def _ended(self) -> datetime | None:
        moments = [moment_of(message) for message, _ in self._messages.values()]
        told = moment_of({"timestamp": self._about.get("lastUpdated")})
        return max((moment for moment in (*moments, told) if moment), default=None)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _root_in(folder: Path) -> str:
    return head_of(folder / ROOT, LONGEST_PATH).decode("utf-8", "replace").strip()


def _stem(file: ConversationFile) -> tuple[str, str]:
    return file.part_of, file.path.stem


def _chats(folder: os.DirEntry[str]) -> Iterator[ConversationFile]:
    chats = Path(folder.path, CHATS)
    for entry in under(chats, 1):
        parent = Path(entry.path).parent
        part_of = parent.name if parent != chats else ""
        if entry.name.endswith(ENDS) and (part_of or entry.name.startswith("session-")):
            file = conversation(entry, SOURCE, folder=folder.name, part_of=part_of)
            if file:
                yield file
