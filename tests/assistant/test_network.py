"""Everything goes without a network: the tests of the tools once more, where there is no interface but the loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALONE = ["unshare", "--map-root-user", "--net", "--"]
TOOLS = [
    "test_storing",
    "test_retrieving",
    "test_times",
    "test_deleting",
    "test_maintaining",
    "test_profile_kept",
    "test_keeping",
    "test_stories",
]


def _may_be_alone() -> bool:
    try:
        return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def namespace() -> None:
    """Nothing that was not run counts as green; `--without namespace` leaves it out, and tells."""
    if not _may_be_alone():
        pytest.fail("No network namespace can be had here: --without namespace leaves this out.")


@pytest.mark.usefixtures("namespace")
def test_the_tools_need_no_network_and_ask_for_none(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    files = [str(file) for name in TOOLS if (file := HERE / f"{name}.py").is_file()]
    run = ["-m", "pytest", "-q", "-x", "-p", "only_loopback", "-k", "[own and not other_words", *files]
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("MINDHOLD_", "PYTEST_"))
    }
    done = subprocess.run(
        [
            *ALONE,
            sys.executable,
            str(HERE / "only_loopback.py"),
            *run,
            "--basetemp",
            str(tmp_path / "inside"),
        ],
        env={**kept, "PYTHONPATH": str(HERE), "ONLY_LOOPBACK_NOTES": str(notes)},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-2_000:]
    assert not notes.exists(), notes.read_text(encoding="utf-8")
