"""Which project somebody means by a path, a name or a part of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from mindhold.model.errors import InvalidInput
from mindhold.model.scope import Scope
from mindhold.ports.history import Conversation

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Place:
    """What a name stands for: folders that were worked in, a scope's memories, or both. None: everything."""

    folders: frozenset[str] | None = None
    scope: str | None = None

    @property
    def remembers(self) -> bool:
        """Whether there may be memories of it."""
        return self.folders is None or self.scope is not None

    def has(self, conversation: Conversation) -> bool:
        """Whether it was held there."""
        return self.folders is None or worked_in(conversation) in self.folders


EVERYWHERE = Place()


def worked_in(conversation: Conversation) -> str:
    """The folder, or what its program calls it where nobody read yet which it is."""
    return conversation.project or conversation.folder


def place_of(
    given: str, conversations: Sequence[Conversation], scopes: Sequence[Scope], *, home: str
) -> Place | None:
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
    return Place(frozenset(spellings), scope[0] if len(scope) == 1 else None)


def _named(conversations: Iterable[Conversation]) -> Mapping[str, set[str]]:
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
