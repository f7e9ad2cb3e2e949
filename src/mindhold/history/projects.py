"""The projects that conversations were held in, and the known conversations of each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """What a project name selects: folders, the memories of a scope, or both. None selects everything."""

    folders: frozenset[str] | None = None
    scope: str | None = None

    @property
    def remembers(self) -> bool:
        """Whether it may have memories."""
        return self.folders is None or self.scope is not None

    def has(self, conversation: IndexedConversation) -> bool:
        """Whether the conversation was held in it."""
        return self.folders is None or worked_in(conversation) in self.folders


EVERYWHERE = ProjectSelection()


def worked_in(conversation: IndexedConversation) -> str:
    """The working folder, or the program's name for it if the transcript wasn't read yet."""
    return conversation.project or conversation.folder


def select_project(
    given: str, conversations: Sequence[IndexedConversation], scopes: Sequence[Scope], *, home: str
) -> ProjectSelection | None:
    """Resolve a project name; None if nothing matches.

    A folder inside a known one selects that, the nearest if there are several. Raises InvalidInput with the
    candidates if several match.
    """
    folded = _folded(given.strip(), home=home)
    if not folded:
        raise InvalidInput("The project is an empty name.", advice="Leave it out to look everywhere.")
    names_by_folder = _named(conversations)
    scope = [candidate.name for candidate in scopes if candidate.name.casefold() == given.strip().casefold()]
    folders = _exactly(folded, names_by_folder)
    if not folders and not scope:
        folders = _above(folded, names_by_folder) or _unlike(
            path for path in names_by_folder if folded in _folded(path)
        )
        scope = [candidate.name for candidate in scopes if folded in candidate.name.casefold()]
    candidates = folders if len(folders) > 1 else scope if not folders else []
    if len(candidates) > 1:
        shown_names = sorted(candidates)[:MOST_NAMED]
        more = len(candidates) - len(shown_names)
        listing = "".join(
            f"\n  {candidate}" for candidate in [*shown_names, *([f"and {more} more"] if more else [])]
        )
        raise InvalidInput(f"{given!r} may be any of:{listing}", advice="Give more of its path.")
    if not folders and not scope:
        return None
    spellings = {path for path in names_by_folder if folders and _folded(path) == _folded(folders[0])}
    return ProjectSelection(frozenset(spellings), scope[0] if len(scope) == 1 else None)


def _named(conversations: Iterable[IndexedConversation]) -> Mapping[str, set[str]]:
    """The working folders, each with the programs' names for it."""
    names_by_folder: dict[str, set[str]] = {}
    for conversation in conversations:
        names_by_folder.setdefault(worked_in(conversation), set()).add(conversation.folder.casefold())
    names_by_folder.pop("", None)
    return names_by_folder


def _exactly(wanted: str, known: Mapping[str, set[str]]) -> list[str]:
    """Exact matches, paths before names. A path matches whatever the case of its letters."""
    by_path = _unlike(path for path in known if _folded(path) == wanted)
    return by_path or _unlike(
        path for path, called in known.items() if wanted in called or _pure(path).name.casefold() == wanted
    )


def _unlike(paths: Iterable[str]) -> list[str]:
    """One spelling of each path."""
    return list({_folded(path): path for path in paths}.values())


def _above(wanted: str, known: Mapping[str, set[str]]) -> list[str]:
    paths = {_folded(path): path for path in known}
    for above in _pure(wanted).parents if _pure(wanted).is_absolute() else ():
        if above != above.parent and (folder := paths.get(str(above))):
            return [folder]
    return []


def _pure(path: str) -> PurePath:
    return PureWindowsPath(path) if "\\" in path or path[1:2] == ":" else PurePosixPath(path)


def _folded(path: str, *, home: str = "") -> str:
    if home and (path == "~" or path.startswith(("~/", "~\\"))):
        path = home + path[1:]
    return path.rstrip("/\\").casefold() if len(path) > 1 else path


NANOSECONDS = 1_000_000_000
TIMELINE = "memory_timeline (`mindhold history timeline`)"  # as agents and as people call it
PROJECTS = "memory_projects (`mindhold history projects`)"
_NO_NAME = re.compile(r"[^A-Za-z0-9*?]")  # as Claude Code makes a folder name from a path
WITHHELD_ALL = "Transcripts are the owner's and were not looked at: this caller sees memories only."
SWITCHED_OFF = (
    "Past conversations are switched off: `mindhold config set history.enabled true` has them searched."
)


@dataclass(frozen=True, slots=True)
class KnownConversations:
    """The conversations that may be shown.

    `unread` are only known from the disk: their row is 0, and their project is that of other conversations in
    the folder.
    """

    conversations: tuple[IndexedConversation, ...] = ()
    unread: tuple[IndexedConversation, ...] = ()
    left: int = 0  # bytes that are not indexed yet
    left_out: frozenset[str] = frozenset()  # sessions that are never shown: excluded, or our own calls

    @property
    def every(self) -> tuple[IndexedConversation, ...]:
        return self.conversations + self.unread


async def known_conversations(engine: Engine, *, unread: bool, refreshed: bool = True) -> KnownConversations:
    """All conversations that may be shown, after indexing what is new if `refreshed`. Raises the store's errors."""
    if not engine.settings.history.enabled or engine.history.withheld:
        return KnownConversations()
    unread_bytes = await refresh(engine) if refreshed else 0
    indexed = await asyncio.to_thread(engine.history.conversations)
    # Rows of a forgotten conversation stay until the current indexer is done.
    forgotten = await forgotten_sessions(engine)
    visible = [
        conversation
        for conversation in indexed
        if not conversation.silent and conversation.belongs_to not in forgotten
    ]
    conversations = tuple(
        one for one in visible if one.ended or one.prompts or one.title.text or one.summary.text
    )
    left_out = frozenset(
        conversation.belongs_to
        for conversation in indexed
        if conversation.silent or conversation.belongs_to in forgotten
    )
    left_out -= {conversation.belongs_to for conversation in conversations}
    bare = await _unread(engine, indexed, conversations) if unread else ()
    return KnownConversations(conversations, bare, unread_bytes, left_out)


async def unread_count(engine: Engine) -> int:
    """The number of sessions that aren't indexed at all yet."""
    indexed = await asyncio.to_thread(engine.history.conversations)
    unread = await _unread(
        engine, indexed, [conversation for conversation in indexed if not conversation.silent]
    )
    return len({conversation.belongs_to for conversation in unread})


async def _unread(
    engine: Engine, indexed: Sequence[IndexedConversation], heard: Sequence[IndexedConversation]
) -> tuple[IndexedConversation, ...]:
    """Conversations that are on the disk but not in the index, without excluded ones."""
    files = await asyncio.to_thread(engine.transcripts.files)
    indexed_files = {conversation.file for conversation in indexed}
    forgotten = tuple(await forgotten_sessions(engine))
    new = [file for file in files if file.path not in indexed_files and not _is_forgotten(file, forgotten)]
    silent = {
        (conversation.source, conversation.folder): conversation.project
        for conversation in indexed
        if conversation.silent and conversation.project
    }
    bare = _bare(new, heard, silent)
    return tuple(
        conversation
        for conversation in bare
        if not _is_unwanted(conversation, engine.settings.history_excluded)
    )


def _is_unwanted(one: IndexedConversation, exclude: tuple[str, ...]) -> bool:
    """Whether it is excluded, also by the program's name for the folder: an unread project is only known by that."""
    called = tuple(
        _NO_NAME.sub("-", pattern.strip()) for pattern in exclude if "/" in pattern or "\\" in pattern
    )
    return is_left_out(one, IndexRules(exclude=(*exclude, *called, *(f"{name}-*" for name in called))))


async def chosen_project(
    engine: Engine, project: str | None, known: Sequence[IndexedConversation]
) -> ProjectSelection | None:
    """The selection for a project name; None if nothing matches. Raises InvalidInput naming the candidates."""
    if project is None:
        return EVERYWHERE
    return select_project(project, known, await engine.store.scopes(), home=str(Path.home()))


def by_session(conversations: Iterable[IndexedConversation]) -> dict[str, list[IndexedConversation]]:
    """Group by session: its own conversation first, then those of its sub-agents."""
    sessions: dict[str, list[IndexedConversation]] = {}
    for one in conversations:
        sessions.setdefault(one.belongs_to, []).append(one)
    for session in sessions.values():
        session.sort(key=lambda one: bool(one.part_of))
    return sessions


def last_moment(conversation: IndexedConversation) -> datetime:
    """When something was last said in it: its end, else the file's modification time."""
    return conversation.ended or datetime.fromtimestamp(conversation.modified / NANOSECONDS, UTC)


def unknown_project(project: str | None) -> str:
    """The suggestion for a project name that matches nothing."""
    return f"No project is called {project!r}: {PROJECTS} lists those that there are. Or leave it out."


def history_notice(engine: Engine, suggestion: str | None) -> str | None:
    """The suggestion, plus a remark for callers that don't see this machine's transcripts."""
    if engine.history.withheld:
        return " ".join(filter(None, [suggestion, WITHHELD_ALL]))
    if not engine.settings.history.enabled:
        return SWITCHED_OFF
    return suggestion


def _is_forgotten(file: ConversationFile, forgotten: tuple[str, ...]) -> bool:
    """Whether the file is of a forgotten session. Other programs put the session's id at the end of the file name."""
    return bool(forgotten) and (file.part_of in forgotten or file.path.stem.endswith(forgotten))


def _bare(
    files: Iterable[ConversationFile],
    heard: Sequence[IndexedConversation],
    silent: Mapping[tuple[str, str], str],
) -> tuple[IndexedConversation, ...]:
    """Rows for unread files. Their project is that of other conversations in the folder, visible ones first."""
    projects = {
        **silent,
        **{
            (conversation.source, conversation.folder): conversation.project
            for conversation in reversed(heard)
            if conversation.project
        },
    }
    return tuple(
        IndexedConversation(
            file.path.stem,
            file.source,
            file.path,
            size=file.size,
            modified=file.modified,
            folder=file.folder,
            project=projects.get((file.source, file.folder), ""),
            part_of=file.part_of,
        )
        for file in files
    )


MEGABYTE, GIGABYTE = 1_000_000, 1_000_000_000


class HistoryProjectsInput(Input):
    """Lists all projects."""


class HistoryProjectView(Output):
    """One folder that was worked in."""

    path: str = Field(description="Its folder or file.", examples=["/home/me/src/shop"])
    session_count: int = Field(examples=[12])
    last_used: datetime = Field(examples=["2026-11-16T10:30:00Z"])
    total_size_mb: float = Field(examples=[4.2])


class HistoryProjectsResult(Output):
    """The projects, the one used last first."""

    projects: list[HistoryProjectView]
    total_projects: int = Field(examples=[1])
    total_sessions: int = Field(examples=[12])
    total_size_gb: float = Field(examples=[0.0042])
    suggestion: str | None = Field(default=None, description="What would have been better.")


async def _projects(context: Context, _request: HistoryProjectsInput) -> HistoryProjectsResult:
    """The projects that there are conversations of, with those of sub-agents. Raises the store's errors."""
    conversations = (await known_conversations(context.engine, unread=True)).every
    folders: dict[str, list[list[IndexedConversation]]] = {}
    for session in by_session(conversations).values():
        folders.setdefault(worked_in(session[0]), []).append(session)
    projects = [
        HistoryProjectView(
            path=path,
            session_count=len(sessions),
            last_used=max(last_moment(one) for session in sessions for one in session),
            total_size_mb=round(sum(one.size for session in sessions for one in session) / MEGABYTE, 3),
        )
        for path, sessions in folders.items()
    ]
    return HistoryProjectsResult(
        projects=sorted(projects, key=lambda project: (project.last_used, project.path), reverse=True),
        total_projects=len(projects),
        total_sessions=sum(project.session_count for project in projects),
        total_size_gb=round(sum(conversation.size for conversation in conversations) / GIGABYTE, 4),
        suggestion=history_notice(context.engine, None),
    )


HISTORY_PROJECTS = operation("history_projects", _projects, reads=True)
