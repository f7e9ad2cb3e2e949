"""The command line with a home of its own: in this process, and as a process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import api_page
import mcp_clients
import pytest
from cli_shell import Shell

from everywhere import as_environment
from left_out import leave_out
from mindhold.interfaces.http.limits import TokenBuckets

if TYPE_CHECKING:
    from everywhere import House


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "api_page: runs the examples of the page that the API was written against."
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the page, or without curl, they are told as not run: nobody is to take them for passed."""
    there = {"shared/specs beside the project": api_page.page(), "curl": shutil.which("curl")}
    missing = [name for name, found in there.items() if found is None]
    if missing:
        leave_out(
            config,
            items,
            lambda item: item.get_closest_marker("api_page") is not None,
            why=f"tests of the page's own examples, which need {' and '.join(missing)}",
        )


@pytest.fixture(autouse=True, scope="session")
def _housed(house: House) -> Iterator[None]:
    """Servers that tests start have their memories where this run has them."""
    before = mcp_clients.housed
    mcp_clients.housed = lambda home: as_environment(house.settings_of(home))
    yield
    mcp_clients.housed = before


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, house: House) -> Shell:
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("MINDHOLD_HOME", str(home))
    monkeypatch.setenv("MINDHOLD_EMBEDDING_PROVIDER", "hashing")
    monkeypatch.setenv("MINDHOLD_STORE_DURABILITY", "normal")
    monkeypatch.setenv("MINDHOLD_TIME_ZONE", "Europe/Berlin")
    for name, value in as_environment(house.settings_of(home)).items():
        monkeypatch.setenv(name, value)
    return Shell(home, monkeypatch)


@pytest.fixture
def stopped_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a minute allows is not given anew while a busy machine comes to ask for it."""
    making: Any = TokenBuckets.__init__
    monkeypatch.setitem(making.__kwdefaults__, "clock", lambda: 0.0)


@pytest.fixture
def environment(tmp_path: Path, house: House) -> dict[str, str]:
    """What a real process is started with."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MINDHOLD_")}
    own = {"MINDHOLD_HOME": str(tmp_path / "home"), "MINDHOLD_EMBEDDING_PROVIDER": "hashing"}
    return {**kept, **own, **as_environment(house.settings_of(tmp_path / "home")), "PYTHONUTF8": "1"}
