"""Whose turn it is to write the index: one process at a time has it, however that ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mindhold.bare.lease import try_lock
from mindhold.model.errors import StoreReadOnly

LOCK = "history.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def turn(home: Path, *, lock: str = LOCK) -> Iterator[bool]:
    """Whether we are the indexer of this home until it is left; never waits. Other work has its own lock.

    Raises StoreReadOnly.
    """
    folder = home / "data"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / lock, _FLAGS, 0o600)
    except OSError as error:
        raise StoreReadOnly(
            f"The index of past conversations in {folder} can't be written: {error}."
        ) from error
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
