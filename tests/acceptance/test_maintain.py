"""Maintenance, through the front door: what a run does, when the night's runs, and that only one does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, at, everything, raw, recall, remember, run, stored

from mindhold.app.application import App
from mindhold.engine import Engine
from mindhold.jobs.queue import CANCEL_JOB, LIST_JOBS, RUN_JOBS
from mindhold.jobs.runner import LEASE
from mindhold.lifecycle import maintenance
from mindhold.lifecycle.maintenance import STEPS
from mindhold.lifecycle.maintenance_operations import CONSOLIDATION_REPORTS, MAINTAIN, MaintainResult
from mindhold.lifecycle.stage_report import StageLimits, StageResult
from mindhold.locks import claim
from mindhold.memories.prepare import indexed
from mindhold.memories.views import JobView
from mindhold.model.errors import InvalidInput, Refused, StoreFull
from mindhold.model.memory import Kind
from mindhold.model.policies import LONGEST_IDLE_WAIT
from mindhold.model.scope import Caller
from mindhold.testing.builders import Builder

EVENING = datetime(2026, 3, 10, 20, 0, tzinfo=UTC)
THREE = datetime(2026, 3, 11, 3, 0, tzinfo=UTC)
IDLE = timedelta(minutes=5)
DAY = timedelta(days=1)
CLIENT = Caller("default")
ran: list[tuple[str, datetime]] = []  # what the steps below noted


async def noted(engine: Engine, within: StageLimits) -> StageResult:
    ran.append(("noted", engine.clock()))
    return StageResult(
        "noted", 0 if within.dry else 1, "noted", counts={} if within.dry else {"things noted": 1}
    )


async def slow(engine: Engine, within: StageLimits) -> StageResult:
    """Three turns' worth, whoever takes them."""
    ran.append(("slow", engine.clock()))
    return StageResult("slow", 1, "a part", more=[name for name, _ in ran].count("slow") < 3)


async def full(_engine: Engine, _within: StageLimits) -> StageResult:
    raise StoreFull("There is no room for the heron.")


async def broken(_engine: Engine, _within: StageLimits) -> StageResult:
    raise ZeroDivisionError("heron / 0")


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()


def having(patch: pytest.MonkeyPatch, *names: str) -> None:
    """These steps, and no others; those above by their name."""
    steps = {name: STEPS.get(name, f"{__name__}:{name}") for name in names}
    patch.setattr(maintenance, "STEPS", steps)
    patch.setattr("mindhold.lifecycle.maintenance.STEPS", steps)


def by_step(answer: MaintainResult) -> dict[str, Any]:
    return {one.step: one for one in answer.steps}


async def put(app: App, content: str) -> None:
    """Past intake, which would not store the same twice."""
    now = app.engine.clock()
    made = Builder().memory(content, kind=Kind.FACT, created=now, updated=now, review=now, verified=now)
    memory = replace(made, id=app.engine.new_id(), content_hash=app.engine.new_id())
    await app.engine.store.apply([indexed(app.engine, memory, vector=None)])


async def nights(app: App) -> list[JobView]:
    return [one for one in (await run(app, LIST_JOBS, limit=100)).jobs if one.name == "maintain"]


async def looked(app: App, moment: datetime) -> list[JobView]:
    """What upkeep ran at that moment of the night's."""
    return [one for one in (await run(at(app, moment), RUN_JOBS)).ran if one.name == "maintain"]


async def first_turn(app: App) -> None:
    """Of a night that takes several; what else is due goes first."""
    for _ in range(10):
        if not ran:
            await run(at(app, THREE), RUN_JOBS, most=1)
    [job] = await nights(app)
    assert (job.state, len(ran)) == ("waiting", 1)


async def test_a_run_does_all_there_is_to_do_and_says_it(app: App) -> None:
    await put(app, "The cook has a sharp knife.")
    await put(app, "the cook has a sharp knife!")
    answer = await run(app, MAINTAIN)
    assert [one.step for one in answer.steps] == [*STEPS, "jobs"]
    assert not answer.failed
    assert "removed_1_duplicate_entries" in answer.operations
    assert len(await everything(app)) == 1
    assert (await run(app, CONSOLIDATION_REPORTS)).reports[0].counts["merged"] == 1
    again = await run(app, MAINTAIN)
    assert not [one for one in again.operations if "duplicate" in one]


async def test_a_dry_run_changes_nothing(app: App) -> None:
    await put(app, "The cook has a sharp knife.")
    await put(app, "the cook has a sharp knife!")
    before = await everything(app)
    answer = await run(app, MAINTAIN, dry_run=True)
    assert answer.dry_run
    assert "removed_1_duplicate_entries" in answer.operations
    assert [one.step for one in answer.steps] == [*STEPS]
    assert await everything(app) == before
    assert (await run(app, CONSOLIDATION_REPORTS)).reports == []


async def test_steps_can_be_chosen(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(by_step(await run(app, MAINTAIN, steps=["optimise", "tidy"]))) == ["tidy", "optimise"]
    with pytest.raises(InvalidInput, match="cooking"):
        await run(app, MAINTAIN, steps=["cooking"])
    monkeypatch.setattr(maintenance, "STEPS", {"backup": f"{__name__}:noted", "tidy": STEPS["tidy"]})
    assert list(by_step(await run(app, MAINTAIN, backup=False))) == ["tidy", "jobs"]
    assert not ran
    assert list(by_step(await run(app, MAINTAIN))) == ["backup", "tidy", "jobs"]
    assert ran


async def test_it_is_the_owners(app: App) -> None:
    with pytest.raises(Refused):
        await app.run(MAINTAIN, MAINTAIN.takes(), caller=Caller("guest", owner=False))


async def test_a_step_that_fails_is_told_and_keeps_no_other_from_running(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "full", "broken", "noted", "tidy")
    answer = await run(app, MAINTAIN)
    assert answer.failed == ["full", "broken"]
    steps = by_step(answer)
    assert (steps["full"].code, steps["full"].error) == ("STORE_FULL", "There is no room for the heron.")
    assert steps["broken"].code == "INTERNAL"
    assert "things_noted_1" in answer.operations
    assert not steps["tidy"].error


async def test_of_two_at_once_one_does_it_and_the_other_says_so(opened: Open) -> None:
    async with opened() as app, opened() as second:
        async with claim(app.engine, "maintain") as mine:
            assert mine
            told = await run(second, MAINTAIN)
        assert (told.notice, told.steps, told.operations) == ("Another maintenance is under way.", [], [])
        assert (await run(second, MAINTAIN)).notice == ""


async def test_old_jobs_go(app: App) -> None:
    await run(at(app, EVENING), RUN_JOBS)
    later = at(app, EVENING + 30 * DAY)
    dry = by_step(await run(later, MAINTAIN, steps=["tidy"], dry_run=True))["tidy"]
    done = by_step(await run(later, MAINTAIN, steps=["tidy"]))["tidy"]
    assert dry.changed == done.changed > 0


@pytest.mark.local_file
async def test_an_index_that_disagrees_is_made_anew(app: App) -> None:
    await stored(app, "The heron nests at the weir")
    with raw(app) as connection:
        connection.execute("DELETE FROM keyword")
    dry = by_step(await run(app, MAINTAIN, steps=["optimise"], dry_run=True))["optimise"]
    assert "keywords" in dry.detail
    done = await run(app, MAINTAIN, steps=["optimise"])
    assert "rebuilt_indexes" in done.operations
    assert by_step(await run(app, MAINTAIN, steps=["optimise"], dry_run=True))["optimise"].changed == 0
    assert (await recall(app, "heron")).hits


async def test_the_first_night_is_the_next_one(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    assert not await looked(app, EVENING)
    assert (await run(at(app, EVENING), LIST_JOBS)).schedule["maintain"] == THREE.isoformat()
    assert not await looked(app, THREE - timedelta(seconds=1))
    [job] = await looked(app, THREE)
    assert (job.state, ran) == ("done", [("noted", THREE)])
    assert not await looked(app, THREE + timedelta(hours=23))
    assert await looked(app, THREE + DAY)


async def test_it_goes_by_the_persons_clock(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    async with opened(time_zone="America/New_York", **{"maintenance.hour": "04:30"}) as app:
        await looked(app, EVENING)
        due = datetime(2026, 3, 11, 8, 30, tzinfo=UTC)
        assert not await looked(app, due - timedelta(seconds=1))
        assert await looked(app, due)


async def test_missed_nights_are_made_up_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    await looked(app, EVENING)
    woken = EVENING + timedelta(days=9, hours=14)
    assert len(await looked(app, woken)) == 1
    assert not await looked(app, woken + timedelta(hours=1))


async def test_it_waits_until_nobody_calls(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    await looked(app, EVENING)
    call = THREE - timedelta(minutes=1)
    await at(app, call).run(LIST_JOBS, LIST_JOBS.takes(), caller=CLIENT)
    assert not await looked(app, THREE)
    assert not await looked(app, call + IDLE - timedelta(seconds=1))
    assert await looked(app, call + IDLE)


async def test_it_does_not_wait_for_ever(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    await looked(app, EVENING)
    for minutes in range(0, 240, 4):
        moment = THREE + timedelta(minutes=minutes)
        await at(app, moment).run(LIST_JOBS, LIST_JOBS.takes(), caller=CLIENT)
        assert not await looked(app, moment)
    await at(app, THREE + LONGEST_IDLE_WAIT).run(LIST_JOBS, LIST_JOBS.takes(), caller=CLIENT)
    assert await looked(app, THREE + LONGEST_IDLE_WAIT)


async def test_what_a_door_asks_itself_is_no_call(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    await looked(app, EVENING)
    for own in (None, Caller("system")):
        await at(app, THREE).run(LIST_JOBS, LIST_JOBS.takes(), caller=own)
    assert await looked(app, THREE)


async def test_one_night_is_one_run_of_two_servers(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    async with opened() as app, opened() as second:
        for one in (app, second):
            await looked(one, EVENING)
        for night in range(3):
            moment = THREE + night * DAY
            found = await asyncio.gather(*(looked(one, moment) for one in (app, second, app, second)))
            assert sum(map(len, found)) == 1
        assert len(ran) == 3
        assert len(await nights(app)) == 3


async def test_a_night_that_was_broken_off_is_gone_on_with_by_another_process(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "noted", "slow")
    async with opened() as app, opened() as second:
        for one in (app, second):
            await looked(one, EVENING)
        await first_turn(app)
        killed = await app.engine.store.lease("killed", now=THREE, duration=LEASE, names=["maintain"])
        assert killed is not None
        assert not await looked(second, THREE + LEASE - timedelta(seconds=1))
        [job] = await looked(second, THREE + LEASE)
        assert job.state == "done"
        assert [name for name, _ in ran] == ["noted", "slow", "slow", "slow"]


async def test_while_it_is_done_by_hand_the_night_waits(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "noted")
    async with opened() as app, opened() as second:
        for one in (app, second):
            await looked(one, EVENING)
        async with claim(at(second, THREE).engine, "maintain"):
            [job] = await looked(app, THREE)
            assert (job.state, ran) == ("waiting", [])
        assert not await looked(app, THREE + timedelta(seconds=30))
        [job] = await looked(app, THREE + timedelta(minutes=1))
        assert job.state == "done"


async def test_a_night_can_be_given_up(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted", "slow")
    await looked(app, EVENING)
    await first_turn(app)
    [job] = await nights(app)
    await run(at(app, THREE), CANCEL_JOB, id=job.id)
    assert not await looked(app, THREE + IDLE)
    assert [name for name, _ in ran] == ["noted"]
    assert await looked(app, THREE + DAY)


async def test_a_step_that_fails_at_night_is_in_the_jobs_result(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "full", "noted")
    await looked(app, EVENING)
    [job] = await looked(app, THREE)
    assert job.state == "done"
    kept = await app.engine.store.job(job.id)
    assert kept.result is not None
    assert kept.result["done"]["full"]["code"] == "STORE_FULL"
    assert kept.result["done"]["noted"]["changed"] == 1


async def test_done_by_hand_the_night_is_done(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "noted")
    await looked(app, EVENING)
    await run(at(app, THREE + timedelta(minutes=1)), MAINTAIN)
    assert not await looked(app, THREE + timedelta(hours=1))
    assert await looked(app, THREE + DAY)


async def test_a_store_without_nights_consolidates_as_before(opened: Open) -> None:
    async with opened(**{"maintenance.schedule": False}) as app:
        assert "consolidate" in {one.name for one in (await run(at(app, EVENING), RUN_JOBS)).ran}
        assert "maintain" not in (await run(app, LIST_JOBS)).schedule
        assert not await looked(app, THREE + 9 * DAY)


@pytest.mark.parametrize(
    ("hours", "by_itself", "after_a_day", "after_a_week"),
    [(24, False, True, True), (6, True, True, True), (168, False, False, True), (0, False, False, False)],
)
async def test_a_consolidation_is_as_often_as_it_is_wanted(
    opened: Open, *, hours: int, by_itself: bool, after_a_day: bool, after_a_week: bool
) -> None:
    async with opened(**{"life.consolidate_hours": hours}) as app:
        assert ("consolidate" in (await run(app, LIST_JOBS)).schedule) is by_itself
        await looked(app, EVENING)
        for moment, expected in (
            (THREE, bool(hours)),
            (THREE + DAY, after_a_day),
            (THREE + 7 * DAY, after_a_week),
        ):
            [job] = await looked(app, moment)
            kept = await app.engine.store.job(job.id)
            assert kept.result is not None
            assert ("consolidate" in kept.result["done"]) is expected


async def test_a_run_keeps_to_its_time(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "slow", "noted")
    maintenance = replace(app.engine.settings.maintenance, seconds=0)
    hurried = replace(app, engine=app.engine.with_settings(maintenance=maintenance))
    await looked(hurried, EVENING)
    [job] = await looked(hurried, THREE)
    assert job.state == "done"
    assert [name for name, _ in ran] == ["slow", "noted"]
    await looked(hurried, THREE + DAY)
    assert [name for name, _ in ran] == ["slow", "noted"] * 2


async def test_what_is_logged_has_no_words(
    app: App, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    having(monkeypatch, "consolidate", "full", "broken", "tidy")
    await remember(app, "The heron nests at the weir")
    with caplog.at_level("INFO"):
        await run(app, MAINTAIN)
    assert "maintenance ended" in caplog.text
    told = [one.getMessage() for one in caplog.records]
    assert not [one for one in told if "heron" in one]
