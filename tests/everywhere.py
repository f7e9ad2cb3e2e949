"""`--store postgres` and `--store mongodb`: the same tests, with every home's memories in a database of a real server.

Tests that are about the SQLite file itself are marked `local_file`; on another store they are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pytest

from left_out import leave_out

STORES = ("local", "postgres", "mongodb")
_MARK = "local_file"
_TEMPLATE = "with_tables"
_houses: dict[str, House] = {}


class House(Protocol):
    """Where the memories of a home live."""

    def settings_of(self, home: Path) -> dict[str, Any]:
        """Settings by name; a home that is asked for the first time gets a database of its own."""

    def leave(self, folder: Path) -> None:
        """Drop the databases of the homes in that folder."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", default="local", choices=STORES, help="Where the memories of tests live.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARK}: about the SQLite file itself, which no server has.")


def pytest_report_header(config: pytest.Config) -> str:
    return f"store: {config.getoption('--store')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    store = config.getoption("--store")
    if store == "local":
        return
    leave_out(
        config,
        items,
        lambda item: item.get_closest_marker(_MARK) is not None,
        why=f"tests on {store}: they are about SQLite's own file",
    )


class _Files:
    """Every home has its file."""

    def settings_of(self, home: Path) -> dict[str, Any]:
        return {}

    def leave(self, folder: Path) -> None:
        pass


class _Databases:
    """A database for each home, named by number."""

    def __init__(self) -> None:
        self._homes: dict[Path, str] = {}
        self._numbers = count(1)

    def settings_of(self, home: Path) -> dict[str, Any]:
        name = self._homes.get(home)
        if name is None:
            name = self._homes[home] = f"home_{next(self._numbers)}"
            self._make(name)
        return self._settings(name)

    def leave(self, folder: Path) -> None:
        for home in [home for home in self._homes if home.is_relative_to(folder)]:
            self._drop(self._homes.pop(home))

    def _make(self, name: str) -> None:
        raise NotImplementedError

    def _drop(self, name: str) -> None:
        raise NotImplementedError

    def _settings(self, name: str) -> dict[str, Any]:
        raise NotImplementedError


class _Postgres(_Databases):
    """Copies of a database with the tables in it: a tenth of what making them takes."""

    def __init__(self, server: Any, home: Path) -> None:
        super().__init__()
        self._server = server
        server.create_database(_TEMPLATE, template="with_vectors")
        _open_once(home, self._settings(_TEMPLATE))

    def _make(self, name: str) -> None:
        self._server.create_database(name, template=_TEMPLATE)

    def _drop(self, name: str) -> None:
        self._server.drop_database(name)

    def _settings(self, name: str) -> dict[str, Any]:
        return {"store.mode": "postgres", "postgres.url": self._server.url_of(name)}


class _Mongo(_Databases):
    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server

    def _make(self, name: str) -> None:
        """It comes into being with its first document."""

    def _drop(self, name: str) -> None:
        self._server.command({"dropDatabase": 1}, database=name)

    def _settings(self, name: str) -> dict[str, Any]:
        return {
            "store.mode": "mongodb",
            "mongodb.mode": "external",
            "mongodb.uri": self._server.url,
            "mongodb.database": name,
        }


@pytest.fixture(scope="session")
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Where this run's memories live."""
    return house_of(request.config.getoption("--store"), request, tmp_path_factory)


def house_of(store: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> House:
    """That of one store, with the server that it needs; one for all, for its databases have numbers."""
    if store not in _houses:
        _houses[store] = _house_of(store, request, folders)
    return _houses[store]


def _house_of(store: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> House:
    if store == "postgres":
        return _Postgres(request.getfixturevalue("postgres_server"), folders.mktemp("template"))
    if store == "mongodb":
        return _Mongo(request.getfixturevalue("mongo_server"))
    return _Files()


@pytest.fixture(autouse=True)
def _left(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test's homes had in a server goes with them."""
    if not {"house", "tmp_path"} <= set(request.fixturenames):
        yield
        return
    house, folder = request.getfixturevalue("house"), request.getfixturevalue("tmp_path")
    yield
    house.leave(folder)


def as_environment(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as a process is told them."""
    return {f"MINDHOLD_{name.replace('.', '_').upper()}": str(value) for name, value in settings.items()}


def _open_once(home: Path, settings: dict[str, Any]) -> None:
    import asyncio

    from mindhold.app.application import open_app
    from mindhold.settings.loader import load_settings

    async def opened() -> None:
        given = {"home": home, "time_zone": "UTC", "embedding.provider": "none"}  # no model has been here yet
        async with open_app(load_settings(given | settings, environ={})):
            pass

    asyncio.run(opened())
