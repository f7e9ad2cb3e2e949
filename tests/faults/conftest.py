"""Other processes and database servers, started and ended with the test."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_sites import EVERY_SITE, Site
from store_process import Process, Start

from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START
from servers import server_folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "store.db"


@pytest.fixture
def start(path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def start_one(name: str) -> Process:
        started.append(Process(path, name))
        return started[-1]

    yield start_one
    for process in started:
        process.end()


@pytest.fixture
def new_store(path: Path) -> Callable[[], SqliteStore]:
    return lambda: SqliteStore(path, clock=lambda: START)


@pytest.fixture(scope="module", params=EVERY_SITE)
def site_server(request: pytest.FixtureRequest) -> Iterator[Site]:
    """One server for the module, of each kind in turn."""
    with server_folder(request.param) as folder:
        site = Site(request.param, folder)
        with site.server:
            yield site


@pytest.fixture
def site(site_server: Site) -> Iterator[Site]:
    """The server, running, whatever the test before did to it."""
    site_server.server.start()
    yield site_server
    site_server.server.start()
    gc.collect()  # while what SOCKETS_LEFT says holds
