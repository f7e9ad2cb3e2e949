"""The lease: one holder, who may hand it on, and whose end frees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mindhold.hooks.lease import Lease, take_worker_lease

HOLD = (
    "import sys; from mindhold.hooks.lease import Lease\n"
    "with Lease(sys.argv[1]) as mine:\n"
    "    print(mine, flush=True); sys.stdin.read()\n"
)
ADOPT = (
    "import sys; from mindhold.hooks.lease import Lease\n"
    "with Lease(sys.argv[1], int(sys.argv[2])) as mine:\n"
    "    print(mine, flush=True); sys.stdin.read()\n"
)


def started(code: str, *argv: str, fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=fds,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def held(home: str) -> bool:
    with Lease(home) as mine:
        return not mine


def test_one_holds_it(tmp_path: Path) -> None:
    home = str(tmp_path)
    assert not held(home)
    with Lease(home) as mine:
        assert mine
        assert held(home)
        with Lease(home) as other:
            assert not other
        assert held(home)
    assert not held(home)


def test_a_killed_holder_frees_it(tmp_path: Path) -> None:
    home = str(tmp_path)
    process = started(HOLD, home)
    assert said(process) == "True"
    assert held(home)
    process.kill()
    process.communicate()
    assert not held(home)


def test_it_is_handed_on_without_a_gap(tmp_path: Path) -> None:
    if os.name != "posix":
        return  # a lock is of its process there
    home = str(tmp_path)
    mine = take_worker_lease(home)
    assert mine is not None
    process = started(ADOPT, home, str(mine), fds=(mine,))
    assert said(process) == "True"
    os.close(mine)
    assert held(home)
    process.communicate()
    assert not held(home)


def test_what_is_handed_on_must_be_the_lease(tmp_path: Path) -> None:
    home = str(tmp_path)
    with (tmp_path / "other").open("w") as other:
        with Lease(home, other.fileno()) as mine:
            assert mine  # taken, not handed
        with Lease(home) as mine, Lease(home, other.fileno()) as second:
            assert (mine, second) == (True, False)
    with Lease(home, 9_999) as mine:
        assert mine
