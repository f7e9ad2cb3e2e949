"""A lock between processes that ends with its holder, however that ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mindhold.bare.lease import try_lock

_POLL_SECONDS = 0.2


@contextmanager
def file_lock(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file; `waiting` is called while another process does. The file is gone afterwards."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the last holder has just cleared the folder away
            continue
        if try_lock(descriptor) and _is_current(descriptor, path):
            break
        os.close(descriptor)
        waiting()
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        _remove(path, descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to what was locked: the last holder removes the file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":

    def _remove(path: Path, descriptor: int) -> None:
        os.close(descriptor)
        try:
            path.unlink(missing_ok=True)
        except PermissionError:  # the next one has it open already
            return

else:

    def _remove(path: Path, descriptor: int) -> None:
        path.unlink(missing_ok=True)
        os.close(descriptor)
