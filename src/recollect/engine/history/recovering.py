"""Conversations whose only trace is their copy: an index that was made anew learns of them from the archive.

Where each copy came from is noted in the store when it is begun.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from recollect.engine.core import Engine
from recollect.engine.history.apart import apart
from recollect.engine.history.archive_names import archive_name
from recollect.engine.history.indexing import rules_of
from recollect.engine.history.preparing import Preparer, Task, begun, is_left_out
from recollect.model.entry import Entry
from recollect.model.errors import NotFound, StoreError
from recollect.ports.history import Conversation
from recollect.ports.transcripts import Check, ConversationFile, Cursor, Followed, Transcripts

DRAWER = "history:archived"  # by the name of the copy
MOST = 1_000_000
log = logging.getLogger(__name__)


async def note_copy(engine: Engine, conversation: Conversation) -> None:
    """Where the file lay that the copy is of. Raises the store's errors."""
    value = {
        "file": str(conversation.file),
        "source": conversation.source,
        "folder": conversation.folder,
        "part_of": conversation.part_of,
    }
    await engine.store.put_entry(Entry(DRAWER, archive_name(conversation), value, engine.clock()))


async def drop_note(engine: Engine, name: str) -> None:
    """There is no such copy any more."""
    await engine.store.drop_entry(DRAWER, name)


async def recover(engine: Engine, known: Sequence[Conversation], *, forgotten: Collection[str]) -> int:
    """Index the copies of files that are gone and unknown to the index; how many. Needs the turn."""
    copies = {copy.name: copy.size for copy in await asyncio.to_thread(engine.archive.all)}
    names = {archive_name(one) for one in known}
    if not copies.keys() - names:
        return 0
    found = 0
    for note in await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST):
        place = {name: str(note.value.get(name) or "") for name in ("file", "source", "folder", "part_of")}
        file = Path(place["file"])
        lost = note.key in copies and note.key not in names and not file.exists()
        if not lost or not place["file"] or {file.stem, place["part_of"]} & set(forgotten):
            continue
        lies = ConversationFile(file, copies[note.key], 0, place["source"], place["folder"], place["part_of"])

        def read(check: Check, lies: ConversationFile = lies, name: str = note.key) -> int:
            return _indexed(engine, lies, name, check)

        try:
            found += await apart(read)
        except (StoreError, NotFound, OSError) as error:
            log.warning("the copy %s can't be indexed: %s", note.key, error)
    return found


def _indexed(engine: Engine, lies: ConversationFile, name: str, check: Check) -> int:
    """As if the file were still there, but for its saying that it is gone."""
    rules = rules_of(engine)
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=engine.policy.home) as folder:
        copy = Path(folder) / lies.path.name
        engine.archive.unpack(name, copy)
        task = Task(replace(lies, path=copy), begun(lies))
        for piece in Preparer(_Copies(engine.transcripts, lies.source), rules).pieces(
            task, most=lies.size + 1
        ):
            check()
            if (
                piece.conversation is None
                or piece.conversation.silent
                or is_left_out(piece.conversation, rules)
            ):
                return 0
            one = replace(piece.conversation, file=lies.path, size=lies.size, gone=True, archived=lies.size)
            engine.history.put(one, piece.passages, uuids=piece.uuids, leaves=piece.leaves)
    return 1


class _Copies:
    """Transcripts that lie elsewhere than their program put them."""

    withheld = False

    def __init__(self, transcripts: Transcripts, source: str) -> None:
        self._transcripts = transcripts
        self._source = source

    def files(self) -> list[ConversationFile]:
        return []

    def roots(self) -> list[Path]:
        return []

    def note(self, file: Path) -> str:
        return ""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int, source: str = "") -> Followed | None:
        """By whose they are."""
        return self._transcripts.follow(file, cursor, most_bytes=most_bytes, source=source or self._source)
