"""The queue of events for the worker, one file per event."""

from __future__ import annotations

import os
import time

from mindhold.hooks.fast_json import parse_record, write_json
from mindhold.hooks.files import (
    hooks_path,
    list_names,
    make_hooks_folder,
    read_contents,
    remove,
    remove_older,
    write_whole,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


QUEUE_FOLDER = "waiting"
REJECTED_FOLDER = "bad"
MOST_REJECTED = 100
REJECTED_DAYS = 30
MOST_ATTEMPTS = 5
_ABANDONED_SECONDS = 600.0  # seconds after which a half-written file is abandoned


def put_event(home: str, event: dict[str, Any]) -> str:
    """Write an event to the queue and return its file, which is complete then. Raises OSError."""
    folder = make_hooks_folder(home, QUEUE_FOLDER)
    number = 0
    while True:
        path = os.path.join(folder, f"{time.time_ns():020d}-{os.getpid()}-{number}.json")
        if not os.path.exists(path):
            write_whole(path, write_json(event).encode("ascii"))
            return path
        number += 1


def all_events(home: str) -> list[tuple[str, dict[str, Any]]]:
    """All events with their files, oldest first. Unreadable files are moved to waiting/bad."""
    folder = hooks_path(home, QUEUE_FOLDER)
    events = []
    for name in list_names(folder, ".json"):
        path = os.path.join(folder, name)
        try:
            events.append((path, parse_record(read_contents(path))))
        except ValueError:
            reject_event(path)
        except OSError:
            continue
    remove_older(folder, ".tmp", _ABANDONED_SECONDS)
    return events


def count_events(home: str) -> int:
    """The number of waiting events."""
    return len(list_names(hooks_path(home, QUEUE_FOLDER), ".json"))


def count_rejected_events(home: str) -> int:
    """The number of events that failed too often or could not be read."""
    return len(list_names(hooks_path(home, QUEUE_FOLDER, REJECTED_FOLDER), ".json"))


def oldest_event_time(home: str) -> float | None:
    """When the oldest event was written, in seconds since 1970; None if there is none."""
    names = list_names(hooks_path(home, QUEUE_FOLDER), ".json")
    written_at = names[0].partition("-")[0] if names else ""
    return int(written_at) / 1e9 if written_at.isdecimal() else None


def remove_event(path: str) -> None:
    """Remove an event from the queue."""
    remove(path)


def note_failed_event(path: str, event: dict[str, Any]) -> bool:
    """Record another failure and return whether the event is retried; after some attempts it is rejected. Raises OSError."""
    attempts = event.get("attempts", 0)
    attempts = attempts + 1 if isinstance(attempts, int) else 1
    write_whole(path, write_json({**event, "attempts": attempts}).encode("ascii"))
    if attempts < MOST_ATTEMPTS:
        return True
    reject_event(path)
    return False


def remove_old_events(home: str) -> None:
    """Remove rejected events that nobody will look at any more."""
    remove_older(hooks_path(home, QUEUE_FOLDER, REJECTED_FOLDER), ".json", REJECTED_DAYS * 86_400.0)


def reject_event(path: str) -> None:
    """Move an event to waiting/bad, which keeps the newest ones for some weeks."""
    folder = os.path.join(os.path.dirname(path), REJECTED_FOLDER)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.replace(path, os.path.join(folder, os.path.basename(path)))
    except OSError:
        remove(path)
    for name in list_names(folder, ".json")[:-MOST_REJECTED]:
        remove(os.path.join(folder, name))
