"""A home of one's own for every test, and a real model for the few that are about meaning."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from mindhold.app.application import App, open_app
from mindhold.providers.model_registry import LocalModelRegistry
from mindhold.settings.loader import LoadedSettings, load_settings

if TYPE_CHECKING:
    from everywhere import House

pytest_plugins = ("left_out", "servers", "everywhere")

MODEL = "all-MiniLM-L6-v2"

hypothesis.settings.register_profile("untimed", deadline=None)  # speed is measured by benchmarks
gc.set_threshold(
    100_000, 50, 100
)  # thousands of tests keep much in memory; a tenth of their time was collecting
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)  # for `make check`
hypothesis.settings.load_profile("untimed")

Open = Callable[..., AbstractAsyncContextManager[App]]


def _quiet(_step: str, _done: int, _total: int | None) -> None:
    pass


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def load(home: Path, house: House) -> Callable[..., LoadedSettings]:
    """Settings of this home, in UTC and without a model unless said otherwise; the environment has no say."""

    def loaded(**changes: Any) -> LoadedSettings:
        given = {
            "home": home,
            "time_zone": "UTC",
            "embedding.provider": "hashing",
            "history.claude_dir": str(home.parent / "claude"),
            "history.codex_dir": str(home.parent / "codex"),
            "history.gemini_dir": str(home.parent / "gemini"),
        }
        return load_settings(given | house.settings_of(changes.get("home", home)) | changes, environ={})

    return loaded


@pytest.fixture
def settings(load: Callable[..., LoadedSettings]) -> LoadedSettings:
    return load()


@pytest.fixture
def opened(load: Callable[..., LoadedSettings]) -> Open:
    """Opens the store of this home, as one more process would; changed settings by name."""
    return lambda **changes: open_app(load(**changes))


@pytest.fixture
async def app(opened: Open) -> AsyncIterator[App]:
    async with opened() as app:
        yield app


@pytest.fixture(scope="session")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real model, pulled once for all workers: pulling waits for another that pulls."""
    folder = tmp_path_factory.getbasetemp().parent / "pulled-models"
    LocalModelRegistry(folder).pull(MODEL, precision="int8", force=False, progress=_quiet)
    return folder


@pytest.fixture
def models_dir(pulled: Path, home: Path) -> Path:
    """The models folder of this home, with the real model in it."""
    folder = home / "models"
    shutil.copytree(pulled / MODEL, folder / MODEL, copy_function=os.link)
    return folder


@pytest.fixture
async def knowing(opened: Open, models_dir: Path) -> AsyncIterator[App]:
    """An app that knows what words mean."""
    async with opened(**{"embedding.provider": "local", "embedding.threads": 1}) as app:
        yield app
