"""Which conversations there are for a call: those that the index has, and those that it hasn't read yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from recollect.engine.core import Engine
from recollect.engine.history.forgotten import forgotten_sessions
from recollect.engine.history.indexing import refresh
from recollect.engine.history.places import EVERYWHERE, Place, place_of
from recollect.ports.history import Conversation
from recollect.ports.transcripts import ConversationFile

NANOSECONDS = 1_000_000_000
WITHHELD_ALL = "Transcripts are the owner's and were not looked at: this caller sees memories only."
SWITCHED_OFF = (
    "Past conversations are switched off: `recollect config set history.enabled true` has them searched."
)


@dataclass(frozen=True, slots=True)
class Known:
    """`unread` are told by the disk alone: their row is 0, and their project what the others of that folder say."""

    conversations: tuple[Conversation, ...] = ()
    unread: tuple[Conversation, ...] = ()
    left: int = 0  # bytes that the index hasn't read

    @property
    def every(self) -> tuple[Conversation, ...]:
        return self.conversations + self.unread


async def known_conversations(engine: Engine, *, unread: bool) -> Known:
    """All that may be shown, after a look at what is new. Raises the store's errors."""
    if not engine.policy.history.enabled or engine.history.withheld:
        return Known()
    left = await refresh(engine)
    indexed = await asyncio.to_thread(engine.history.conversations)
    heard = tuple(one for one in indexed if not one.silent)
    if not unread:
        return Known(heard, (), left)
    files = await asyncio.to_thread(engine.transcripts.files)
    there = {one.file for one in indexed}
    forgotten = tuple(await forgotten_sessions(engine))
    new = [file for file in files if file.path not in there and not _is_forgotten(file, forgotten)]
    return Known(heard, _bare(new, heard), left)


async def chosen_place(engine: Engine, project: str | None, known: Sequence[Conversation]) -> Place | None:
    """What the name stands for; None when nothing is called so. Raises InvalidInput naming the candidates."""
    if project is None:
        return EVERYWHERE
    return place_of(project, known, await engine.store.scopes(), home=str(Path.home()))


def by_session(conversations: Iterable[Conversation]) -> dict[str, list[Conversation]]:
    """A session's own conversation first, then those of its sub-agents."""
    sessions: dict[str, list[Conversation]] = {}
    for one in conversations:
        sessions.setdefault(one.belongs_to, []).append(one)
    for held in sessions.values():
        held.sort(key=lambda one: bool(one.part_of))
    return sessions


def last_moment(conversation: Conversation) -> datetime:
    """When something was last said in it, as far as anybody knows."""
    return conversation.ended or datetime.fromtimestamp(conversation.modified / NANOSECONDS, UTC)


def unknown_project(project: str | None) -> str:
    """What to say when nothing is called so."""
    return f"No project is called {project!r}. Name one of the projects that there are, or leave it out."


def told(engine: Engine, suggestion: str | None) -> str | None:
    """With the truth for those who are not shown this machine's transcripts."""
    if engine.history.withheld:
        return " ".join(filter(None, [suggestion, WITHHELD_ALL]))
    if not engine.policy.history.enabled:
        return " ".join(filter(None, [suggestion, SWITCHED_OFF]))
    return suggestion


def _is_forgotten(file: ConversationFile, forgotten: tuple[str, ...]) -> bool:
    """Other programs' files have the session's id at the end of their name."""
    return bool(forgotten) and (file.part_of in forgotten or file.path.stem.endswith(forgotten))


def _bare(files: Iterable[ConversationFile], heard: Sequence[Conversation]) -> tuple[Conversation, ...]:
    projects = {(one.source, one.folder): one.project for one in reversed(heard) if one.project}
    return tuple(
        replace(
            Conversation(file.path.stem, file.source, file.path),
            size=file.size,
            modified=file.modified,
            folder=file.folder,
            project=projects.get((file.source, file.folder), ""),
            part_of=file.part_of,
        )
        for file in files
    )
