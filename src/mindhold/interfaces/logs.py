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
# These loggers print form fields and full URLs, which may contain keys.
NEVER = frozenset({"multipart", "python_multipart", "httpcore", "httpcore2", "httpx", "httpx2"})
LONGEST = 2_000
MOST_FRAMES = 8
FILES = 8  # the allowed size is split into this many files
MOST_MEGABYTES = 50
_NAME = re.compile(r"mindhold-(\d{4}-\d{2}-\d{2})(?:-\d+)?(?:\.(\d+))?\.log")
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


def log_file(folder: Path, when: datetime, *, shared: bool = True, part: int = 0) -> Path:
    """Return the log file of a day, or a later part of it; each process has its own unless `shared`."""
    process = "" if shared else f"-{os.getpid()}"
    suffix = f".{part}" if part else ""
    return folder / f"mindhold-{when.astimezone(UTC):%Y-%m-%d}{process}{suffix}.log"


@contextmanager
def logging_to(settings: Settings) -> Iterator[None]:
    """Write logs to the files of the settings; errors go to standard error too."""
    level = logging.getLevelName(settings.log.level.upper())
    verbose = settings.log.level == "debug"
    formatter = JsonLineFormatter(verbose=verbose)
    daily = DailyFile(
        settings.logs_dir,
        keep_days=settings.log.keep_days,
        most_bytes=settings.log.most_megabytes << 20,
        shared=os.name != "nt",
    )
    daily.setFormatter(formatter)
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setLevel(logging.ERROR)
    stderr.setFormatter(formatter)
    root = logging.getLogger()
    before = root.level
    root.setLevel(level)
    for handler in (daily, stderr):
        handler.addFilter(lambda record: _is_wanted(record, verbose=verbose))
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in (daily, stderr):
            root.removeHandler(handler)
            handler.close()


def _is_wanted(record: logging.LogRecord, *, verbose: bool) -> bool:
    family = record.name.partition(".")[0]
    if family == OWN:
        return True
    return record.levelno >= logging.WARNING or (verbose and family not in NEVER)


class JsonLineFormatter(logging.Formatter):
    """Formats a record as a line of JSON.

    Unless `verbose`, only the source of other libraries' records and the type and place of exceptions are written,
    because their texts may quote a request.
    """

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        fields |= {
            name: value for name, value in vars(record).items() if name not in _USUAL and name not in fields
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields |= self._error(record.exc_info[1])
        return json.dumps(fields, ensure_ascii=False, default=str)

    def _message(self, record: logging.LogRecord) -> str:
        if self._verbose or record.name.partition(".")[0] == OWN:
            return record.getMessage()[:LONGEST]
        text = f": {record.msg[:LONGEST]}" if record.args and isinstance(record.msg, str) else ""
        return f"{record.module}:{record.lineno} {record.funcName}{text}"

    def _error(self, error: BaseException) -> dict[str, Any]:
        frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
        fields: dict[str, Any] = {
            "error": type(error).__name__,
            "at": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
        }
        if self._verbose:
            fields["detail"] = "".join(traceback.format_exception(error))
        return fields


class DailyFile(logging.Handler):
    """Appends to the file of the day, which only its owner may read. On a full disk, lines are lost without an error."""

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
        self._torn = False  # the last line is incomplete

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        with suppress(OSError):
            file = self._open_for(datetime.fromtimestamp(record.created, UTC))
            rest = memoryview(b"\n" + line if self._torn else line)
            while rest:
                rest = rest[os.write(file, rest) :]
                self._torn = bool(rest)

    def close(self) -> None:
        self._close_file()
        super().close()

    def _open_for(self, when: datetime) -> int:
        day = f"{when:%Y-%m-%d}"
        if self._file is None or day != self._day or self._is_full(self._file):
            self._close_file()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_APPEND | os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
            path = self._current_path(when)
            self._file, self._day, self._torn = os.open(path, flags, 0o600), day, False
            self._remove_old(when)
        return self._file

    def _is_full(self, file: int) -> bool:
        """Whether the file is full, or was removed."""
        state = os.fstat(file)
        return state.st_size >= self._most // FILES or (os.name != "nt" and state.st_nlink == 0)

    def _current_path(self, when: datetime) -> Path:
        """Return the last part of the day's file, or the next one if that is full."""
        today = f"{when:%Y-%m-%d}"
        last = max((part for day, part, _ in self._files() if day == today), default=0)
        path = log_file(self._folder, when, shared=self._shared, part=last)
        with suppress(FileNotFoundError):
            if path.stat().st_size >= self._most // FILES:
                return log_file(self._folder, when, shared=self._shared, part=last + 1)
        return path

    def _close_file(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def _remove_old(self, now: datetime) -> None:
        """Remove files that are too old, then the oldest until there is space for the new file."""
        first = f"{now - timedelta(days=self._keep):%Y-%m-%d}"
        room = self._most - self._most // FILES
        for day, _, path in sorted(self._files(), reverse=True):
            with suppress(OSError):
                size = path.stat().st_size
                room -= size
                if day <= first or (room < 0 and size):
                    path.unlink()

    def _files(self) -> list[tuple[str, int, Path]]:
        """List the log files with their day and part."""
        matches = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [(match[1], int(match[2] or 0), path) for match, path in matches if match]
