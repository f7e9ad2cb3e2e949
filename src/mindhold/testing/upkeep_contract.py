"""What every store promises about its health."""

from __future__ import annotations

from mindhold.model.query import Filter
from mindhold.ports.store import Capability, Connect, Keep, Store
from mindhold.testing.builders import Builder, unit
from mindhold.testing.needs import needs


class UpkeepContract:
    """Facts, check, repair, close."""

    async def test_facts(self, store: Store) -> None:
        facts = await store.facts()
        assert facts.kind
        assert facts.location
        assert facts.schema_version > 0
        assert facts.bytes_used > 0

    async def test_a_store_in_use_is_healthy(self, store: Store, build: Builder) -> None:
        first, second = build.put("one two", vector=unit(1), tags=("t",)), build.put("three")
        link, version = build.link(first.memory, second.memory), build.version(first.memory, 1, "zero")
        await store.apply([first, second, Connect(link), Keep(version)])
        await store.erase([second.memory.id])
        findings = await store.check()
        assert findings
        assert [finding for finding in findings if not finding.healthy] == []

    @needs(Capability.VECTORS)
    async def test_repairing_what_is_healthy_changes_no_record(self, store: Store, build: Builder) -> None:
        put = build.put("one two", vector=unit(1), tags=("t",))
        await store.apply([put])
        assert await store.repair()
        assert await store.find(Filter()) == [put.memory]
        assert all(finding.healthy for finding in await store.check())

    async def test_optimising_changes_no_record(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"number {number}", vector=unit(number)) for number in range(30)]
        await store.apply(puts)
        assert await store.optimise() >= 0
        assert await store.count(Filter()) == 30
        assert all(finding.healthy for finding in await store.check())

    async def test_closing_twice_and_opening_again(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put])
        await store.close()
        await store.close()
        await store.open()
        assert await store.get(put.memory.id, viewer="default") == put.memory
