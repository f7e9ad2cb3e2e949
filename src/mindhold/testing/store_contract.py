"""The whole contract of a store, its snapshots and its replacement by a restore. Subclass it and run pytest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindhold.model.errors import NotFound, StoreBusy
from mindhold.model.job import Entry, JobState
from mindhold.model.memory import Memory, Status, content_sum
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.ports.backend import Backend, BackendSite, Cursor, Record, SnapshotItem, SnapshotRemoval
from mindhold.ports.store import Capability, Connect, Enqueue, Keep, Store
from mindhold.testing.builders import START, Builder, leave_out, unit
from mindhold.testing.changes_contract import ChangesContract, TendContract, UseContract
from mindhold.testing.filters_contract import DueContract, IsolationContract, KeywordsContract
from mindhold.testing.jobs_contract import CursorsContract, EntriesContract, JobsContract
from mindhold.testing.links_contract import ErasureContract, LinksContract, ScopesContract, UpkeepContract
from mindhold.testing.records_contract import FindContract, PagingContract, RecordsContract, TurnsContract
from mindhold.testing.search_contract import SearchContract

Reopen = Callable[[], Awaitable[Store]]


class _Building:
    @pytest.fixture
    def build(self) -> Builder:
        return Builder()


class StoreContract(
    RecordsContract,
    ChangesContract,
    UseContract,
    TendContract,
    DueContract,
    KeywordsContract,
    FindContract,
    PagingContract,
    TurnsContract,
    ErasureContract,
    LinksContract,
    ScopesContract,
    JobsContract,
    CursorsContract,
    EntriesContract,
    IsolationContract,
    SearchContract,
    UpkeepContract,
    _Building,
):
    """Subclass it with `expects` and a fixture `reopen` that closes what it opened."""

    expects: frozenset[Capability]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        leave_out(cls, expects=getattr(cls, "expects", frozenset(Capability)))

    @pytest.fixture
    async def store(self, reopen: Reopen) -> Store:
        return await reopen()

    @pytest.fixture
    async def other(self, store: Store, reopen: Reopen) -> Store:
        """A second handle, like that of another process."""
        return await reopen()

    def test_it_has_the_expected_capabilities(self, store: Store) -> None:
        assert store.capabilities == self.expects


STAMP = "20260105T090000000000Z"


async def fill_store(backend: Backend, build: Builder) -> list[SnapshotItem]:
    """Fill a store with something of everything and return the items."""
    scopes = [build.scope("zoo"), build.scope("ant", parent="zoo", keywords=("a", "b"), active=False)]
    for scope in scopes:
        await backend.put_scope(scope)
    puts = [
        build.put(
            f"{status} says {status}", vector=unit(number, 1), status=status, scope="ant", tags=("T", "u")
        )
        for number, status in enumerate(Status)
    ]
    puts.append(
        build.put(
            "Ada's own, \u00fcber \u0001 \U0001f41c",
            agent="ada",
            metadata={"k": [1, 2.5, {"n": None}]},
            uses=3,
        )
    )
    version = build.version(puts[0].memory, 1, "it said something else")
    link = build.link(puts[0].memory, puts[-1].memory, weight=0.5, automatic=True)
    jobs = [
        build.job("embed", key="one", payload={"a": [1]}),
        build.job("tidy", state=JobState.DONE, finished=build.now, result={"n": 1}),
        build.job("held", state=JobState.RUNNING, lease_owner="somebody", lease_until=build.now, attempts=1),
    ]
    entries = [
        Entry("keys", "first", {"hash": "h", "scopes": ["ant"]}, build.now),
        Entry("visits", "gone by now", {}, START, START + timedelta(seconds=1)),
    ]
    cursors = [Cursor("read.to", "line 7"), Cursor("empty", "")]
    await backend.apply([*puts, Keep(version), Connect(link), *map(Enqueue, jobs)])
    for entry in entries:
        await backend.put_entry(entry)
    for cursor in cursors:
        await backend.set_cursor(cursor.name, cursor.value)
    with_vectors = Capability.VECTORS in backend.capabilities
    records = [
        Record(replace(put.memory, embedded_by=put.memory.embedded_by if with_vectors else None), put.vector)
        for put in puts
    ]
    return [*scopes, *records, version, link, *jobs, *entries, *cursors]


async def snapshot_items(backend: Backend) -> list[SnapshotItem]:
    """All items of a snapshot, without removed ones."""
    items: dict[Any, SnapshotItem] = {}
    async for batch in backend.snapshot():
        for number, item in enumerate(batch, len(items)):
            if isinstance(item, SnapshotRemoval):
                items.pop(item.memory_id or ("scope", item.scope), None)
            elif isinstance(item, Record):
                items[item.memory.id] = item
            else:
                items["scope" if hasattr(item, "parent") else number, getattr(item, "name", number)] = item
    return list(items.values())


def comparable(items: Sequence[SnapshotItem]) -> list[str]:
    """Items in a form to compare: without vectors, and without Global, which every store creates itself."""
    plain = [item.memory if isinstance(item, Record) else item for item in items]
    return sorted(repr(item) for item in plain if getattr(item, "name", "") != GLOBAL)


class SnapshotContract(_Building):
    """A snapshot contains everything at one moment."""

    async def test_everything_is_given_as_it_was_stored(self, backend: Backend, build: Builder) -> None:
        stored = await fill_store(backend, build)
        items = await snapshot_items(backend)
        assert comparable(items) == comparable(stored)
        vectors = {item.memory.id: item.vector for item in stored if isinstance(item, Record)}
        for item in items:
            if isinstance(item, Record) and Capability.VECTORS in backend.capabilities:
                vector = vectors[item.memory.id]
                assert (item.vector is None) == (vector is None)
                if vector is not None and item.vector is not None:
                    assert np.allclose(item.vector, vector, atol=1e-3)

    async def test_the_order_lets_it_be_stored_as_it_comes(self, backend: Backend, build: Builder) -> None:
        await fill_store(backend, build)
        kinds = [type(item).__name__ async for batch in backend.snapshot() for item in batch]
        assert list(dict.fromkeys(kinds)) == ["Scope", "Record", "Version", "Link", "Job", "Entry", "Cursor"]

    async def test_totals_are_those_of_the_snapshot(self, backend: Backend, build: Builder) -> None:
        empty = await backend.totals()
        assert (empty.memories, empty.scopes, empty.content) == (0, 1, content_sum(())[1])
        stored = await fill_store(backend, build)
        totals = await backend.totals()
        assert (totals.memories, totals.versions, totals.links, totals.scopes) == (6, 1, 1, 3)
        assert (totals.jobs, totals.entries, totals.cursors) == (3, 2, 2)
        memories = [item.memory for item in stored if isinstance(item, Record)]
        assert totals.content == content_sum((item.id, item.content_hash) for item in memories)[1]
        assert totals.vectors == (5 if Capability.VECTORS in backend.capabilities else 0)

    async def test_pairs_are_both_in_it_or_neither(self, backend: Backend, build: Builder) -> None:
        """Pairs that are written, replaced and erased together while the snapshot is read."""
        pairs = [
            [build.put(f"left {n} of the first"), build.put(f"right {n} of the first")] for n in range(600)
        ]
        for start in range(0, 600, 100):
            await backend.apply([put for pair in pairs[start : start + 100] for put in pair])

        async def write() -> None:
            for number in range(0, 600, 7):
                await backend.apply(
                    [build.put(f"left {number} and new"), build.put(f"right {number} and new")]
                )
                await backend.erase([put.memory.id for put in pairs[number]])
                changed = (
                    [replace(put, memory=_reworded(put.memory)) for put in pairs[number + 1]]
                    if number < 599
                    else []
                )
                await backend.apply(changed)

        writing = asyncio.create_task(write())
        memories: dict[str, Memory] = {}
        async for batch in backend.snapshot():
            for item in batch:
                if isinstance(item, SnapshotRemoval):
                    memories.pop(item.memory_id, None)
                elif isinstance(item, Record):
                    assert item.memory.id not in memories
                    memories[item.memory.id] = item.memory
            await asyncio.sleep(0)
        await writing
        assert len(memories) >= 600
        contents = {memory.content for memory in memories.values()}
        for content in contents:
            twin = content.replace("left", "right") if "left" in content else content.replace("right", "left")
            assert twin in contents

    async def test_a_raw_copy_is_what_the_store_has(
        self, backend: Backend, build: Builder, tmp_path: Path
    ) -> None:
        await fill_store(backend, build)
        if not backend.raw_form:
            return
        steps: list[tuple[int, int | None]] = []
        await backend.copy_raw(tmp_path / "copy", told=lambda done, total: steps.append((done, total)))
        assert (tmp_path / "copy").stat().st_size > 0
        assert steps[-1][0] == steps[-1][1]


class SiteContract(_Building):
    """Replacing the present store by another one."""

    async def test_a_swap_shows_the_new_store_and_keeps_the_old(
        self, backend: Backend, site: BackendSite, build: Builder
    ) -> None:
        await fill_store(backend, build)
        await backend.close()
        await site.prepare(STAMP)
        new = build.put("it came later", tags=("x",), keywords=("later",))
        async with site.beside(STAMP) as staged:
            await staged.apply([new, build.put("it too")])
            assert [item for item in await staged.check() if not item.healthy] == []
        old = await site.swap(STAMP, now=build.now)
        assert old is not None
        assert [item.name for item in await site.olds()] == [old.name]
        await backend.open()
        assert (await backend.totals()).memories == 2
        assert [item for item in await backend.check() if not item.healthy] == []
        await backend.apply([build.put("and it goes on", scope=GLOBAL)])
        assert await backend.count(Filter()) == 3
        await site.drop_old(old.name)
        assert await site.olds() == []
        assert (await backend.totals()).memories == 3
        with pytest.raises(NotFound):
            await site.drop_old(old.name)

    async def test_a_second_swap_keeps_both(
        self, backend: Backend, site: BackendSite, build: Builder
    ) -> None:
        await backend.close()
        for second in range(2):
            stamp = STAMP.replace("00Z", f"0{second}Z")
            await site.prepare(stamp)
            async with site.beside(stamp) as staged:
                await staged.apply([build.put()])
            assert await site.swap(stamp, now=build.now) is not None
        assert len(await site.olds()) == 2
        await backend.open()
        assert (await backend.totals()).memories == 1

    async def test_nothing_is_swapped_while_somebody_uses_it(
        self, backend: Backend, site: BackendSite, build: Builder
    ) -> None:
        await fill_store(backend, build)
        await site.prepare(STAMP)
        async with site.beside(STAMP) as staged:
            await staged.apply([build.put()])
        with pytest.raises(StoreBusy):
            await site.swap(STAMP, now=build.now)
        assert (await backend.totals()).memories == 6
        await site.discard(STAMP)
        await site.discard(STAMP)
        assert await site.olds() == []
        assert (await backend.totals()).memories == 6


def _reworded(memory: Memory) -> Memory:
    side = "left" if "left" in memory.content else "right"
    words = f"{side} {memory.content.split()[1]} said anew"
    return replace(memory, content=words, content_hash=f"{side}-{memory.content}")
