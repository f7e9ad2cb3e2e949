"""Which conversations there are for a call: those that the index has, and those that it hasn't read yet."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mindhold.engine.core import Engine
from mindhold.engine.history.forgotten import forgotten_sessions
from mindhold.engine.history.indexing import refresh
from mindhold.engine.history.places import EVERYWHERE, Place, place_of
from mindhold.engine.history.preparing import Rules, is_left_out
from mindhold.ports.history import Conversation
from mindhold.ports.transcripts import ConversationFile

NANOSECONDS = 1_000_000_000
TIMELINE = "memory_timeline (`mindhold history timeline`)"  # as an agent and as a person calls it
PROJECTS = "memory_projects (`mindhold history projects`)"
_NO_NAME = re.compile(r"[^A-Za-z0-9*?]")  # as Claude Code makes a folder's name of a path
WITHHELD_ALL = "Transcripts are the owner's and were not looked at: this caller sees memories only."
SWITCHED_OFF = (
    "Past conversations are switched off: `mindhold config set history.enabled true` has them searched."
)


@dataclass(frozen=True, slots=True)
class Known:
    """`unread` are told by the disk alone: their row is 0, and their project what the others of that folder say."""

    conversations: tuple[Conversation, ...] = ()
    unread: tuple[Conversation, ...] = ()
    left: int = 0  # bytes that the index hasn't read
    left_out: frozenset[str] = frozenset()  # sessions that nobody is shown: excluded, or our own calls

    @property
    def every(self) -> tuple[Conversation, ...]:
        return self.conversations + self.unread


async def known_conversations(engine: Engine, *, unread: bool) -> Known:
    """All that may be shown, after a look at what is new. Raises the store's errors."""
    if not engine.policy.history.enabled or engine.history.withheld:
        return Known()
    left = await refresh(engine)
    indexed = await asyncio.to_thread(engine.history.conversations)
    # Rows of a forgotten one are there until whoever indexes lets others write.
    forgotten = await forgotten_sessions(engine)
    shown = [one for one in indexed if not one.silent and one.belongs_to not in forgotten]
    heard = tuple(one for one in shown if _says_something(one))
    left_out = frozenset(one.belongs_to for one in indexed if one.silent or one.belongs_to in forgotten)
    left_out -= {one.belongs_to for one in heard}
    bare = await _unread(engine, indexed, heard) if unread else ()
    return Known(heard, bare, left, left_out)


async def unread_count(engine: Engine) -> int:
    """How many sessions the index has nothing of yet."""
    indexed = await asyncio.to_thread(engine.history.conversations)
    unread = await _unread(engine, indexed, [one for one in indexed if not one.silent])
    return len({one.belongs_to for one in unread})


async def _unread(
    engine: Engine, indexed: Sequence[Conversation], heard: Sequence[Conversation]
) -> tuple[Conversation, ...]:
    """Those that the disk has and the index hasn't, as far as nobody wants them left out."""
    files = await asyncio.to_thread(engine.transcripts.files)
    there = {one.file for one in indexed}
    forgotten = tuple(await forgotten_sessions(engine))
    new = [file for file in files if file.path not in there and not _is_forgotten(file, forgotten)]
    silent = {(one.source, one.folder): one.project for one in indexed if one.silent and one.project}
    bare = _bare(new, heard, silent)
    return tuple(one for one in bare if not _is_unwanted(one, engine.policy.history.exclude))


def _says_something(one: Conversation) -> bool:
    return bool(one.ended or one.prompts or one.title.text or one.summary.text)


def _is_unwanted(one: Conversation, exclude: tuple[str, ...]) -> bool:
    """By what the program calls the folder too: it is all that is known of a project that nothing was read of."""
    called = tuple(
        _NO_NAME.sub("-", pattern.strip()) for pattern in exclude if "/" in pattern or "\\" in pattern
    )
    return is_left_out(one, Rules(exclude=(*exclude, *called, *(f"{name}-*" for name in called))))


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
    return f"No project is called {project!r}: {PROJECTS} lists those that there are. Or leave it out."


def told(engine: Engine, suggestion: str | None) -> str | None:
    """With the truth for those who are not shown this machine's transcripts."""
    if engine.history.withheld:
        return " ".join(filter(None, [suggestion, WITHHELD_ALL]))
    if not engine.policy.history.enabled:
        return SWITCHED_OFF
    return suggestion


def _is_forgotten(file: ConversationFile, forgotten: tuple[str, ...]) -> bool:
    """Other programs' files have the session's id at the end of their name."""
    return bool(forgotten) and (file.part_of in forgotten or file.path.stem.endswith(forgotten))


def _bare(
    files: Iterable[ConversationFile],
    heard: Sequence[Conversation],
    silent: Mapping[tuple[str, str], str],
) -> tuple[Conversation, ...]:
    """Their project is what others of that folder say, those first that are shown."""
    projects = {**silent, **{(one.source, one.folder): one.project for one in reversed(heard) if one.project}}
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
