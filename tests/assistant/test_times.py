"""recall_memory_by_time: phrases and limits, by a clock that stands where the test puts it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from assistant_door import DAY, NOW, keep
from front_door import at
from tool_door import texts, use

from mindhold.app.application import App
from mindhold.model.errors import InvalidInput


async def diary(app: App, *days_ago: int) -> None:
    for days in days_ago:
        await keep(at(app, NOW - days * DAY), f"Entry of {days} days ago.")


def frame(answer: dict[str, object]) -> tuple[datetime, datetime]:
    found = answer["time_frame"]
    assert isinstance(found, dict)
    return datetime.fromisoformat(found["from"]), datetime.fromisoformat(found["to"])


async def test_limits_give_what_lies_between_them_oldest_first(app: App) -> None:
    await diary(app, 2, 40, 10, 20)
    since, until = NOW - 30 * DAY, NOW - 5 * DAY
    answer = await use(
        at(app, NOW),
        "recall_memory_by_time",
        range={"from": since.isoformat(), "to": until.isoformat()},
    )
    assert texts(answer) == ["Entry of 20 days ago.", "Entry of 10 days ago."]
    assert frame(answer) == (since, until)


def moment(month: int, day: int, *, year: int = 2031) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phrase", "since", "until"),
    [
        ("today", moment(5, 15), moment(5, 16)),
        ("yesterday", moment(5, 14), moment(5, 15)),
        ("last week", moment(5, 5), moment(5, 12)),
        ("last month", moment(4, 1), moment(5, 1)),
        ("March 2031", moment(3, 1), moment(4, 1)),
        ("3 days ago", moment(5, 12), moment(5, 13)),
        ("last year", moment(1, 1, year=2030), moment(1, 1)),
    ],
)
async def test_a_phrase_is_understood_by_todays_date_and_told(
    app: App, phrase: str, since: datetime, until: datetime
) -> None:
    answer = await use(at(app, NOW), "recall_memory_by_time", time_query=phrase)
    assert frame(answer) == (since, until)


async def test_a_phrase_finds_its_days_and_no_others(app: App) -> None:
    await diary(app, 0, 1, 4, 9, 12)
    assert texts(await use(at(app, NOW), "recall_memory_by_time", time_query="yesterday")) == [
        "Entry of 1 days ago."
    ]
    assert texts(await use(at(app, NOW), "recall_memory_by_time", time_query="last week")) == [
        "Entry of 9 days ago.",
        "Entry of 4 days ago.",
    ]


async def test_limits_win_over_the_phrase(app: App) -> None:
    await diary(app, 1, 10)
    span = {"from": (NOW - 11 * DAY).isoformat(), "to": (NOW - 9 * DAY).isoformat()}
    answer = await use(at(app, NOW), "recall_memory_by_time", time_query="yesterday", range=span)
    assert texts(answer) == ["Entry of 10 days ago."]


async def test_a_scope_narrows_a_time(app: App) -> None:
    yesterday = at(app, NOW - DAY)
    await keep(yesterday, "The rudder was painted.", scope="Boat")
    await keep(yesterday, "The gutter was cleaned.", scope="House")
    answer = await use(at(app, NOW), "recall_memory_by_time", time_query="yesterday", scope="Boat")
    assert texts(answer) == ["The rudder was painted."]


async def test_a_phrase_that_is_no_time_is_told(app: App) -> None:
    with pytest.raises(InvalidInput):
        await use(at(app, NOW), "recall_memory_by_time", time_query="when pigs fly")


async def test_many_of_a_time_come_with_a_digest(app: App) -> None:
    for number in range(60):
        await keep(at(app, NOW - DAY), f"Stop {number}: the bus waited {number + 2} minutes.")
    answer = await use(at(app, NOW), "recall_memory_by_time", time_query="yesterday")
    assert answer["digest"]
    stamps = [one["timestamp"] for one in answer["results"]]
    assert stamps == sorted(stamps)


async def test_an_empty_time_is_empty_and_named(app: App) -> None:
    await diary(app, 100)
    answer = await use(at(app, NOW), "recall_memory_by_time", time_query="yesterday")
    assert answer["results"] == []
    assert frame(answer) == (moment(5, 14), moment(5, 15))
