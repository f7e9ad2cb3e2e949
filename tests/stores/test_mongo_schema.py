"""What the MongoDB store makes at first use, and what others read there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from recollect.model.errors import SchemaTooNew
from recollect.model.memory import Kind, Provenance, Status
from recollect.model.query import Filter
from recollect.ports.store import Mark
from recollect.stores.mongo.migrate import INDEXES
from recollect.stores.mongo.store import MongoStore
from recollect.testing.builders import START, Builder, unit
from recollect.testing.servers.mongo import MongoServer

_numbers = count(1)


@pytest.fixture
def name(mongo_server: MongoServer) -> Any:
    name = f"schema_{next(_numbers)}"
    yield name
    mongo_server.command({"dropDatabase": 1}, database=name)


@pytest.fixture
async def store(mongo_server: MongoServer, name: str) -> AsyncIterator[MongoStore]:
    store = MongoStore(mongo_server.url, database=name, clock=lambda: START)
    await store.open()
    yield store
    await store.close()


async def rows(store: MongoStore, view: str) -> list[dict[str, Any]]:
    return await store._database.database[view].find().to_list()


async def test_turns_of_a_conversation(store: MongoStore) -> None:
    build = Builder()
    turn = build.put(
        "How do I sign in?",
        kind=Kind.EPISODE,
        tags=("login",),
        provenance=Provenance(dialect="project", conversation="talk", position=0),
        metadata={"message_type": "user"},
        vector=unit(1),
    )
    await store.apply([turn, build.put("a fact of no conversation")])
    (shown,) = await rows(store, "ConversationHistory")
    assert set(shown) == {
        "_id",
        "conversation_id",
        "timestamp",
        "speaker",
        "text",
        "scope",
        "tags",
        "embedding",
    }
    assert (shown["_id"], shown["conversation_id"], shown["speaker"]) == (turn.memory.id, "talk", "user")
    assert (shown["text"], shown["scope"], shown["tags"]) == ("How do I sign in?", "Global", ["login"])
    moment = turn.memory.occurred.replace(tzinfo=None)
    assert abs(shown["timestamp"] - moment) < timedelta(milliseconds=1)
    assert shown["embedding"].as_vector().data == pytest.approx(unit(1).tolist(), abs=2e-3)


async def test_summaries(store: MongoStore) -> None:
    build = Builder()
    told = build.put(
        "They agreed.",
        kind=Kind.EPISODE,
        topic="plans",
        merged_from=("a", "b"),
        provenance=Provenance(source="end of conversation", conversation="talk"),
    )
    await store.apply([told, build.put("else")])
    (shown,) = await rows(store, "Summaries")
    assert shown["summary_text"] == "They agreed."
    assert (shown["conversation_id"], shown["topic_id"], shown["message_refs"]) == (
        "talk",
        "plans",
        ["a", "b"],
    )
    assert set(shown["time_range"]) == {"from", "to"}
    assert shown["scope"] == "Global"


async def test_a_users_profile(store: MongoStore) -> None:
    build = Builder()
    await store.apply(
        [
            build.put("Answers should be short.", kind=Kind.PREFERENCE, topic="detail_level"),
            build.put("Born in May.", kind=Kind.FACT, topic="birthday", anchor=True),
            build.put("Just a fact.", kind=Kind.FACT, topic="nothing"),
            build.put("Likes tea.", kind=Kind.PREFERENCE, topic="drinks", agent="ada"),
        ]
    )
    shown = {profile["user_id"]: profile for profile in await rows(store, "UserProfile")}
    assert shown["default"]["preferences"] == {"detail_level": "Answers should be short."}
    assert shown["default"]["facts"] == {"birthday": "Born in May."}
    assert shown["ada"]["notes"] == ["Likes tea."]


async def test_the_index_of_vectors(store: MongoStore) -> None:
    build = Builder()
    put = build.put("meant", vector=unit(1, 2), tags=("t",))
    await store.apply([put, build.put("without")])
    (shown,) = await rows(store, "MemoryIndex")
    assert (shown["source_collection"], shown["source_id"]) == ("conversation_memory", put.memory.id)
    assert (shown["scope"], shown["metadata"]["tags"]) == ("Global", ["t"])
    assert len(shown["embedding"].as_vector().data) == len(unit(1))


async def test_views_show_what_is_remembered_alone(store: MongoStore) -> None:
    build = Builder()
    turn = build.put(
        "How do I sign in?",
        kind=Kind.EPISODE,
        provenance=Provenance(conversation="talk", position=0, source="summary"),
        metadata={"message_type": "user"},
        vector=unit(1),
    )
    await store.apply([turn])
    for status, shown in ((Status.FORGOTTEN, 0), (Status.SUPERSEDED, 0), (Status.ACTIVE, 1)):
        await store.apply([Mark(turn.memory.id, status, None, START)])
        for view in ("ConversationHistory", "Summaries", "MemoryIndex"):
            assert len(await rows(store, view)) == shown


async def test_scopes_and_counts_are_metadata(store: MongoStore) -> None:
    build = Builder()
    await store.put_scope(build.scope("work", description="at work", keywords=("office",)))
    await store.put_scope(build.scope("team", parent="work"))
    put = build.put()
    await store.apply([put, build.put()])
    await store.erase([put.memory.id])
    shown = {one.get("scope_name", one["type"]): one for one in await rows(store, "Metadata")}
    assert {"Global", "work", "team", "stats"} == set(shown)
    work = shown["work"]
    assert (work["type"], work["description"], work["related_keywords"]) == ("scope", "at work", ["office"])
    assert (work["active"], work["parent_scope"], shown["team"]["parent_scope"]) == (True, None, "work")
    assert shown["stats"]["total_memories"] == 1


async def test_the_indexes_are_there(store: MongoStore) -> None:
    for collection, wanted in INDEXES.items():
        there = await store._database.database[collection].index_information()
        assert {index.document["name"] for index in wanted} <= set(there)


@pytest.mark.parametrize(
    ("query", "projection"),
    [
        ({"lexemes": "word"}, {"_id": 0, "row": 1}),
        ({"content_hash": {"$in": ["a"]}, "scope": "Global", "agent": "default", "live": True}, None),
        ({"revision": {"$gt": 5}}, None),
        ({"refers": {"$in": ["a"]}}, None),
        ({"tags_folded": "t"}, None),
        ({"conversation": "talk", "position": {"$gte": 1, "$lte": 3}}, None),
        ({"row": {"$in": [1, 2]}}, None),
    ],
    ids=lambda value: next(iter(value)) if value else "",
)
async def test_what_is_asked_often_is_answered_by_an_index(
    store: MongoStore, query: dict[str, Any], projection: dict[str, Any] | None
) -> None:
    build = Builder()
    talk = Provenance(conversation="talk", position=1)
    await store.apply([build.put(f"word w{n}", tags=("t",), provenance=talk) for n in range(50)])
    command = {
        "find": "conversation_memory",
        "filter": query,
        **({"projection": projection} if projection else {}),
    }
    plan = str((await store._database.database.command("explain", command))["queryPlanner"]["winningPlan"])
    assert "IXSCAN" in plan
    assert "COLLSCAN" not in plan
    if projection:
        assert "FETCH" not in plan


async def test_many_open_an_empty_database_at_once(mongo_server: MongoServer, name: str) -> None:
    stores = [MongoStore(mongo_server.url, database=name, clock=lambda: START) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.apply([Builder(f"s{n}-").put(f"by {n}")]) for n, store in enumerate(stores)))
    assert await stores[0].count(Filter()) == 6
    assert [scope.name for scope in await stores[0].scopes()] == ["Global"]
    assert await stores[0]._database.metadata.count_documents({"type": "probe"}) == 0
    for store in stores:
        await store.close()


async def test_a_newer_schema_is_left_alone(mongo_server: MongoServer, store: MongoStore, name: str) -> None:
    await store._database.metadata.update_one({"_id": "state"}, {"$set": {"schema": 999}})
    with pytest.raises(SchemaTooNew):
        await MongoStore(mongo_server.url, database=name, clock=lambda: START).open()


async def test_metadata_that_no_document_holds(store: MongoStore) -> None:
    build = Builder()
    puts = [
        build.put(metadata={"n": 2**70}),
        build.put(metadata={"$where": {"a.b": [{"$set": 1}]}}),
        build.put(metadata={"k\x00k": "NUL"}),
        build.put(metadata={"plain.dotted": 1}),
    ]
    await store.apply(puts)
    for put in puts:
        assert await store.get(put.memory.id, viewer="default") == put.memory


async def test_what_is_broken_is_found_and_mended(store: MongoStore) -> None:
    build = Builder()
    put = build.put("kept", vector=unit(1))
    await store.apply([put])
    database = store._database.database
    await database["conversation_memory"].update_one({}, {"$set": {"code": b"nonsense"}})
    await database["conversation_memory"].drop_index("refers_1")
    await database["Summaries"].drop()
    await database["links"].insert_one({"_id": "x", "origin": "nobody", "target": put.memory.id})
    await database["Metadata"].update_one({"_id": "state"}, {"$set": {"total_memories": 7}})
    wrong = {finding.name for finding in await store.check() if not finding.healthy}
    assert wrong == {"indexes", "views", "links rows", "counts", "vectors"}
    await store.repair()
    assert [finding for finding in await store.check() if not finding.healthy] == []
    assert await store.find(Filter()) == [put.memory]
