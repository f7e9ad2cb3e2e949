"""Captures that are killed at each of their writes: one home for every write, each in a process of its own.

Everything is imported once and then forked, so that many deaths take little time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from mindhold.app import worker
from mindhold.app.application import open_app  # noqa: F401 - imported once, for all that are forked
from mindhold.hooks import event_queue, hook_cache_writer
from mindhold.operation_index import operation
from mindhold.stores.routed.store import RoutedStore

# What writes to the store, or to the home beside it.
WRITES = (
    "apply",
    "put_entry",
    "drop_entry",
    "take_entry",
    "swap_cursor",
    "set_cursor",
    "put_scope",
    "finish",
)


def wrapped(kind: Any, name: str, numbers: Iterator[int], deadly: Callable[[int], None]) -> None:
    """From now on it tells its number before it is done, in this process."""
    before = getattr(kind, name)

    def told(*given: Any, **named: Any) -> Any:
        deadly(next(numbers))
        return before(*given, **named)

    setattr(kind, name, told)


def work(home: Path, deadly: Callable[[int], None]) -> None:
    numbers = count(1)
    for name in WRITES:
        wrapped(RoutedStore, name, numbers, deadly)
    wrapped(event_queue, "remove_event", numbers, deadly)
    wrapped(hook_cache_writer, "write_cache", numbers, deadly)
    worker.run(str(home))


def forked(work: Callable[[], None]) -> int:
    """Its process."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def all_at_once(works: list[Callable[[], None]]) -> list[int]:
    """How each ended: 0, or the signal that killed it."""
    return [os.waitpid(child, 0)[1] for child in [forked(one) for one in works]]


def count_writes(home: Path) -> int:
    """Of a capture that nobody kills."""
    reading, writing = os.pipe()

    def counted() -> None:
        highest = [0]
        work(home, lambda number: highest.__setitem__(0, number))
        os.write(writing, str(highest[0]).encode())

    assert all_at_once([counted]) == [0]
    return int(os.read(reading, 100))


def die_at(fatal: int) -> Callable[[int], None]:
    def deadly(number: int) -> None:
        if number == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    return deadly


def main(template: Path, homes: Path) -> None:
    """`template` is a home with events that wait; each death has a copy of it below `homes`."""
    operation("capture")

    def copy(name: str) -> Path:
        shutil.copytree(template, homes / name)
        return homes / name

    writes = count_writes(copy("whole"))
    dead = {number: copy(str(number)) for number in range(1, writes + 1)}
    killed = all_at_once([partial(work, home, die_at(number)) for number, home in dead.items()])
    again = all_at_once([partial(work, home, die_at(0)) for home in dead.values()])
    sys.stdout.write(json.dumps({"killed": killed, "again": again}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
