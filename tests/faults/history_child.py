"""Does one thing with a history again and again, each time killed one line later, until it ends by itself.

Every try begins with the same files, in a folder of its own; what is left in each is for the test to look at.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from mindhold.ports.history import IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role
from mindhold.stores.history import archive, connection, index
from mindhold.stores.history import index as changes

TRACED = {module.__file__ for module in (archive, changes, connection, index)}


def talk(name: str) -> IndexedConversation:
    return IndexedConversation(name, "claude", Path(f"/projects/{name}.jsonl"))


def said(*lexemes: str) -> list[Passage]:
    return [Passage((IndexedStep(Role.USER, 1, f"about {one}"),), f"{one} both") for one in lexemes]


def put(folder: Path) -> None:
    history = index.SqliteHistory(folder / "history.db")
    first = history.conversations()[0]
    history.put_many(
        [
            (first, said("later"), b"12345678", (), False),
            (talk("second"), said("new", "newer"), b"", (), False),
        ]
    )


def remove(folder: Path) -> None:
    history = index.SqliteHistory(folder / "history.db")
    history.remove([history.conversations()[0].row])


def add(folder: Path) -> None:
    archive.GzipArchive(folder / "archive").add("claude-s", folder / "talk.jsonl")


def killed_at(work: Callable[[Path], None], folder: Path, line: int) -> bool:
    """Whether it was, before it was done."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = line

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    work(folder)
    os._exit(0)


def main(name: str, template: Path, folder: Path) -> None:
    work = {"put": put, "remove": remove, "add": add}[name]
    tries = 1
    while True:
        shutil.copytree(template, folder / str(tries))
        if not killed_at(work, folder / str(tries), tries):
            break
        tries += 1
    sys.stdout.write(f"{tries}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
