"""The size limit of the archive and the names of its copies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mindhold.access.secrets import fingerprint
from mindhold.ports.history import Archive, ArchivedTranscript, HistoryIndex, IndexedConversation

LONGEST = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def archive_name(conversation: IndexedConversation) -> str:
    """The name of a conversation's copy.

    Source and session let a person find it; a hash of the path keeps two files of one session apart.
    """
    part = f"{_safe(conversation.file.stem)}." if conversation.part_of else ""
    mark = fingerprint(str(conversation.file))[:8]
    return f"{archive_prefix(conversation.source, conversation.belongs_to)}{part}{mark}"


def archive_prefix(source: str, session_id: str) -> str:
    """The prefix that the copies of a session share with no other session's.

    An id that isn't safe in a file name gets a fingerprint, so that similar ids stay distinct.
    """
    safe_id = _safe(session_id)
    mark = "" if safe_id == session_id else f"_{fingerprint(session_id)[:16]}"
    return f"{_safe(source)}-{safe_id}{mark}."


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:LONGEST]


EARLIER = "~"  # precedes the number of a copy whose file was replaced


class ArchiveRoom:
    """Keeps the archive below its size limit by evicting the oldest copies.

    The caller holds the index turn. Methods raise StoreError.
    """

    def __init__(
        self, archive: Archive, index: HistoryIndex, known: Sequence[IndexedConversation], *, most: int
    ) -> None:
        self.most = most
        self.copies = {copy.name: copy for copy in archive.all()}
        self._archive = archive
        self._index = index
        self._known = {
            archive_name(conversation): conversation for conversation in known if not conversation.silent
        }
        self._refused = {
            conversation.row: -conversation.archived for conversation in known if conversation.archived < 0
        }
        self._evicted: dict[str, IndexedConversation] = {}
        self.used = sum(archive.sizes().values())

    @property
    def evicted(self) -> tuple[IndexedConversation, ...]:
        """The conversations that lost their copy or got none."""
        return tuple(conversation for name, conversation in self._evicted.items() if name not in self.copies)

    def refused(self, one: IndexedConversation, size: int) -> bool:
        """Whether the file found no room at this size before, and still finds none."""
        return self._refused.get(one.row) == size and size > self.most - self.used

    def make(self, added: int, *, younger: IndexedConversation | None = None) -> bool:
        """Evict the oldest copies, all older than `younger`, until `added` bytes fit; return whether they do."""
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
        """Record the current state of a copy. Unless it has just grown, the used bytes are counted anew."""
        before = self.copies.get(copy.name)
        if copy.size:
            self.copies[copy.name] = copy
        if grown:
            self.used += copy.on_disk - (before.on_disk if before else 0)
        else:
            self.used = sum(self._archive.sizes().values())

    def let_go(self, name: str) -> None:
        """Remove a copy and its earlier versions; if the transcript is gone, the conversation leaves the index."""
        self._archive.remove(name)
        for copy_name in [
            copy_name
            for copy_name in self.copies
            if copy_name == name or copy_name.startswith(name + EARLIER)
        ]:
            self.used -= self.copies.pop(copy_name).on_disk
        conversation = self._known.get(name)
        if conversation is None:
            return
        self._evicted[name] = conversation
        if conversation.gone:
            self._index.remove([conversation.row])
            return
        try:
            size = conversation.file.stat().st_size
        except OSError:
            size = conversation.size
        self._refused[conversation.row] = size
        self._index.put(replace(conversation, archived=-size), ())

    def _age(self, name: str) -> tuple[float, bool]:
        """The sort key of eviction: when the conversation ended, replaced versions before the current one."""
        conversation, copy = self._known.get(_base(name)), self.copies.get(name)
        ended = (
            conversation.ended.timestamp()
            if conversation and conversation.ended
            else (copy.modified if copy else 0) / 1e9
        )
        return ended, EARLIER not in name


def _base(name: str) -> str:
    return name.partition(EARLIER)[0]
