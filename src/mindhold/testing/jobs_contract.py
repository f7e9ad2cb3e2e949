"""What every store promises about jobs, cursors and entries."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mindhold.model.errors import Conflict, InvalidInput, JobNotFound
from mindhold.model.job import Entry, Job, JobState
from mindhold.ports.store import Enqueue, Store
from mindhold.testing.builders import START, Builder

MINUTE = timedelta(minutes=1)
LATER = START + timedelta(days=1)


async def lease(
    store: Store, owner: str = "runner", *, now: datetime = LATER, names: tuple[str, ...] = ()
) -> Job | None:
    return await store.lease(owner, now=now, duration=MINUTE, names=names)


async def leased(
    store: Store, owner: str = "runner", *, now: datetime = LATER, names: tuple[str, ...] = ()
) -> Job:
    """The next job, which there must be."""
    job = await lease(store, owner, now=now, names=names)
    assert job is not None
    return job


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
        running = await leased(store)
        assert running.id == first.id
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
        first, second, third = [await lease(store) for _ in range(3)]
        assert first == replace(
            early, state=JobState.RUNNING, attempts=1, lease_owner="runner", lease_until=LATER + MINUTE
        )
        assert second is not None
        assert second.id == late.id
        assert third is None

    async def test_only_the_names_asked_for(self, store: Store, build: Builder) -> None:
        embed, tidy = build.job("embed"), build.job("tidy")
        await store.apply([Enqueue(embed), Enqueue(tidy)])
        assert await lease(store, names=("other",)) is None
        running = await leased(store, names=("tidy", "other"))
        assert running.id == tidy.id

    async def test_no_job_is_held_twice(self, store: Store, other: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job()) for _ in range(20)])
        leases = await asyncio.gather(
            *(lease(handle, f"runner {n}") for n in range(15) for handle in (store, other))
        )
        job_ids = [job.id for job in leases if job]
        assert len(job_ids) == len(set(job_ids)) == 20

    async def test_a_silent_runner_loses_its_job(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        first = await leased(store, "first")
        assert await lease(store, "second", now=LATER + MINUTE / 2) is None
        second = await leased(store, "second", now=LATER + MINUTE)
        assert (second.id, second.attempts, second.lease_owner) == (first.id, 2, "second")
        assert not await store.renew(first.id, "first", until=LATER + 5 * MINUTE)
        assert not await store.finish(replace(first, state=JobState.DONE), "first")
        assert await store.job(first.id) == second

    async def test_renewing_keeps_it(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        job = await leased(store, "first")
        assert await store.renew(job.id, "first", until=LATER + 5 * MINUTE)
        assert not await store.renew(job.id, "second", until=LATER + 9 * MINUTE)
        assert await lease(store, "second", now=LATER + 2 * MINUTE) is None
        assert not await store.renew("missing", "first", until=LATER)

    async def test_finishing(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job())])
        job = await leased(store)
        done = replace(job, state=JobState.DONE, finished=LATER, result={"n": 2})
        assert await store.finish(done, "runner")
        assert await store.job(job.id) == replace(done, lease_owner=None, lease_until=None)
        assert not await store.finish(done, "runner")
        assert await lease(store) is None

    async def test_trying_again_later(self, store: Store, build: Builder) -> None:
        await store.apply([Enqueue(build.job(key="k"))])
        job = await leased(store)
        again = replace(job, state=JobState.WAITING, due=LATER + MINUTE, error="it failed")
        assert await store.finish(again, "runner")
        assert await lease(store) is None
        second = await leased(store, "runner", now=LATER + MINUTE)
        assert (second.attempts, second.error) == (2, "it failed")

    async def test_retrying_next_to_a_newer_job_with_its_key(self, store: Store, build: Builder) -> None:
        first, second = build.job(key="k"), build.job(key="k")
        await store.apply([Enqueue(first)])
        running = await leased(store)
        await store.apply([Enqueue(second)])
        assert await store.finish(replace(running, state=JobState.WAITING, error="it failed"), "runner")
        jobs = await store.jobs(states=[JobState.WAITING])
        assert {job.id: job.key for job in jobs} == {first.id: None, second.id: "k"}

    async def test_a_job_that_kills_its_runners_becomes_dead(self, store: Store, build: Builder) -> None:
        job = build.job(most_attempts=2)
        await store.apply([Enqueue(job)])
        for attempt in range(2):
            assert await lease(store, "r", now=LATER + attempt * MINUTE) is not None
        assert await lease(store, "r", now=LATER + 2 * MINUTE) is None
        dead = await store.job(job.id)
        assert dead.state is JobState.DEAD
        assert dead.error

    async def test_listing_and_counting(self, store: Store, build: Builder) -> None:
        jobs = [build.job(state=state) for state in JobState]
        await store.apply([Enqueue(job) for job in jobs])
        assert [job.id for job in await store.jobs()] == [job.id for job in reversed(jobs)]
        assert [job.id for job in await store.jobs(limit=2)] == [jobs[3].id, jobs[2].id]
        listed = await store.jobs(states=[JobState.DEAD, JobState.WAITING])
        assert {job.state for job in listed} == {JobState.DEAD, JobState.WAITING}
        assert await store.tally_jobs() == dict.fromkeys(JobState, 1)

    async def test_a_person_may_replace_one(self, store: Store, build: Builder) -> None:
        job = build.job(state=JobState.DEAD, attempts=5, error="it failed")
        await store.apply([Enqueue(job)])
        again = replace(job, state=JobState.WAITING, attempts=0, error=None)
        assert await store.replace_job(again, expected=JobState.DEAD)
        running = await leased(store)
        assert running.id == job.id

    async def test_a_job_that_a_runner_took_is_not_replaced(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        job = build.job()
        await store.apply([Enqueue(job)])
        running = await lease(other)
        ended = replace(job, state=JobState.DONE, finished=LATER)
        assert not await store.replace_job(ended, expected=JobState.WAITING)
        assert await store.job(job.id) == running

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


MOMENT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


def entry(key: str = "a", namespace: str = "things", **value: object) -> Entry:
    return Entry(namespace, key, value, created=START)


class EntriesContract:
    """Putting, reading, taking, listing, dropping and expiry of entries."""

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
        for namespace, key in (
            ("things", "A"),
            ("Things", "a"),
            ("things", "a "),
            ("thing", "sa"),
            ("", ""),
            ("%", "%"),
        ):
            assert await store.entry(namespace, key, now=START) is None
            assert await store.take_entry(namespace, key, now=START) is None
            assert not await store.drop_entry(namespace, key)
        await store.put_entry(entry("a", namespace="others", n=2))
        assert await store.entries("things", now=START) == [entry("a")]

    async def test_an_expired_entry_is_not_found(self, store: Store) -> None:
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
            await store.put_entry(replace(entry(key, namespace=key), expires=START + HOUR))
        assert await store.drop_expired(START + HOUR - MOMENT) == 0
        assert await store.drop_expired(START + HOUR) == 3
        assert await store.drop_expired(START + HOUR) == 0
        assert {listed.key for listed in await store.entries("things", now=START)} == {"stays", "later"}
        assert await store.entry("a", "a", now=START) is None

    async def test_taking_removes(self, store: Store, other: Store) -> None:
        await store.put_entry(entry(n=1))
        assert await other.take_entry("things", "a", now=START) == entry(n=1)
        assert await store.take_entry("things", "a", now=START) is None
        assert await store.entry("things", "a", now=START) is None

    async def test_of_many_takers_one_gets_it(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        results = await asyncio.gather(
            *(handle.take_entry("things", "a", now=START) for _ in range(10) for handle in (store, other))
        )
        assert [result for result in results if result] == [entry()]

    async def test_dropping_is_seen_at_once_by_others(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        assert await other.entry("things", "a", now=START) == entry()
        assert await store.drop_entry("things", "a")
        assert await other.entry("things", "a", now=START) is None
        assert not await other.drop_entry("things", "a")

    async def test_the_newest_first_and_no_more_than_asked(self, store: Store) -> None:
        entries = [replace(entry(f"{n}"), created=START + n * HOUR) for n in (2, 0, 3, 1)]
        for item in entries:
            await store.put_entry(item)
        listed = await store.entries("things", now=START)
        assert [item.key for item in listed] == ["3", "2", "1", "0"]
        assert await store.entries("things", now=START, limit=2) == listed[:2]

    async def test_a_value_that_is_not_json_is_refused(self, store: Store) -> None:
        for value in (object(), float("nan"), {1, 2}):
            with pytest.raises(InvalidInput):
                await store.put_entry(entry(value=value))
        assert await store.entries("things", now=START) == []

    async def test_no_drawer_or_key_is_part_of_a_query(self, store: Store) -> None:
        hostile = entry("x'); DROP TABLE entry; --", namespace="y' OR '1'='1")
        await store.put_entry(hostile)
        assert await store.entries("y' OR '1'='1", now=START) == [hostile]
        assert await store.entries("y", now=START) == []

    async def test_references_to_erased_memories_are_removed(self, store: Store, build: Builder) -> None:
        erased, remaining = build.put(), build.put()
        await store.apply([erased, remaining])
        ids = [erased.memory.id, remaining.memory.id]
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

    async def test_values_that_contain_an_erased_memory_are_removed(
        self, store: Store, build: Builder
    ) -> None:
        erased, remaining = build.put(), build.put()
        await store.apply([erased, remaining])
        answer = {"memory": {"id": erased.memory.id, "content": "told"}, "others": [{"said": "more"}]}
        hint = {"notice": f"stored as\n{erased.memory.id}"}
        other = {"memory": {"id": remaining.memory.id, "content": "kept"}}
        for key, words in (("told", answer), ("hint", hint), ("other", other)):
            await store.put_entry(entry(key, said="a", words=words))
        receipt = await store.erase([erased.memory.id])
        assert receipt.removed["references"] == 2
        assert set(receipt.remaining.values()) == {0}
        expected: dict[str, object] = {"told": None, "hint": None, "other": other}
        for key, rest in expected.items():
            assert await store.entry("things", key, now=START) == entry(key, said="a", words=rest)

    def test_a_value_is_not_shown(self) -> None:
        assert "hush" not in repr(entry(secret="hush"))
