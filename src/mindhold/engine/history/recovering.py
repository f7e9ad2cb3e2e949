"""Conversations whose only trace is their copy: an index that was made anew learns of them from the archive, which says
itself what it has."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from time import monotonic

from mindhold.engine.core import Engine
from mindhold.engine.history.apart import apart
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.archive_room import EARLIER
from mindhold.engine.history.indexing import rules_of
from mindhold.engine.history.preparing import Preparer, Rules, Task, asked_for, begun, is_left_out
from mindhold.model.errors import NotFound, StoreError
from mindhold.ports.history import Archived, Conversation, CopyOf, Passage
from mindhold.ports.transcripts import Check, ConversationFile, Cursor, Followed, Transcripts

log = logging.getLogger(__name__)


async def reconcile(engine: Engine, *, forgotten: Collection[str], deadline: float | None = None) -> int:
    """Index and archive say the same of files that are gone: copies that the index doesn't know, or by other rules, are
    indexed, and what has no copy any more goes; copies that are left to index when the time (by monotonic()) is up. Needs the turn."""
    known = await asyncio.to_thread(engine.history.conversations)
    names = {archive_name(one): one for one in known}
    try:
        there = await asyncio.to_thread(engine.archive.sizes)
    except StoreError as error:
        log.warning("history: %s", error)
        return 0
    lost = [one.row for name, one in names.items() if one.gone and not one.silent and name not in there]
    if lost:
        await asyncio.to_thread(engine.history.remove, lost)
    rules = rules_of(engine)
    stale = {name: one for name, one in names.items() if is_stale(one, rules) and name in there}
    if not stale and not any(EARLIER not in name for name in there.keys() - names.keys()):
        return 0
    files = {one.file for one in known}
    elsewhere = {(one.session_id, one.file.name) for one in known if not one.gone}  # their files were moved
    copies = [
        copy
        for copy in await asyncio.to_thread(engine.archive.all)
        if copy.name in stale
        or (copy.name not in names and EARLIER not in copy.name and _is_wanted(copy, files, forgotten, rules))
        if not (copy.about and (copy.about.session_id, copy.about.file.name) in elsewhere)
    ]
    for done, copy in enumerate(copies):
        if deadline is not None and monotonic() > deadline:
            return len(copies) - done

        def read(check: Check, copy: Archived = copy) -> None:
            _index(engine, copy, rules, check, known=stale.get(copy.name))

        try:
            await apart(read)
        except (StoreError, NotFound, OSError) as error:
            log.warning("the copy %s can't be indexed: %s", copy.name, error)
    return 0


def is_stale(one: Conversation, rules: Rules) -> bool:
    """Whether only a copy tells how it is by these rules."""
    return one.gone and not one.silent and one.rules != rules.mark


def is_excluded(copy: Archived, rules: Rules) -> bool:
    """Whether it is of a project that is left out by now; the copy stays until somebody forgets the conversation."""
    return copy.about is not None and is_left_out(_conversation(copy.about), rules)


def _conversation(about: CopyOf) -> Conversation:
    return Conversation(
        about.session_id,
        about.source,
        about.file,
        folder=about.folder,
        project=about.project,
        part_of=about.part_of,
    )


def _is_wanted(copy: Archived, files: Collection[Path], forgotten: Collection[str], rules: Rules) -> bool:
    about = copy.about
    if about is None or about.file in files or about.file.exists():
        return False
    if {about.session_id, about.part_of, about.file.stem} & set(forgotten) or not rules.want(about.source):
        return False
    return not (is_excluded(copy, rules) or (about.part_of and not rules.subagents))


def _index(
    engine: Engine, copy: Archived, rules: Rules, check: Check, *, known: Conversation | None = None
) -> None:
    """As if the file were still there, but for its saying that it is gone. All at once: it is known whole, or not. What was
    `known` of it by other rules goes first, lest it stay where the copy can't be read."""
    if known is not None:
        engine.history.remove([known.row])
    about = copy.about
    if about is None:
        return
    found: Conversation | None = None
    passages: list[Passage] = []
    leaves: list[tuple[str, str]] = []
    uuids = b""
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=engine.policy.home) as folder:
        file = Path(folder) / about.file.name
        engine.archive.unpack(copy.name, file)
        lies = ConversationFile(file, copy.size, copy.modified, about.source, about.folder, about.part_of)
        preparer = Preparer(_Copies(engine.transcripts, about.source), rules)
        for piece in preparer.pieces(Task(lies, begun(lies)), most=copy.size + 1):
            check()
            if piece.conversation is None or piece.conversation.silent:
                return
            found = piece.conversation
            passages += piece.passages
            uuids += piece.uuids
            leaves += piece.leaves
    if found is not None:
        # By the same name as before: it is the copy of this row.
        one = replace(found, session_id=about.session_id, file=about.file, size=copy.size, gone=True)
        if known is not None:
            one = replace(one, summary=asked_for(known, rules))
        engine.history.put(replace(one, archived=copy.size), passages, uuids=uuids, leaves=leaves)


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
