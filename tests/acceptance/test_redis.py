"""A Redis beside the store: the first layer of recall, what conversations do, and waking those who run jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dwellings import houses_at, opened_at
from front_door import Open, everything, recall, run, stored

from mindhold.app.application import App, open_app
from mindhold.lifecycle.status import DOCTOR, STATUS
from mindhold.memories.amend import AMEND
from mindhold.memories.embedding import EMBED_MISSING, queue_embedding
from mindhold.memories.forget import FORGET
from mindhold.memories.recall import RECALL
from mindhold.memories.remember import REMEMBER
from mindhold.model.errors import SettingsError, StoreDenied
from mindhold.model.scope import Caller
from mindhold.projects.projects import CREATE_PROJECT
from mindhold.projects.scope_operations import CREATE_SCOPE
from mindhold.providers.embedding.base import HashingEmbedder
from mindhold.settings.loader import load_settings
from redis_beside import eventually, settings_of
from support.paid_services import EmbeddingServer
from support.redis_server import RedisServer

SETS = "keyword sets"  # the rung of a recall that they answered


@pytest.fixture
async def beside(opened: Open, redis_server: RedisServer) -> AsyncIterator[App]:
    async with opened(**settings_of(redis_server)) as app:
        yield app


async def five(app: App, **fields: Any) -> list[str]:
    """Memories that say different things and have a keyword in common."""
    said = [
        "Backups run at night",
        "Ann looks after restores",
        "Tapes are in the cellar",
        "S3 holds copies",
        "Keys rotate",
    ]
    return [await stored(app, text, keywords=["Backup", f"part{n}"], **fields) for n, text in enumerate(said)]


async def built(app: App) -> None:
    async def whole() -> bool:
        await recall(app, keywords=["backup"], limit=1)
        return (await run(app, STATUS)).beside["keywords"] == "whole"

    await eventually(whole)


async def test_keywords_alone_are_answered_by_the_sets(beside: App) -> None:
    ids = await five(beside)
    await built(beside)
    answer = await recall(beside, keywords=["backups"], limit=3)
    assert answer.rung == SETS
    assert len(answer.hits) == 3
    assert {hit.id for hit in answer.hits} <= set(ids)
    assert {hit.layer for hit in answer.hits} == {"L1"}
    assert answer.hits[0].why == ["words: backups"]


async def test_too_few_are_looked_for_deeper(beside: App) -> None:
    await five(beside)
    await built(beside)
    answer = await recall(beside, keywords=["part3", "backup"], limit=2)
    assert answer.rung != SETS
    assert answer.hits[0].content == "S3 holds copies"


async def test_a_question_in_words_is_answered_as_without(beside: App, opened: Open) -> None:
    await five(beside)
    await built(beside)
    asked: dict[str, Any] = {"query": "where are the tapes", "keywords": ["backup"], "limit": 3}
    with_it = await recall(beside, **asked)
    async with opened() as plain:
        without = await recall(plain, **asked)
    assert [(hit.id, hit.score) for hit in with_it.hits] == [(hit.id, hit.score) for hit in without.hits]


async def test_what_matters_more_comes_first(beside: App) -> None:
    await five(beside)
    await built(beside)
    dear = await stored(
        beside, "Never store backups beside their source", keywords=["backup"], importance=1.0
    )
    answer = await recall(beside, keywords=["backup"], limit=2)
    assert answer.rung == SETS
    assert answer.hits[0].id == dear


async def test_filters_and_changes_count(beside: App) -> None:
    first, second, third, *_ = await five(beside)
    await run(beside, CREATE_SCOPE, name="work")
    await five(beside, scope="work")
    await built(beside)
    await run(beside, AMEND, id=first, keywords=["other"])
    await run(beside, FORGET, ids=[second])
    answer = await recall(beside, keywords=["backup"], limit=3)
    assert answer.rung == SETS
    assert {hit.id for hit in answer.hits}.isdisjoint({first, second})
    assert third in {hit.id for hit in answer.hits}
    assert {hit.scope for hit in answer.hits} == {"Global"}


async def test_nobody_sees_what_is_anothers(beside: App) -> None:
    ann, bob = (replace(Caller(), agent=name, bound=True) for name in ("ann", "bob"))
    await five(beside)
    for number in range(3):
        given = REMEMBER.takes(content=f"Bob's own plan number {number}", keywords=["backup"])
        await beside.run(REMEMBER, given, caller=bob)
    await built(beside)
    answer = await beside.run(RECALL, RECALL.takes(keywords=["backup"], limit=5, everywhere=True), caller=ann)
    assert answer.rung == SETS
    assert not [hit for hit in answer.hits if "Bob" in hit.content]


async def test_a_fence_holds(beside: App) -> None:
    await run(beside, CREATE_SCOPE, name="inside")
    await five(beside, scope="inside")
    outside = await five(beside)
    await built(beside)
    fenced = Caller(scopes=("inside",), owner=False)
    answer = await beside.run(
        RECALL, RECALL.takes(keywords=["backup"], limit=5, everywhere=True), caller=fenced
    )
    assert len(answer.hits) == 5
    assert {hit.id for hit in answer.hits}.isdisjoint(outside)
    assert "location" not in (await beside.run(STATUS, STATUS.takes(), caller=fenced)).beside


async def test_a_server_without_it_is_not_missed(beside: App, opened: Open) -> None:
    await five(beside)
    await built(beside)
    async with opened() as plain:
        late = await stored(plain, "Written by a server without Redis", keywords=["backup"], importance=1.0)
    assert late in {hit.id for hit in (await recall(beside, keywords=["backup"], limit=5)).hits}
    await built(beside)
    answer = await recall(beside, keywords=["backup"], limit=2)
    assert (answer.rung, answer.hits[0].id) == (SETS, late)


async def test_a_project_that_others_write_to_is_asked_of_its_store(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    ours = {mode: str(tmp_path / f"{mode}.db") for mode in ("local", "postgres")}
    given = {"home": tmp_path / "ours", "time_zone": "UTC", "embedding.provider": "hashing"}
    loaded = load_settings(given | settings_of(redis_server), environ={})
    async with (
        open_app(loaded, store_registry=houses_at(ours)) as app,
        opened_at(tmp_path / "theirs", {**ours, "local": str(tmp_path / "theirs.db")}) as other,
    ):
        for each in (app, other):
            await run(each, CREATE_PROJECT, name="shop", storage_mode="postgres")
        await five(app, scope="shop")
        await five(app)
        await built(app)
        theirs = await stored(
            other, "Backups are sold as well", keywords=["backup"], scope="shop", importance=1.0
        )
        answer = await recall(app, keywords=["backup"], scope="shop", limit=3)
        assert answer.rung != SETS
        assert theirs in {hit.id for hit in answer.hits}
        assert (await recall(app, keywords=["backup"], limit=3)).rung == SETS


async def test_a_wrong_password_is_an_error_at_start(opened: Open, redis_server: RedisServer) -> None:
    with pytest.raises(StoreDenied, match=r"redis\.password"):
        async with opened(**settings_of(redis_server, **{"redis.password": "wrong"})):
            pass


async def test_sentinels_that_can_not_be_read_are_an_error(opened: Open, redis_server: RedisServer) -> None:
    with pytest.raises(SettingsError, match=r"redis\.sentinels"):
        async with opened(**settings_of(redis_server, **{"redis.sentinel": True, "redis.sentinels": "here"})):
            pass


async def test_without_one_all_is_as_ever(opened: Open) -> None:
    async with opened() as app:
        await five(app)
        answer = await recall(app, keywords=["backup"], limit=3)
        assert answer.rung != SETS
        assert (await run(app, STATUS)).beside == {}


async def test_status_and_doctor_tell_of_it(beside: App, redis_server: RedisServer) -> None:
    told = (await run(beside, STATUS)).beside
    assert told["kind"] == "redis"
    assert told["state"] == "ok"
    assert told["location"] == f"127.0.0.1:{redis_server.port}/0"
    redis_server.stop()
    await recall(beside, keywords=["anything"])
    assert (await run(beside, STATUS)).beside["state"] == "away"
    findings = (await run(beside, DOCTOR)).findings
    assert [finding.healthy for finding in findings if finding.name == "redis"] == [False]
    assert redis_server.password not in str(findings)


async def test_what_conversations_do_is_counted(beside: App, opened: Open, redis_server: RedisServer) -> None:
    given = REMEMBER.takes(content="The build takes four minutes", keywords=["build"])
    await beside.run(REMEMBER, given, conversation="first")
    async with opened(**settings_of(redis_server)) as other:
        await other.run(RECALL, RECALL.takes(query="how long does the build take"), conversation="first")
        await other.run(RECALL, RECALL.takes(query="build"), conversation="second")

    async def counted() -> bool:
        status = await run(beside, STATUS)
        return status.conversations == 2 and status.activity == {
            "remember": 1,
            "memories stored": 1,
            "recall": 2,
            "memories recalled": 2,
        }

    await eventually(counted)


async def test_a_question_is_sent_to_a_service_once_for_all_servers(
    opened: Open, redis_server: RedisServer
) -> None:
    question = "when are the backups made"
    with EmbeddingServer(lambda texts, length: HashingEmbedder(length).embed_now(texts)) as service:
        settings = settings_of(redis_server) | {
            "embedding.provider": "compatible",
            "embedding.base_url": service.url,
            "embedding.model": "any",
        }
        async with opened(**settings) as first:
            await stored(first, "Backups are made at four in the morning")
            answer = await recall(first, question)
        async with opened(**settings) as second:
            again = await recall(second, question)
        assert service.texts.count(question) == 1
    assert [hit.similarity for hit in again.hits] == [hit.similarity for hit in answer.hits] != [None]
    assert question not in str(redis_server.command("KEYS", "*"))


async def test_a_job_wakes_another_server(beside: App, opened: Open, redis_server: RedisServer) -> None:
    async with opened(**settings_of(redis_server, **{"embedding.provider": "none"})) as other:
        while await beside.await_job(0.1):  # of its own start
            pass
        waiting = asyncio.create_task(beside.await_job(60.0))
        await queue_embedding(other.engine)
        async with asyncio.timeout(50):
            assert await waiting
    assert (await run(beside, EMBED_MISSING)).notice == ""


async def test_it_may_be_lost_at_any_time(beside: App, redis_server: RedisServer, opened: Open) -> None:
    await five(beside)
    await built(beside)
    redis_server.kill()
    lost = await stored(beside, "Stored while Redis is away", keywords=["backup"], importance=1.0)
    assert lost in {hit.id for hit in (await recall(beside, keywords=["backup"])).hits}
    async with opened(**settings_of(redis_server)) as other:  # starts all the same
        assert len(await everything(other)) == 6
    redis_server.start()
    await built(beside)
    answer = await recall(beside, keywords=["backup"], limit=2)
    assert (answer.rung, answer.hits[0].id) == (SETS, lost)
