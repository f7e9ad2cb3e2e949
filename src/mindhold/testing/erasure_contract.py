"""What every store promises about forgetting for good."""

from __future__ import annotations

from mindhold.model.entry import Entry
from mindhold.model.link import Relation
from mindhold.model.memory import Status
from mindhold.model.query import Filter
from mindhold.ports.store import Capability, Connect, Enqueue, Keep, Store
from mindhold.testing.builders import MODEL, START, Builder, unit
from mindhold.testing.needs import needs


class ErasureContract:
    """Erase, and prove it."""

    async def test_many_here_and_there(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"the same words, and number{number}") for number in range(60)]
        naming = build.put("made of two", merged_from=(puts[0].memory.id, puts[1].memory.id))
        await store.apply([*puts, naming])
        gone = [put.memory.id for put in puts[::2]]
        receipt = await store.erase(gone)
        assert sorted(receipt.ids) == sorted(gone)
        assert receipt.removed["memories"] == 30
        assert not any(receipt.remaining.values())
        left = await store.get_many([put.memory.id for put in (*puts, naming)], viewer="system")
        assert set(left) == {put.memory.id for put in (*puts[1::2], naming)}
        assert left[naming.memory.id].merged_from == (puts[1].memory.id,)

    @needs(Capability.VECTORS)
    async def test_nothing_of_it_is_left(self, store: Store, build: Builder) -> None:
        gone = build.put("a secret word", tags=("t",), vector=unit(1), status=Status.FORGOTTEN)
        kept = build.put("another", supersedes=gone.memory.id, merged_from=(gone.memory.id, "x"))
        about = build.job(payload={"id": gone.memory.id})
        others = build.job(payload={"ids": [gone.memory.id, kept.memory.id]})
        await store.apply(
            [
                gone,
                kept,
                Connect(build.link(gone.memory, kept.memory)),
                Connect(build.link(kept.memory, gone.memory, Relation.SUPERSEDED_BY)),
                Keep(build.version(gone.memory, 1, "an older secret")),
                Enqueue(about),
                Enqueue(others),
            ]
        )
        receipt = await store.erase([gone.memory.id, "never there"])
        assert receipt.ids == (gone.memory.id,)
        assert receipt.removed["memories"] == 1
        assert receipt.removed["links"] == 2
        assert receipt.removed["versions"] == 1
        assert receipt.removed["vectors"] == 1
        assert receipt.removed["jobs"] == 1
        assert set(receipt.remaining.values()) == {0}
        assert set(receipt.removed) <= set(receipt.remaining)

        assert await store.get_many([gone.memory.id], viewer="admin") == {}
        assert await store.links_of([kept.memory.id], viewer="admin") == []
        assert await store.versions_of(gone.memory.id) == []
        assert await store.vector_of([gone.memory.id], model=MODEL) == {}
        left = await store.get(kept.memory.id, viewer="admin")
        assert left.supersedes is None
        assert left.merged_from == ("x",)
        assert [job.payload for job in await store.jobs()] == [{"ids": [kept.memory.id]}]

    async def test_a_copy_goes_and_what_names_it_stays(self, store: Store, build: Builder) -> None:
        gone = build.put("a copy", tags=("t",), vector=unit(1))
        kept = build.put("another", supersedes=gone.memory.id, merged_from=(gone.memory.id,))
        about = build.job(payload={"id": gone.memory.id})
        entry = Entry("conversation", "c", {"memories": [gone.memory.id]}, START)
        link = Connect(build.link(gone.memory, kept.memory))
        await store.apply([gone, kept, link, Keep(build.version(gone.memory, 1, "before")), Enqueue(about)])
        await store.put_entry(entry)
        receipt = await store.erase([gone.memory.id], references=False)
        assert receipt.ids == (gone.memory.id,)
        assert (receipt.removed["memories"], receipt.removed["links"], receipt.removed["versions"]) == (
            1,
            1,
            1,
        )
        assert set(receipt.remaining.values()) == {0}
        assert await store.get_many([gone.memory.id], viewer="admin") == {}
        assert await store.get(kept.memory.id, viewer="admin") == kept.memory
        assert await store.jobs() == [about]
        assert await store.entries("conversation", now=START) == [entry]

    async def test_the_content_can_be_put_again(self, store: Store, build: Builder) -> None:
        first = build.put("once more")
        await store.apply([first])
        await store.erase([first.memory.id])
        await store.apply([build.put("once more")])
        assert await store.count(Filter()) == 1

    async def test_erasing_nothing(self, store: Store, build: Builder) -> None:
        await store.apply([build.put()])
        receipt = await store.erase(["missing"])
        assert receipt.ids == ()
        assert set(receipt.removed.values()) == {0}
        assert await store.count(Filter()) == 1

    async def test_erasing_many_at_once(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"word{n} common", vector=unit(n, 1)) for n in range(60)]
        await store.apply(puts)
        receipt = await store.erase([put.memory.id for put in puts[:50]])
        assert len(receipt.ids) == 50
        assert set(receipt.remaining.values()) == {0}
        assert await store.count(Filter()) == 10

    async def test_scrubbing_takes_the_bytes_away(self, store: Store, build: Builder) -> None:
        phrase = "Zürich vault 4711"
        puts = [build.put(f"{phrase} number {n} " + "filler " * 200) for n in range(20)]
        await store.apply([*puts, build.put("something else that stays")])
        before = await store.scrub([phrase])
        assert sum(before.remaining.values()) > 0
        await store.erase([put.memory.id for put in puts])
        after = await store.scrub([phrase])
        assert set(after.remaining.values()) == {0}
        assert await store.count(Filter()) == 1
