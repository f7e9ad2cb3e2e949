"""Log files that several processes write to, and disks that fill up."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from mindhold.interfaces.logs import DailyFile, JsonLineFormatter, log_file

WHEN = datetime(2024, 2, 28, 12, tzinfo=UTC)
FULL = 1 << 20


def record(message: str) -> logging.LogRecord:
    made = logging.LogRecord("mindhold.x", logging.INFO, "x.py", 1, message, (), None)
    made.created = WHEN.timestamp()
    return made


def daily(folder: Path, *, shared: bool = True) -> DailyFile:
    handler = DailyFile(folder, keep_days=3, shared=shared)
    handler.setFormatter(JsonLineFormatter(verbose=False))
    return handler


def test_a_process_may_have_files_of_its_own_which_go_as_the_others_do(tmp_path: Path) -> None:
    (tmp_path / "mindhold-2024-02-25-17.log").write_text("old, of another process")
    (tmp_path / "mindhold-2024-02-27-17.log").write_text("younger")
    for shared in (True, False):
        handler = daily(tmp_path, shared=shared)
        handler.emit(record("x"))
        handler.close()
    own = log_file(tmp_path, WHEN, shared=False)
    assert own.name == f"mindhold-2024-02-28-{os.getpid()}.log"
    assert set(tmp_path.iterdir()) == {
        own,
        tmp_path / "mindhold-2024-02-28.log",
        tmp_path / "mindhold-2024-02-27-17.log",
    }


def bounded(folder: Path, most_bytes: int) -> DailyFile:
    handler = DailyFile(folder, keep_days=3, most_bytes=most_bytes)
    handler.setFormatter(JsonLineFormatter(verbose=False))
    return handler


def test_logs_have_a_size_that_they_keep_to_within_a_day_and_between_processes(tmp_path: Path) -> None:
    most = 40_000
    first, second = bounded(tmp_path, most), bounded(tmp_path, most)
    for number in range(1_000):
        first.emit(record(f"first {number:06}"))
        second.emit(record(f"second {number:06}"))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most
    first.close()
    second.close()
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) > 4
    told = [json.loads(line)["message"] for path in files for line in path.read_text().splitlines()]
    assert {"first 000999", "second 000999"} <= set(told)
    assert "first 000000" not in told
    assert len(told) == len(set(told))


def test_the_oldest_days_go_when_there_is_too_much(tmp_path: Path) -> None:
    for day in ("26", "27"):
        (tmp_path / f"mindhold-2024-02-{day}.log").write_bytes(b"." * 30_000)
    (tmp_path / "mongo.log").write_bytes(b"." * 90_000)  # another's
    handler = bounded(tmp_path, 40_000)
    handler.emit(record("x"))
    handler.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "mindhold-2024-02-27.log",
        "mindhold-2024-02-28.log",
        "mongo.log",
    }


if sys.platform != "win32":
    import resource

    def test_a_file_that_was_taken_away_is_begun_anew(tmp_path: Path) -> None:
        handler = daily(tmp_path)
        handler.emit(record("gone"))
        log_file(tmp_path, WHEN).unlink()
        handler.emit(record("there"))
        handler.close()
        [line] = log_file(tmp_path, WHEN).read_text().splitlines()
        assert json.loads(line)["message"] == "there"

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
