"""Speaking to a store_child."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Process:
    """A store_child that is spoken to."""

    def __init__(self, path: Path, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("store_child.py")), str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.name = name

    def tell(self, do: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.tell(do, **arguments)
        return self.hear()

    def kill(self) -> list[dict[str, Any]]:
        """End it as a power switch would; returns what it had said by then."""
        assert self._process.stdout is not None
        self._process.kill()
        said = self._process.stdout.read()
        self._process.wait()
        return [json.loads(line) for line in said.splitlines() if line.endswith("}")]

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


Start = Callable[[str], Process]
