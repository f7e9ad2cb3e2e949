"""What every store promises about entries."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from mindhold.model.entry import Entry
from mindhold.model.errors import InvalidInput
from mindhold.ports.store import Store
from mindhold.testing.builders import START, Builder

MOMENT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


def entry(key: str = "a", drawer: str = "things", **value: object) -> Entry:
    return Entry(drawer, key, value, created=START)


class EntriesContract:
    """Put, look, take, list, drop, expire."""

    async def test_an_entry_comes_back_as_it_went_in(self, store: Store, other: Store) -> None:
        whole = replace(
            entry("k 二", words="zwei 二", list=[1, 2.5, None, True], inner={"a": []}), expires=START + HOUR
        )
        await store.put_entry(whole)
        assert await other.entry("things", "k 二", now=START) == whole
        assert await other.entries("things", now=START) == [whole]

    async def test_putting_an_entry_again_replaces(self, store: Store) -> None:
        await store.put_entry(replace(entry(n=1), expires=START + HOUR))
        await store.put_entry(entry(n=2))
        assert await store.entries("things", now=START + 2 * HOUR) == [entry(n=2)]

    async def test_drawers_and_keys_are_exact(self, store: Store) -> None:
        await store.put_entry(entry("a"))
        for drawer, key in (
            ("things", "A"),
            ("Things", "a"),
            ("things", "a "),
            ("thing", "sa"),
            ("", ""),
            ("%", "%"),
        ):
            assert await store.entry(drawer, key, now=START) is None
            assert await store.take_entry(drawer, key, now=START) is None
            assert not await store.drop_entry(drawer, key)
        await store.put_entry(entry("a", drawer="others", n=2))
        assert await store.entries("things", now=START) == [entry("a")]

    async def test_an_expired_one_is_nowhere(self, store: Store) -> None:
        brief = replace(entry(), expires=START + HOUR)
        await store.put_entry(brief)
        assert await store.entry("things", "a", now=START + HOUR - MOMENT) == brief
        for now in (START + HOUR, START + HOUR + MOMENT, START + 9 * HOUR):
            assert await store.entry("things", "a", now=now) is None
            assert await store.take_entry("things", "a", now=now) is None
            assert await store.entries("things", now=now) == []
        assert await store.entry("things", "a", now=START) == brief

    async def test_dropping_what_expired(self, store: Store) -> None:
        await store.put_entry(entry("stays"))
        await store.put_entry(replace(entry("later"), expires=START + 2 * HOUR))
        for key in "abc":
            await store.put_entry(replace(entry(key, drawer=key), expires=START + HOUR))
        assert await store.drop_expired(START + HOUR - MOMENT) == 0
        assert await store.drop_expired(START + HOUR) == 3
        assert await store.drop_expired(START + HOUR) == 0
        assert {one.key for one in await store.entries("things", now=START)} == {"stays", "later"}
        assert await store.entry("a", "a", now=START) is None

    async def test_taking_removes(self, store: Store, other: Store) -> None:
        await store.put_entry(entry(n=1))
        assert await other.take_entry("things", "a", now=START) == entry(n=1)
        assert await store.take_entry("things", "a", now=START) is None
        assert await store.entry("things", "a", now=START) is None

    async def test_of_many_takers_one_gets_it(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        taken = await asyncio.gather(
            *(handle.take_entry("things", "a", now=START) for _ in range(10) for handle in (store, other))
        )
        assert [one for one in taken if one] == [entry()]

    async def test_dropping_is_seen_at_once_by_others(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        assert await other.entry("things", "a", now=START) == entry()
        assert await store.drop_entry("things", "a")
        assert await other.entry("things", "a", now=START) is None
        assert not await other.drop_entry("things", "a")

    async def test_the_newest_first_and_no_more_than_asked(self, store: Store) -> None:
        made = [replace(entry(f"{n}"), created=START + n * HOUR) for n in (2, 0, 3, 1)]
        for one in made:
            await store.put_entry(one)
        listed = await store.entries("things", now=START)
        assert [one.key for one in listed] == ["3", "2", "1", "0"]
        assert await store.entries("things", now=START, limit=2) == listed[:2]

    async def test_what_is_no_json_is_refused(self, store: Store) -> None:
        for value in (object(), float("nan"), {1, 2}):
            with pytest.raises(InvalidInput):
                await store.put_entry(entry(value=value))
        assert await store.entries("things", now=START) == []

    async def test_no_drawer_or_key_is_part_of_a_query(self, store: Store) -> None:
        hostile = entry("x'); DROP TABLE entry; --", drawer="y' OR '1'='1")
        await store.put_entry(hostile)
        assert await store.entries("y' OR '1'='1", now=START) == [hostile]
        assert await store.entries("y", now=START) == []

    async def test_erased_memories_are_named_no_more(self, store: Store, build: Builder) -> None:
        gone, kept = build.put(), build.put()
        await store.apply([gone, kept])
        ids = [gone.memory.id, kept.memory.id]
        await store.put_entry(entry("both", memories=ids, last=ids[0], n=1))
        await store.put_entry(entry("alone", memories=ids[:1]))
        await store.put_entry(entry(ids[0]))
        receipt = await store.erase(ids[:1])
        assert set(receipt.remaining.values()) == {0}
        assert await store.entry("things", "both", now=START) == entry(
            "both", memories=ids[1:], last=None, n=1
        )
        assert await store.entry("things", "alone", now=START) == entry("alone", memories=[])
        assert await store.entry("things", ids[0], now=START) is None

    async def test_words_that_name_an_erased_memory_go_whole(self, store: Store, build: Builder) -> None:
        gone, kept = build.put(), build.put()
        await store.apply([gone, kept])
        told = {"memory": {"id": gone.memory.id, "content": "told"}, "others": [{"said": "more"}]}
        hint = {"notice": f"stored as\n{gone.memory.id}"}
        other = {"memory": {"id": kept.memory.id, "content": "kept"}}
        for key, words in (("told", told), ("hint", hint), ("other", other)):
            await store.put_entry(entry(key, said="a", words=words))
        receipt = await store.erase([gone.memory.id])
        assert receipt.removed["references"] == 2
        assert set(receipt.remaining.values()) == {0}
        left: dict[str, object] = {"told": None, "hint": None, "other": other}
        for key, rest in left.items():
            assert await store.entry("things", key, now=START) == entry(key, said="a", words=rest)

    def test_a_value_is_not_shown(self) -> None:
        assert "hush" not in repr(entry(secret="hush"))
