"""The assistant's tests run on the home's own store and on a real mongod in each run; the stories, on a private mongod as well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_clients
import pytest
from assistant_door import EMBEDDED, EXTERNAL, OWN

from everywhere import as_environment, house_of
from left_out import leave_out

if TYPE_CHECKING:
    from everywhere import House

HERE = Path(__file__).parent
_ELSEWHERE = pytest.mark.needs("mongodb")


class _Embedded:
    """Every home starts a mongod of its own, which goes with the last process that uses it."""

    def settings_of(self, home: Path) -> dict[str, Any]:
        return {"store.mode": "mongodb", "mongodb.mode": "embedded"}

    def leave(self, folder: Path) -> None:
        pass


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--store` chooses one store for all; those that chose theirs are in the run without it."""
    if config.getoption("--store") != "local":
        leave_out(
            config,
            items,
            lambda item: HERE in item.path.parents and _chosen(item) != OWN,
            why="tests of the assistant's tools: they choose another store themselves",
        )


def _chosen(item: pytest.Item) -> str:
    spec = getattr(item, "callspec", None)
    return str(spec.params.get("house", OWN)) if spec else OWN


@pytest.fixture(scope="session", params=[OWN, pytest.param(EXTERNAL, marks=_ELSEWHERE)])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Where the memories live; `parametrize(..., indirect=True)` names others."""
    if request.param == EMBEDDED:
        return _Embedded()
    store = "mongodb" if request.param == EXTERNAL else request.config.getoption("--store")
    return house_of(store, request, tmp_path_factory)


@pytest.fixture
def told(house: House, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What processes are started with besides: where the memories live, and what the test puts in."""
    more: dict[str, str] = {}
    monkeypatch.setattr(
        mcp_clients, "housed", lambda home: {**as_environment(house.settings_of(home)), **more}
    )
    return more
