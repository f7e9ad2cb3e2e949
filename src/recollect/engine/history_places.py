"""Which project somebody means by a path, a name or a part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from recollect.model.errors import InvalidInput
from recollect.model.scope import Scope
from recollect.ports.transcripts import TranscriptProject

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Place:
    """What a name stands for: a folder's transcripts, a scope's memories, or both."""

    project: TranscriptProject | None = None
    scope: str | None = None


def place_of(
    given: str, projects: Sequence[TranscriptProject], scopes: Sequence[Scope], *, home: str
) -> Place | None:
    """None when nothing is called so. Raises InvalidInput, with the candidates, when several are."""
    wanted = _folded(given.strip(), home=home)
    if not wanted:
        raise InvalidInput("The project is an empty name.", advice="Leave it out to look everywhere.")
    folders = [one for one in projects if wanted in _names(one)]
    named = [scope.name for scope in scopes if scope.name.casefold() == given.strip().casefold()]
    if not folders and not named:
        folders = [one for one in projects if wanted in _folded(one.path)]
        named = [scope.name for scope in scopes if wanted in scope.name.casefold()]
    if len(folders) > 1 or (not folders and len(named) > 1):
        candidates = [one.path for one in folders] or named
        more = f" and {len(candidates) - MOST_NAMED} more" if len(candidates) > MOST_NAMED else ""
        raise InvalidInput(
            f"{given!r} may be any of {', '.join(candidates[:MOST_NAMED])}{more}.",
            advice="Give the whole path.",
        )
    if not folders and not named:
        return None
    return Place(folders[0] if folders else None, named[0] if len(named) == 1 else None)


def _names(project: TranscriptProject) -> tuple[str, ...]:
    path = project.path
    pure: PurePath = PureWindowsPath(path) if "\\" in path or path[1:2] == ":" else PurePosixPath(path)
    return (_folded(path), pure.name.casefold(), project.name.casefold())


def _folded(path: str, *, home: str = "") -> str:
    if home and (path == "~" or path.startswith(("~/", "~\\"))):
        path = home + path[1:]
    return path.rstrip("/\\").casefold() if len(path) > 1 else path
