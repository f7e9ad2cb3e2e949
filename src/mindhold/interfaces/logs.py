"""Logs: one JSON object per line, one file per day (UTC); no memory text unless the level is debug."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mindhold.settings.schema import Settings

OWN = "mindhold"
# They tell the parts of forms and whole addresses, where keys may stand.
NEVER = frozenset({"multipart", "python_multipart", "httpcore", "httpcore2", "httpx", "httpx2"})
LONGEST = 2_000
MOST_FRAMES = 8
FILES = 8  # that the room for all is parted into
MOST_MEGABYTES = 50
_NAME = re.compile(r"mindhold-(\d{4}-\d{2}-\d{2})(?:-\d+)?(?:\.(\d+))?\.log")
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


def log_file(folder: Path, when: datetime, *, shared: bool = True, part: int = 0) -> Path:
    """Where that day's lines are, or a further part of them; of this process alone unless shared."""
    own = "" if shared else f"-{os.getpid()}"
    further = f".{part}" if part else ""
    return folder / f"mindhold-{when.astimezone(UTC):%Y-%m-%d}{own}{further}.log"


@contextmanager
def logging_to(settings: Settings) -> Iterator[None]:
    """Everything that is logged goes to the files of the settings; errors to standard error too."""
    level = logging.getLevelName(settings.log.level.upper())
    frank = settings.log.level == "debug"
    lines = JsonLineFormatter(frank=frank)
    daily = DailyFile(
        settings.logs_dir,
        keep_days=settings.log.keep_days,
        most_bytes=settings.log.most_megabytes << 20,
        shared=os.name != "nt",
    )
    daily.setFormatter(lines)
    aloud = logging.StreamHandler(sys.stderr)
    aloud.setLevel(logging.ERROR)
    aloud.setFormatter(lines)
    root = logging.getLogger()
    before = root.level
    root.setLevel(level)
    for handler in (daily, aloud):
        handler.addFilter(lambda record: _is_wanted(record, frank=frank))
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in (daily, aloud):
            root.removeHandler(handler)
            handler.close()


def _is_wanted(record: logging.LogRecord, *, frank: bool) -> bool:
    family = record.name.partition(".")[0]
    if family == OWN:
        return True
    return record.levelno >= logging.WARNING or (frank and family not in NEVER)


class JsonLineFormatter(logging.Formatter):
    """A record as a line of JSON. Unless `frank`, of others' records only where they come from is told, since what they
    say may quote a request, and of an exception its kind and place, since its words may quote one too."""

    def __init__(self, *, frank: bool) -> None:
        super().__init__()
        self._frank = frank

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        told |= {
            name: value for name, value in vars(record).items() if name not in _USUAL and name not in told
        }
        if record.exc_info and record.exc_info[1] is not None:
            told |= self._error(record.exc_info[1])
        return json.dumps(told, ensure_ascii=False, default=str)

    def _message(self, record: logging.LogRecord) -> str:
        if self._frank or record.name.partition(".")[0] == OWN:
            return record.getMessage()[:LONGEST]
        quoted = f": {record.msg[:LONGEST]}" if record.args and isinstance(record.msg, str) else ""
        return f"{record.module}:{record.lineno} {record.funcName}{quoted}"

    def _error(self, error: BaseException) -> dict[str, Any]:
        frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
        told: dict[str, Any] = {
            "error": type(error).__name__,
            "at": [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames],
        }
        if self._frank:
            told["detail"] = "".join(traceback.format_exception(error))
        return told


class DailyFile(logging.Handler):
    """Appends to the file of the day, which only its owner may read. A disk that is full costs lines, nothing more."""

    def __init__(
        self, folder: Path, *, keep_days: int, most_bytes: int = MOST_MEGABYTES << 20, shared: bool = True
    ) -> None:
        super().__init__()
        self._folder = folder
        self._keep = keep_days
        self._most = most_bytes
        self._shared = shared
        self._day = ""
        self._file: int | None = None
        self._torn = False  # a line was begun and not ended

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        with suppress(OSError):
            file = self._opened(datetime.fromtimestamp(record.created, UTC))
            rest = memoryview(b"\n" + line if self._torn else line)
            while rest:
                rest = rest[os.write(file, rest) :]
                self._torn = bool(rest)

    def close(self) -> None:
        self._let_go()
        super().close()

    def _opened(self, when: datetime) -> int:
        day = f"{when:%Y-%m-%d}"
        if self._file is None or day != self._day or self._is_full(self._file):
            self._let_go()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_APPEND | os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
            path = self._with_room(when)
            self._file, self._day, self._torn = os.open(path, flags, 0o600), day, False
            self._forget_old(when)
        return self._file

    def _is_full(self, file: int) -> bool:
        """Or gone: another process forgot it, or somebody removed it."""
        state = os.fstat(file)
        return state.st_size >= self._most // FILES or (os.name != "nt" and state.st_nlink == 0)

    def _with_room(self, when: datetime) -> Path:
        """The last part of the day's, or the one after it when that is full."""
        named = f"{when:%Y-%m-%d}"
        last = max((part for day, part, _ in self._files() if day == named), default=0)
        path = log_file(self._folder, when, shared=self._shared, part=last)
        with suppress(FileNotFoundError):
            if path.stat().st_size >= self._most // FILES:
                return log_file(self._folder, when, shared=self._shared, part=last + 1)
        return path

    def _let_go(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def _forget_old(self, now: datetime) -> None:
        """By their age; then, the oldest first, until those that stay leave room for the one that is begun."""
        first = f"{now - timedelta(days=self._keep):%Y-%m-%d}"
        room = self._most - self._most // FILES
        for day, _, path in sorted(self._files(), reverse=True):
            with suppress(OSError):
                size = path.stat().st_size
                room -= size
                if day <= first or (room < 0 and size):
                    path.unlink()

    def _files(self) -> list[tuple[str, int, Path]]:
        """By day, part and name."""
        named = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [(found[1], int(found[2] or 0), path) for found, path in named if found]
