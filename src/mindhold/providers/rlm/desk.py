"""A folder for what a server writes down of what it is given: our owner's only, and gone with the process that made it."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from mindhold.bare.lease import try_lock

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
LOCK = ".lock"


class Desk:
    """Blocks: it is the disk. Those of processes that were killed are cleared away by the next."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._lock: int | None = None

    def open(self) -> Path:
        """The folder, made if it isn't there. Raises OSError."""
        if self._folder is None:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clear_others()
            while self._folder is None:
                folder = self._parent / secrets.token_hex(8)
                lock = os.open(_lock_of(folder), _FLAGS, 0o600)
                if try_lock(lock) and _lock_of(folder).exists():  # nobody took it for one that was left
                    self._folder, self._lock = folder, lock
                else:
                    os.close(lock)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder

    def clear(self) -> None:
        """What lies in it; the folders that the server made once stay."""
        if self._folder is None:
            return
        for path in self._folder.glob("*/*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """All of it. Idempotent."""
        folder, self._folder = self._folder, None
        lock, self._lock = self._lock, None
        if folder is None or lock is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        with suppress(OSError):
            _lock_of(folder).unlink()

    def _clear_others(self) -> None:
        for path in self._parent.glob(f"*{LOCK}"):
            with suppress(OSError):
                lock = os.open(path, _FLAGS, 0o600)
                try:
                    ended = try_lock(lock)
                    if ended:
                        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                finally:
                    os.close(lock)
                if ended:
                    path.unlink()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK)
