"""What a program says on its standard error: read as it comes, so that it never blocks, and forgotten but for the end."""

from __future__ import annotations

import os
from threading import Thread

MOST = 4_096
_LAST_SECONDS = 1.0  # for its last words to arrive


class Overheard:
    """`stream` is what the program is given; to be closed here once it has it."""

    def __init__(self) -> None:
        ear, mouth = os.pipe()
        self.stream = os.fdopen(mouth, "w", encoding="utf-8")
        self._said = bytearray()
        # A child of the program's may hold on to it for ever; nobody waits for that.
        self._thread = Thread(target=self._listen, args=(ear,), name="rlm-stderr", daemon=True)
        self._thread.start()

    def last_words(self) -> str:
        """The last line that says something, once the program has ended."""
        self.stream.close()
        self._thread.join(_LAST_SECONDS)
        text = bytes(self._said).decode("utf-8", errors="replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def _listen(self, ear: int) -> None:
        try:
            while heard := os.read(ear, MOST):
                self._said += heard
                del self._said[:-MOST]
        finally:
            os.close(ear)
