"""Conversations get vectors from a model on this machine, the latest first and a little at a time; a service gets nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from front_door import Open, at, run

from mindhold.app.application import App
from mindhold.history.passages import (
    EMBED_HISTORY,
    MOST_READ,
    as_read,
    embed_history,
    history_model,
    own_job,
    queue_history_embedding,
)
from mindhold.history.passages import EMBED_HISTORY_JOB as JOB
from mindhold.jobs.handlers import EMBED_MOST, handlers_of
from mindhold.jobs.queue import RUN_JOBS
from mindhold.model.job import JobState
from mindhold.model.scope import LOCAL, POSTGRES
from mindhold.ports.embedder import Matrix
from mindhold.ports.history import IndexedConversation, IndexedStep, NoHistory, Passage
from mindhold.ports.transcripts import Role
from mindhold.providers.embedding.base import HashingEmbedder
from support.paid_services import EmbeddingServer

DAY = datetime(2026, 3, 2, tzinfo=UTC)
KEY = "sk-a-key-that-nobody-must-see"
TALKS = (
    "The login page forgets who signed in because the session cookie has no path.",
    "Bread rises better in the warm corner beside the oven.",
    "The deployment failed since the container image was built for another processor.",
)


def passage(*texts: str) -> Passage:
    said = tuple(IndexedStep(Role.USER, line, text) for line, text in enumerate(texts, 1))
    return Passage(said, lexemes=" ".join(texts).lower())


def hold(app: App, name: str, texts: Sequence[str], *, day: int = 0) -> int:
    """A conversation with a passage for each text; its row."""
    when = DAY + timedelta(days=day)
    one = IndexedConversation(name, "claude", Path(f"/talks/{name}.jsonl"), size=1, started=when, ended=when)
    return app.engine.history.put(one, [passage(text) for text in texts]).row


async def nearest(app: App, question: str) -> str:
    """What is said in the passage that is nearest to the question."""
    vector = await app.engine.vector_source.embed_query(question)
    model = history_model(app.engine)
    assert vector is not None
    assert model is not None
    [match] = app.engine.history.nearest(vector[0], model=model, limit=1)
    return app.engine.history.passages([match.passage])[match.passage].utterances[0].text


async def test_conversations_are_found_by_meaning(knowing: App) -> None:
    hold(knowing, "talk", TALKS)
    done = await run(knowing, EMBED_HISTORY)
    assert (done.embedded, done.left, done.notice) == (3, 0, "")
    assert await nearest(knowing, "users are logged out again and again") == TALKS[0]
    assert await nearest(knowing, "baking sourdough") == TALKS[1]
    assert await nearest(knowing, "docker architecture mismatch") == TALKS[2]
    assert (await run(knowing, EMBED_HISTORY)).embedded == 0


async def test_the_latest_come_first_and_no_more_than_asked_for(app: App) -> None:
    old = hold(app, "old", ["Old words."] * 3, day=1)
    new = hold(app, "new", ["New words."] * 3, day=2)
    model = history_model(app.engine)
    assert model is not None
    assert await embed_history(app.engine, most=3) == 3
    left = app.engine.history.unembedded(model, limit=10)
    assert set(left) == {row for row, _ in app.engine.history.passages_of(old)}
    assert not set(left) & {row for row, _ in app.engine.history.passages_of(new)}
    done = await run(app, EMBED_HISTORY, most=2)
    assert (done.embedded, done.left) == (2, 1)


async def test_another_model_reads_them_anew(opened: Open, models_dir: Path) -> None:
    async with opened() as app:
        hold(app, "talk", TALKS)
        assert (await run(app, EMBED_HISTORY)).embedded == 3
    async with opened(**{"embedding.provider": "local", "embedding.threads": 1}) as app:
        done = await run(app, EMBED_HISTORY)
        assert (done.embedded, done.left) == (3, 0)
        assert done.model == app.engine.vector_source.model
        assert await nearest(app, "users are logged out again and again") == TALKS[0]


async def test_the_job_goes_on_in_turns(app: App) -> None:
    hold(app, "long", [f"Word {number}." for number in range(EMBED_MOST + 5)])
    await queue_history_embedding(app.engine)
    await queue_history_embedding(app.engine)
    ran = [job for job in (await run(app, RUN_JOBS, scheduled=False)).ran if job.name.startswith(JOB)]
    assert [job.state for job in ran] == [JobState.DONE]
    [again] = await app.engine.store.jobs(states=(JobState.WAITING,), limit=10)
    assert again.name.startswith(JOB)
    assert again.due > app.engine.clock()
    while again := next(iter(await app.engine.store.jobs(states=(JobState.WAITING,), limit=1)), None):
        await run(at(app, again.due), RUN_JOBS, scheduled=False)
    model = history_model(app.engine)
    assert model is not None
    assert not app.engine.history.unembedded(model, limit=1)


async def test_only_who_may_read_them_embeds_them(app: App) -> None:
    hold(app, "talk", TALKS)
    withheld = replace(app.engine, history=NoHistory())
    assert await embed_history(withheld, most=10) == 0
    assert not {name for name in handlers_of(withheld) if name.startswith("history")}
    unwanted = replace(app.engine.settings.history, vectors=False)
    assert await embed_history(app.engine.with_settings(history=unwanted), most=10) == 0


async def test_a_service_is_sent_no_conversation(opened: Open) -> None:
    def hashed(texts: Sequence[str], length: int) -> Matrix:
        return HashingEmbedder(length).embed_now(texts)

    with EmbeddingServer(hashed, key=KEY) as server:
        chosen: dict[str, Any] = {
            "embedding.provider": "openai",
            "embedding.openai_key": KEY,
            "embedding.base_url": server.url,
        }
        async with opened(**chosen) as app:
            hold(app, "talk", TALKS)
            before = len(server.asked)
            done = await run(app, EMBED_HISTORY)
            assert (done.embedded, done.model) == (0, None)
            assert "service" in done.notice
            await queue_history_embedding(app.engine)
            await run(app, RUN_JOBS)
            assert len(server.asked) == before


async def test_on_a_server_that_others_use_each_home_has_jobs_of_its_own(app: App) -> None:
    class Elsewhere:
        home = POSTGRES

    shared = replace(app.engine, store_registry=Elsewhere())  # type: ignore[arg-type]
    other = shared.with_settings(home=Path("/another/home"))
    names = {own_job(shared, JOB), own_job(other, JOB), JOB}
    assert len(names) == 3
    assert own_job(shared, JOB) in handlers_of(shared)
    assert JOB not in handlers_of(shared)
    assert (own_job(app.engine, JOB) == JOB) is (app.engine.store_registry.home == LOCAL)


def test_what_was_said_is_read_before_what_was_done() -> None:
    said = IndexedStep(Role.USER, 1, "Why is the queue stuck?")
    done = IndexedStep(Role.RESULT, 2, "x" * 5_000, tool="Bash")
    told = IndexedStep(Role.CLAUDE, 3, "A worker died with its lease.")
    read = as_read(Passage((said, done, told), lexemes=""))
    assert read.startswith("Why is the queue stuck?\nA worker died with its lease.\nxxx")
    assert len(read) <= MOST_READ
