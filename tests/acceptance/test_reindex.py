"""A project's vectors are made by a job: it can be watched, given up, killed and asked for again, and does no work twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, at, run, stored

import mindhold.memories.embedding as embedding
import mindhold.projects.reindex as reindex
from mindhold.app.application import App
from mindhold.model.errors import Conflict, JobNotFound, ModelError, ModelMismatch, Refused, ScopeNotFound
from mindhold.model.job import Job, JobState
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import Caller
from mindhold.operation_index import operation
from mindhold.ports.store import Enqueue
from mindhold.projects.reindex import ReindexProjectResult, ReindexStatusResult
from mindhold.providers.embedding.base import HashingEmbedder
from support.paid_services import EmbeddingServer

NONE: dict[str, Any] = {"embedding.provider": "none"}
ADA = Caller("ada", bound=True, owner=False)
BOB = Caller("bob", bound=True, owner=False)


async def asked(app: App, name: str, /, caller: Caller | None = None, **fields: Any) -> Any:
    wanted = operation(name)
    return await app.run(wanted, wanted.takes(**fields), caller=caller)


async def begun(
    app: App, project: str = "web", caller: Caller | None = None, **fields: Any
) -> ReindexProjectResult:
    answer = await asked(app, "reindex_project", caller, project=project, **fields)
    assert isinstance(answer, ReindexProjectResult)
    return answer


async def standing(app: App, job: str | None, caller: Caller | None = None) -> ReindexStatusResult:
    answer = await asked(app, "reindex_status", caller, project="web", job_id=job)
    assert isinstance(answer, ReindexStatusResult)
    return answer


async def work_off(app: App, **fields: Any) -> list[str]:
    """The names of what was run."""
    return [job.name for job in (await asked(app, "run_jobs", scheduled=False, **fields)).ran]


async def said(app: App, count: int, *, project: str = "web", caller: Caller | None = None) -> list[str]:
    return [
        (
            await asked(
                app,
                "save_message",
                caller,
                project=project,
                message_type="user",
                content=f"Message {number} about the harbour.",
            )
        ).message_id
        for number in range(count)
    ]


async def embedded(app: App, project: str = "web") -> dict[str, int]:
    where = Filter(viewer="system", scopes=(project,), statuses=ANY_STATUS)
    return await app.engine.store.tally(where, "embedded_by")


@pytest.fixture
async def unindexed(opened: Open) -> None:
    """Messages that were saved while there was no model; nothing waits to be done about them."""
    async with opened(**NONE) as app:
        await said(app, 5)
        await stored(app, "The mole is 300 metres long.", scope="web")
        await run(app, operation("create_scope"), name="other")
        await said(app, 2, project="other")
        for job in await app.engine.store.jobs():
            await app.engine.store.replace_job(replace(job, state=JobState.DONE), expected=job.state)


@pytest.fixture
async def idle(opened: Open, unindexed: None) -> AsyncIterator[App]:
    """With a model by now, which would make the vectors by itself one day."""
    async with opened() as app:
        for job in await app.engine.store.jobs(states=(JobState.WAITING,)):
            await app.engine.store.replace_job(
                replace(job, due=app.engine.clock() + timedelta(days=9)), expected=JobState.WAITING
            )
        yield app


async def test_it_makes_what_is_missing_and_only_that(idle: App) -> None:
    answer = await begun(idle)
    assert answer.status == "reindexing_started"
    assert (answer.total_messages, answer.messages_to_index) == (5, 5)
    assert answer.estimated_time_seconds >= 1
    waiting = await standing(idle, answer.job_id)
    assert (waiting.status, waiting.progress, waiting.done, waiting.total) == ("waiting", 0.0, 0, 6)
    assert await work_off(idle) == ["reindex"]
    done = await standing(idle, answer.job_id)
    assert (done.status, done.progress, done.done, done.total) == ("done", 1.0, 6, 6)
    assert (done.error, done.estimated_time_seconds) == (None, 0)
    assert await embedded(idle) == {"hashing-256": 6}
    assert await embedded(idle, "other") == {"": 2}


async def test_nothing_to_do_makes_no_job(idle: App) -> None:
    await begun(idle)
    await work_off(idle)
    answer = await begun(idle)
    assert (answer.status, answer.job_id) == ("nothing_to_do", None)
    assert (answer.total_messages, answer.messages_to_index, answer.estimated_time_seconds) == (5, 0, 0)


async def test_force_makes_all_of_them_anew(idle: App) -> None:
    await begun(idle)
    await work_off(idle)
    [message] = await said(idle, 1)
    store, model = idle.engine.store, "hashing-256"
    held = await store.get(message, viewer="system")
    [vector] = (await store.vector_of([message], model=model)).values()
    await store.put_vectors({message: (held.content_hash, vector[::-1])}, model=model)  # as if it had broken
    answer = await begun(idle, force=True)
    assert (answer.status, answer.messages_to_index) == ("reindexing_started", 6)
    await work_off(idle)
    assert (await standing(idle, answer.job_id)).done == 7
    assert ((await store.vector_of([message], model=model))[message] == vector).all()


async def test_a_second_call_answers_the_one_under_way(idle: App) -> None:
    first = await begun(idle)
    assert (await begun(idle)).job_id == first.job_id
    many = await asyncio.gather(*(begun(idle, "other") for _ in range(8)))
    assert len({answer.job_id for answer in many}) == 1
    await work_off(idle)
    assert (await begun(idle, force=True)).job_id != first.job_id


async def test_force_is_not_taken_for_done_by_one_that_is_not_forced(idle: App) -> None:
    first = await begun(idle)
    forced = await begun(idle, force=True)
    assert forced.messages_to_index == 5
    taken = await asked(idle, "reindex_status", project="web", job_id=first.job_id)
    assert taken.status == "cancelled"
    assert await begun(idle) == forced  # which does what was asked, and more


async def test_a_waiting_one_is_given_up(idle: App) -> None:
    answer = await begun(idle)
    given_up = await asked(idle, "cancel_reindex", project="web", job_id=answer.job_id)
    assert given_up.status == "cancelled"
    assert await work_off(idle) == []
    assert (await asked(idle, "cancel_reindex", project="web", job_id=answer.job_id)).status == "cancelled"
    again = await begun(idle)
    assert again.job_id not in (None, answer.job_id)
    await work_off(idle)
    with pytest.raises(Conflict, match="has ended"):
        await asked(idle, "cancel_reindex", project="web", job_id=again.job_id)


async def test_a_running_one_is_given_up_from_another_process(
    idle: App, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex, "BATCH", 2)
    answer = await begun(idle)
    async with opened() as other:
        embed = idle.engine.vector_source.embed

        async def given_up_meanwhile(texts: Any) -> Any:
            assert (await standing(idle, answer.job_id)).status == "running"
            told = await asked(other, "cancel_reindex", project="web", job_id=answer.job_id)
            assert (told.status, told.finished is not None) == ("cancelled", True)
            return await embed(texts)

        monkeypatch.setattr(idle.engine.vector_source, "embed", given_up_meanwhile)
        await work_off(idle)
        monkeypatch.undo()
        assert await embedded(idle) == {"hashing-256": 2, "": 4}  # the batch that it was at
        assert (await standing(other, answer.job_id)).status == "cancelled"
        assert (await asked(other, "show_job", id=answer.job_id)).result == {"embedded": 2, "cancelled": True}
        again = await begun(other)
        assert again.job_id not in (None, answer.job_id)
        await work_off(other)
        assert await embedded(idle) == {"hashing-256": 6}


async def test_it_takes_turns_with_what_else_is_due(idle: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindex, "BATCH", 2)
    monkeypatch.setattr("mindhold.jobs.handlers.TURN", 0.0)  # a batch is a turn
    answer = await begun(idle, force=True)
    [first] = (await asked(idle, "run_jobs", scheduled=False, most=1)).ran
    assert (first.id, first.state, first.attempts, first.error) == (answer.job_id, "waiting", 0, None)
    part = await standing(idle, answer.job_id)
    assert part.status == "running"
    assert 0 < part.progress < 1
    [second] = (await asked(idle, "run_jobs", scheduled=False, most=1)).ran
    assert second.id == answer.job_id  # for what else there is isn't due yet
    other = Job("other", "tidy-jobs", created=second.created, due=second.created)
    await idle.engine.store.apply([Enqueue(other)])
    ran = [(await asked(idle, "run_jobs", scheduled=False, most=1)).ran[0].name for _ in range(2)]
    assert ran == ["tidy-jobs", "reindex"]
    done = await asked(idle, "run_jobs", scheduled=False)
    assert [job.name for job in done.ran] == ["reindex"]  # once, however many turns it took
    assert not done.more
    assert (await standing(idle, answer.job_id)).status == "done"


async def test_without_a_model_there_is_no_job(opened: Open, unindexed: None) -> None:
    async with opened(**NONE) as app:
        with pytest.raises(ModelError):
            await begun(app)
        assert await app.engine.store.jobs(states=(JobState.WAITING,)) == []


async def test_a_service_is_sent_only_what_it_was_adopted_for(opened: Open, unindexed: None) -> None:
    with EmbeddingServer(
        lambda texts, length: HashingEmbedder(length).embed_now(texts), key="sk-of-nobody"
    ) as server:
        service = {"provider": "openai", "openai_key": "sk-of-nobody", "base_url": server.url}
        async with opened(**{f"embedding.{name}": value for name, value in service.items()}) as app:
            for force in (False, True):
                with pytest.raises(ModelMismatch):
                    await begun(app, force=force)
            assert server.asked == []
            await asked(app, "adopt_model")
            answer = await begun(app)
            assert answer.messages_to_index == 5
            await work_off(app)
            assert (await standing(app, answer.job_id)).status == "done"
            assert set(await embedded(app)) == {"openai:text-embedding-3-small/1536"}


async def test_a_model_that_fails_is_told_and_tried_again(idle: App, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await begun(idle)

    async def failing(_texts: Any) -> None:
        idle.engine.vector_source._reason = "It is away."

    monkeypatch.setattr(idle.engine.vector_source, "embed", failing)
    await work_off(idle)
    failed = await standing(idle, answer.job_id)
    assert failed.status == "waiting"
    assert "It is away." in (failed.error or "")
    monkeypatch.undo()
    assert await work_off(idle) == []  # not at once
    later = at(idle, idle.engine.clock() + timedelta(hours=1))
    assert "reindex" in await work_off(later)
    assert (await standing(idle, answer.job_id)).status == "done"


async def test_a_project_that_is_not_there(idle: App) -> None:
    with pytest.raises(ScopeNotFound):
        await begun(idle, "nowhere")
    answer = await begun(idle)
    with pytest.raises(JobNotFound):
        await asked(idle, "reindex_status", project="other", job_id=answer.job_id)
    with pytest.raises(JobNotFound):
        await standing(idle, "nothing")


async def test_others_neither_see_nor_stop_it(idle: App) -> None:
    mine = await begun(idle)
    for caller in (ADA, Caller("ada", bound=True, owner=False, scopes=("web",))):
        for name in ("reindex_status", "cancel_reindex"):
            with pytest.raises(JobNotFound):
                await asked(idle, name, caller, project="web", job_id=mine.job_id)
    await said(idle, 2, caller=ADA)
    own = await begun(idle, caller=ADA, force=True)
    assert own.total_messages == 7  # ada's, and everybody's
    assert (await begun(idle, caller=BOB, force=True)).total_messages == 5
    with pytest.raises(JobNotFound):
        await standing(idle, own.job_id, caller=BOB)
    assert (await standing(idle, own.job_id, caller=ADA)).total == 8
    assert (await standing(idle, own.job_id)).total == 8  # the owner sees every one


async def test_who_is_bound_to_scopes_may_have_theirs_done(idle: App) -> None:
    key = Caller("ada", bound=True, owner=False, scopes=("web",))
    answer = await begun(idle, caller=key)
    assert answer.messages_to_index == 5
    with pytest.raises(ScopeNotFound):
        await begun(idle, "other", caller=key)
    with pytest.raises(ScopeNotFound):
        await asked(idle, "reindex_status", key, project="other", job_id=answer.job_id)
    other = Caller("ada", bound=True, owner=False, scopes=("other",))
    with pytest.raises(ScopeNotFound):
        await asked(idle, "cancel_reindex", other, project="web", job_id=answer.job_id)
    assert (await begun(idle, caller=key)).job_id == answer.job_id
    await work_off(idle)
    assert (await standing(idle, answer.job_id, caller=key)).status == "done"
    assert await embedded(idle) == {"hashing-256": 6}
    assert await embedded(idle, "other") == {"": 2}
    with pytest.raises(Refused):
        await begun(idle, caller=replace(key, writes=False))


async def test_the_speed_is_remembered(idle: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindex, "BATCH", 3)
    monkeypatch.setattr(embedding, "LEAST_COUNTED", 3)
    monkeypatch.setattr(embedding, "USUAL_SPEED", 0.1)
    monkeypatch.setattr(embedding, "LEAST_MEASURED", 0.0)
    assert (await begun(idle, force=True)).estimated_time_seconds == 60
    await work_off(idle)
    assert (
        await begun(idle, force=True)
    ).estimated_time_seconds <= 6  # more than one a second on any machine


async def test_an_erased_memory_holds_nothing_up(idle: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindex, "BATCH", 2)
    answer = await begun(idle, force=True)
    embed, store = idle.engine.vector_source.embed, idle.engine.store

    async def erased_meanwhile(texts: Any) -> Any:
        where = Filter(viewer="system", scopes=("web",))
        gone = [memory.id for memory in await store.find(where, limit=100) if memory.content in texts]
        receipt = await store.erase(gone)
        assert not any(receipt.remaining.values())
        return await embed(texts)

    monkeypatch.setattr(idle.engine.vector_source, "embed", erased_meanwhile)
    await work_off(idle)
    assert (await standing(idle, answer.job_id)).status == "done"
    assert await embedded(idle) == {}


CHILD = """
import asyncio, os, sys
import mindhold.projects.reindex as reindex
from mindhold.app.application import open_app
from mindhold.operation_index import operation
from mindhold.settings.loader import load_settings

async def main():
    reindex.BATCH = 2
    given = {"home": sys.argv[1], "time_zone": "UTC", "embedding.provider": "hashing"}
    async with open_app(load_settings(given, environ={})) as app:
        begin, work = operation("reindex_project"), operation("run_jobs")
        answer = await app.run(begin, begin.takes(project="web", force=True))
        print(answer.job_id, flush=True)
        embed, left = app.engine.vector_source.embed, 2

        async def mortal(texts):
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return await embed(texts)

        app.engine.vector_source.embed = mortal
        await app.run(work, work.takes(scheduled=False))

if __name__ == "__main__":
    asyncio.run(main())
"""


def killed(script: Path, home: Path) -> str:
    """In the midst of it; the job's id."""
    ended = subprocess.run(
        [sys.executable, str(script), str(home)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 9, ended.stderr
    return ended.stdout.split()[0]


@pytest.mark.local_file
async def test_one_that_was_killed_goes_on_where_it_was(
    opened: Open, idle: App, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    job = killed(script, home)
    async with opened() as app:
        part = await standing(app, job)
        assert (part.status, part.done, part.total) == ("running", 4, 6)
        assert (await begun(app, force=True)).job_id == job
        texts: list[str] = []
        embed = app.engine.vector_source.embed

        async def noting(given: Any) -> Any:
            texts.extend(given)
            return await embed(given)

        monkeypatch.setattr(app.engine.vector_source, "embed", noting)
        later = at(app, app.engine.clock() + timedelta(minutes=2))  # its runner has been silent for long
        await work_off(later)
        done = await standing(app, job)
        assert (done.status, done.done, done.total) == ("done", 6, 6)
        assert len(texts) == 2
        assert await embedded(app) == {"hashing-256": 6}
