"""kill -9 at every step of a backup and of a restore, and no room left: the old or the new is there, whole."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fault_sites import no_file_beyond

from mindhold.app.application import App, open_app
from mindhold.app.restore import drop_old, replace_all
from mindhold.backup.create import BACKUP, LIST_BACKUPS
from mindhold.backup.verify import VERIFY_BACKUPS
from mindhold.lifecycle.status import DOCTOR
from mindhold.memories.remember import REMEMBER
from mindhold.model.errors import StoreFull
from mindhold.model.query import Filter
from mindhold.settings.loader import load_settings
from support.mongo_server import MongoServer

CHILD = Path(__file__).with_name("backup_child.py")
BEFORE, AFTER = "The harbour has nine cranes.", "The harbour has no cranes any more."
_numbers = count(1)


def settings_of(home: Path, store: dict[str, Any]) -> dict[str, Any]:
    return {"home": str(home), "time_zone": "UTC", "embedding.provider": "hashing", **store}


def child(what: str, settings: dict[str, Any], fatal: int) -> int:
    """How many steps it had; -1 when it was killed."""
    ran = subprocess.run(
        [sys.executable, str(CHILD), what, json.dumps(settings), str(fatal)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if ran.returncode == -signal.SIGKILL:
        return -1
    assert ran.returncode == 0, ran.stderr
    return int(json.loads(ran.stdout)["steps"])


async def remember(app: App, content: str) -> None:
    assert (await app.run(REMEMBER, REMEMBER.takes(content=content))).id


async def contents(app: App) -> set[str]:
    return {memory.content for memory in await app.engine.store.find(Filter(), limit=100)}


async def backed_up_and_changed(settings: dict[str, Any]) -> None:
    async with open_app(load_settings(settings, environ={})) as app:
        await remember(app, BEFORE)
        await app.run(BACKUP, BACKUP.takes())
        await remember(app, AFTER)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
async def test_a_backup_that_is_killed_at_any_step_leaves_none_or_a_good_one(tmp_path: Path) -> None:
    template = tmp_path / "template"
    async with open_app(load_settings(settings_of(template, {}), environ={})) as app:
        await remember(app, BEFORE)
    shutil.copytree(template, tmp_path / "counting")
    steps = child("backup", settings_of(tmp_path / "counting", {}), 0)
    assert steps >= 8
    for fatal in range(1, steps + 1):
        home = tmp_path / f"home {fatal}"
        shutil.copytree(template, home)
        assert child("backup", settings_of(home, {}), fatal) == -1
        async with open_app(load_settings(settings_of(home, {}), environ={})) as app:
            there = [one for one in (await app.run(LIST_BACKUPS, LIST_BACKUPS.takes())).backups if one.sha256]
            if there:
                assert (await app.run(VERIFY_BACKUPS, VERIFY_BACKUPS.takes(all=True))).good
            made = await app.run(BACKUP, BACKUP.takes(name="again"))
            assert (await app.run(VERIFY_BACKUPS, VERIFY_BACKUPS.takes(file=made.file))).good
            assert await contents(app) == {BEFORE}
        shutil.rmtree(home)


async def old_or_new(settings: dict[str, Any]) -> str:
    """Which of the two is there, whole; a restore then goes well."""
    loaded = load_settings(settings, environ={})
    async with open_app(loaded) as app:
        there = await contents(app)
        assert there in ({BEFORE}, {BEFORE, AFTER})
        assert (await app.run(DOCTOR, DOCTOR.takes())).healthy
    await replace_all(loaded, None, told=lambda *_: None)
    async with open_app(loaded) as app:
        assert await contents(app) == {BEFORE}
    return "new" if there == {BEFORE} else "old"


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
async def test_a_restore_that_is_killed_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    template = tmp_path / "template"
    await backed_up_and_changed(settings_of(template, {}))
    shutil.copytree(template, tmp_path / "counting")
    steps = child("restore", settings_of(tmp_path / "counting", {}), 0)
    assert steps >= 6
    seen = set()
    for fatal in range(1, steps + 1):
        home = tmp_path / f"home {fatal}"
        shutil.copytree(template, home)
        assert child("restore", settings_of(home, {}), fatal) == -1
        seen.add(await old_or_new(settings_of(home, {})))
        shutil.rmtree(home)
    assert seen == {"old", "new"}


@pytest.fixture
def mongo(mongo_server: MongoServer) -> Iterator[dict[str, Any]]:
    names: list[str] = []

    def new() -> dict[str, Any]:
        names.append(f"killed_{next(_numbers)}")
        return {
            "store.mode": "mongodb",
            "mongodb.mode": "external",
            "mongodb.uri": mongo_server.url,
            "mongodb.database": names[-1],
        }

    yield {"new": new}
    for name in names:
        mongo_server.command({"dropDatabase": 1}, database=name)


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
async def test_a_restore_of_mongodb_that_is_killed_at_any_renaming_is_finished(
    tmp_path: Path, mongo: dict[str, Any]
) -> None:
    settings = settings_of(tmp_path / "counting", mongo["new"]())
    await backed_up_and_changed(settings)
    steps = child("restore", settings, 0)
    seen = set()
    for fatal in range(1, steps + 1):
        home = tmp_path / f"home {fatal}"
        one = settings_of(home, mongo["new"]())
        await backed_up_and_changed(one)
        assert child("restore", one, fatal) == -1
        seen.add(await old_or_new(one))
    assert seen == {"old", "new"}


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
async def test_a_restore_of_postgres_that_is_killed_at_any_renaming_is_none(
    tmp_path: Path, postgres_url: str
) -> None:
    settings = settings_of(tmp_path / "home", {"store.mode": "postgres", "postgres.url": postgres_url})
    await backed_up_and_changed(settings)
    seen = []
    for fatal in range(1, 100):
        async with open_app(load_settings(settings, environ={})) as app:
            if await contents(app) == {BEFORE}:
                await remember(app, AFTER)
        if child("restore", settings, fatal) != -1:
            break
        seen.append(await old_or_new(settings))
        await drop_old(load_settings(settings, environ={}), None)
    assert "old" in seen


async def test_without_room_there_is_no_backup_and_nothing_is_replaced(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home", {})
    await backed_up_and_changed(settings)
    loaded = load_settings(settings, environ={})
    names = sorted(path.name for path in (tmp_path / "home" / "backups").iterdir())
    with no_file_beyond(60_000):
        async with open_app(loaded) as app:
            with pytest.raises(StoreFull):
                await app.run(BACKUP, BACKUP.takes())
        with pytest.raises(StoreFull):
            await replace_all(loaded, None, told=lambda *_: None)
    assert sorted(path.name for path in (tmp_path / "home" / "backups").iterdir()) == names
    assert [path.name for path in (tmp_path / "home" / "data").iterdir() if "restoring" in path.name] == []
    async with open_app(loaded) as app:
        assert await contents(app) == {BEFORE, AFTER}
    assert await old_or_new(settings) == "old"
