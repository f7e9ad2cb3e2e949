"""Events that wait for the worker, one file each."""

from __future__ import annotations

import os
import time

from mindhold.hooks.fast_json import parse_record, write_json
from mindhold.hooks.files import (
    hooks_path,
    make_hooks_folder,
    names_in,
    older_than,
    read_contents,
    remove,
    write_whole,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


QUEUE_FOLDER = "waiting"
BAD = "bad"
MOST_BAD = 100
BAD_DAYS = 30
MOST_ATTEMPTS = 5
_FORGOTTEN = 600.0  # seconds, after which a half-written file is nobody's


def put_event(home: str, event: dict[str, Any]) -> str:
    """Its file, which is whole when this returns. Raises OSError."""
    inside = make_hooks_folder(home, QUEUE_FOLDER)
    number = 0
    while True:
        path = os.path.join(inside, f"{time.time_ns():020d}-{os.getpid()}-{number}.json")
        if not os.path.exists(path):
            write_whole(path, write_json(event).encode("ascii"))
            return path
        number += 1


def all_events(home: str) -> list[tuple[str, dict[str, Any]]]:
    """The oldest first. What can't be read is put aside."""
    inside = hooks_path(home, QUEUE_FOLDER)
    found = []
    for name in names_in(inside, ".json"):
        path = os.path.join(inside, name)
        try:
            found.append((path, parse_record(read_contents(path))))
        except ValueError:
            reject_event(path)
        except OSError:
            continue
    for name in names_in(inside, ".tmp"):
        if older_than(os.path.join(inside, name), _FORGOTTEN):
            remove(os.path.join(inside, name))
    return found


def count_events(home: str) -> int:
    """How many wait."""
    return len(names_in(hooks_path(home, QUEUE_FOLDER), ".json"))


def count_rejected_events(home: str) -> int:
    """How many failed too often, or could not be read."""
    return len(names_in(os.path.join(hooks_path(home, QUEUE_FOLDER), BAD), ".json"))


def oldest_event_time(home: str) -> float | None:
    """When the first of them was put there, in seconds since 1970."""
    names = names_in(hooks_path(home, QUEUE_FOLDER), ".json")
    written_at = names[0].partition("-")[0] if names else ""
    return int(written_at) / 1e9 if written_at.isdecimal() else None


def remove_event(path: str) -> None:
    """It waits no longer."""
    remove(path)


def note_failed_event(path: str, event: dict[str, Any]) -> bool:
    """Notes that it failed once more; whether it is tried again. After some attempts it is put aside. Raises OSError."""
    attempts = event.get("attempts", 0)
    attempts = attempts + 1 if isinstance(attempts, int) else 1
    write_whole(path, write_json({**event, "attempts": attempts}).encode("ascii"))
    if attempts < MOST_ATTEMPTS:
        return True
    reject_event(path)
    return False


def remove_old_events(home: str) -> None:
    """Removes what was put aside so long ago that nobody will look at it."""
    inside = os.path.join(hooks_path(home, QUEUE_FOLDER), BAD)
    for name in names_in(inside, ".json"):
        if older_than(os.path.join(inside, name), BAD_DAYS * 86_400.0):
            remove(os.path.join(inside, name))


def reject_event(path: str) -> None:
    """To waiting/bad, which keeps the newest, for some weeks."""
    inside = os.path.join(os.path.dirname(path), BAD)
    try:
        os.makedirs(inside, mode=0o700, exist_ok=True)
        os.replace(path, os.path.join(inside, os.path.basename(path)))
    except OSError:
        remove(path)
    for name in names_in(inside, ".json")[:-MOST_BAD]:
        remove(os.path.join(inside, name))
