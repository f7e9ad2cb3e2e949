"""`mindhold statusline`: one short line for Claude Code's status line."""

from __future__ import annotations

import time

from mindhold.hooks.environment import home_folder, project_dir
from mindhold.hooks.event_queue import oldest_event_time
from mindhold.hooks.fast_json import parse_record
from mindhold.hooks.files import write_all
from mindhold.hooks.hook_cache import read_cache_head
from mindhold.hooks.project_identity import project_identity
from mindhold.interfaces.hooks.streams import fill_closed_streams, parse_arguments, read_all, report_error

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


LONGEST_PROBLEM = 80
TOO_LONG = 900.0  # seconds; no event should wait longer for a worker
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"))


def run(argv: Sequence[str], stdin: int = 0, stdout: int = 1) -> int:
    """Print the status line and return the exit status 0."""
    try:
        fill_closed_streams()
        home = home_folder(override=parse_arguments(["statusline", *argv])[1])
        line = status_line(home, _folder(read_all(stdin)), now=time.time())
        write_all(stdout, line.encode("utf-8", "replace") + b"\n")
    except BaseException as error:  # noqa: BLE001 - a status line never fails
        report_error(error)
    return 0


def status_line(home: str, folder: str, *, now: float) -> str:
    """Return the number of memories, the last capture and what is wrong, in one line."""
    head = read_cache_head(home, project_identity(folder)) or {}
    status = head.get("status")
    parts = _parts(status, now) if isinstance(status, dict) else ["nothing captured here yet"]
    since = oldest_event_time(home)
    if since is not None and now - since > TOO_LONG:
        parts.append(f"! waiting for a worker for {_duration(now - since)}: mindhold doctor")
    return "mindhold: " + ", ".join(parts)


def _parts(status: dict[str, Any], now: float) -> list[str]:
    count, captured, rung = status.get("memories"), status.get("captured"), status.get("rung")
    count = count if isinstance(count, int) else 0
    parts = [f"{count:,} memories" if count != 1 else "1 memory"]
    moment = _timestamp(captured)
    if moment is not None:
        parts.append(f"captured {_duration(now - moment)} ago" if now - moment >= 60 else "captured just now")
    kept = status.get("kept")
    if isinstance(kept, dict) and kept.get("text"):
        parts.append(f"last kept {_clean(kept['text'])}")
    if isinstance(rung, str) and rung:
        parts.append(f"by {_clean(rung)}")
    if status.get("problem"):
        parts.append(f"! {_clean(status['problem'])}")
    return parts


def _folder(raw: bytes) -> str:
    try:
        payload = parse_record(raw)
    except ValueError:
        payload = {}
    places = payload.get("workspace")
    places = places if isinstance(places, dict) else {}
    folders = (places.get("project_dir"), places.get("current_dir"), payload.get("cwd"))
    return project_dir(cwd=next((folder for folder in folders if isinstance(folder, str) and folder), ""))


def _timestamp(captured: Any) -> float | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(captured).timestamp() if isinstance(captured, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def _duration(seconds: float) -> str:
    for size, name in _UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'s' if name == 'day' and number != 1 else ''}"
    return "a moment"


def _clean(text: Any) -> str:
    flat = " ".join(str(text).split())
    return "".join(character for character in flat if character.isprintable())[:LONGEST_PROBLEM]
