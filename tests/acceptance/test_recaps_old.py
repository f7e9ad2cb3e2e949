"""Summaries of old times: months become one, years in their turn, and what is missed is caught up with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from front_door import at, run, show

from mindhold.app.application import App
from mindhold.conversations.message_import import SAVE_MESSAGES
from mindhold.conversations.recap_creation import covered_messages
from mindhold.conversations.recap_maintenance import run_recap_maintenance as summarise
from mindhold.conversations.recaps import LIST_CONVERSATIONS, LIST_RECAPS, RECAP, RECAP_MESSAGES, RecapView
from mindhold.jobs.queue import RUN_JOBS
from mindhold.lifecycle.stage_report import StageLimits, StageResult
from mindhold.memories.forget import FORGET, UNFORGET
from mindhold.model.tokens import count_tokens

MARCH = datetime(2024, 3, 4, 10, tzinfo=UTC)
SUBJECTS = "harbour observatory bakery orchard tannery foundry brewery monastery aqueduct menagerie".split()


async def said_on(app: App, day: datetime, talk: str, *, subject: str, count: int = 10) -> list[str]:
    """A conversation of that day; the ids of its messages."""
    lines: list[dict[str, Any]] = [
        {
            "message_type": "user" if number % 2 else "assistant",
            "content": f"Item {number} of the {subject} was inspected by surveyor {subject[:4].title()}{number} in room {number * 7}.",
            "session_id": talk,
            "timestamp": (day + timedelta(minutes=number)).isoformat(),
        }
        for number in range(count - 1)
    ]
    lines.append(
        {**lines[0], "content": f"We decided to sell the {subject} for {len(subject) * 1000} crowns."}
    )
    then = at(app, day)
    saved = await run(then, SAVE_MESSAGES, project="town", messages=lines)
    return [one for one in saved.message_ids if one]


async def month(app: App, first: datetime, subjects: list[str]) -> list[str]:
    """Conversations a week apart, each summarised when it fell silent."""
    ids: list[str] = []
    for number, subject in enumerate(subjects):
        day = first + timedelta(days=7 * number)
        ids += await said_on(app, day, f"{subject} {day:%Y-%m}", subject=subject)
        await run(at(app, day + timedelta(hours=2)), RUN_JOBS, scheduled=False)
    return ids


async def tended(app: App, moment: datetime, **bounds: Any) -> StageResult:
    return await summarise(at(app, moment).engine, StageLimits(**bounds))


async def recaps(app: App, **fields: Any) -> list[RecapView]:
    """The latest last."""
    return (await run(app, LIST_RECAPS, **{"limit": 200} | fields)).recaps[::-1]


class TestMonths:
    async def test_a_month_that_is_long_past_is_one(self, app: App) -> None:
        ids = await month(app, MARCH, SUBJECTS[:4])
        apart = await recaps(app)
        assert [one.level for one in apart] == [1] * 4
        early = await tended(app, datetime(2024, 9, 20, tzinfo=UTC))
        assert (early.name, early.changed) == ("summaries", 0), "the month was going on 180 days before"
        dry = await tended(app, datetime(2024, 11, 1, tzinfo=UTC), dry=True)
        assert dry.counts == {"gathered": 1, "archived": 4}
        assert await recaps(app) == apart
        done = await tended(app, datetime(2024, 11, 1, tzinfo=UTC))
        assert done.counts == {"gathered": 1, "archived": 4}
        [one] = await recaps(app)
        assert (one.level, one.count, one.conversation) == (2, 40, None)
        assert one.content.startswith("Summary of 2024-03: 4 conversations, 40 messages.")
        for subject in SUBJECTS[:4]:
            assert f"sell the {subject}" in one.content
        assert one.tokens < sum(count_tokens(each.content) for each in apart)
        assert (await tended(app, datetime(2024, 11, 2, tzinfo=UTC))).changed == 0
        old = [each for each in await recaps(app, archived=True) if each.archived]
        assert {each.id for each in old} == {each.id for each in apart}
        assert (await show(app, one.id)).memory.merged_from == [each.id for each in apart]
        assert await covered_messages(app.engine, ids) == set(ids)
        told = await run(app, RECAP_MESSAGES, id=one.id, limit=200)
        assert [each.id for each in told.messages] == ids
        assert await recaps(app, when="March 2024") == [one]
        assert await recaps(app, level=1) == []

    async def test_what_comes_late_is_worked_in(self, app: App) -> None:
        await month(app, MARCH, SUBJECTS[:2])
        await tended(app, datetime(2024, 11, 1, tzinfo=UTC))
        [before] = await recaps(app)
        await said_on(app, MARCH + timedelta(days=3), "late", subject="quarry")
        await run(at(app, MARCH), RECAP, project="town", conversation="late")
        await tended(app, datetime(2024, 11, 2, tzinfo=UTC))
        [after] = await recaps(app)
        assert (after.id, after.count) == (before.id, 30)
        assert "sell the quarry" in after.content

    async def test_one_conversation_is_not_merged(self, app: App) -> None:
        await month(app, MARCH, SUBJECTS[:1])
        assert (await tended(app, datetime(2024, 11, 1, tzinfo=UTC))).changed == 0

    async def test_one_of_the_archive_can_be_restored(self, app: App) -> None:
        await month(app, MARCH, SUBJECTS[:2])
        first, _ = await recaps(app)
        await tended(app, datetime(2024, 11, 1, tzinfo=UTC))
        await run(app, UNFORGET, ids=[first.id])
        assert first.id in {one.id for one in await recaps(app)}

    async def test_an_erased_message_leaves_no_word_in_its_month(self, app: App) -> None:
        ids = await month(app, MARCH, SUBJECTS[:3])
        await tended(app, datetime(2024, 11, 1, tzinfo=UTC))
        [before] = await recaps(app)
        assert "harbour for" in before.content
        decision = ids[9]
        gone = await run(app, FORGET, ids=[decision], hard=True)
        assert gone.receipt is not None
        assert before.id in gone.receipt.ids
        back = await recaps(app)
        assert [one.level for one in back] == [1, 1], "those of the others stand for themselves again"
        await run(app, RUN_JOBS, scheduled=False)
        assert len(await recaps(app)) == 3
        await tended(app, datetime(2024, 11, 2, tzinfo=UTC))
        [after] = await recaps(app)
        assert (after.level, after.count) == (2, 29)
        assert "harbour for" not in after.content
        assert "sell the bakery" in after.content


class TestYears:
    async def test_the_months_of_a_year_become_one_after_two_years(self, app: App) -> None:
        ids: list[str] = []
        for number in range(4):
            first = datetime(2024, 2 + number, 4, 10, tzinfo=UTC)
            ids += await month(app, first, SUBJECTS[2 * number : 2 * number + 2])
        await tended(app, datetime(2025, 6, 1, tzinfo=UTC))
        assert [one.level for one in await recaps(app)] == [2] * 4
        assert (await tended(app, datetime(2026, 6, 1, tzinfo=UTC))).changed == 0
        done = await tended(app, datetime(2027, 3, 1, tzinfo=UTC))
        assert done.counts == {"gathered": 1, "archived": 4}
        [year] = await recaps(app)
        assert (year.level, year.count) == (3, 80)
        assert year.content.startswith("Summary of 2024: 80 messages.")
        assert year.tokens <= app.engine.settings.recaps.longest_tokens
        assert await covered_messages(app.engine, ids) == set(ids)
        told = await run(app, RECAP_MESSAGES, id=year.id, limit=200)
        assert [each.id for each in told.messages] == ids
        await run(app, FORGET, ids=[ids[0]], hard=True)
        assert {one.level for one in await recaps(app)} == {1, 2}


class TestWhatWasMissed:
    async def test_it_is_caught_up_with_once(self, app: App) -> None:
        ids = await said_on(app, MARCH, "old talk", subject="harbour")
        await said_on(app, MARCH, "short talk", subject="bakery", count=3)
        going = await tended(app, MARCH + timedelta(minutes=30))
        assert (going.changed, going.looked) == (0, 2), "they may go on"
        assert (await tended(app, MARCH + timedelta(days=1), dry=True)).counts == {"recapped": 1}
        assert await recaps(app) == []
        done = await tended(app, MARCH + timedelta(days=1))
        assert done.counts == {"recapped": 1}
        [recap] = await recaps(app)
        assert (recap.conversation, recap.count) == ("old talk", 10)
        assert await covered_messages(app.engine, ids) == set(ids)
        again = await tended(app, MARCH + timedelta(days=2))
        assert (again.changed, again.looked) == (0, 0), "only what is new is looked at"

    async def test_a_stage_stops_at_its_bounds(self, app: App) -> None:
        await said_on(app, MARCH, "old talk", subject="harbour")
        stopped = await tended(app, MARCH + timedelta(days=1), deadline=0.0)
        assert (stopped.changed, stopped.more) == (0, True)
        assert (await tended(app, MARCH + timedelta(days=1))).changed == 1


async def test_conversations_are_listed_the_latest_first(app: App) -> None:
    for number, subject in enumerate(SUBJECTS[:3]):
        await said_on(app, MARCH + timedelta(days=number), subject, subject=subject)
    await run(app, RECAP, project="town", conversation="bakery")
    listed = (await run(app, LIST_CONVERSATIONS)).conversations
    assert [one.conversation for one in listed] == ["bakery", "observatory", "harbour"]
    assert [(one.scope, one.messages, one.recap is None) for one in listed] == [
        ("town", 10, False),
        ("town", 10, True),
        ("town", 10, True),
    ]
    assert listed[0].first == MARCH + timedelta(days=2)
    [only] = (await run(app, LIST_CONVERSATIONS, project="town", conversation="harbour")).conversations
    assert only == listed[2]
    assert len((await run(app, LIST_CONVERSATIONS, limit=2)).conversations) == 2
