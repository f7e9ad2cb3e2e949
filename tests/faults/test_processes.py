"""Many processes on one file, and their deaths."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from store_process import Start

from mindhold.model.query import Filter
from mindhold.ports.store import Enqueue
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import Builder

PROCESSES = 10
WRITES = 12
ROUNDS = 4


async def test_ten_processes_lose_nothing_and_see_each_other(start: Start) -> None:
    processes = [start(f"p{n}") for n in range(PROCESSES)]
    assert all(process.hear() == {"ready": True} for process in processes)

    for process in processes:
        process.tell("open")  # all at once on a path where nothing is yet
    assert [process.hear() for process in processes] == [{}] * PROCESSES

    for process in processes:
        process.tell("write", times=WRITES)
    written = [memory_id for process in processes for memory_id in process.hear()["ids"]]
    assert len(set(written)) == PROCESSES * WRITES

    whole = {"total": len(written), "embedded": len(written)}
    for process in processes:
        assert process.ask("count") == whole

    for writer, reader in zip(processes, [*processes[1:], processes[0]], strict=True):
        one = writer.ask("write", times=1)
        seen = reader.ask("see", memory_id=one["ids"][0], lexeme=one["lexemes"][0])
        assert seen == {"id": True, "text": True, "vector": True}


async def test_a_killed_writer_loses_nothing_acknowledged(
    start: Start, new_store: Callable[[], SqliteStore]
) -> None:
    acknowledged: set[str] = set()
    for turn in range(ROUNDS):
        process = start(f"k{turn}")
        process.hear()
        process.ask("open")
        process.tell("write_until_killed")
        for _ in range(5 + 7 * turn):
            acknowledged |= set(process.hear()["ids"])
        for answer in process.kill():
            acknowledged |= set(answer["ids"])

        store = new_store()
        await store.open()
        assert set(await store.get_many(sorted(acknowledged), viewer="default")) == acknowledged
        assert [finding for finding in await store.check() if not finding.healthy] == []
        # Whatever else is there came in whole steps of three.
        assert await store.count(Filter()) % 3 == 0
        await store.close()


async def test_two_runners_never_hold_one_job(start: Start, new_store: Callable[[], SqliteStore]) -> None:
    build = Builder()
    jobs = [build.job() for _ in range(60)]
    store = new_store()
    await store.open()
    await store.apply([Enqueue(job) for job in jobs])
    runners = [start("r1"), start("r2")]
    for runner in runners:
        runner.hear()
        runner.ask("open")
    for runner in runners:
        runner.tell("lease_all")
    taken = [job_id for runner in runners for job_id in runner.hear()["jobs"]]
    assert sorted(taken) == sorted(job.id for job in jobs)
    await store.close()


async def test_a_killed_runners_job_is_taken_up_again(
    start: Start, new_store: Callable[[], SqliteStore]
) -> None:
    job = Builder().job()
    store = new_store()
    await store.open()
    await store.apply([Enqueue(job)])
    first, second = start("r1"), start("r2")
    for runner in (first, second):
        runner.hear()
        runner.ask("open")
    assert first.ask("lease", minutes=0) == {"job": job.id}
    first.kill()
    assert second.ask("lease", minutes=4) == {"job": None}
    assert second.ask("lease", minutes=5) == {"job": job.id}
    held = await store.job(job.id)
    assert (held.lease_owner, held.attempts) == ("r2", 2)
    await store.close()


async def test_a_reader_does_not_wait_for_a_writer(path: Path, new_store: Callable[[], SqliteStore]) -> None:
    store = new_store()
    await store.open()
    put = Builder().put()
    await store.apply([put])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE memory SET uses = 99")
    assert await store.get(put.memory.id, viewer="default") == put.memory
    other.execute("ROLLBACK")
    other.close()
    await store.close()
