"""The projects that conversations were held in, and the conversations that are known of each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from pydantic import Field

from mindhold.engine import Engine
from mindhold.history.index import refresh
from mindhold.history.index_guard import forgotten_sessions
from mindhold.history.preparation import IndexRules, is_left_out
from mindhold.model.errors import InvalidInput
from mindhold.model.scope import Scope
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import IndexedConversation
from mindhold.ports.transcripts import ConversationFile

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class ProjectSelection:
    """What a name stands for: folders that were worked in, a scope's memories, or both. None: everything."""

    folders: frozenset[str] | None = None
    scope: str | None = None

    @property
    def remembers(self) -> bool:
        """Whether there may be memories of it."""
        return self.folders is None or self.scope is not None

    def has(self, conversation: IndexedConversation) -> bool:
        """Whether it was held there."""
        return self.folders is None or worked_in(conversation) in self.folders


EVERYWHERE = ProjectSelection()


def worked_in(conversation: IndexedConversation) -> str:
    """The folder, or what its program calls it where nobody read yet which it is."""
    return conversation.project or conversation.folder


def select_project(
    given: str, conversations: Sequence[IndexedConversation], scopes: Sequence[Scope], *, home: str
) -> ProjectSelection | None:
    """None when nothing is called so. Raises InvalidInput, with the candidates, when several are.

    A folder inside of one that was worked in stands for that; the nearest one, where there are several.
    """
    wanted = _folded(given.strip(), home=home)
    if not wanted:
        raise InvalidInput("The project is an empty name.", advice="Leave it out to look everywhere.")
    known = _named(conversations)
    scope = [one.name for one in scopes if one.name.casefold() == given.strip().casefold()]
    folders = _exactly(wanted, known)
    if not folders and not scope:
        folders = _above(wanted, known) or _unlike(path for path in known if wanted in _folded(path))
        scope = [one.name for one in scopes if wanted in one.name.casefold()]
    candidates = folders if len(folders) > 1 else scope if not folders else []
    if len(candidates) > 1:
        named = sorted(candidates)[:MOST_NAMED]
        more = len(candidates) - len(named)
        told = "".join(f"\n  {one}" for one in [*named, *([f"and {more} more"] if more else [])])
        raise InvalidInput(f"{given!r} may be any of:{told}", advice="Give more of its path.")
    if not folders and not scope:
        return None
    spellings = {path for path in known if folders and _folded(path) == _folded(folders[0])}
    return ProjectSelection(frozenset(spellings), scope[0] if len(scope) == 1 else None)


def _named(conversations: Iterable[IndexedConversation]) -> Mapping[str, set[str]]:
    """The folders that were worked in, each with what programs call it."""
    known: dict[str, set[str]] = {}
    for one in conversations:
        known.setdefault(worked_in(one), set()).add(one.folder.casefold())
    known.pop("", None)
    return known


def _exactly(wanted: str, known: Mapping[str, set[str]]) -> list[str]:
    """Its path before its name: each path is of one folder only, whatever the case of its letters."""
    by_path = _unlike(path for path in known if _folded(path) == wanted)
    return by_path or _unlike(
        path for path, called in known.items() if wanted in called or _pure(path).name.casefold() == wanted
    )


def _unlike(paths: Iterable[str]) -> list[str]:
    """One spelling of each."""
    return list({_folded(path): path for path in paths}.values())


def _above(wanted: str, known: Mapping[str, set[str]]) -> list[str]:
    paths = {_folded(path): path for path in known}
    for above in _pure(wanted).parents if _pure(wanted).is_absolute() else ():
        if above != above.parent and (found := paths.get(str(above))):
            return [found]
    return []


def _pure(path: str) -> PurePath:
    return PureWindowsPath(path) if "\\" in path or path[1:2] == ":" else PurePosixPath(path)


def _folded(path: str, *, home: str = "") -> str:
    if home and (path == "~" or path.startswith(("~/", "~\\"))):
        path = home + path[1:]
    return path.rstrip("/\\").casefold() if len(path) > 1 else path


NANOSECONDS = 1_000_000_000
TIMELINE = "memory_timeline (`mindhold history timeline`)"  # as an agent and as a person calls it
PROJECTS = "memory_projects (`mindhold history projects`)"
_NO_NAME = re.compile(r"[^A-Za-z0-9*?]")  # as Claude Code makes a folder's name of a path
WITHHELD_ALL = "Transcripts are the owner's and were not looked at: this caller sees memories only."
SWITCHED_OFF = (
    "Past conversations are switched off: `mindhold config set history.enabled true` has them searched."
)


@dataclass(frozen=True, slots=True)
class KnownConversations:
    """`unread` are told by the disk alone: their row is 0, and their project what the others of that folder say."""

    conversations: tuple[IndexedConversation, ...] = ()
    unread: tuple[IndexedConversation, ...] = ()
    left: int = 0  # bytes that the index hasn't read
    left_out: frozenset[str] = frozenset()  # sessions that nobody is shown: excluded, or our own calls

    @property
    def every(self) -> tuple[IndexedConversation, ...]:
        return self.conversations + self.unread


async def known_conversations(engine: Engine, *, unread: bool) -> KnownConversations:
    """All that may be shown, after a look at what is new. Raises the store's errors."""
    if not engine.settings.history.enabled or engine.history.withheld:
        return KnownConversations()
    left = await refresh(engine)
    indexed = await asyncio.to_thread(engine.history.conversations)
    # Rows of a forgotten one are there until whoever indexes lets others write.
    forgotten = await forgotten_sessions(engine)
    shown = [one for one in indexed if not one.silent and one.belongs_to not in forgotten]
    heard = tuple(one for one in shown if _says_something(one))
    left_out = frozenset(one.belongs_to for one in indexed if one.silent or one.belongs_to in forgotten)
    left_out -= {one.belongs_to for one in heard}
    bare = await _unread(engine, indexed, heard) if unread else ()
    return KnownConversations(heard, bare, left, left_out)


async def unread_count(engine: Engine) -> int:
    """How many sessions the index has nothing of yet."""
    indexed = await asyncio.to_thread(engine.history.conversations)
    unread = await _unread(engine, indexed, [one for one in indexed if not one.silent])
    return len({one.belongs_to for one in unread})


async def _unread(
    engine: Engine, indexed: Sequence[IndexedConversation], heard: Sequence[IndexedConversation]
) -> tuple[IndexedConversation, ...]:
    """Those that the disk has and the index hasn't, as far as nobody wants them left out."""
    files = await asyncio.to_thread(engine.transcripts.files)
    there = {one.file for one in indexed}
    forgotten = tuple(await forgotten_sessions(engine))
    new = [file for file in files if file.path not in there and not _is_forgotten(file, forgotten)]
    silent = {(one.source, one.folder): one.project for one in indexed if one.silent and one.project}
    bare = _bare(new, heard, silent)
    return tuple(one for one in bare if not _is_unwanted(one, engine.settings.history_excluded))


def _says_something(one: IndexedConversation) -> bool:
    return bool(one.ended or one.prompts or one.title.text or one.summary.text)


def _is_unwanted(one: IndexedConversation, exclude: tuple[str, ...]) -> bool:
    """By what the program calls the folder too: it is all that is known of a project that nothing was read of."""
    called = tuple(
        _NO_NAME.sub("-", pattern.strip()) for pattern in exclude if "/" in pattern or "\\" in pattern
    )
    return is_left_out(one, IndexRules(exclude=(*exclude, *called, *(f"{name}-*" for name in called))))


async def chosen_project(
    engine: Engine, project: str | None, known: Sequence[IndexedConversation]
) -> ProjectSelection | None:
    """What the name stands for; None when nothing is called so. Raises InvalidInput naming the candidates."""
    if project is None:
        return EVERYWHERE
    return select_project(project, known, await engine.store.scopes(), home=str(Path.home()))


def by_session(conversations: Iterable[IndexedConversation]) -> dict[str, list[IndexedConversation]]:
    """A session's own conversation first, then those of its sub-agents."""
    sessions: dict[str, list[IndexedConversation]] = {}
    for one in conversations:
        sessions.setdefault(one.belongs_to, []).append(one)
    for held in sessions.values():
        held.sort(key=lambda one: bool(one.part_of))
    return sessions


def last_moment(conversation: IndexedConversation) -> datetime:
    """When something was last said in it, as far as anybody knows."""
    return conversation.ended or datetime.fromtimestamp(conversation.modified / NANOSECONDS, UTC)


def unknown_project(project: str | None) -> str:
    """What to say when nothing is called so."""
    return f"No project is called {project!r}: {PROJECTS} lists those that there are. Or leave it out."


def history_notice(engine: Engine, suggestion: str | None) -> str | None:
    """With the truth for those who are not shown this machine's transcripts."""
    if engine.history.withheld:
        return " ".join(filter(None, [suggestion, WITHHELD_ALL]))
    if not engine.settings.history.enabled:
        return SWITCHED_OFF
    return suggestion


def _is_forgotten(file: ConversationFile, forgotten: tuple[str, ...]) -> bool:
    """Other programs' files have the session's id at the end of their name."""
    return bool(forgotten) and (file.part_of in forgotten or file.path.stem.endswith(forgotten))


def _bare(
    files: Iterable[ConversationFile],
    heard: Sequence[IndexedConversation],
    silent: Mapping[tuple[str, str], str],
) -> tuple[IndexedConversation, ...]:
    """Their project is what others of that folder say, those first that are shown."""
    projects = {**silent, **{(one.source, one.folder): one.project for one in reversed(heard) if one.project}}
    return tuple(
        replace(
            IndexedConversation(file.path.stem, file.source, file.path),
            size=file.size,
            modified=file.modified,
            folder=file.folder,
            project=projects.get((file.source, file.folder), ""),
            part_of=file.part_of,
        )
        for file in files
    )


@dataclass(frozen=True, slots=True)
class HistoryProject:
    """`size` is of the conversations' files, those of sub-agents included."""

    path: str
    sessions: int
    last_used: datetime
    size: int


@dataclass(frozen=True, slots=True)
class HistoryProjects:
    """The project used last first."""

    projects: tuple[HistoryProject, ...]
    suggestion: str | None = None


async def history_projects(engine: Engine) -> HistoryProjects:
    """All of them. Raises the store's errors."""
    known = await known_conversations(engine, unread=True)
    return HistoryProjects(_projects_of(known.every), history_notice(engine, None))


def _projects_of(conversations: Iterable[IndexedConversation]) -> tuple[HistoryProject, ...]:
    """What sub-agents did belongs to the project of the session that they worked for."""
    folders: dict[str, list[list[IndexedConversation]]] = {}
    for held in by_session(conversations).values():
        folders.setdefault(worked_in(held[0]), []).append(held)
    listed = [
        HistoryProject(
            path,
            sessions=len(sessions),
            last_used=max(last_moment(one) for held in sessions for one in held),
            size=sum(one.size for held in sessions for one in held),
        )
        for path, sessions in folders.items()
    ]
    return tuple(sorted(listed, key=lambda one: (one.last_used, one.path), reverse=True))


MEGABYTE, GIGABYTE = 1_000_000, 1_000_000_000


class HistoryProjectsInput(Input):
    """All of them."""


class HistoryProjectView(Output):
    """One folder that was worked in."""

    path: str = Field(description="Its folder or file.", examples=["/home/me/src/shop"])
    session_count: int = Field(examples=[12])
    last_used: datetime = Field(examples=["2026-11-16T10:30:00Z"])
    total_size_mb: float = Field(examples=[4.2])


class HistoryProjectsResult(Output):
    """The one used last first."""

    projects: list[HistoryProjectView]
    total_projects: int = Field(examples=[1])
    total_sessions: int = Field(examples=[12])
    total_size_gb: float = Field(examples=[0.0042])
    suggestion: str | None = Field(default=None, description="What would have been better.")


async def _projects(context: Context, _given: HistoryProjectsInput) -> HistoryProjectsResult:
    """The projects that there are conversations of."""
    listed = await history_projects(context.engine)
    return HistoryProjectsResult(
        projects=[
            HistoryProjectView(
                path=project.path,
                session_count=project.sessions,
                last_used=project.last_used,
                total_size_mb=round(project.size / MEGABYTE, 3),
            )
            for project in listed.projects
        ],
        total_projects=len(listed.projects),
        total_sessions=sum(project.sessions for project in listed.projects),
        total_size_gb=round(sum(project.size for project in listed.projects) / GIGABYTE, 4),
        suggestion=listed.suggestion,
    )


HISTORY_PROJECTS = operation("history_projects", _projects, reads=True)
