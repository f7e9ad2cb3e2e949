"""What a conversation was told: each thing once, whoever asks at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindhold.hooks import already_shown

CLAIM = (
    "import sys; from mindhold.hooks import already_shown\n"
    "sys.stdin.read(); print(*already_shown.claim_shown(sys.argv[1], 's', [str(n) for n in range(50)]))"
)


def test_each_is_told_once_in_a_conversation(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert already_shown.read_shown(home, "s") == frozenset()
    assert already_shown.claim_shown(home, "s", ["a", "b", "a", ""]) == ["a", "b"]
    assert already_shown.claim_shown(home, "s", ["b", "c"]) == ["c"]
    assert already_shown.read_shown(home, "s") == {"a", "b", "c"}
    assert already_shown.claim_shown(home, "another/../s", ["a"]) == ["a"]
    already_shown.reset_shown(home, "s")
    already_shown.reset_shown(home, "s")
    already_shown.claim_shown(home, "s", ["b"])
    assert already_shown.read_shown(home, "s") == {"b"}


def test_hooks_at_the_same_time_share_what_is_told(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    given = [word for process in started for word in process.communicate()[0].split()]
    assert sorted(map(int, given)) == list(range(50))


def test_notes_are_kept_for_some_days(tmp_path: Path) -> None:
    home = str(tmp_path)
    already_shown.claim_shown(home, "old", ["a"])
    [path] = (tmp_path / "hooks" / "told").iterdir()
    os.utime(path, (1, 1))
    already_shown.claim_shown(home, "new", ["a"])
    already_shown.remove_old_shown(home)
    assert already_shown.read_shown(home, "old") == frozenset()
    assert already_shown.read_shown(home, "new") == {"a"}


def test_what_cannot_be_noted_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "hooks").write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system raises
        already_shown.claim_shown(str(tmp_path), "s", ["a"])
