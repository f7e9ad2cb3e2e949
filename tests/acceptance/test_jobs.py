"""Jobs: held by one, tried again, given up, taken over. No test waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, acting, at, everything, found, recall, run, show, stored

from mindhold.app.application import App
from mindhold.engine import Engine
from mindhold.jobs.handlers import HANDLERS
from mindhold.jobs.queue import CANCEL_JOB, LIST_JOBS, RETRY_JOB, RUN_JOBS
from mindhold.jobs.runner import LEASE, Runner, enqueue_due, schedule_of
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.duplicates import relate_job
from mindhold.memories.embedding import EMBED_MISSING
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.memories.transfer import EXPORT
from mindhold.model.errors import Conflict, InvalidInput, JobNotFound
from mindhold.model.job import Job, JobState
from mindhold.ports.store import Enqueue

NOON = datetime(2026, 3, 11, 12, 0, tzinfo=UTC)


async def queue(app: App, name: str = "chore", **fields: Any) -> Job:
    job = Job(id=app.engine.new_id(), name=name, created=NOON, due=NOON, **fields)
    await app.engine.store.apply([Enqueue(job)])
    return job


def runner(app: App, owner: str = "me", **handlers: Any) -> Runner:
    return Runner(app.engine, handlers, owner=owner)


async def fine(_engine: Engine, job: Job) -> Mapping[str, Any]:
    return {"did": job.payload.get("what", "it")}


async def bad(_engine: Engine, _job: Job) -> Mapping[str, Any]:
    raise InvalidInput("The chore is impossible.")


async def broken(_engine: Engine, _job: Job) -> Mapping[str, Any]:
    raise ZeroDivisionError("chore / 0")


async def test_a_job_is_run_once_and_its_result_kept(app: App) -> None:
    job = await queue(app, payload={"what": "dishes"})
    [ran] = await runner(at(app, NOON), chore=fine).run_all()
    assert (ran.job.id, ran.kept) == (job.id, True)
    kept = await app.engine.store.job(job.id)
    assert (kept.state, kept.result, kept.attempts) == (JobState.DONE, {"did": "dishes"}, 1)
    assert await runner(at(app, NOON), chore=fine).run_all() == []


async def test_a_job_is_not_run_before_it_is_due(app: App) -> None:
    await queue(app)
    early = at(app, NOON - timedelta(seconds=1))
    assert await runner(early, chore=fine).run_next() is None


async def test_a_runner_leaves_alone_what_it_has_no_handler_for(app: App) -> None:
    await queue(app, "unknown")
    assert await runner(at(app, NOON), chore=fine).run_next() is None


async def test_a_failed_job_is_tried_again_later_and_later_then_given_up(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    job = await queue(app)
    moment, waits = NOON, []
    for _ in range(5):
        ran = await runner(at(app, moment), chore=bad).run_next()
        assert ran is not None
        assert await runner(at(app, ran.job.due - timedelta(seconds=1)), chore=bad).run_next() is None
        waits.append((ran.job.due - moment).total_seconds())
        moment = ran.job.due
    assert waits[:4] == [10, 20, 40, 80]
    dead = await app.engine.store.job(job.id)
    assert (dead.state, dead.attempts) == (JobState.DEAD, 5)
    assert dead.error == "INVALID_INPUT: The chore is impossible."
    assert await runner(at(app, moment + timedelta(days=1)), chore=fine).run_next() is None


async def test_any_error_of_a_handler_is_recorded_and_the_queue_goes_on(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await queue(app, "worse"), await queue(app)
    with caplog.at_level(logging.CRITICAL):
        ran = await runner(at(app, NOON), chore=fine, worse=broken).run_all()
    assert [one.job.id for one in ran] == [first.id, second.id]
    failed = await app.engine.store.job(first.id)
    assert (failed.state, failed.error) == (JobState.WAITING, "ZeroDivisionError: chore / 0")


async def test_two_runners_never_hold_one_job_at_once(opened: Open) -> None:
    async with opened() as app, opened() as second:
        for number in range(10):
            await queue(app, payload={"what": number})
        done: list[int] = []

        async def note(_engine: Engine, job: Job) -> Mapping[str, Any]:
            done.append(job.payload["what"])
            await asyncio.sleep(0)
            return {}

        runners = [runner(at(one, NOON), owner, chore=note) for one, owner in ((app, "a"), (second, "b"))]
        await asyncio.gather(*(each.run_all() for each in runners))
        assert sorted(done) == list(range(10))


async def test_a_killed_runners_job_is_taken_up_when_its_lease_is_over(opened: Open) -> None:
    async with opened() as app, opened() as second:
        job = await queue(app)
        held = await app.engine.store.lease("killed", now=NOON, duration=LEASE)
        assert held is not None
        before = at(second, NOON + LEASE - timedelta(seconds=1))
        assert await runner(before, "other", chore=fine).run_next() is None
        after = await runner(at(second, NOON + LEASE), "other", chore=fine).run_next()
        assert after is not None
        assert (after.job.id, after.job.state, after.job.attempts) == (job.id, JobState.DONE, 2)


async def test_a_runner_that_lost_its_lease_does_not_overwrite(opened: Open) -> None:
    async with opened() as app, opened() as second:
        job = await queue(app)

        async def slow(_engine: Engine, _job: Job) -> Mapping[str, Any]:
            late = at(second, NOON + LEASE)
            assert await runner(late, "other", chore=fine).run_next() is not None
            return {"did": "too late"}

        ran = await runner(at(app, NOON), "slow", chore=slow).run_next()
        assert ran is not None
        assert not ran.kept
        assert (await app.engine.store.job(job.id)).result == {"did": "it"}


async def test_whoever_is_cancelled_ends_though_the_lease_was_just_lost(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stops must not miss its cancellation because another runner has taken the job."""
    await queue(app)
    monkeypatch.setattr("mindhold.jobs.runner.RENEW_EVERY", 0)

    async def lost(*_words: object, **_named: object) -> bool:
        return False

    monkeypatch.setattr(app.engine.store, "renew", lost)

    async def endless(_engine: Engine, _job: Job) -> Mapping[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            running.cancel()
        return {}

    running = asyncio.create_task(runner(at(app, NOON), chore=endless).run_next())
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_dead_job_is_shown_by_status_and_doctor_and_tried_again_by_hand(app: App) -> None:
    job = await queue(app, most_attempts=1)
    await runner(at(app, NOON), chore=bad).run_all()
    status = await run(app, STATUS)
    assert status.jobs == {"dead": 1}
    assert any(job.id in line and "impossible" in line for line in status.dead_jobs)
    findings = {finding.name: finding for finding in (await run(app, DOCTOR)).findings}
    assert not findings["jobs"].healthy
    again = await run(app, RETRY_JOB, id=job.id)
    assert (again.state, again.attempts, again.error) == ("waiting", 0, None)
    [ran] = await runner(at(app, datetime.now(UTC) + timedelta(minutes=1)), chore=fine).run_all()
    assert ran.job.state is JobState.DONE


async def test_a_dead_job_can_be_tried_again_beside_a_waiting_one_of_its_key(app: App) -> None:
    dead = await queue(app, most_attempts=1, key="chore")
    await runner(at(app, NOON), chore=bad).run_all()
    waiting = await queue(app, key="chore")
    await run(app, RETRY_JOB, id=dead.id)
    states = {job.id: job.state for job in (await run(app, LIST_JOBS)).jobs}
    assert states == {dead.id: "waiting", waiting.id: "waiting"}


async def test_only_dead_and_waiting_jobs_are_tried_again(app: App) -> None:
    job = await queue(app)
    await runner(at(app, NOON), chore=fine).run_all()
    with pytest.raises(Conflict, match="done"):
        await run(app, RETRY_JOB, id=job.id)


async def test_a_waiting_job_can_be_cancelled_and_nothing_is_wrong_then(app: App) -> None:
    job = await queue(app)
    await run(app, CANCEL_JOB, id=job.id)
    assert await runner(at(app, NOON), chore=fine).run_next() is None
    findings = {finding.name: finding for finding in (await run(app, DOCTOR)).findings}
    assert findings["jobs"].healthy
    with pytest.raises(Conflict):
        await run(app, CANCEL_JOB, id=job.id)


async def test_an_unknown_job_is_an_error(app: App) -> None:
    for operation in (RETRY_JOB, CANCEL_JOB):
        with pytest.raises(JobNotFound, match="nothing"):
            await run(app, operation, id="nothing")


async def test_what_is_scheduled_is_queued_once_for_all_processes(opened: Open) -> None:
    async with opened() as app, opened() as second:
        queued = await asyncio.gather(
            *(enqueue_due(at(one, NOON).engine) for one in (app, second, app, second))
        )
        assert sorted(name for names in queued for name in names) == sorted(
            entry.name for entry in schedule_of(app.engine)
        )
        assert (await run(app, LIST_JOBS)).tally == {"waiting": len(schedule_of(app.engine))}


async def test_what_is_scheduled_comes_again_in_its_time(app: App) -> None:
    entry = min(schedule_of(app.engine), key=lambda each: each.every)
    await enqueue_due(at(app, NOON).engine)
    await Runner(at(app, NOON).engine, HANDLERS, owner="me").run_all()
    assert await enqueue_due(at(app, NOON + entry.every - timedelta(seconds=1)).engine) == []
    assert await enqueue_due(at(app, NOON + entry.every).engine) == [entry.name]


async def test_a_schedule_does_not_pile_up_while_nobody_runs_it(app: App) -> None:
    for day in range(5):
        await enqueue_due(at(app, NOON + timedelta(days=day)).engine)
    nightly = 1
    assert (await run(app, LIST_JOBS)).tally == {"waiting": len(schedule_of(app.engine)) + nightly}


async def test_running_by_hand_runs_what_is_due_and_says_what(app: App) -> None:
    ran = (await run(app, RUN_JOBS)).ran
    assert {job.name for job in ran} == {entry.name for entry in schedule_of(app.engine)}
    assert all(job.state == "done" for job in ran)
    assert (await run(app, RUN_JOBS)).ran == []


async def test_running_by_hand_waits_for_no_next_attempt(app: App) -> None:
    await run(app, RUN_JOBS)
    later = app.engine.clock() + timedelta(hours=1)
    job = Job(id=app.engine.new_id(), name="relate", created=NOON, due=later, attempts=1, payload={"ids": []})
    await app.engine.store.apply([Enqueue(job)])
    assert (await run(app, RUN_JOBS)).ran == []
    assert [one.id for one in (await run(app, RUN_JOBS, waiting=True)).ran] == [job.id]


async def test_running_by_hand_makes_the_vectors_that_are_missing(opened: Open) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        await stored(app, "The crane squeaks")
    async with opened() as app:
        for job in (await run(app, LIST_JOBS)).jobs:
            await run(app, CANCEL_JOB, id=job.id)
        await enqueue_due(app.engine)
        for job in (await run(app, LIST_JOBS, states=["waiting"])).jobs:
            await run(app, CANCEL_JOB, id=job.id)
        assert "`mindhold jobs run` makes them" in (await recall(app, "crane")).notice
        assert len((await run(app, RUN_JOBS, waiting=True)).ran) == 1
        assert (await recall(app, "crane")).notice == ""


async def test_old_jobs_are_tidied_away(app: App) -> None:
    await run(at(app, NOON), RUN_JOBS)
    await run(at(app, NOON + timedelta(days=30)), RUN_JOBS)
    jobs = (await run(app, LIST_JOBS)).jobs
    assert all(job.created > NOON for job in jobs)


@pytest.mark.parametrize("provider", ["none", "local"])
async def test_without_a_model_no_job_fails(opened: Open, provider: str) -> None:
    async with opened(**{"embedding.provider": provider}) as app:
        await stored(app, "The port is 8080.")
        for day in range(8):
            await run(at(app, NOON + timedelta(days=day)), RUN_JOBS)
        assert "dead" not in (await run(app, STATUS)).jobs


async def test_embedding_does_only_what_is_missing(opened: Open) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        ids = [await stored(app, f"Machine {number} hums.") for number in range(3)]
    async with opened() as app:
        notice = (await recall(app, "machine hums")).notice
        assert "3 of 3" in notice
        [job] = [job for job in (await run(app, RUN_JOBS)).ran if job.name == "embed"]
        assert job.result == {"embedded": 3}
        assert (await recall(app, "machine hums")).notice == ""
        assert (await run(app, EMBED_MISSING)).embedded == 0
        for memory_id in ids:
            assert (await show(app, memory_id)).memory.embedded_by == "hashing-256"


async def test_relating_again_changes_nothing(app: App, tmp_path: Path) -> None:
    texts = [
        f"The {colour} lever of the press is greased every Monday." for colour in ("red", "blue", "green")
    ]
    texts += ["The press is stopped by the lever.", "the press is stopped by the lever!"]
    # Each like none of the others: which of many equals are linked is nobody's promise.
    texts += "Owls sleep; Bread rises; Snow melts; Ships sail; Bees hum; Clocks tick; Rivers bend; Foxes run".split(
        "; "
    )
    answer = await run(app, REMEMBER_MANY, items=[{"content": text} for text in texts])
    ids = [one.id for one in answer.results if one.id is not None]
    await run(app, RUN_JOBS)

    async def state(name: str) -> bytes:
        await run(acting(app, "system"), EXPORT, path=str(tmp_path / name))
        return (tmp_path / name).read_bytes()

    before = await state("before")
    await app.engine.store.apply([Enqueue(relate_job(app.engine, ids))])
    await run(app, RUN_JOBS)
    assert await state("after") == before


async def test_relating_leaves_a_link_that_a_person_drew(app: App) -> None:
    texts = ["The red lever of the press is greased.", "The blue lever of the press is greased."]
    texts += [f"Filler about topic {number}." for number in range(10)]
    answer = await run(app, REMEMBER_MANY, items=[{"content": text} for text in texts])
    one, two = answer.results[0].id, answer.results[1].id
    await run(app, LINK, origin=two, target=one)
    await run(app, RUN_JOBS)
    assert two is not None
    drawn = [one.link.automatic for one in (await show(app, two)).links if one.link.origin == two]
    assert False in drawn


async def test_a_job_about_what_was_erased_meanwhile_is_no_failure(app: App) -> None:
    memory_id = await stored(app, "The port is 8080.")
    job = replace(relate_job(app.engine, [memory_id, "01zzzz"]), due=NOON)
    await app.engine.store.apply([Enqueue(job)])
    await app.engine.store.erase([memory_id])
    assert all(job.state == "done" for job in (await run(app, RUN_JOBS)).ran)
    assert await everything(app) == []
    assert await found(app, "port") == []
