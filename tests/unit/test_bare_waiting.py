"""Events that wait: whole or not there, in order, and put aside when they are no use."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mindhold.hooks import event_queue
from mindhold.hooks.lease import Lease


def test_events_come_back_in_the_order_they_came(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert (
        event_queue.count_events(home),
        event_queue.all_events(home),
        event_queue.oldest_event_time(home),
    ) == (0, [], None)
    for number in range(20):
        event_queue.put_event(home, {"event": "Stop", "number": number, "text": "half \ud800 of a pair"})
    found = event_queue.all_events(home)
    assert [event["number"] for _, event in found] == list(range(20))
    assert found[0][1]["text"] == "half \ud800 of a pair"
    oldest = event_queue.oldest_event_time(home)
    assert oldest is not None
    assert oldest > 1e9
    for path, _ in found[:5]:
        event_queue.remove_event(path)
        event_queue.remove_event(path)
    assert event_queue.count_events(home) == 15


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = event_queue.put_event(str(home), {"event": "Stop"})
    if os.name == "posix":
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        for folder in (home, home / "hooks", home / "hooks" / "waiting"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_somebody_else_made_is_closed_to_others(tmp_path: Path) -> None:
    if os.name != "posix":
        return
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "waiting").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "waiting"):
        folder.chmod(0o755)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hooks").symlink_to(elsewhere)
    event_queue.put_event(str(tmp_path / "home"), {"event": "Stop"})
    with Lease(str(tmp_path / "home")):
        assert [stat.S_IMODE(one.stat().st_mode) for one in (elsewhere, elsewhere / "waiting")] == [0o700] * 2


def test_what_cannot_be_read_is_put_aside(tmp_path: Path) -> None:
    home = str(tmp_path)
    good = event_queue.put_event(home, {"event": "Stop"})
    folder = Path(good).parent
    for number in range(event_queue.MOST_REJECTED + 20):
        (folder / f"{number:020d}-1-0.json").write_bytes(b"" if number % 2 else b"{half")
    assert [path for path, _ in event_queue.all_events(home)] == [good]
    kept = sorted(path.name for path in (folder / "bad").iterdir())
    assert len(kept) == event_queue.MOST_REJECTED
    assert kept[0].startswith(f"{20:020d}")
    assert event_queue.count_events(home) == 1


def test_one_that_keeps_failing_is_given_up(tmp_path: Path) -> None:
    home = str(tmp_path)
    event_queue.put_event(home, {"event": "Stop", "file": "x"})
    for attempt in range(1, event_queue.MOST_ATTEMPTS):
        [(path, event)] = event_queue.all_events(home)
        assert event_queue.note_failed_event(path, event)
        assert event_queue.all_events(home) == [(path, {"event": "Stop", "file": "x", "attempts": attempt})]
    [(path, event)] = event_queue.all_events(home)
    assert not event_queue.note_failed_event(path, event)
    assert event_queue.count_events(home) == 0
    assert (Path(path).parent / "bad" / Path(path).name).exists()


def test_what_was_put_aside_is_kept_for_some_weeks(tmp_path: Path) -> None:
    home = str(tmp_path)
    aside = [event_queue.put_event(home, {"event": "Stop"}) for _ in range(2)]
    for path in aside:
        event_queue.reject_event(path)
    left = [Path(path).parent / "bad" / Path(path).name for path in aside]
    os.utime(left[0], (1, 1))
    event_queue.remove_old_events(home)
    assert [path.exists() for path in left] == [False, True]


def test_half_written_files_are_cleared_away_in_time(tmp_path: Path) -> None:
    home = str(tmp_path)
    folder = Path(event_queue.put_event(home, {"event": "Stop"})).parent
    old, new = folder / "1-1-0.json.1.tmp", folder / "2-1-0.json.1.tmp"
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    assert len(event_queue.all_events(home)) == 1
    assert (old.exists(), new.exists()) == (False, True)


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x", encoding="utf-8")
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system raises
        event_queue.put_event(str(tmp_path / "home"), {})
    assert event_queue.count_events(str(tmp_path / "home")) == 0
