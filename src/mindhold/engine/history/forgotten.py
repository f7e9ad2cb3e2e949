"""Conversations that somebody had forgotten: they are in no index, no archive and no capture again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from mindhold.engine.core import Engine
from mindhold.model.entry import Entry
from mindhold.ports.history import Conversation

DRAWER = "history:forgotten"  # by the session's id
PART_OF = "part_of"  # in a note: the session that the sub-agent worked for
FILES = "files"  # in a note: names of files that captures may have read
MOST = 1_000_000
SUFFIXES = (".jsonl", ".json")  # of transcripts


async def forgotten_sessions(engine: Engine) -> set[str]:
    """Their ids. Raises the store's errors."""
    return {entry.key for entry in await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST)}


async def note_forgotten(engine: Engine, session_id: str, *, files: Iterable[str] = ()) -> None:
    """For good; since when stays as it was first noted. Raises the store's errors."""
    known = await engine.store.entry(DRAWER, session_id, now=engine.clock())
    before = known.value.get(FILES, ()) if known else ()
    names = list(dict.fromkeys([*before, *files]))
    value = {FILES: names} if names else {}
    since = known.created if known else engine.clock()
    await engine.store.put_entry(Entry(DRAWER, session_id, value, since))


async def is_forgotten(engine: Engine, session_id: str) -> bool:
    """Whether this one is among them."""
    return await engine.store.entry(DRAWER, session_id, now=engine.clock()) is not None


def meant(given: str, names: Collection[str]) -> list[str]:
    """Which of them somebody means: by the id, or the file; else those that it is a part of."""
    wanted = given.strip().casefold()
    stem = Path(wanted).stem if wanted.endswith(SUFFIXES) else wanted
    exactly = [
        one
        for one in names
        if one.casefold() in (wanted, stem) or (stem != wanted and stem.endswith(f"-{one.casefold()}"))
    ]
    return exactly or [one for one in names if wanted and wanted in one.casefold()]


def is_known_by_name(conversation: Conversation, forgotten: Collection[str]) -> bool:
    """Whether it is told to be among them without its file being read: other programs' files have names of their own."""
    return conversation.file.stem in forgotten or conversation.part_of in forgotten
