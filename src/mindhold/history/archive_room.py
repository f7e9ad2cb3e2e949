"""The room that the archive may take, and how a conversation is named in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mindhold.access.secrets import fingerprint
from mindhold.ports.history import Archive, ArchivedTranscript, HistoryIndex, IndexedConversation

LONGEST = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def archive_name(conversation: IndexedConversation) -> str:
    """Of its source and session, so that a person finds it, and of where it lay: two files may be of one session."""
    part = f"{_safe(conversation.file.stem)}." if conversation.part_of else ""
    mark = fingerprint(str(conversation.file))[:8]
    return f"{archive_prefix(conversation.source, conversation.belongs_to)}{part}{mark}"


def archive_prefix(source: str, session_id: str) -> str:
    """How the names of all that belongs to a session begin, and no other's: an id that can't stand there as it is is told
    from those that look alike by a fingerprint."""
    told = _safe(session_id)
    mark = "" if told == session_id else f"_{fingerprint(session_id)[:16]}"
    return f"{_safe(source)}-{told}{mark}."


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:LONGEST]


EARLIER = "~"  # before the number of a copy whose file was replaced by another


class ArchiveRoom:
    """Needs the turn. Raises StoreError."""

    def __init__(
        self, archive: Archive, index: HistoryIndex, known: Sequence[IndexedConversation], *, most: int
    ) -> None:
        self.most = most
        self.copies = {copy.name: copy for copy in archive.all()}
        self._archive = archive
        self._index = index
        self._known = {archive_name(one): one for one in known if not one.silent}
        self._refused = {one.row: -one.archived for one in known if one.archived < 0}
        self._evicted: dict[str, IndexedConversation] = {}
        self.used = sum(archive.sizes().values())

    @property
    def evicted(self) -> tuple[IndexedConversation, ...]:
        """What has no copy any more, or got none."""
        return tuple(one for name, one in self._evicted.items() if name not in self.copies)

    def refused(self, one: IndexedConversation, size: int) -> bool:
        """Whether there was no room for the file as it is, and still is none."""
        return self._refused.get(one.row) == size and size > self.most - self.used

    def make(self, added: int, *, younger: IndexedConversation | None = None) -> bool:
        """Let the oldest go until so many bytes more fit: only older ones than `younger`. Whether they fit."""
        if self.used + added <= self.most:
            return True
        own = archive_name(younger) if younger else ""
        limit = self._age(own) if younger else None
        for name in sorted(self.copies, key=self._age):
            if self.used + added <= self.most or (limit is not None and self._age(name) >= limit):
                break
            if _base(name) != own:
                self.let_go(name)
        return self.used + added <= self.most

    def put(self, copy: ArchivedTranscript, *, grown: bool) -> None:
        """A copy as it is now; unless it has just grown the folder tells what is used."""
        before = self.copies.get(copy.name)
        if copy.size:
            self.copies[copy.name] = copy
        if grown:
            self.used += copy.on_disk - (before.on_disk if before else 0)
        else:
            self.used = sum(self._archive.sizes().values())

    def let_go(self, name: str) -> None:
        """A copy, with what was there before its file was replaced; of a file that is gone nothing is left then."""
        self._archive.remove(name)
        for each in [each for each in self.copies if each == name or each.startswith(name + EARLIER)]:
            self.used -= self.copies.pop(each).on_disk
        one = self._known.get(name)
        if one is None:
            return
        self._evicted[name] = one
        if one.gone:
            self._index.remove([one.row])
            return
        try:
            size = one.file.stat().st_size
        except OSError:
            size = one.size
        self._refused[one.row] = size
        self._index.put(replace(one, archived=-size), ())

    def _age(self, name: str) -> tuple[float, bool]:
        """When it ended; what was replaced before what took its place."""
        one, copy = self._known.get(_base(name)), self.copies.get(name)
        ended = one.ended.timestamp() if one and one.ended else (copy.modified if copy else 0) / 1e9
        return ended, EARLIER not in name


def _base(name: str) -> str:
    return name.partition(EARLIER)[0]
