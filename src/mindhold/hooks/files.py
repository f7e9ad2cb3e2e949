"""Private files in the home folder, written completely or not at all, and short digests for their names."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False


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
        _make_private(path)
    else:
        os.makedirs(home, mode=0o700, exist_ok=True)
        for depth in range(len(names) + 1):
            try:
                os.mkdir(hooks_path(home, *names[:depth]), 0o700)
            except FileExistsError:
                continue
    return path


if sys.platform == "win32":

    def _make_private(path: str) -> None:
        """On Windows the permissions of the home folder apply."""

else:

    def _make_private(path: str) -> None:
        if os.stat(path).st_mode & 0o077:
            os.chmod(path, 0o700)


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


def is_older_than(path: str, seconds: float) -> bool:
    """Whether the file was last written longer ago than that."""
    try:
        return time.time() - os.stat(path).st_mtime > seconds
    except OSError:
        return False


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

DIGEST_LENGTH = 24


def digest(text: str) -> str:
    """A short digest of any text, including text that can't be encoded."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_LENGTH]
