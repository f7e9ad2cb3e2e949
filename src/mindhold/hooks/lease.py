"""The lease of a worker: a file lock that ends with its process."""

from __future__ import annotations

import os
import sys

from mindhold.hooks.files import hooks_path, make_hooks_folder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import TracebackType


WORKER_LOCK = "worker.lock"
INDEXER_LOCK = "history-worker.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30

    def try_lock(descriptor: int) -> bool:
        """Lock the file without waiting; whether that worked."""
        try:
            # nobody can read a locked range, so lock one beyond the content
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock the file without waiting; whether that worked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def take_worker_lease(home: str) -> int | None:
    """Take the worker's lease: a descriptor that holds it until it and its copies are closed, or None if it is taken. Raises OSError."""
    make_hooks_folder(home)
    return take_lease(hooks_path(home, WORKER_LOCK))


def indexer_lock_path(home: str) -> str:
    """The lease file of the process that indexes conversations in the background."""
    return os.path.join(home, "data", INDEXER_LOCK)


def take_lease(path: str) -> int | None:
    """Take any lease. Raises OSError."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        if try_lock(descriptor):
            return descriptor
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


class Lease:
    """Holds a lease while it is open, if it is free.

    `handed` is a descriptor that already holds it; `path` is another lease than that of the home's worker.
    """

    def __init__(self, home: str, handed: int | None = None, *, path: str = "") -> None:
        self._home = home
        self._handed = handed
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> bool:
        self._descriptor = self._adopt() if self._handed is not None else None
        if self._descriptor is None:
            self._descriptor = take_lease(self._path) if self._path else take_worker_lease(self._home)
        return self._descriptor is not None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _adopt(self) -> int | None:
        """The handed descriptor, if it holds the lease; the worker's child processes must not inherit it."""
        assert self._handed is not None
        try:
            same = os.path.samestat(
                os.fstat(self._handed), os.stat(self._path or hooks_path(self._home, WORKER_LOCK))
            )
            if not same or not try_lock(self._handed):
                return None
            os.set_inheritable(self._handed, False)
        except OSError:
            return None
        return self._handed
