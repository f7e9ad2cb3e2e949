"""What every store promises about scopes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.ports.store import Store
from mindhold.testing.builders import Builder


class ScopesContract:
    """Put, rename, drop."""

    async def test_global_always_exists(self, store: Store) -> None:
        assert [scope.name for scope in await store.scopes()] == [GLOBAL]

    async def test_a_scope_comes_back_as_it_went_in(self, store: Store, build: Builder) -> None:
        work = build.scope("work", description="Büro", kind="project", keywords=("a", "b c"), active=False)
        team = build.scope("a team", parent="work")
        await store.put_scope(work)
        await store.put_scope(team)
        assert [scope.name for scope in await store.scopes()] == sorted([GLOBAL, "a team", "work"])
        found = {scope.name: scope for scope in await store.scopes()}
        assert found["work"] == work
        assert found["a team"] == team

    async def test_putting_again_replaces(self, store: Store, build: Builder) -> None:
        work = build.scope("work", description="before")
        await store.put_scope(work)
        await store.apply([build.put(scope="work")])
        await store.put_scope(replace(work, description="after", active=False))
        assert {scope.description for scope in await store.scopes() if scope.name == "work"} == {"after"}
        assert await store.count(Filter(scopes=("work",))) == 1

    async def test_a_missing_parent(self, store: Store, build: Builder) -> None:
        with pytest.raises(ScopeNotFound, match="nowhere"):
            await store.put_scope(build.scope("work", parent="nowhere"))
        assert len(await store.scopes()) == 1

    async def test_no_scope_is_inside_itself(self, store: Store, build: Builder) -> None:
        for name, parent in (("a", None), ("b", "a"), ("c", "b")):
            await store.put_scope(build.scope(name, parent=parent))
        for name, parent in (("a", "c"), ("a", "a"), ("b", "c")):
            with pytest.raises(Conflict):
                await store.put_scope(build.scope(name, parent=parent))

    async def test_renaming_takes_records_and_children_along(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("team", parent="work"))
        put = build.put(scope="work")
        await store.apply([put])
        await store.rename_scope("work", "office")
        assert (await store.get(put.memory.id, viewer="default")).scope == "office"
        assert await store.count(Filter(scopes=("office",))) == 1
        assert await store.count(Filter(scopes=("work",))) == 0
        assert {scope.name: scope.parent for scope in await store.scopes()}["team"] == "office"

    async def test_renaming_that_cannot_be(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("home"))
        with pytest.raises(ScopeNotFound):
            await store.rename_scope("nowhere", "somewhere")
        with pytest.raises(Conflict):
            await store.rename_scope("work", "home")
        with pytest.raises(Conflict):
            await store.rename_scope(GLOBAL, "everything")

    async def test_dropping(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("team", parent="work"))
        put = build.put(scope="team")
        await store.apply([put])
        for name in ("work", "team", GLOBAL):
            with pytest.raises(Conflict):
                await store.drop_scope(name)
        await store.erase([put.memory.id])
        await store.drop_scope("team")
        await store.drop_scope("work")
        with pytest.raises(ScopeNotFound):
            await store.drop_scope("work")
        assert [scope.name for scope in await store.scopes()] == [GLOBAL]
