"""What callers think of the tools, and what the memories that answers gave make of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from front_door import Open, acting, at, found, remember, run, show, stored

from mindhold.app.application import App
from mindhold.memories.context import CONTEXT, standing
from mindhold.memories.feedback import FEEDBACK, FEEDBACK_REPORT, STEP, FeedbackResult, step_of
from mindhold.memories.filters import SHOW
from mindhold.memories.forget import FORGET
from mindhold.memories.recall import RECALL
from mindhold.memories.reflect import REFLECT
from mindhold.memories.stats import STATS
from mindhold.model.scope import Caller

GOOD: dict[str, Any] = {"relevant": True, "sufficient": True}
BAD: dict[str, Any] = {"relevant": False, "sufficient": False}


async def judged(app: App, conversation: str | None = "talk", **fields: Any) -> FeedbackResult:
    given = FEEDBACK.takes(**{"tool_name": "recall", **GOOD, **fields})
    return await app.run(FEEDBACK, given, conversation=conversation)


async def asked(app: App, query: str, conversation: str = "talk", **fields: Any) -> list[str]:
    answer = await app.run(RECALL, RECALL.takes(query=query, **fields), conversation=conversation)
    return [hit.id for hit in answer.hits]


async def usefulness(app: App, *ids: str) -> list[float]:
    """As the store has it, whoever's they are."""
    found = await app.engine.store.get_many(ids, viewer="system")
    return [round(found[memory_id].usefulness, 6) for memory_id in ids]


class TestReport:
    """Counts, shares, trend, suggestions."""

    async def test_it_is_counted_by_tool(self, app: App) -> None:
        for relevant, sufficient in ((True, True), (True, False), (False, False)):
            answer = await judged(app, None, relevant=relevant, sufficient=sufficient)
            assert answer.recorded
            assert answer.id
        await run(acting(app, "ada"), FEEDBACK, tool_name="ask", **GOOD)
        counts = (await run(app, STATS)).feedback
        assert {name: count.model_dump() for name, count in counts.items()} == {
            "recall": {"relevant": 2, "sufficient": 1, "count": 3}
        }
        assert set((await run(acting(app, "ada"), STATS)).feedback) == {"recall", "ask"}

    async def test_shares_and_the_trend_against_what_was_before(self, app: App) -> None:
        for _ in range(3):
            await judged(app, None, **BAD)
        await judged(app, None, **GOOD)
        later = at(app, app.engine.clock() + timedelta(days=40))
        assert (await run(later, FEEDBACK_REPORT)).tools["recall"].trend is None, "nothing was said lately"
        await judged(later, None, **GOOD)
        report = (await run(later, FEEDBACK_REPORT)).tools["recall"]
        assert (report.whole.count, report.whole.served, report.whole.share) == (5, 2, 0.4)
        assert (report.lately.share, report.before.share, report.trend) == (1.0, 0.25, 0.75)

    async def test_the_newest_suggestions_without_what_must_not_be_kept(self, app: App) -> None:
        for number in range(8):
            await judged(app, None, **BAD, suggestion=f"Idea {number}", context="ports")
        await judged(app, None, **BAD, suggestion="Mail ann@example.com about it.")
        told = (await run(app, FEEDBACK_REPORT)).tools["recall"].suggestions
        assert len(told) == 5
        assert "ann@example.com" not in told[0].text
        assert [(one.text, one.context) for one in told[1:3]] == [("Idea 7", "ports"), ("Idea 6", "ports")]

    async def test_how_tasks_went(self, app: App) -> None:
        for number, success in enumerate((True, True, False)):
            effect = {
                "overall_success": success,
                "tool_highlights": [f"recall was quick {number}"],
                "tool_pain_points": [] if success else ["too many hits"],
            }
            await run(app, REFLECT, summary=f"Piece of work {number} was done.", effectiveness=effect)
        tasks = (await run(app, FEEDBACK_REPORT)).tasks
        assert (tasks.count, tasks.succeeded, tasks.share) == (3, 2, 0.6667)
        assert tasks.highlights[0] == "recall was quick 2"
        assert tasks.pain_points == ["too many hits"]
        assert (await run(app, STATS)).tasks.model_dump() == {"succeeded": 2, "count": 3}

    async def test_one_agents_is_nothing_to_another(self, app: App) -> None:
        ada, grace = acting(app, "ada"), acting(app, "grace")
        await run(ada, FEEDBACK, tool_name="recall", **BAD, suggestion="Ada's own thought")
        await run(ada, REFLECT, summary="Ada's work.", effectiveness={"overall_success": True})
        empty = await run(grace, FEEDBACK_REPORT)
        assert (empty.tools, empty.tasks.count) == ({}, 0)
        assert "recall" in (await run(acting(app, "system"), FEEDBACK_REPORT)).tools


class TestUsefulness:
    """A verdict is felt by the memories that the answer gave, gently, and once in a conversation."""

    @pytest.mark.parametrize(
        ("relevant", "sufficient", "by"),
        [(True, True, STEP), (True, False, 0.0), (False, True, -STEP), (False, False, -STEP)],
    )
    def test_too_little_of_the_right_says_nothing_against_it(
        self, relevant: bool, sufficient: bool, by: float
    ) -> None:
        assert step_of(relevant=relevant, sufficient=sufficient) == by

    async def test_the_latest_answer_of_that_tool_is_meant(self, app: App) -> None:
        ferry = await stored(app, "The ferry to Oslo leaves at nine.")
        lunch = await stored(app, "Lunch is served at noon.")
        assert await asked(app, "lunch noon") == [lunch]
        assert await asked(app, "ferry Oslo") == [ferry]
        assert (await judged(app)).rated == 1
        assert await usefulness(app, ferry, lunch) == [STEP, 0.0]
        assert (await judged(app, tool_name="context")).rated == 0, "it was not asked"

    async def test_a_tool_is_known_by_the_name_that_its_caller_has_for_it(self, app: App) -> None:
        ferry = await stored(app, "The ferry to Oslo leaves at nine.")
        question = RECALL.takes(query="ferry")
        await app.run(RECALL, question, conversation="talk", tool="retrieve_memory")
        assert (await judged(app, tool_name="retrieve_memory", **BAD)).rated == 1
        assert await usefulness(app, ferry) == [-STEP]

    async def test_those_that_are_named_are_meant_instead(self, app: App) -> None:
        ferry = await stored(app, "The ferry to Oslo leaves at nine.")
        lunch = await stored(app, "Lunch is served at noon.")
        await asked(app, "ferry Oslo")
        assert (await judged(app, memories=[lunch, lunch, "01zzzz"])).rated == 1
        assert await usefulness(app, ferry, lunch) == [0.0, STEP]

    async def test_nobody_pumps_a_memory_up(self, app: App) -> None:
        ferry = await stored(app, "The ferry to Oslo leaves at nine.")
        for _ in range(5):
            await asked(app, "ferry Oslo")
            await judged(app, conversation="talk")
            await judged(app, conversation="talk", memories=[ferry])
        assert await usefulness(app, ferry) == [STEP]
        for number in range(5):
            await run(
                app, FEEDBACK, tool_name="x", **GOOD, conversation=f"made up {number}", memories=[ferry]
            )
        assert await usefulness(app, ferry) == [2 * STEP], "without a conversation of the door's a day is one"
        for number in range(20):
            await judged(app, f"talk {number}", memories=[ferry])
        assert await usefulness(app, ferry) == [1.0]

    async def test_only_what_the_caller_sees_is_moved(self, app: App) -> None:
        await run(app, FEEDBACK, tool_name="recall", **GOOD)
        ada, grace = acting(app, "ada"), acting(app, "grace")
        hers = await stored(ada, "The ferry to Oslo leaves at nine.")
        gone = await stored(app, "Lunch is served at noon.")
        await run(app, FORGET, ids=[gone])
        assert (await run(grace, FEEDBACK, tool_name="recall", **BAD, memories=[hers])).rated == 0
        assert (await run(app, FEEDBACK, tool_name="recall", **BAD, memories=[gone])).rated == 0
        await asked(ada, "ferry Oslo")
        assert (await judged(grace)).rated == 0, (
            "the answer was another's, whatever the conversation is called"
        )
        assert await usefulness(app, hers, gone) == [0.0, 0.0]
        reader = Caller("ada", writes=False, owner=False)
        await app.run(RECALL, RECALL.takes(query="ferry"), caller=reader, conversation="reading")
        assert (await judged(ada, "reading")).rated == 0

    async def test_it_is_known_after_a_restart(self, opened: Open) -> None:
        async with opened() as app:
            ferry = await stored(app, "The ferry to Oslo leaves at nine.")
            await asked(app, "ferry Oslo")
        async with opened() as app:
            assert (await judged(app)).rated == 1
        async with opened() as app:
            assert (await judged(app)).rated == 0
            assert await usefulness(app, ferry) == [STEP]

    async def test_what_was_found_useful_comes_first_among_equals(self, app: App) -> None:
        plain = await stored(app, "The quay in the east has a crane.")
        liked = await stored(app, "The quay in the west has a crane.")
        before = await found(app, "quay crane")
        assert set(before) == {plain, liked}
        for number in range(10):
            await judged(app, f"talk {number}", memories=[before[1]])
            await judged(app, f"talk {number}", **BAD, memories=[before[0]])
        assert await found(app, "quay crane") == before[::-1]

    async def test_no_liking_makes_what_does_not_answer_an_answer(self, app: App) -> None:
        ferry = await stored(app, "The ferry to Oslo leaves at nine in the evening.")
        lunch = await stored(app, "Lunch is served at noon by the ferry crew.")
        for number in range(10):
            await judged(app, f"talk {number}", memories=[lunch])
            await judged(app, f"talk {number}", **BAD, memories=[ferry])
        assert (await found(app, "When does the ferry to Oslo leave?"))[0] == ferry


class TestShownInVain:
    """What is put before everybody and never used gives way."""

    async def test_it_sinks_below_what_is_used(self, app: App) -> None:
        ignored = await stored(app, "Always greet the porter.", kind="preference", importance=0.9)
        used = await stored(app, "Never deploy on Fridays.", kind="preference", importance=0.8)

        async def order() -> list[str]:
            return [item.id for item in (await run(app, CONTEXT)).core]

        assert await order() == [ignored, used]
        for _ in range(60):
            await order()
            await asked(app, "deploy Fridays", limit=1)
        await app.engine.use_counter.flush()
        assert await order() == [used, ignored]
        shown = (await run(app, SHOW, id=ignored)).memory
        assert shown.uses == 0, "to be shown is not to be used"
        for number in range(3):
            await judged(app, f"talk {number}", tool_name="context", memories=[ignored])
        assert await order() == [ignored, used], "somebody found it useful after all"

    async def test_anchors_stand_first_whatever_happens(self, app: App) -> None:
        anchor = await stored(app, "The product is called Mindhold.", anchor=True, importance=0.1)
        other = await stored(app, "Always greet the porter.", kind="preference", importance=1.0)
        await app.engine.store.note_shown([anchor] * 500, app.engine.clock())
        assert [item.id for item in (await run(app, CONTEXT)).core] == [anchor, other]

    async def test_what_a_memory_is_worth_showing(self, app: App) -> None:
        answer = await remember(app, "Always greet the porter.", kind="preference", importance=0.8)
        assert answer.id is not None
        memory = await app.engine.store.get(answer.id, viewer="default")
        assert standing(memory) == pytest.approx(0.8)
        assert standing(replace(memory, shown=20)) == pytest.approx(0.8)
        assert standing(replace(memory, shown=10_000)) == pytest.approx(0.4)
        assert standing(replace(memory, shown=10_000, uses=1)) == pytest.approx(0.8)
        assert standing(replace(memory, usefulness=1.0)) == pytest.approx(1.0)
        assert standing(replace(memory, usefulness=-1.0)) == pytest.approx(0.6)
        assert (await show(app, answer.id)).memory.id == answer.id
