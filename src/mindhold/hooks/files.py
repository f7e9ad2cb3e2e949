"""Private files in the home folder: permissions, writes that are complete or not made at all, and short digests for their names."""

from __future__ import annotations

import os
import stat
import sys
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


HOOKS = "hooks"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIES = 20 if sys.platform == "win32" else 1  # Windows can't replace a file while somebody reads it


def hooks_path(home: str, *names: str) -> str:
    """A path below home/hooks, whether or not it exists."""
    return os.path.join(home, HOOKS, *names)


def make_hooks_folder(home: str, *names: str) -> str:
    """Create the folder if necessary, and restrict it to its owner even if it exists. Raises OSError."""
    path = hooks_path(home, *names)
    if os.path.isdir(path):
        # On Windows the permissions of the home folder apply.
        if sys.platform != "win32" and os.stat(path).st_mode & 0o077:
            os.chmod(path, 0o700)
    else:
        os.makedirs(home, mode=0o700, exist_ok=True)
        for depth in range(len(names) + 1):
            try:
                os.mkdir(hooks_path(home, *names[:depth]), 0o700)
            except FileExistsError:
                continue
    return path


def read_contents(path: str, most: int = 64 << 20) -> bytes:
    """At most `most` bytes of the file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        parts, remaining = [], most
        while remaining > 0 and (part := os.read(descriptor, min(remaining, 1 << 20))):
            parts.append(part)
            remaining -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def write_whole(path: str, content: bytes) -> None:
    """Write the file atomically, through a temporary file. Raises OSError, and leaves nothing half-written."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK, 0o600)
    try:
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        _replace(temporary, path)
    except BaseException:
        remove(temporary)
        raise


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, in as many pieces as necessary. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def remove(path: str) -> None:
    """Remove the file, if possible."""
    try:
        os.unlink(path)
    except OSError:
        return


def list_names(path: str, ending: str) -> list[str]:
    """The names in a folder with that ending, sorted; empty if the folder doesn't exist."""
    try:
        return sorted(name for name in os.listdir(path) if name.endswith(ending))
    except OSError:
        return []


def remove_older(folder: str, ending: str, seconds: float) -> None:
    """Remove the files with that ending that were last written longer ago than that, if possible."""
    for name in list_names(folder, ending):
        try:
            if time.time() - os.stat(os.path.join(folder, name)).st_mtime > seconds:
                os.unlink(os.path.join(folder, name))
        except OSError:
            continue


def _replace(temporary: str, path: str) -> None:
    for retries in reversed(range(_TRIES)):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            if not retries:
                raise
            time.sleep(0.01)


if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # Python 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256


def digest(text: str) -> str:
    """A short digest of any text, including text that can't be encoded."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


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


def exposed_paths(home: str) -> list[ExposedPath]:
    """All exposed paths of a home; a folder precedes its contents."""
    if sys.platform == "win32":
        return []
    home = os.path.realpath(home)  # a user may have moved it
    return [exposed for path in _checked_paths(home, "") if (exposed := _find_exposed(path)) is not None]


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


def permissions_notice(restricted: Iterable[ExposedPath], *, home: str) -> str:
    """What was restricted, as a sentence; empty if nothing was."""
    home = os.path.realpath(home) + os.sep
    names = [f"{exposed.path.removeprefix(home)} ({exposed.mode:o})" for exposed in restricted]
    if not names:
        return ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"Others on this machine could read {', '.join(names[:5])}{more}: now only you can."


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
    is_file_or_folder = stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)
    if not is_file_or_folder or not state.st_mode & OTHERS:  # the target of a link has its own permissions
        return None
    is_ours = sys.platform != "win32" and state.st_uid == os.geteuid()
    return ExposedPath(path, stat.S_IMODE(state.st_mode), ours=is_ours)


def _restrict(exposed: ExposedPath) -> bool:
    """Whether the path is restricted now: some file systems have no modes."""
    try:
        os.chmod(exposed.path, exposed.mode & ~OTHERS)
    except OSError:
        return False
    return _find_exposed(exposed.path) is None
