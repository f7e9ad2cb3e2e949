"""What every store promises about what is due, what waits, and keywords as they are compared."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mindhold.model.keywords import keyword_forms
from mindhold.model.memory import Memory, Status, Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Capability, Put, Revise, Store, Tend
from mindhold.testing.builders import MODEL, START, Builder, unit
from mindhold.testing.needs import needs

DAY = timedelta(days=1)
LATER = START + DAY
LATEST = START + 2 * DAY
FAR = START + 100 * DAY


def ids(memories: list[Memory]) -> list[str]:
    return [memory.id for memory in memories]


class DueContract:
    """What is due, and what waits."""

    async def test_due_then_or_before(self, store: Store, build: Builder) -> None:
        never, early, then, late = (build.put(review=when) for when in (None, START, LATER, LATEST))
        hidden = build.put(review=START, status=Status.FORGOTTEN)
        await store.apply([never, late, then, early, hidden])
        where = Filter(due=LATER)
        assert ids(await store.find(where, order=Order.DUE)) == [early.memory.id, then.memory.id]
        assert await store.count(where) == 2
        assert await store.tally(where, "status") == {"active": 2}
        assert [ids(batch) async for batch in store.scan(where)] == [[early.memory.id, then.memory.id]]
        assert await store.count(Filter(due=START - DAY)) == 0
        assert await store.count(Filter(due=FAR, statuses=())) == 4
        everything = await store.find(Filter(statuses=()), order=Order.DUE)
        assert ids(everything) == [early.memory.id, hidden.memory.id, then.memory.id, late.memory.id]
        assert await store.find(Filter(due=LATER, ids=(late.memory.id,)), order=Order.DUE) == []

    async def test_the_most_overdue_first_page_by_page(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        puts = [
            build.put(
                review=None if n % 5 == 4 else START + DAY * (n * 7 % 4),
                scope="work" if n % 2 else "Global",
                agent="ada" if n % 3 else "default",
            )
            for n in range(37)
        ]
        await store.apply(puts)
        for where in (
            Filter(viewer="system", due=START + 2 * DAY),
            Filter(viewer="ada", due=FAR, scopes=("work",)),
            Filter(due=FAR),
        ):
            seen = [
                put.memory
                for put in puts
                if put.memory.review is not None
                and where.due is not None
                and put.memory.review <= where.due
                and (where.viewer in ("system", "ada") or put.memory.agent == "default")
                and (not where.scopes or put.memory.scope in where.scopes)
            ]
            expected = ids(sorted(seen, key=lambda memory: (memory.review, memory.id)))
            pages: list[str] = []
            after = None
            while page := await store.find(where, order=Order.DUE, limit=4, after=after):
                pages += ids(page)
                after = page[-1].id
            assert pages == expected
            assert len(pages) > 4

    async def test_what_was_looked_at_is_no_longer_due(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        puts = [build.put(review=START) for _ in range(12)]
        await store.apply(puts)
        done: list[str] = []
        while batch := await store.find(Filter(due=LATER), order=Order.DUE, limit=5):
            done += ids(batch)
            await other.apply([Tend(memory.id, review=FAR, unless_since=LATER) for memory in batch])
        assert done == [put.memory.id for put in puts]
        await other.touch([done[3]], LATER)
        assert ids(await store.find(Filter(due=LATER), order=Order.DUE)) == [done[3]]

    @pytest.mark.parametrize(("field", "asked"), [("verified", "unverified"), ("examined", "unexamined")])
    async def test_what_waits(
        self, store: Store, other: Store, build: Builder, field: str, asked: str
    ) -> None:
        waiting = [build.put() for _ in range(3)]
        seen: dict[str, Any] = {field: START}
        unseen: dict[str, Any] = {field: None}
        done, hidden = build.put(**seen), build.put(status=Status.FORGOTTEN)
        await store.apply([*waiting, done, hidden])
        flag: dict[str, Any] = {asked: True}
        where = Filter(**flag)
        expected = [put.memory.id for put in waiting]
        assert ids(await store.find(where, order=Order.OLDEST)) == expected
        for order in (Order.NEWEST, Order.IMPORTANT, Order.USED):
            assert set(ids(await store.find(where, order=order))) == set(expected)
        assert await store.count(where) == 3
        assert await store.count(replace(where, statuses=())) == 4
        assert await store.count(replace(where, statuses=(Status.FORGOTTEN, Status.ACTIVE))) == 4
        assert [ids(batch) async for batch in store.scan(where)] == [expected]
        await other.apply([Tend(expected[0], **seen)])
        assert ids(await store.find(where, order=Order.OLDEST, limit=1)) == expected[1:2]
        again = replace(done.memory, content="amended", content_hash="amended", **unseen)
        await other.apply([Put(again, ["amended"])])
        assert ids(await store.find(where)) == [done.memory.id, *reversed(expected[1:])]
        await other.erase([done.memory.id])
        assert await store.count(where) == 2

    async def test_both_at_once(self, store: Store, build: Builder) -> None:
        both, one_of_them, neither = (
            build.put(),
            build.put(verified=START),
            build.put(verified=START, examined=START),
        )
        await store.apply([both, one_of_them, neither])
        assert ids(await store.find(Filter(unverified=True, unexamined=True))) == [both.memory.id]

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_it(self, store: Store, build: Builder) -> None:
        old: dict[str, Any] = {"verified": START, "examined": START}
        plain = build.put("thing plain", vector=unit(1), **old)
        due, unverified, unexamined = (
            build.put("thing due", vector=unit(1, 1), review=START, **old),
            build.put("thing unverified", vector=unit(1, 2), examined=START),
            build.put("thing unexamined", vector=unit(1, 3), verified=START),
        )
        await store.apply([plain, due, unverified, unexamined])
        for put, where in (
            (due, Filter(due=START)),
            (unverified, Filter(unverified=True)),
            (unexamined, Filter(unexamined=True)),
        ):
            found = await store.search(Search(where, ("thing",), unit(1), MODEL))
            assert (found.ids, found.total) == ([put.memory.id], 1)
            (near,) = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
            assert [neighbour.id for neighbour in near] == [put.memory.id]


class KeywordsContract:
    """Finding by keywords, as they are compared."""

    async def found(self, store: Store, *keywords: str, any_of: bool = False, **where: Any) -> set[str]:
        asked = Filter(keywords=keyword_forms(keywords), keywords_any=any_of, **where)
        memories = await store.find(asked)
        assert await store.count(asked) == len(memories)
        return set(ids(memories))

    @pytest.mark.parametrize(
        ("keyword", "asked", "others"),
        [
            ("Databases", ("database", "DATABASE", "databases "), ("data", "base", "databased on")),
            ("Café", ("cafe", "CAFÉ"), ("caf", "cafeteria")),
            ("Deploy window", ("deploys windows", "DEPLOY WINDOW"), ("deploy", "window", "window deploy")),
            ("데이터베이스", ("데이터베이스",), ("데이터", "베이스")),
            ("東京都", ("東京都",), ("東京", "京都")),
            ("🦊", ("🦊",), ("🐺",)),
            ("50%_off'; --", ("50%_OFF'; --",), ("%", "_", "50")),
        ],
    )
    async def test_by_their_form(
        self, store: Store, build: Builder, keyword: str, asked: tuple[str, ...], others: tuple[str, ...]
    ) -> None:
        put = build.put(keywords=(keyword, "beside"))
        await store.apply([put, build.put(keywords=("beside",)), build.put(keyword)])
        for each in asked:
            assert await self.found(store, each) == {put.memory.id}, each
            assert await self.found(store, each, "besides") == {put.memory.id}
        for each in others:
            assert await self.found(store, each) == set(), each
            assert await self.found(store, "beside", each) == set()

    async def test_each_or_any(self, store: Store, build: Builder) -> None:
        red, blue, both = (build.put(keywords=words) for words in (("Red",), ("blue",), ("blue", "RED")))
        await store.apply([red, blue, both, build.put(tags=("red",), topic="blue")])
        assert await self.found(store, "red", "blue") == {both.memory.id}
        assert await self.found(store, "red", "red") == {red.memory.id, both.memory.id}
        everyone = {put.memory.id for put in (red, blue, both)}
        assert await self.found(store, "red", "blue", any_of=True) == everyone
        assert await self.found(store, "green", "blue", any_of=True) == {blue.memory.id, both.memory.id}
        assert await self.found(store, "green", any_of=True) == set()
        assert await store.count(Filter(keywords_any=True)) == 4
        assert await store.tally(Filter(keywords=keyword_forms(["red"])), "kind") == {"fact": 2}

    async def test_with_every_other_condition(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        here, there = build.put(keywords=("red",), tags=("t",)), build.put(keywords=("red",), scope="work")
        archived = build.put(keywords=("red",), status=Status.ARCHIVED)
        theirs = build.put(keywords=("red",), agent="ada")
        await store.apply([here, there, archived, theirs])
        for any_of in (False, True):
            assert await self.found(store, "red", any_of=any_of) == {here.memory.id, there.memory.id}
            assert await self.found(store, "red", any_of=any_of, scopes=("work",)) == {there.memory.id}
            assert await self.found(store, "red", any_of=any_of, tags=("T",)) == {here.memory.id}
            gone = await self.found(store, "red", any_of=any_of, statuses=(Status.ARCHIVED,))
            assert gone == {archived.memory.id}
            hers = await self.found(store, "red", any_of=any_of, viewer="ada", agents=("ada",))
            assert hers == {theirs.memory.id}

    async def test_they_follow_changes(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("first words", keywords=("red", "green"))
        await store.apply([put])
        memory = replace(put.memory, content="other words", content_hash="h", keywords=("Blue", "green"))
        await other.apply([Put(memory, ["other"])])
        assert await self.found(store, "red") == set()
        assert await self.found(store, "blues", "green") == {memory.id}
        await other.apply([Revise(replace(memory, keywords=("yellow",)))])
        assert await self.found(store, "blue", "green", any_of=True) == set()
        assert await self.found(store, "yellow") == {memory.id}
        await other.touch([memory.id], LATER)
        await other.apply([Tend(memory.id, tier=Tier.COLD)])
        assert await self.found(store, "yellow") == {memory.id}
        await other.erase([memory.id])
        assert await self.found(store, "yellow", statuses=()) == set()
        await other.apply([build.put("third", keywords=())])
        assert await self.found(store, "yellow", "blue", any_of=True, statuses=()) == set()

    async def test_pages_and_scans(self, store: Store, build: Builder) -> None:
        puts = [build.put(keywords=("red",) if n % 2 else ("blue", f"n{n}")) for n in range(40)]
        await store.apply(puts)
        wanted = [put.memory.id for put in puts if put.memory.keywords == ("red",)]
        where = Filter(keywords=keyword_forms(["Red"]))
        assert [one async for batch in store.scan(where, batch=7) for one in ids(batch)] == wanted
        first = await store.find(where, order=Order.OLDEST, limit=8)
        rest = await store.find(where, order=Order.OLDEST, after=first[-1].id)
        assert ids([*first, *rest]) == wanted

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_them(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("thing far", vector=unit(0, 1), keywords=("Lamps",))
        await store.apply([build.put(f"thing n{n}", vector=unit(1, n / 99)) for n in range(30)] + [put])
        for any_of in (False, True):
            where = Filter(keywords=keyword_forms(["lamp"]), keywords_any=any_of)
            found = await other.search(Search(where, ("thing",), unit(1), MODEL, pool=3))
            assert (found.ids, found.total) == ([put.memory.id], 1)
            (near,) = await other.nearest([unit(1)], model=MODEL, where=where, limit=3)
            assert [neighbour.id for neighbour in near] == [put.memory.id]

    async def test_mending_leaves_them(self, store: Store, build: Builder) -> None:
        put = build.put(keywords=("red", "두 단어"))
        await store.apply([put])
        await store.repair()
        assert await self.found(store, "RED", "두 단어") == {put.memory.id}
