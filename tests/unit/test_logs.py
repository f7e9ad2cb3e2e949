"""Log files that several processes write to, and disks that fill up."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from recollect.interfaces.logs import DailyFile, Lines, log_file

WHEN = datetime(2024, 2, 28, 12, tzinfo=UTC)
FULL = 1 << 20


def record(message: str) -> logging.LogRecord:
    made = logging.LogRecord("recollect.x", logging.INFO, "x.py", 1, message, (), None)
    made.created = WHEN.timestamp()
    return made


def daily(folder: Path, *, shared: bool = True) -> DailyFile:
    handler = DailyFile(folder, keep_days=3, shared=shared)
    handler.setFormatter(Lines(frank=False))
    return handler


def test_a_process_may_have_files_of_its_own_which_go_as_the_others_do(tmp_path: Path) -> None:
    (tmp_path / "recollect-2024-02-25-17.log").write_text("old, of another process")
    (tmp_path / "recollect-2024-02-27-17.log").write_text("younger")
    for shared in (True, False):
        handler = daily(tmp_path, shared=shared)
        handler.emit(record("x"))
        handler.close()
    own = log_file(tmp_path, WHEN, shared=False)
    assert own.name == f"recollect-2024-02-28-{os.getpid()}.log"
    assert set(tmp_path.iterdir()) == {
        own,
        tmp_path / "recollect-2024-02-28.log",
        tmp_path / "recollect-2024-02-27-17.log",
    }


if sys.platform != "win32":
    import resource

    def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
        path = log_file(tmp_path, WHEN)
        path.write_bytes(b"." * (FULL - 1) + b"\n")
        handler = daily(tmp_path)
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL + 500, usual[1]))
        try:
            handler.emit(record("x" * 1_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        handler.emit(record("there is room again"))
        handler.close()
        _, torn, last = path.read_text().splitlines()
        assert len(torn) == 500
        assert json.loads(last)["message"] == "there is room again"
