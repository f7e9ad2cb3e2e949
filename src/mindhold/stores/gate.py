"""Many may look at once; who changes is alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """A lock that readers share. One who waits to change comes before later readers."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # held by the one who changes, and for a moment by each who enters
        self._count = threading.Lock()
        self._empty = threading.Event()
        self._empty.set()
        self._inside = 0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Nothing changes meanwhile."""
        with self._turn, self._count:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            with self._count:
                self._inside -= 1
                if not self._inside:
                    self._empty.set()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody else is inside meanwhile."""
        with self._turn:
            self._empty.wait()
            yield
