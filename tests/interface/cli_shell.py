"""The command line, called in this process as a shell would call it."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mindhold.__main__ import AppLauncher
from mindhold.interfaces.cli.main import run


class Stream(io.TextIOWrapper):
    """A pipe, or what looks like a terminal."""

    def __init__(self, content: io.BytesIO | None = None, *, terminal: bool = False) -> None:
        super().__init__(content or io.BytesIO(), encoding="utf-8", newline="\n")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def written(self) -> str:
        """All that was printed."""
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call printed and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """Calls `mindhold` with a home folder of its own and an embedder that needs no model."""

    home: Path
    patch: pytest.MonkeyPatch

    def __call__(self, *argv: str, stdin: str | bytes | io.BytesIO = "", terminal: bool = False) -> Answer:
        plain = stdin.encode() if isinstance(stdin, str) else stdin
        given = io.BytesIO(plain) if isinstance(plain, bytes) else plain
        out, err = Stream(terminal=terminal), Stream(terminal=terminal)
        with self.patch.context() as patch:
            patch.setattr(sys, "stdin", Stream(given, terminal=terminal))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            status = run(argv, AppLauncher())
        return Answer(status, out.written(), err.written())

    def fine(self, *argv: str, stdin: str | bytes = "") -> Answer:
        """A call that must end well."""
        answer = self(*argv, stdin=stdin)
        assert answer.status == 0, f"{argv}: {answer.out}{answer.err}"
        return answer

    def remember(self, text: str, *options: str) -> str:
        """Stores and returns the id."""
        answer = self.fine("remember", text, *options, "--json").json
        assert isinstance(answer["id"], str)
        return answer["id"]

    def found(self, *argv: str) -> list[str]:
        """What a recall finds, best first."""
        return [hit["content"] for hit in self.fine("recall", *argv, "--json").json["hits"]]
