"""What every store promises about jobs, cursors and entries."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from mindhold.model.errors import Conflict, InvalidInput, JobNotFound
from mindhold.model.job import Entry, Job, JobState
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


MOMENT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


def entry(key: str = "a", drawer: str = "things", **value: object) -> Entry:
    return Entry(drawer, key, value, created=START)


class EntriesContract:
    """Put, look, take, list, drop, expire."""

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
        for drawer, key in (
            ("things", "A"),
            ("Things", "a"),
            ("things", "a "),
            ("thing", "sa"),
            ("", ""),
            ("%", "%"),
        ):
            assert await store.entry(drawer, key, now=START) is None
            assert await store.take_entry(drawer, key, now=START) is None
            assert not await store.drop_entry(drawer, key)
        await store.put_entry(entry("a", drawer="others", n=2))
        assert await store.entries("things", now=START) == [entry("a")]

    async def test_an_expired_one_is_nowhere(self, store: Store) -> None:
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
            await store.put_entry(replace(entry(key, drawer=key), expires=START + HOUR))
        assert await store.drop_expired(START + HOUR - MOMENT) == 0
        assert await store.drop_expired(START + HOUR) == 3
        assert await store.drop_expired(START + HOUR) == 0
        assert {one.key for one in await store.entries("things", now=START)} == {"stays", "later"}
        assert await store.entry("a", "a", now=START) is None

    async def test_taking_removes(self, store: Store, other: Store) -> None:
        await store.put_entry(entry(n=1))
        assert await other.take_entry("things", "a", now=START) == entry(n=1)
        assert await store.take_entry("things", "a", now=START) is None
        assert await store.entry("things", "a", now=START) is None

    async def test_of_many_takers_one_gets_it(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        taken = await asyncio.gather(
            *(handle.take_entry("things", "a", now=START) for _ in range(10) for handle in (store, other))
        )
        assert [one for one in taken if one] == [entry()]

    async def test_dropping_is_seen_at_once_by_others(self, store: Store, other: Store) -> None:
        await store.put_entry(entry())
        assert await other.entry("things", "a", now=START) == entry()
        assert await store.drop_entry("things", "a")
        assert await other.entry("things", "a", now=START) is None
        assert not await other.drop_entry("things", "a")

    async def test_the_newest_first_and_no_more_than_asked(self, store: Store) -> None:
        made = [replace(entry(f"{n}"), created=START + n * HOUR) for n in (2, 0, 3, 1)]
        for one in made:
            await store.put_entry(one)
        listed = await store.entries("things", now=START)
        assert [one.key for one in listed] == ["3", "2", "1", "0"]
        assert await store.entries("things", now=START, limit=2) == listed[:2]

    async def test_what_is_no_json_is_refused(self, store: Store) -> None:
        for value in (object(), float("nan"), {1, 2}):
            with pytest.raises(InvalidInput):
                await store.put_entry(entry(value=value))
        assert await store.entries("things", now=START) == []

    async def test_no_drawer_or_key_is_part_of_a_query(self, store: Store) -> None:
        hostile = entry("x'); DROP TABLE entry; --", drawer="y' OR '1'='1")
        await store.put_entry(hostile)
        assert await store.entries("y' OR '1'='1", now=START) == [hostile]
        assert await store.entries("y", now=START) == []

    async def test_erased_memories_are_named_no_more(self, store: Store, build: Builder) -> None:
        gone, kept = build.put(), build.put()
        await store.apply([gone, kept])
        ids = [gone.memory.id, kept.memory.id]
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

    async def test_words_that_name_an_erased_memory_go_whole(self, store: Store, build: Builder) -> None:
        gone, kept = build.put(), build.put()
        await store.apply([gone, kept])
        told = {"memory": {"id": gone.memory.id, "content": "told"}, "others": [{"said": "more"}]}
        hint = {"notice": f"stored as\n{gone.memory.id}"}
        other = {"memory": {"id": kept.memory.id, "content": "kept"}}
        for key, words in (("told", told), ("hint", hint), ("other", other)):
            await store.put_entry(entry(key, said="a", words=words))
        receipt = await store.erase([gone.memory.id])
        assert receipt.removed["references"] == 2
        assert set(receipt.remaining.values()) == {0}
        left: dict[str, object] = {"told": None, "hint": None, "other": other}
        for key, rest in left.items():
            assert await store.entry("things", key, now=START) == entry(key, said="a", words=rest)

    def test_a_value_is_not_shown(self) -> None:
        assert "hush" not in repr(entry(secret="hush"))
