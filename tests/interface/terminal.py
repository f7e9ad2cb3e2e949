"""`mindhold` on a real terminal: keys go in, and what is shown is waited for."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self


class Terminal:
    """A process whose input and output are a terminal."""

    def __init__(self, *argv: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mindhold", *argv],
            cwd=folder,
            env={**environment, "TERM": "dumb", "COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)

    def answer(self, question: str, keys: str) -> None:
        """Wait until the terminal shows `question`, then type."""
        while question not in self.said[self._seen :]:
            assert self._read(), f"{question!r} never came: {self.said}"
        self._seen = self.said.index(question, self._seen) + len(question)
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for the end; return the exit status."""
        while self._read():
            pass
        return self._process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def _read(self) -> bool:
        try:
            piece = os.read(self._ours, 4096)
        except OSError:  # the other end is closed
            return False
        self.said += piece.decode("utf-8", "replace")
        return bool(piece)
