"""The whole contract of a store, and that of its snapshots and its replacement by a restore. Subclass it and run pytest."""

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
):
    """Subclass it with `expects` and a `reopen` fixture that closes what it opened."""

    expects: frozenset[Capability]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        leave_out(cls, expects=getattr(cls, "expects", frozenset(Capability)))

    @pytest.fixture
    async def store(self, reopen: Reopen) -> Store:
        return await reopen()

    @pytest.fixture
    async def other(self, store: Store, reopen: Reopen) -> Store:
        """A second handle, as another process would have it."""
        return await reopen()

    @pytest.fixture
    def build(self) -> Builder:
        return Builder()

    def test_it_can_what_it_is_expected_to(self, store: Store) -> None:
        assert store.capabilities == self.expects


STAMP = "20260105T090000000000Z"


async def fill_store(dwelling: Backend, build: Builder) -> list[SnapshotItem]:
    """A store with something of everything; what that is."""
    scopes = [build.scope("zoo"), build.scope("ant", parent="zoo", keywords=("a", "b"), active=False)]
    for scope in scopes:
        await dwelling.put_scope(scope)
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
    await dwelling.apply([*puts, Keep(version), Connect(link), *map(Enqueue, jobs)])
    for entry in entries:
        await dwelling.put_entry(entry)
    for cursor in cursors:
        await dwelling.set_cursor(cursor.name, cursor.value)
    with_vectors = Capability.VECTORS in dwelling.capabilities
    records = [
        Record(replace(put.memory, embedded_by=put.memory.embedded_by if with_vectors else None), put.vector)
        for put in puts
    ]
    return [*scopes, *records, version, link, *jobs, *entries, *cursors]


async def snapshot_items(dwelling: Backend) -> list[SnapshotItem]:
    """All of a snapshot, what is Gone left out."""
    found: dict[Any, SnapshotItem] = {}
    async for batch in dwelling.snapshot():
        for number, one in enumerate(batch, len(found)):
            if isinstance(one, SnapshotRemoval):
                found.pop(one.memory_id or ("scope", one.scope), None)
            elif isinstance(one, Record):
                found[one.memory.id] = one
            else:
                found["scope" if hasattr(one, "parent") else number, getattr(one, "name", number)] = one
    return list(found.values())


def comparable(kept: Sequence[SnapshotItem]) -> list[str]:
    """To be compared: without the vectors' numbers, and without Global, which every store makes itself."""
    plain = [one.memory if isinstance(one, Record) else one for one in kept]
    return sorted(repr(one) for one in plain if getattr(one, "name", "") != GLOBAL)


class SnapshotContract:
    """Everything at one moment."""

    @pytest.fixture
    def build(self) -> Builder:
        return Builder()

    async def test_everything_is_given_as_it_was_stored(self, dwelling: Backend, build: Builder) -> None:
        stored = await fill_store(dwelling, build)
        found = await snapshot_items(dwelling)
        assert comparable(found) == comparable(stored)
        wanted = {one.memory.id: one.vector for one in stored if isinstance(one, Record)}
        for one in found:
            if isinstance(one, Record) and Capability.VECTORS in dwelling.capabilities:
                vector = wanted[one.memory.id]
                assert (one.vector is None) == (vector is None)
                if vector is not None and one.vector is not None:
                    assert np.allclose(one.vector, vector, atol=1e-3)

    async def test_the_order_lets_it_be_stored_as_it_comes(self, dwelling: Backend, build: Builder) -> None:
        await fill_store(dwelling, build)
        kinds = [type(one).__name__ async for batch in dwelling.snapshot() for one in batch]
        assert list(dict.fromkeys(kinds)) == ["Scope", "Record", "Version", "Link", "Job", "Entry", "Cursor"]

    async def test_totals_are_those_of_the_snapshot(self, dwelling: Backend, build: Builder) -> None:
        empty = await dwelling.totals()
        assert (empty.memories, empty.scopes, empty.content) == (0, 1, content_sum(())[1])
        stored = await fill_store(dwelling, build)
        totals = await dwelling.totals()
        assert (totals.memories, totals.versions, totals.links, totals.scopes) == (6, 1, 1, 3)
        assert (totals.jobs, totals.entries, totals.cursors) == (3, 2, 2)
        memories = [one.memory for one in stored if isinstance(one, Record)]
        assert totals.content == content_sum((one.id, one.content_hash) for one in memories)[1]
        assert totals.vectors == (5 if Capability.VECTORS in dwelling.capabilities else 0)

    async def test_pairs_are_both_in_it_or_neither(self, dwelling: Backend, build: Builder) -> None:
        """Written, replaced and erased together, while it is read."""
        pairs = [
            [build.put(f"left {n} of the first"), build.put(f"right {n} of the first")] for n in range(600)
        ]
        for start in range(0, 600, 100):
            await dwelling.apply([put for pair in pairs[start : start + 100] for put in pair])

        async def write() -> None:
            for number in range(0, 600, 7):
                await dwelling.apply(
                    [build.put(f"left {number} and new"), build.put(f"right {number} and new")]
                )
                await dwelling.erase([put.memory.id for put in pairs[number]])
                changed = (
                    [replace(put, memory=_reworded(put.memory)) for put in pairs[number + 1]]
                    if number < 599
                    else []
                )
                await dwelling.apply(changed)

        writing = asyncio.create_task(write())
        found: dict[str, Memory] = {}
        async for batch in dwelling.snapshot():
            for one in batch:
                if isinstance(one, SnapshotRemoval):
                    found.pop(one.memory_id, None)
                elif isinstance(one, Record):
                    assert one.memory.id not in found
                    found[one.memory.id] = one.memory
            await asyncio.sleep(0)
        await writing
        assert len(found) >= 600
        contents = {memory.content for memory in found.values()}
        for content in contents:
            twin = content.replace("left", "right") if "left" in content else content.replace("right", "left")
            assert twin in contents

    async def test_a_raw_copy_is_what_the_store_has(
        self, dwelling: Backend, build: Builder, tmp_path: Path
    ) -> None:
        await fill_store(dwelling, build)
        if not dwelling.raw_form:
            return
        steps: list[tuple[int, int | None]] = []
        await dwelling.copy_raw(tmp_path / "copy", told=lambda done, total: steps.append((done, total)))
        assert (tmp_path / "copy").stat().st_size > 0
        assert steps[-1][0] == steps[-1][1]


class SiteContract:
    """Another store in the place of the present one."""

    @pytest.fixture
    def build(self) -> Builder:
        return Builder()

    async def test_what_is_swapped_in_is_there_and_what_was_there_is_kept(
        self, dwelling: Backend, site: BackendSite, build: Builder
    ) -> None:
        await fill_store(dwelling, build)
        await dwelling.close()
        await site.prepare(STAMP)
        new = build.put("it came later", tags=("x",), keywords=("later",))
        async with site.beside(STAMP) as beside:
            await beside.apply([new, build.put("it too")])
            assert [one for one in await beside.check() if not one.healthy] == []
        old = await site.swap(STAMP, now=build.now)
        assert old is not None
        assert [one.name for one in await site.olds()] == [old.name]
        await dwelling.open()
        assert (await dwelling.totals()).memories == 2
        assert [one for one in await dwelling.check() if not one.healthy] == []
        await dwelling.apply([build.put("and it goes on", scope=GLOBAL)])
        assert await dwelling.count(Filter()) == 3
        await site.drop_old(old.name)
        assert await site.olds() == []
        assert (await dwelling.totals()).memories == 3
        with pytest.raises(NotFound):
            await site.drop_old(old.name)

    async def test_a_second_swap_keeps_both(
        self, dwelling: Backend, site: BackendSite, build: Builder
    ) -> None:
        await dwelling.close()
        for second in range(2):
            stamp = STAMP.replace("00Z", f"0{second}Z")
            await site.prepare(stamp)
            async with site.beside(stamp) as beside:
                await beside.apply([build.put()] * 1)
            assert await site.swap(stamp, now=build.now) is not None
        assert len(await site.olds()) == 2
        await dwelling.open()
        assert (await dwelling.totals()).memories == 1

    async def test_nothing_is_swapped_while_somebody_uses_it(
        self, dwelling: Backend, site: BackendSite, build: Builder
    ) -> None:
        await fill_store(dwelling, build)
        await site.prepare(STAMP)
        async with site.beside(STAMP) as beside:
            await beside.apply([build.put()])
        with pytest.raises(StoreBusy):
            await site.swap(STAMP, now=build.now)
        assert (await dwelling.totals()).memories == 6
        await site.discard(STAMP)
        await site.discard(STAMP)
        assert await site.olds() == []
        assert (await dwelling.totals()).memories == 6


def _reworded(memory: Memory) -> Memory:
    side = "left" if "left" in memory.content else "right"
    words = f"{side} {memory.content.split()[1]} said anew"
    return replace(memory, content=words, content_hash=f"{side}-{memory.content}")
