"""File permissions in the home folder: only its owner may read it."""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


OTHERS = 0o077  # the permission bits of everybody but the owner
# Folders whose entries are checked one by one; these protect deeper ones.
FOLDERS = ("data", "backups", "logs", "export", "archive", "hooks", os.path.join("data", "mongo"))
_UNLISTED_FOLDERS = ("models",)  # its contents are public
DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")  # a database and the files of SQLite next to it


class ExposedPath:
    """A path that others may read or enter."""

    def __init__(self, path: str, mode: int, *, ours: bool) -> None:
        self.path = path
        self.mode = mode
        self.ours = ours  # not a link, and owned by this user: others are left alone

    def __str__(self) -> str:
        return f"{self.path} ({self.mode:o})"


def exposed_paths(home: str, database: str = "") -> list[ExposedPath]:
    """All exposed paths of a home and of a database elsewhere; a folder precedes its contents."""
    if sys.platform == "win32":
        return []
    home = os.path.realpath(home)  # a user may have moved it
    return [
        exposed for path in _checked_paths(home, database) if (exposed := _find_exposed(path)) is not None
    ]


def restrict_permissions(home: str, database: str = "") -> list[ExposedPath]:
    """Remove others' permissions from our paths and return the changed ones. Links and other users' files stay unchanged.

    A folder is restricted before it is listed, so that nobody can replace a file in it meanwhile.
    """
    if sys.platform == "win32":
        return []
    home, restricted = os.path.realpath(home), []
    for path in _checked_paths(home, database):
        exposed = _find_exposed(path)
        if exposed is not None and exposed.ours and _restrict(exposed):
            restricted.append(exposed)
    return restricted


def permissions_notice(restricted: Iterable[ExposedPath], *, home: str, most: int = 5) -> str:
    """What was restricted, as a sentence; empty if nothing was."""
    names = [_name(exposed, os.path.realpath(home)) for exposed in restricted]
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"Others on this machine could read {', '.join(names[:most])}{more}: now only you can."


def _name(exposed: ExposedPath, home: str) -> str:
    within = exposed.path.startswith(home + os.sep)
    return f"{exposed.path[len(home) + 1 :] if within else exposed.path} ({exposed.mode:o})"


def _checked_paths(home: str, database: str) -> Iterator[str]:
    yield home
    yield from _entries(home, folders=False)
    for name in (*FOLDERS, *_UNLISTED_FOLDERS):
        folder = os.path.join(home, name)
        yield folder
        if name in FOLDERS and not os.path.islink(folder):
            yield from _entries(folder, folders=True)
    if database and os.path.dirname(database) != os.path.join(home, "data"):
        yield from (database + ending for ending in DATABASE_SUFFIXES)


def _entries(folder: str, *, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.path for entry in entries if folders or not entry.is_dir(follow_symlinks=False)
            )
    except OSError:  # missing, or not readable for us
        return []


def _find_exposed(path: str) -> ExposedPath | None:
    try:
        state = os.lstat(path)
    except OSError:
        return None
    if (
        stat.S_ISLNK(state.st_mode) or not state.st_mode & OTHERS
    ):  # the target of a link has its own permissions
        return None
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        return None
    return ExposedPath(path, stat.S_IMODE(state.st_mode), ours=state.st_uid == _user())


def _restrict(exposed: ExposedPath) -> bool:
    """Whether the path is restricted now: some file systems have no modes."""
    try:
        os.chmod(exposed.path, exposed.mode & ~OTHERS)
    except OSError:
        return False
    return _find_exposed(exposed.path) is None


if sys.platform == "win32":

    def _user() -> int:
        return -1

else:

    def _user() -> int:
        return os.geteuid()
