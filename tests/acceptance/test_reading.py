"""Looking through what is there: one memory, pages, tags, days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from front_door import Open, acting, at, run, show, stored

from mindhold.app.application import App
from mindhold.memories.filters import LIST, TAGS
from mindhold.memories.forget import FORGET
from mindhold.memories.timeline import TIMELINE
from mindhold.model.errors import InvalidInput, MemoryNotFound, ScopeNotFound, UnknownTime
from mindhold.projects.scope_operations import CREATE_SCOPE

NOW = datetime(2026, 3, 11, 15, 0, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize("order", ["newest", "oldest", "important", "used"])
async def test_pages_together_are_everything_once(app: App, order: str) -> None:
    ids = [
        await stored(
            app,
            f"Machine {number} hums at {number} hertz.",
            importance=(number % 4) / 4,
            occurred=NOW - timedelta(days=number % 5),
        )
        for number in range(25)
    ]
    seen: list[str] = []
    after = None
    while True:
        page = await run(app, LIST, order=order, limit=7, after=after)
        assert page.total == 25
        seen.extend(memory.id for memory in page.memories)
        if page.next is None:
            break
        after = page.next
    assert len(seen) == 25
    assert set(seen) == set(ids)


async def test_orders_are_what_they_say(app: App) -> None:
    old = await stored(app, "The old machine hums.", occurred=NOW - timedelta(days=9), importance=0.9)
    new = await stored(app, "The new machine hums.", occurred=NOW, importance=0.1)
    for order, expected in (("newest", [new, old]), ("oldest", [old, new]), ("important", [old, new])):
        assert [memory.id for memory in (await run(app, LIST, order=order)).memories] == expected


async def test_a_list_is_filtered(app: App) -> None:
    await run(app, CREATE_SCOPE, name="work")
    one = await stored(
        app, "Machine one hums.", tags=["Loud"], kind="fact", topic="Hall", scope="work", occurred=NOW
    )
    await stored(app, "Machine two hums.", occurred=NOW - timedelta(days=30))
    for fields in (
        {"tags": ["loud"]},
        {"kinds": ["fact"]},
        {"topic": "hall"},
        {"scope": "work"},
        {"when": "today"},
    ):
        page = await run(at(app, NOW), LIST, **fields)
        assert ([memory.id for memory in page.memories], page.total) == ([one], 1), fields


async def test_what_a_list_can_not_know_is_an_error(app: App) -> None:
    with pytest.raises(ScopeNotFound):
        await run(app, LIST, scope="nowhere")
    with pytest.raises(UnknownTime):
        await run(app, LIST, when="flurbsday")


async def test_a_memory_is_shown_by_the_beginning_of_its_id(app: App) -> None:
    memory_id = await stored(app, "Machine one hums.")
    assert (await show(app, memory_id[:12])).memory.id == memory_id
    assert (await show(app, f" {memory_id} ")).memory.id == memory_id


async def test_what_is_not_there_is_not_shown(app: App) -> None:
    await stored(app, "Machine one hums.")
    with pytest.raises(MemoryNotFound, match="01zz"):
        await show(app, "01zz")
    with pytest.raises(InvalidInput):
        await show(app, "  ")


async def test_tags_are_counted_whatever_their_case_the_most_used_first(app: App) -> None:
    await stored(app, "Machine one hums.", tags=["Loud", "old"])
    await stored(app, "Machine two hums.", tags=["loud"])
    gone = await stored(app, "Machine six hums.", tags=["gone"])
    await run(app, FORGET, ids=[gone])
    tags = (await run(app, TAGS)).tags
    assert [(name.casefold(), count) for name, count in tags.items()] == [("loud", 2), ("old", 1)]


async def test_tags_of_a_scope_are_those_it_sees(app: App) -> None:
    await run(app, CREATE_SCOPE, name="work")
    await run(app, CREATE_SCOPE, name="home")
    for scope in ("Global", "work", "home"):
        await stored(app, f"Machine of {scope} hums.", scope=scope, tags=[scope])
    assert set((await run(app, TAGS, scope="work")).tags) == {"work", "Global"}


async def test_the_timeline_goes_from_old_to_new_by_the_persons_days(opened: Open) -> None:
    async with opened(time_zone="America/New_York") as app:
        late = await stored(app, "It was late.", occurred=datetime(2026, 3, 11, 3, 30, tzinfo=UTC))
        early = await stored(app, "It was early.", occurred=datetime(2026, 3, 10, 12, 0, tzinfo=UTC))
        next_day = await stored(app, "It was noon.", occurred=datetime(2026, 3, 11, 16, 0, tzinfo=UTC))
        line = await run(at(app, NOW), TIMELINE)
    assert [(day.date.isoformat(), [memory.id for memory in day.memories]) for day in line.days] == [
        ("2026-03-10", [early, late]),
        ("2026-03-11", [next_day]),
    ]


async def test_the_timeline_of_a_time_is_told(app: App) -> None:
    await stored(app, "It was long ago.", occurred=NOW - timedelta(days=100))
    inside = await stored(app, "It was last week.", occurred=NOW - timedelta(days=7))
    line = await run(at(app, NOW), TIMELINE, when="last week")
    assert [memory.id for day in line.days for memory in day.memories] == [inside]
    assert line.timeframe is not None
    assert line.timeframe.start == datetime(2026, 3, 2, tzinfo=UTC)


async def test_another_agents_memories_are_in_no_list(app: App) -> None:
    await stored(acting(app, "ada"), "Ada keeps bees.", tags=["bees"])
    assert (await run(app, LIST)).total == 0
    assert (await run(app, TAGS)).tags == {}
    assert (await run(app, TIMELINE)).count == 0
