"""A storage mode for each project: chosen when it is made, told truthfully, and one engine over all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from dwellings import Addresses, houses_at, opened_at, store_at
from front_door import Open, acting, everything, found, recall, run, stored

from mindhold.app.application import App, open_app
from mindhold.backup.create import BACKUP
from mindhold.conversations.message_log import RECENT_MESSAGES, SAVE_MESSAGE, SEARCH_MESSAGES
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.memories.recall import RECALL
from mindhold.memories.transfer import EXPORT, IMPORT
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    Refused,
    SettingsError,
    StoreAway,
)
from mindhold.model.query import Filter
from mindhold.model.scope import Caller
from mindhold.ports.store import Store
from mindhold.projects.context import PROJECT_CONTEXT
from mindhold.projects.copy import ProjectLease
from mindhold.projects.migrate import MIGRATE_PROJECT
from mindhold.projects.projects import (
    CHANGE_PROJECT,
    CREATE_PROJECT,
    DELETE_PROJECT,
    LIST_PROJECTS,
    OPEN_FOLDER,
    SHOW_PROJECT,
)
from mindhold.projects.scope_operations import DELETE_SCOPE, LIST_SCOPES, RENAME_SCOPE
from mindhold.projects.summary_update import REPLACE_SUMMARY
from mindhold.settings.loader import LoadedSettings, load_settings
from mindhold.stores.registry import OpenStoreRegistry, opened_store

MODES = ("local", "postgres", "mongodb")


@pytest.fixture
def addresses(tmp_path: Path) -> Addresses:
    return {mode: str(tmp_path / f"{mode}.db") for mode in MODES}


@pytest.fixture
async def app(tmp_path: Path, addresses: Addresses) -> AsyncIterator[App]:
    async with opened_at(tmp_path / "home", addresses) as app:
        yield app


async def test_a_project_lives_where_it_was_made(app: App) -> None:
    made = await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres", description="What we sell")
    assert (made.name, made.storage_mode, made.memories) == ("shop", "postgres", 0)
    saved = await run(app, SAVE_MESSAGE, project="shop", message_type="user", content="We sell blue lamps.")
    assert saved.storage_backend == "postgres"
    home, postgres = [await app.engine.store_registry.house(mode) for mode in ("local", "postgres")]
    assert await home.get_many([saved.message_id], viewer="system") == {}
    assert (await postgres.get(saved.message_id, viewer="system")).content == "We sell blue lamps."
    for operation, fields in (
        (RECENT_MESSAGES, {}),
        (SEARCH_MESSAGES, {"query": "lamps"}),
        (PROJECT_CONTEXT, {}),
    ):
        answer = await run(app, operation, project="shop", **fields)  # type: ignore[type-var]
        assert answer.storage_backend == "postgres"
    written = await run(app, REPLACE_SUMMARY, project="shop", summary="A shop of lamps.")
    assert written.storage_mode == "postgres"
    assert (
        await run(app, SAVE_MESSAGE, project="zoo", message_type="user", content="Hi")
    ).storage_backend == "local"
    listed = (await run(app, LIST_PROJECTS)).projects
    assert [(one.name, one.storage_mode, one.memories) for one in listed] == [
        ("shop", "postgres", 2),
        ("zoo", "local", 1),
    ]


async def test_one_answer_from_several_stores(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    await run(app, CREATE_PROJECT, name="zoo", storage_mode="mongodb")
    lamp = await stored(app, "The lamp supplier is Lumen in Lyon.", scope="shop")
    lion = await stored(app, "The lion eats at noon in Lyon's zoo.", scope="zoo")
    everyone = await stored(app, "Lyon is two hours away by train.")
    assert set(await found(app, "Lyon", scope="shop")) == {lamp, everyone}
    assert set(await found(app, "Lyon", everywhere=True)) == {lamp, lion, everyone}
    assert {one.id for one in await everything(app)} == {lamp, lion, everyone}
    assert (await recall(app, "lion noon", scope="zoo")).hits[0].id == lion
    with pytest.raises(Refused, match="different stores"):
        await run(app, LINK, origin=lamp, target=lion)
    assert (
        await run(app, LINK, origin=lamp, target=await stored(app, "A lamp.", scope="shop"))
    ).link.origin == lamp


async def test_exports_and_backups_have_all_of_them(app: App, tmp_path: Path, opened: Open) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    await stored(app, "The lamp supplier is Lumen.", scope="shop")
    await stored(app, "Lyon is two hours away.")
    written = await run(app, EXPORT, path=str(tmp_path / "all.jsonl"))
    assert written.memories == 2
    assert (await run(app, BACKUP)).memories == 2
    async with opened() as other:
        assert (await run(other, IMPORT, path=str(tmp_path / "all.jsonl"))).memories == 2


async def test_a_folder_named_like_a_secret_is_a_project_all_the_same(app: App, tmp_path: Path) -> None:
    folder = tmp_path / ("ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789")
    folder.mkdir()
    made = await run(app, OPEN_FOLDER, folder=str(folder))
    assert made.name.startswith("[redacted")
    assert (await run(app, OPEN_FOLDER, folder=str(folder))).name == made.name


async def test_a_name_or_a_folder_is_one_project(app: App, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git" / "worktrees" / "fix").mkdir(parents=True)
    (repository / ".git" / "worktrees" / "fix" / "commondir").write_text("../..\n", encoding="utf-8")
    worktree = tmp_path / "fix"
    (worktree / "src").mkdir(parents=True)
    git = repository / ".git" / "worktrees" / "fix"
    (worktree / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")
    made = await run(app, CREATE_PROJECT, name="shop", path=str(repository))
    assert (made.path, made.identity) == (str(repository), str(repository / ".git"))
    with pytest.raises(Conflict, match="shop"):
        await run(app, CREATE_PROJECT, name="fix", path=str(worktree / "src"))
    with pytest.raises(Conflict):
        await run(app, CREATE_PROJECT, name="Shop", storage_mode="postgres")
    assert (await run(app, SHOW_PROJECT, name="shop")).storage_mode == "local", "it is fixed"
    with pytest.raises(NotFound):
        await run(app, CREATE_PROJECT, name="gone", path=str(tmp_path / "gone"))
    plain = tmp_path / "plain"
    plain.mkdir()
    assert (await run(app, CREATE_PROJECT, name="plain", path=str(plain))).identity == str(plain)
    await run(app, RENAME_SCOPE, name="shop", new_name="store")
    assert (await run(app, SHOW_PROJECT, name="store")).path == str(repository)
    await run(app, DELETE_SCOPE, name="store")
    await run(app, CREATE_PROJECT, name="fix", path=str(worktree / "src"))


async def test_a_project_that_others_have_there_is_joined(tmp_path: Path, addresses: Addresses) -> None:
    async with opened_at(tmp_path / "one", addresses) as one:
        await run(one, CREATE_PROJECT, name="shop", storage_mode="postgres", description="Lamps")
        lamp = await stored(one, "The lamp supplier is Lumen.", scope="shop")
        theirs = {**addresses, "local": str(tmp_path / "their own.db")}
        async with opened_at(tmp_path / "two", theirs) as two:
            made = await run(two, CREATE_PROJECT, name="shop", storage_mode="postgres")
            assert (made.memories, made.description) == (1, "Lamps")
            assert await found(two, "lamp supplier", scope="shop") == [lamp]
            new = await stored(two, "Lumen delivers on Fridays.", scope="shop")
        assert new in await found(one, "Lumen Fridays", scope="shop")


async def test_a_project_elsewhere_is_renamed_and_deleted_like_any_other(app: App, tmp_path: Path) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    lamp = await stored(app, "The lamp supplier is Lumen.", scope="shop")
    await run(app, RENAME_SCOPE, name="shop", new_name="store")
    assert await found(app, "lamp", scope="store") == [lamp]
    assert (await run(app, SHOW_PROJECT, name="store")).storage_mode == "postgres"
    gone = await run(app, DELETE_SCOPE, name="store", export=str(tmp_path / "store.jsonl"))
    assert gone.memories == 1
    assert "Lumen" in (tmp_path / "store.jsonl").read_text(encoding="utf-8")
    assert [scope.name for scope in (await run(app, LIST_SCOPES)).scopes] == ["Global"]
    postgres = await app.engine.store_registry.house("postgres")
    assert await postgres.count(Filter(viewer="system", statuses=())) == 0
    assert await app.engine.store_registry.places(fresh=True) == {}


async def test_what_is_not_given_stays_when_a_project_is_changed(app: App, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("old", "new", "other")]
    for folder in folders:
        folder.mkdir()
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres", path=str(folders[0]))
    await run(app, CREATE_PROJECT, name="zoo", path=str(folders[2]))
    changed = await run(app, CHANGE_PROJECT, name="SHOP", description="Lamps", keywords=["lamp"])
    assert (changed.id, changed.settings.keywords, changed.path) == ("shop", ["lamp"], str(folders[0]))
    moved = await run(app, CHANGE_PROJECT, name="shop", path=str(folders[1]))
    assert (moved.path, moved.identity, moved.description) == (str(folders[1]), str(folders[1]), "Lamps")
    again = await run(app, CHANGE_PROJECT, name="shop", path=str(folders[1]))
    assert again.path == str(folders[1]), "its own folder is no other's"
    with pytest.raises(Conflict, match="zoo"):
        await run(app, CHANGE_PROJECT, name="shop", path=str(folders[2]), description="Lost")
    with pytest.raises(NotFound):
        await run(app, CHANGE_PROJECT, name="shop", path=str(tmp_path / "gone"))
    with pytest.raises(InvalidInput):
        await run(app, CHANGE_PROJECT, name="shop")
    assert (await run(app, SHOW_PROJECT, name="shop")).description == "Lamps"
    await run(app, CREATE_PROJECT, name="free", path=str(folders[0]))
    homeless = await run(app, CHANGE_PROJECT, name="shop", path="", active=False)
    assert (homeless.path, homeless.active) == (None, False)
    with pytest.raises(Refused, match="deactivated"):
        await run(app, SAVE_MESSAGE, project="shop", message_type="user", content="Hello")


async def test_a_project_is_exported_and_deleted_where_it_lives(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres", description="Lamps")
    await stored(app, "The lamp supplier is Lumen.", scope="shop")
    await stored(acting(app, "ada"), "The lamps are green.", scope="shop")
    for confirm in ("", "SHOP", "Global"):
        with pytest.raises(InvalidInput, match="once more"):
            await run(app, DELETE_PROJECT, name="shop", confirm=confirm)
    with pytest.raises(Refused):
        await run(app, DELETE_PROJECT, name="Global", confirm="Global")
    gone = await run(app, DELETE_PROJECT, name="Shop", confirm="shop")
    assert (gone.storage_mode, gone.memories, gone.remaining["memories"]) == ("postgres", 2, 0)
    export = Path(gone.export)
    assert export.parent == app.loaded.settings.home / "export"
    assert {"Lumen", "green", "Lamps"} <= set(re.findall(r"\w+", export.read_text(encoding="utf-8")))
    postgres = await app.engine.store_registry.house("postgres")
    assert await postgres.count(Filter(viewer="system", statuses=())) == 0
    assert "shop" not in {scope.name for scope in await postgres.scopes()}
    assert await app.engine.store_registry.places(fresh=True) == {}
    assert (await run(app, LIST_PROJECTS)).projects == []
    assert (await run(acting(app, "system"), IMPORT, path=gone.export)).memories == 2


async def test_a_project_on_its_way_is_not_deleted(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    lamp = await stored(app, "The lamp supplier is Lumen.", scope="shop")
    hold = ProjectLease(app.engine, "shop", "mongodb")
    await hold.take()
    with pytest.raises(Conflict, match="being moved"):
        await run(app, DELETE_PROJECT, name="shop", confirm="shop")
    assert await found(app, "lamp", scope="shop") == [lamp]
    await hold.let_go()
    assert (await run(app, DELETE_PROJECT, name="shop", confirm="shop")).memories == 1


async def test_who_is_bound_to_scopes_is_told_of_those_only(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    await run(app, CREATE_PROJECT, name="zoo", storage_mode="mongodb")
    await stored(app, "The lion eats at noon.", scope="zoo")
    bound = Caller("ci", bound=True, scopes=("shop",), owner=False)
    listed = await app.run(LIST_PROJECTS, LIST_PROJECTS.takes(), caller=bound)
    assert [one.name for one in listed.projects] == ["shop"]
    with pytest.raises(MindholdError):
        await app.run(SHOW_PROJECT, SHOW_PROJECT.takes(name="zoo"), caller=bound)
    for operation, fields in (
        (CREATE_PROJECT, {"name": "mine"}),
        (MIGRATE_PROJECT, {"project": "shop", "to": "local"}),
    ):
        with pytest.raises(Refused):
            await app.run(operation, operation.takes(**fields), caller=bound)  # type: ignore[type-var]
    answer = await app.run(RECALL, RECALL.takes(query="lion noon", everywhere=True), caller=bound)
    assert answer.hits == []
    told = await app.run(STATUS, STATUS.takes(), caller=bound)
    assert told.storage == {
        "local": {"state": "ok", "detail": "", "projects": [], "copies": 0},
        "postgres": {"state": "ok", "detail": "", "projects": ["shop"], "copies": 0},
    }


def away() -> AbstractAsyncContextManager[Store]:
    raise StoreAway("The server at nowhere can't be reached.", advice="Start it.")


async def test_a_store_that_is_away_takes_only_its_projects_along(
    tmp_path: Path, addresses: Addresses, settings: LoadedSettings
) -> None:
    async with opened_at(settings.settings.home, addresses) as app:
        await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
        lamp = await stored(app, "The lamp supplier is Lumen.", scope="shop")
        train = await stored(app, "Lyon is two hours away by train.")
    houses = OpenStoreRegistry(
        "local", {"local": lambda: opened_store(store_at(addresses["local"])), "postgres": away}
    )
    async with open_app(settings, store_registry=houses) as app:
        assert await found(app, "Lyon train") == [train]
        await stored(app, "Paris is further.")
        for work in (
            found(app, "lamp", scope="shop"),
            stored(app, "It delivers.", scope="shop"),
            run(app, FORGET, ids=[lamp], hard=True),
            run(app, BACKUP),
        ):
            with pytest.raises(StoreAway):
                await work
        told = await run(app, STATUS)
        assert (told.memories, told.by_scope) == (2, {"Global": 2})
        assert told.storage["postgres"]["state"] == "STORE_AWAY"
        assert told.storage["local"]["state"] == "ok"
        listed = (await run(app, LIST_PROJECTS)).projects
        assert [(one.name, one.memories) for one in listed] == [("shop", None)]
        looked = await run(app, DOCTOR, repair=True)
        assert [(one.name, one.healthy) for one in looked.findings if one.name == "postgres"] == [
            ("postgres", False)
        ]


async def test_doctor_looks_at_every_store_in_use(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    names = {finding.name for finding in (await run(app, DOCTOR)).findings}
    assert "postgres: file" in names
    assert not [name for name in names if name.startswith("mongodb")]
    status = await run(app, STATUS)
    assert {mode: one["projects"] for mode, one in status.storage.items()} == {
        "local": [],
        "postgres": ["shop"],
    }


@pytest.mark.parametrize("home", ["postgres", "mongodb"])
async def test_the_home_store_may_be_any(tmp_path: Path, addresses: Addresses, home: str) -> None:
    async with opened_at(tmp_path / "home", addresses, home=home) as app:
        plain = await stored(app, "Tea is hot.")
        await run(app, CREATE_PROJECT, name="shop", storage_mode="local")
        lamp = await stored(app, "Lamps are hot.", scope="shop")
        assert set(await found(app, "hot", scope="shop")) == {plain, lamp}
        done = await run(app, MIGRATE_PROJECT, project="shop", to=home, drop_source=True)
        assert (done.moved, done.dropped) == (True, 1)
        assert set(await found(app, "hot", scope="shop")) == {plain, lamp}
        assert await app.engine.store.count(Filter(viewer="system")) == 2


async def test_what_is_missing_is_told_with_what_to_do(app: App, opened: Open) -> None:
    async with opened() as plain:
        with pytest.raises(SettingsError, match=r"No PostgreSQL is configured.*postgres\.url"):
            await run(plain, CREATE_PROJECT, name="shop", storage_mode="postgres")
        assert (await run(plain, LIST_PROJECTS)).projects == []
        assert [scope.name for scope in (await run(plain, LIST_SCOPES)).scopes] == ["Global"]
    other = houses_at({"local": "unused"})
    with pytest.raises(SettingsError, match="no storage mode"):
        await other.house("attic")


async def test_homes_that_share_a_project_do_not_take_it_from_each_other(
    tmp_path: Path, addresses: Addresses
) -> None:
    theirs = {**addresses, "local": str(tmp_path / "theirs.db")}
    async with opened_at(tmp_path / "ours", addresses) as us, opened_at(tmp_path / "they", theirs) as them:
        await run(us, CREATE_PROJECT, name="shop", storage_mode="postgres")
        await stored(us, "The lamp supplier is Lumen.", scope="shop")
        assert (await run(them, CREATE_PROJECT, name="shop", storage_mode="postgres")).memories == 1
        lion = await stored(them, "The lamps of the lion house are green.", scope="shop")
        assert lion in await found(us, "lion lamps", scope="shop")
        for app in (us, them):
            for work in (
                run(app, MIGRATE_PROJECT, project="shop", to="local"),
                run(app, RENAME_SCOPE, name="shop", new_name="store"),
                run(app, DELETE_SCOPE, name="shop"),
            ):
                with pytest.raises(Refused, match=r"Another home uses.*--forget-copy postgres"):
                    await work
        with pytest.raises(Refused, match="the home store"):
            await run(us, MIGRATE_PROJECT, project="Global", forget_copy="postgres")
        await run(them, MIGRATE_PROJECT, project="shop", forget_copy="postgres")  # they leave it to us
        assert (await run(them, LIST_PROJECTS)).projects == []
        with pytest.raises(Refused, match="nobody else uses it"):
            await run(us, MIGRATE_PROJECT, project="shop", forget_copy="postgres")
        assert (await run(us, MIGRATE_PROJECT, project="shop", to="local")).memories == 2
        with pytest.raises(Refused, match="a copy that another home has left"):
            await run(them, CREATE_PROJECT, name="shop", storage_mode="postgres")
        assert (await run(us, MIGRATE_PROJECT, project="shop", drop_source=True)).dropped == 2
        assert (await run(them, CREATE_PROJECT, name="shop", storage_mode="postgres")).memories == 0
        with pytest.raises(Refused, match="another project"):
            await run(us, MIGRATE_PROJECT, project="shop", to="postgres")


async def test_what_a_home_in_the_same_database_has_is_not_taken_from_it(
    tmp_path: Path, addresses: Addresses
) -> None:
    async with (
        opened_at(tmp_path / "server", addresses, home="postgres") as server,
        opened_at(tmp_path / "laptop", addresses) as laptop,
    ):
        await run(server, CREATE_PROJECT, name="shop")
        lamp = await stored(server, "The lamp supplier is Lumen.", scope="shop")
        assert (await run(laptop, CREATE_PROJECT, name="shop", storage_mode="postgres")).memories == 1
        for app, to in ((laptop, "local"), (server, "mongodb")):
            with pytest.raises(Refused, match="too, so it can't be moved"):
                await run(app, MIGRATE_PROJECT, project="shop", to=to)
        assert await found(server, "lamp", scope="shop") == [lamp]


@pytest.mark.parametrize("first", ["postgres", "local"])
async def test_who_is_slower_in_making_a_project_takes_nothing_from_who_was_faster(
    tmp_path: Path, addresses: Addresses, app: App, first: str
) -> None:
    opening, go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[Store]:
        opening.set()
        await go.wait()
        async with opened_store(store_at(addresses["mongodb"])) as store:
            yield store

    houses = OpenStoreRegistry(
        "local", {"local": lambda: opened_store(store_at(addresses["local"])), "mongodb": slow}
    )
    settings = load_settings({"home": tmp_path / "home", "embedding.provider": "hashing"}, environ={})
    async with open_app(settings, store_registry=houses) as other:
        making = asyncio.create_task(run(other, CREATE_PROJECT, name="shop", storage_mode="mongodb"))
        await opening.wait()
        await run(app, CREATE_PROJECT, name="shop", storage_mode=first)
        lamp = await stored(app, "The lamp supplier is Lumen.", scope="shop")
        go.set()
        with pytest.raises(Conflict):
            await making
        assert (await run(app, SHOW_PROJECT, name="shop")).storage_mode == first
        assert await found(app, "lamp", scope="shop") == [lamp]
