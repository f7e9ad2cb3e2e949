"""A backup of any store is restored into any other, and projects that live in several are backed up together."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from front_door import found, recall, run, stored

from mindhold.access.keys import CREATE_KEY, LIST_KEYS
from mindhold.app.application import App, open_app
from mindhold.app.restore import replace_all
from mindhold.backup.create import BACKUP
from mindhold.backup.restore import RESTORE
from mindhold.backup.verify import VERIFY_BACKUPS
from mindhold.lifecycle.status import DOCTOR
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.errors import StoreAway
from mindhold.ports.backend import Record
from mindhold.projects.projects import CREATE_PROJECT, LIST_PROJECTS
from mindhold.projects.scope_operations import CREATE_SCOPE
from mindhold.settings.loader import LoadedSettings, load_settings
from support.mongo_server import MongoServer

MODES = ("local", "postgres", "mongodb")
Loaded = Callable[..., LoadedSettings]
_numbers = count(1)


@pytest.fixture
def mongo(mongo_server: MongoServer) -> Iterator[dict[str, Any]]:
    name = f"between_{next(_numbers)}"
    yield {"mongodb.mode": "external", "mongodb.uri": mongo_server.url, "mongodb.database": name}
    mongo_server.command({"dropDatabase": 1}, database=name)


@pytest.fixture
def loaded(tmp_path: Path, postgres_url: str, mongo: dict[str, Any]) -> Loaded:
    """Settings of one home whose memories are in that store; all three can be had."""

    def load(mode: str, **changes: Any) -> LoadedSettings:
        given = {
            "home": tmp_path / "home",
            "time_zone": "UTC",
            "embedding.provider": "hashing",
            "history.claude_dir": str(tmp_path / "claude"),
            "store.mode": mode,
            "postgres.url": postgres_url,
            **mongo,
        }
        return load_settings(given | changes, environ={})

    return load


def opened(loaded: LoadedSettings) -> AbstractAsyncContextManager[App]:
    return open_app(loaded)


async def filled(app: App) -> dict[str, str]:
    await run(app, CREATE_SCOPE, name="ship", keywords=["sea"])
    await run(app, CREATE_SCOPE, name="cabin", parent="ship")
    ids = {
        "amended": await stored(
            app, "The harbour has nine cranes.\x00", tags=["Quay"], metadata={"n": [1, {"k": None}]}
        ),
        "hidden": await stored(app, "The safe is behind the mirror.", scope="cabin"),
        "linked": await stored(app, "The captain prefers tea.", scope="cabin", topic="tea"),
    }
    await run(app, AMEND, id=ids["amended"], content="The harbour has ten cranes.")
    await run(app, FORGET, ids=[ids["hidden"]])
    await run(app, LINK, origin=ids["amended"], target=ids["linked"])
    await run(app, CREATE_KEY, name="laptop", scopes=["ship"])
    await run(app, REMEMBER_MANY, items=[{"content": f"Crate {n} holds {n * 7} lamps."} for n in range(40)])
    return ids


async def all_of(app: App) -> tuple[list[str], dict[str, Any]]:
    plain, vectors = [], {}
    house = await app.engine.store_registry.house(app.engine.store_registry.home)
    async for batch in house.snapshot():
        for one in batch:
            plain.append(repr(one.memory if isinstance(one, Record) else one))
            if isinstance(one, Record) and one.vector is not None:
                vectors[one.memory.id] = one.vector
    return sorted(plain), vectors


@pytest.mark.parametrize("target", MODES)
@pytest.mark.parametrize("source", MODES)
async def test_everything_arrives(loaded: Loaded, source: str, target: str) -> None:
    async with opened(loaded(source)) as app:
        ids = await filled(app)
        before, meant = await all_of(app)
        made = await run(app, BACKUP)
        assert (await run(app, VERIFY_BACKUPS)).good
    done = await replace_all(loaded(target), made.file, told=lambda *_: None)
    assert (done.memories, done.problems) == (made.memories, [])
    async with opened(loaded(target)) as app:
        after, vectors = await all_of(app)
        assert after == before
        assert vectors.keys() == meant.keys()
        assert all(np.allclose(vectors[one], meant[one], atol=1e-3) for one in meant)
        assert ids["amended"] in await found(app, "harbour cranes")
        assert [key.name for key in (await run(app, LIST_KEYS)).keys] == ["laptop"]
        assert (await run(app, RESTORE, file=made.file)).skipped == made.memories
        unhealthy = [one.detail for one in (await run(app, DOCTOR)).findings if not one.healthy]
        assert unhealthy == []


async def three(app: App) -> dict[str, str]:
    """A project in each store."""
    ids = {}
    for mode in MODES:
        await run(app, CREATE_PROJECT, name=f"of {mode}", storage_mode=mode)
        ids[mode] = await stored(app, f"The {mode} shop opens at nine.", scope=f"of {mode}")
    ids["plain"] = await stored(app, "The captain prefers tea.")
    return ids


async def test_projects_in_several_stores_come_back_to_where_they_lived(loaded: Loaded) -> None:
    async with opened(loaded("local")) as app:
        ids = await three(app)
        made = await run(app, BACKUP)
        assert made.memories == 4
        for mode in MODES:
            await run(app, FORGET, ids=[ids[mode]], hard=True)
    done = await replace_all(loaded("local"), None, told=lambda *_: None)
    assert sorted(old.store for old in done.old) == sorted(MODES)
    async with opened(loaded("local")) as app:
        for mode in MODES:
            assert await found(app, "shop opens", scope=f"of {mode}") == [ids[mode]]
            house = await app.engine.store_registry.house(mode)
            assert (await house.totals()).memories == (2 if mode == "local" else 1)
        modes = {one.name: one.storage_mode for one in (await run(app, LIST_PROJECTS)).projects}
        assert modes == {f"of {mode}": mode for mode in MODES}


@pytest.mark.parametrize("target", ["postgres", "mongodb"])
async def test_in_another_home_they_all_live_in_one_store(
    loaded: Loaded, target: str, tmp_path: Path
) -> None:
    async with opened(loaded("local")) as app:
        ids = await three(app)
        made = await run(app, BACKUP)
        assert (await run(app, RESTORE, file=made.file)).skipped == 4
    done = await replace_all(loaded(target), made.file, told=lambda *_: None)
    assert done.memories == 4
    async with opened(loaded(target)) as app:
        for mode in MODES:
            assert await found(app, "shop opens", scope=f"of {mode}") == [ids[mode]]
        assert (await (await app.engine.store_registry.house(target)).totals()).memories == 4
        assert ids["plain"] in [hit.id for hit in (await recall(app, "captain tea")).hits]
    shutil.rmtree(tmp_path / "claude", ignore_errors=True)


async def test_a_store_that_does_not_answer_is_named_unless_it_is_left_out(loaded: Loaded) -> None:
    async with opened(loaded("local")) as app:
        await three(app)
    away = {"mongodb.uri": "mongodb://127.0.0.1:9", "mongodb.timeout_ms": 500}
    async with opened(loaded("local", **away)) as app:
        with pytest.raises(StoreAway, match="mongodb") as told:
            await run(app, BACKUP)
        assert "--without mongodb" in told.value.advice
        made = await run(app, BACKUP, without=["mongodb"])
        assert made.memories == 3
        assert [path.name for path in Path(made.path).parent.glob(".*")] == []
