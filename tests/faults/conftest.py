"""Other processes, started and ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_process import Process, Start

from recollect.stores.sqlite.store import SqliteStore
from recollect.testing.builders import START


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
