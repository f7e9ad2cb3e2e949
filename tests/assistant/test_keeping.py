"""What time does to memories: talk is summarised, old talk goes into the archive, and what matters stays.

The clock is the test's own, so that years pass in moments.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from assistant_door import DAY, NOW, keep, retrieved
from front_door import Open, at, everything, run, show
from tool_door import texts, use

from mindhold.app.application import App
from mindhold.engine import UseCounter
from mindhold.jobs.queue import RUN_JOBS
from mindhold.memories.forget import UNFORGET
from mindhold.operation_index import operation

DECISION = "We decided to paint the boathouse red in September."
TALK = [
    "The boathouse needs new paint before winter.",
    "Linseed oil paint lasts twelve years on spruce.",
    "Falu red costs 29 a litre at the harbour shop.",
    DECISION,
    "The north wall has rot below the window.",
    "Tore lends us his scaffolding for two weeks.",
    "The jetty has three loose planks as well.",
    "Rain is forecast for the whole of next week.",
    "The swallows have left their nest under the roof.",
    "The old padlock opens with the small brass key.",
]


async def talk(app: App, *, days: int, conversation: str = "boathouse") -> list[str]:
    """Said so many days before now."""
    then = at(app, NOW - days * DAY)
    return [
        await keep(
            then,
            said,
            source="conversation",
            conversation_id=conversation,
            speaker="assistant" if number % 2 else "user",
        )
        for number, said in enumerate(TALK)
    ]


async def maintained(app: App, then: datetime = NOW) -> list[str]:
    """A night at the fixed time; what it says that it did."""
    await run(at(app, then), RUN_JOBS)
    return list((await use(at(app, then), "optimize_memory"))["operations"])


async def test_a_long_conversation_is_summarised_and_the_summary_leads_back(app: App) -> None:
    said = await talk(app, days=2)
    await maintained(app)
    found = (await use(at(app, NOW), "retrieve_memory", query="what was decided on the boathouse?"))[
        "results"
    ]
    summaries = [one for one in found if one["source"] == "summary"]
    assert summaries, found
    assert len(summaries[0]["text"]) < sum(map(len, TALK))
    assert set((await show(app, summaries[0]["memory_id"])).memory.merged_from) <= set(said)
    assert (await show(app, summaries[0]["memory_id"])).memory.merged_from


async def test_old_talk_is_summarised_and_archived_and_can_be_brought_back(app: App) -> None:
    said = await talk(app, days=400)
    await maintained(app)
    statuses = {(await show(app, one)).memory.status for one in said}
    assert "archived" in statuses
    assert statuses <= {"archived", "active"}
    gone = [one for one in said if (await show(app, one)).memory.status == "archived"]
    query = "the padlock opens with which key?"
    there = texts(await use(at(app, NOW), "retrieve_memory", query=query, include_archived=True))
    assert TALK[-1] in there
    assert TALK[-1] not in await retrieved(at(app, NOW), query)
    await run(app, UNFORGET, ids=gone)
    assert TALK[-1] in await retrieved(at(app, NOW), query)


async def test_the_gist_of_what_was_archived_is_still_found(app: App) -> None:
    await talk(app, days=400)
    await maintained(app)
    found = await retrieved(at(app, NOW), "what did we decide to do with the boathouse?")
    assert any("paint the boathouse red" in one for one in found)


async def test_recent_talk_stays_as_it_is(app: App) -> None:
    said = await talk(app, days=20)
    await maintained(app)
    assert {(await show(app, one)).memory.status for one in said} == {"active"}


@pytest.mark.parametrize("level", ["moderate", "aggressive"])
async def test_what_was_called_important_outlives_every_level(opened: Open, level: str) -> None:
    async with opened(**{"retention.level": level}) as app:
        then = at(app, NOW - 2_000 * DAY)
        kept = [
            await keep(then, "This is important: the will is with the notary in Bergen."),
            await keep(then, "The blood group is A negative.", tags=["important"]),
            await keep(then, "My shoe size is 43.", source="user_profile"),
        ]
        for _ in range(2):
            await maintained(app)
        assert {(await show(app, one)).memory.status for one in kept} == {"active"}


async def test_keep_all_keeps_all(opened: Open) -> None:
    async with opened(**{"retention.level": "keep-all"}) as app:
        said = await talk(app, days=2_000)
        note = await keep(at(app, NOW - 2_000 * DAY), "The tide table hangs in the hall.")
        await maintained(app)
        assert {(await show(app, one)).memory.status for one in [*said, note]} == {"active"}


async def test_what_was_used_stays_and_what_never_was_goes(app: App) -> None:
    used = await keep(at(app, NOW - 500 * DAY), "The tide table hangs in the hall.")
    unused = await keep(at(app, NOW - 500 * DAY), "The gull on the mast squinted at us.")
    await maintained(app, NOW - 499 * DAY)  # judged the night after
    for days in range(480, 0, -40):
        then = at(app, NOW - days * DAY)
        then = replace(
            then, engine=replace(then.engine, use_counter=UseCounter(app.engine.store, then.engine.clock))
        )
        assert (await retrieved(then, "where does the tide table hang?", top_k=1))[0].startswith(
            "The tide table"
        )
        await then.engine.use_counter.flush()
    await maintained(app)
    assert (await show(app, used)).memory.status == "active"
    assert (await show(app, unused)).memory.status == "archived"


async def test_a_limit_compresses_before_it_is_hit(opened: Open) -> None:
    async with opened(**{"retention.most_items": 60}) as app:
        for number in range(58):
            then = at(app, NOW - (100 - number) * DAY)
            await keep(then, f"Barrel {number} was filled with {number + 100} herrings.")
        await maintained(app)
        assert len(await everything(app)) < 54
        newest = "Barrel 57 was filled with 157 herrings."
        assert (await retrieved(at(app, NOW), "barrel 57 herrings"))[0] == newest


async def test_what_upkeep_took_is_in_the_audit_with_the_way_back(app: App) -> None:
    unused = await keep(at(app, NOW - 900 * DAY), "The gull on the mast squinted at us.")
    await maintained(app, NOW - 899 * DAY)
    await maintained(app)
    runs = (await run(app, operation("list_audit"))).records
    told = [await run(app, operation("show_audit"), id=one.id) for one in runs]
    [taken] = [one for one in told if unused in {touched.id for touched in one.memories}]
    assert taken.back
    assert "gull" not in str(taken)  # no word of what was removed
    await run(app, operation("undo_audit"), id=taken.id)
    assert (await show(app, unused)).memory.status == "active"
