"""Private files of the home folder, written whole or not at all, and short digests to name them by."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False


HOOKS = "hooks"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_TRIES = 20 if sys.platform == "win32" else 1  # there a file can't be replaced while somebody reads it


def hooks_path(home: str, *names: str) -> str:
    """Below home/hooks, whether or not it is there."""
    return os.path.join(home, HOOKS, *names)


def make_hooks_folder(home: str, *names: str) -> str:
    """The same, made if need be, and for its owner only, also where somebody else made it. Raises OSError."""
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
        """The home folder's own rights decide there."""

else:

    def _make_private(path: str) -> None:
        if os.stat(path).st_mode & 0o077:
            os.chmod(path, 0o700)


def read_contents(path: str, most: int = 64 << 20) -> bytes:
    """At most so many bytes of it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        parts, left = [], most
        while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def write_whole(path: str, content: bytes) -> None:
    """Beside it first, then in its place. Raises OSError, and leaves nothing half-written."""
    beside = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK, 0o600)
    try:
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        _replace(beside, path)
    except BaseException:
        remove(beside)
        raise


def write_all(descriptor: int, content: bytes) -> None:
    """All of it, in as many pieces as it takes. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def remove(path: str) -> None:
    """Unless it can't be: then somebody else has it, or it has gone."""
    try:
        os.unlink(path)
    except OSError:
        return


def names_in(path: str, ending: str) -> list[str]:
    """What a folder holds, in order; nothing where there is none."""
    try:
        return sorted(name for name in os.listdir(path) if name.endswith(ending))
    except OSError:
        return []


def older_than(path: str, seconds: float) -> bool:
    """Whether it was last written longer ago than that."""
    try:
        return time.time() - os.stat(path).st_mtime > seconds
    except OSError:
        return False


def _replace(beside: str, path: str) -> None:
    for left in reversed(range(_TRIES)):
        try:
            os.replace(beside, path)
            return
        except PermissionError:
            if not left:
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

LENGTH = 24


def digest(text: str) -> str:
    """Of any text, one that no encoding knows included."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]
