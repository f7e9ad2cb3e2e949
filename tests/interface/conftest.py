"""The command line with a home of its own: in this process, and as a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_shell import Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("RECOLLECT_HOME", str(home))
    monkeypatch.setenv("RECOLLECT_EMBEDDING_PROVIDER", "hashing")
    monkeypatch.setenv("RECOLLECT_STORE_DURABILITY", "normal")
    monkeypatch.setenv("RECOLLECT_TIME_ZONE", "Europe/Berlin")
    return Shell(home, monkeypatch)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a real process is started with."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    own = {"RECOLLECT_HOME": str(tmp_path / "home"), "RECOLLECT_EMBEDDING_PROVIDER": "hashing"}
    return {**kept, **own, "PYTHONUTF8": "1"}
