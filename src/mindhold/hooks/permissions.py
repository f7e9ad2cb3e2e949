"""File permissions in the home folder: only its owner may read it."""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


OTHERS = 0o077  # the bits of everybody but the owner
# Folders whose entries are looked at one by one; deeper ones lie behind these.
FOLDERS = ("data", "backups", "logs", "export", "archive", "hooks", os.path.join("data", "mongo"))
ALSO = ("models",)  # what lies in there is nobody's secret
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")  # a database and what SQLite keeps with it


class ExposedPath:
    """Something that others may read or enter."""

    def __init__(self, path: str, mode: int, *, ours: bool) -> None:
        self.path = path
        self.mode = mode
        self.ours = ours  # no link, and of this user: else it is left alone

    def __str__(self) -> str:
        return f"{self.path} ({self.mode:o})"


def exposed_paths(home: str, database: str = "") -> list[ExposedPath]:
    """All of it in a home, and of a database elsewhere. A folder comes before what it holds."""
    if sys.platform == "win32":
        return []
    home = os.path.realpath(home)  # a person may have put it elsewhere
    return [found for path in _places(home, database) if (found := _loose(path)) is not None]


def restrict_permissions(home: str, database: str = "") -> list[ExposedPath]:
    """Take from others what is ours; what was mended. Links are never followed, and what is somebody else's stays.

    Each folder is closed before it is listed, so that nobody can put something else in a file's place meanwhile.
    """
    if sys.platform == "win32":
        return []
    home, mended = os.path.realpath(home), []
    for path in _places(home, database):
        found = _loose(path)
        if found is not None and found.ours and _closed(found):
            mended.append(found)
    return mended


def permissions_notice(mended: Iterable[ExposedPath], *, home: str, most: int = 5) -> str:
    """What was mended, in a sentence; nothing where nothing was."""
    names = [_name(one, os.path.realpath(home)) for one in mended]
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"Others on this machine could read {', '.join(names[:most])}{more}: now only you can."


def _name(one: ExposedPath, home: str) -> str:
    within = one.path.startswith(home + os.sep)
    return f"{one.path[len(home) + 1 :] if within else one.path} ({one.mode:o})"


def _places(home: str, database: str) -> Iterator[str]:
    yield home
    yield from _entries(home, folders=False)
    for name in (*FOLDERS, *ALSO):
        folder = os.path.join(home, name)
        yield folder
        if name in FOLDERS and not os.path.islink(folder):
            yield from _entries(folder, folders=True)
    if database and os.path.dirname(database) != os.path.join(home, "data"):
        yield from (database + ending for ending in DATABASE_SUFFIXES)


def _entries(folder: str, *, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(one.path for one in found if folders or not one.is_dir(follow_symlinks=False))
    except OSError:  # not there, or not to be read by us
        return []


def _loose(path: str) -> ExposedPath | None:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    if (
        stat.S_ISLNK(state.st_mode) or not state.st_mode & OTHERS
    ):  # whoever may follow a link finds its end closed
        return None
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        return None
    return ExposedPath(path, stat.S_IMODE(state.st_mode), ours=state.st_uid == _user())


def _closed(found: ExposedPath) -> bool:
    """Whether it is now: some file systems know no modes."""
    try:
        os.chmod(found.path, found.mode & ~OTHERS)
    except OSError:
        return False
    return _loose(found.path) is None


if sys.platform == "win32":

    def _user() -> int:
        return -1

else:

    def _user() -> int:
        return os.geteuid()
