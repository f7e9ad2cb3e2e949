"""What every store promises about jobs and cursors."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from mindhold.model.errors import Conflict, JobNotFound
from mindhold.model.job import Job, JobState
from mindhold.ports.store import Enqueue, Store
from mindhold.testing.builders import START, Builder

MINUTE = timedelta(minutes=1)
LATER = START + timedelta(days=1)


async def leased(store: Store, owner: str = "runner", *, names: tuple[str, ...] = ()) -> Job | None:
    return await store.lease(owner, now=LATER, duration=MINUTE, names=names)


class JobsContract:
    """A durable queue with leases."""

    async def test_a_job_comes_back_as_it_went_in(self, store: Store, build: Builder) -> None:
        job = build.job(
            payload={"ids": ["a", "b"], "n": 1}, most_attempts=2, key="k", error="e", result={"r": [1]}
        )
        await store.apply([Enqueue(job)])
        assert await store.job(job.id) == job
        assert await store.jobs() == [job]

    async def test_a_missing_job(self, store: Store, build: Builder) -> None:
        with pytest.raises(JobNotFound):
            await store.job("missing")
        with pytest.raises(JobNotFound):
            await store.replace_job(build.job(), expected=JobState.WAITING)

    async def test_one_waiting_job_of_a_key(self, store: Store, build: Builder) -> None:
        first, second = build.job(key="k"), build.job(key="k")
        await store.apply([Enqueue(first), Enqueue(second)])
        await store.apply([Enqueue(second), Enqueue(build.job()), Enqueue(build.job())])
        assert {job.id for job in await store.jobs() if job.key} == {first.id}
        assert len(await store.jobs()) == 3
        held = await leased(store)
        assert held is not None
        assert held.id == first.id
        await store.apply([Enqueue(second)])
        assert {job.id for job in await store.jobs() if job.key} == {first.id, second.id}

    async def test_an_id_is_used_once(self, store: Store, build: Builder) -> None:
        job = build.job()
        await store.apply([Enqueue(job)])
        with pytest.raises(Conflict):
            await store.apply([Enqueue(job)])

    async def test_the_most_overdue_first(self, store: Store, build: Builder) -> None:
        late = build.job(due=START + 2 * MINUTE)
        early = build.job(due=START + MINUTE)
        future = build.job(due=LATER + MINUTE)
        await store.apply([Enqueue(late), Enqueue(early), Enqueue(future)])
        first, second, third = [await leased(store) for _ in range(3)]
        assert first == replace(
            early, state=JobState.RUNNING, attempts=1, lease_owner="runner", lease_until=LATER + MINUTE
        )
        assert second is not None
        assert second.id == late.id
        assert third is None

    async def test_only_the_names_asked_for(self, store: Store, build: Builder) -> None:
        embed, tidy = build.job("embed"), build.job("tidy")
        await store.apply([Enqueue(embed), Enqueue(tidy)])
        assert await leased(store, names=("other",)) is None
        held = await leased(store, names=("tidy", "other"))
        assert held is not None
        assert held.id == tidy.id

    async def test_no_job_is_held_twice(self, store: Store, other: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job()) for _ in range(20)])
        held = await asyncio.gather(
            *(leased(handle, f"runner {n}") for n in range(15) for handle in (store, other))
        )
        taken = [job.id for job in held if job]
        assert len(taken) == len(set(taken)) == 20

    async def test_a_silent_runner_loses_its_job(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        held = await leased(store, "first")
        assert held is not None
        assert await store.lease("second", now=LATER + MINUTE / 2, duration=MINUTE) is None
        taken = await store.lease("second", now=LATER + MINUTE, duration=MINUTE)
        assert taken is not None
        assert (taken.id, taken.attempts, taken.lease_owner) == (held.id, 2, "second")
        assert not await store.renew(held.id, "first", until=LATER + 5 * MINUTE)
        assert not await store.finish(replace(held, state=JobState.DONE), "first")
        assert await store.job(held.id) == taken

    async def test_renewing_keeps_it(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        held = await leased(store, "first")
        assert held is not None
        assert await store.renew(held.id, "first", until=LATER + 5 * MINUTE)
        assert not await store.renew(held.id, "second", until=LATER + 9 * MINUTE)
        assert await store.lease("second", now=LATER + 2 * MINUTE, duration=MINUTE) is None
        assert not await store.renew("missing", "first", until=LATER)

    async def test_finishing(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        held = await leased(store)
        assert held is not None
        done = replace(held, state=JobState.DONE, finished=LATER, result={"n": 2})
        assert await store.finish(done, "runner")
        assert await store.job(held.id) == replace(done, lease_owner=None, lease_until=None)
        assert not await store.finish(done, "runner")
        assert await leased(store) is None

    async def test_trying_again_later(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job(key="k"))])
        held = await leased(store)
        assert held is not None
        again = replace(held, state=JobState.WAITING, due=LATER + MINUTE, error="it failed")
        assert await store.finish(again, "runner")
        assert await leased(store) is None
        taken = await store.lease("runner", now=LATER + MINUTE, duration=MINUTE)
        assert taken is not None
        assert (taken.attempts, taken.error) == (2, "it failed")

    async def test_trying_again_beside_a_newer_one_of_its_key(self, store: Store, build: Builder) -> None:
        first, second = build.job(key="k"), build.job(key="k")
        await store.apply([Enqueue(first)])
        held = await leased(store)
        assert held is not None
        await store.apply([Enqueue(second)])
        assert await store.finish(replace(held, state=JobState.WAITING, error="it failed"), "runner")
        jobs = await store.jobs(states=[JobState.WAITING])
        assert {job.id: job.key for job in jobs} == {first.id: None, second.id: "k"}

    async def test_what_kills_its_runners_is_given_up(self, store: Store, build: Builder) -> None:
        job = build.job(most_attempts=2)
        await store.apply([Enqueue(job)])
        for attempt in range(2):
            assert await store.lease("r", now=LATER + attempt * MINUTE, duration=MINUTE) is not None
        assert await store.lease("r", now=LATER + 2 * MINUTE, duration=MINUTE) is None
        dead = await store.job(job.id)
        assert dead.state is JobState.DEAD
        assert dead.error

    async def test_listing_and_counting(self, store: Store, build: Builder) -> None:
        jobs = [build.job(state=state) for state in JobState]
        await store.apply([Enqueue(job) for job in jobs])
        assert [job.id for job in await store.jobs()] == [job.id for job in reversed(jobs)]
        assert [job.id for job in await store.jobs(limit=2)] == [jobs[3].id, jobs[2].id]
        found = await store.jobs(states=[JobState.DEAD, JobState.WAITING])
        assert {job.state for job in found} == {JobState.DEAD, JobState.WAITING}
        assert await store.tally_jobs() == dict.fromkeys(JobState, 1)

    async def test_a_person_may_replace_one(self, store: Store, build: Builder) -> None:
        job = build.job(state=JobState.DEAD, attempts=5, error="it failed")
        await store.apply([Enqueue(job)])
        again = replace(job, state=JobState.WAITING, attempts=0, error=None)
        assert await store.replace_job(again, expected=JobState.DEAD)
        held = await leased(store)
        assert held is not None
        assert held.id == job.id

    async def test_a_job_that_a_runner_took_meanwhile_is_left_to_it(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        job = build.job()
        await store.apply([Enqueue(job)])
        held = await leased(other)
        ended = replace(job, state=JobState.DONE, finished=LATER)
        assert not await store.replace_job(ended, expected=JobState.WAITING)
        assert await store.job(job.id) == held

    async def test_dropping_finished_ones(self, store: Store, build: Builder) -> None:
        old = build.job(state=JobState.DONE, finished=START)
        new = build.job(state=JobState.DONE, finished=LATER)
        dead = build.job(state=JobState.DEAD, finished=START)
        await store.apply([Enqueue(old), Enqueue(new), Enqueue(dead), Enqueue(build.job())])
        assert await store.drop_jobs(before=START + MINUTE) == 1
        assert old.id not in {job.id for job in await store.jobs()}
        assert len(await store.jobs()) == 3


class CursorsContract:
    """Small named values."""

    async def test_set_read_remove(self, store: Store, other: Store) -> None:
        assert await store.cursor("place") is None
        await store.set_cursor("place", "1")
        await store.set_cursor("place", "zwei 二")
        assert await other.cursor("place") == "zwei 二"
        await store.set_cursor("place", None)
        assert await store.cursor("place") is None
        await store.set_cursor("place", None)

    async def test_only_if_it_is_what_was_expected(self, store: Store) -> None:
        assert not await store.swap_cursor("place", old="1", new="2")
        assert await store.cursor("place") is None
        assert await store.swap_cursor("place", old=None, new="1")
        assert not await store.swap_cursor("place", old=None, new="9")
        assert await store.swap_cursor("place", old="1", new="2")
        assert not await store.swap_cursor("place", old="1", new="3")
        assert not await store.swap_cursor("place", old="1", new=None)
        assert await store.cursor("place") == "2"

    async def test_of_many_at_once_one_wins(self, store: Store, other: Store) -> None:
        await store.set_cursor("place", "free")
        won = await asyncio.gather(
            *(
                handle.swap_cursor("place", old="free", new=f"{n}")
                for n in range(10)
                for handle in (store, other)
            )
        )
        assert sum(won) == 1
