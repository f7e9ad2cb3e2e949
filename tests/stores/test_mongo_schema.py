"""What the MongoDB store makes at first use, and what others read there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from mindhold.model.errors import SchemaTooNew
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Provenance, Status, Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Mark, Rate
from mindhold.stores.mongo.rows import matching
from mindhold.stores.mongo.schema import INDEXES, SCHEMA
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import START, Builder, unit
from support.mongo_server import MongoServer

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
        ({"keyword_forms": "word"}, None),
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


@pytest.mark.parametrize(
    ("where", "order"),
    [
        (Filter(viewer="system", due=START + timedelta(days=9)), Order.DUE),
        (Filter(viewer="ada", due=START + timedelta(days=9)), Order.DUE),
        (Filter(viewer="system", unverified=True), Order.OLDEST),
        (Filter(viewer="system", unexamined=True), Order.OLDEST),
    ],
)
async def test_what_waits_for_upkeep_is_not_sorted_out_of_all(
    store: MongoStore, where: Filter, order: Order
) -> None:
    build = Builder()
    done: dict[str, Any] = {"verified": START, "examined": START, "review": START + timedelta(days=99)}
    await store.apply([build.put() for _ in range(20)] + [build.put(**done) for _ in range(300)])
    await store.touch([f"m{number:08d}" for number in range(1, 21)], START)
    field = "review" if order is Order.DUE else "occurred"
    command = {
        "find": "conversation_memory",
        "filter": matching(where),
        "sort": {field: 1, "_id": 1},
        "limit": 5,
    }
    plan = str((await store._database.database.command("explain", command))["queryPlanner"]["winningPlan"])
    assert "IXSCAN" in plan
    assert "'SORT'" not in plan
    assert len(await store.find(where, order=order, limit=5)) == 5


_NEW = "keyword_forms shown usefulness verified examined decayed review".split()


async def as_of_the_first_schema(store: MongoStore) -> None:
    """As the first version left it behind."""
    memories = store._database.memories
    await memories.update_many({}, {"$unset": dict.fromkeys(_NEW, "")})
    for index in ("keyword_forms_1", "review_1__id_1", "verified_1_occurred_1__id_1"):
        await memories.drop_index(index)
    await store._database.metadata.update_one({"_id": "state"}, {"$set": {"schema": 1}})


async def test_what_an_older_process_writes_later_is_due_in_the_end(store: MongoStore) -> None:
    put = Builder().put("old words")
    await store.apply([put])
    await store._database.memories.update_many({}, {"$unset": dict.fromkeys(_NEW, "")})
    await store.optimise()
    [one] = await store.find(Filter(due=datetime.max.replace(tzinfo=UTC)), order=Order.DUE)
    assert one.decayed == one.verified == one.examined == one.review
    assert one.id == put.memory.id


async def test_documents_of_the_first_schema(mongo_server: MongoServer, store: MongoStore, name: str) -> None:
    build = Builder()
    put, other = build.put("old words", keywords=("Databases",), uses=3), build.put("others", agent="ada")
    await store.apply([put, other])
    await as_of_the_first_schema(store)
    stores = [
        MongoStore(mongo_server.url, database=name, clock=lambda: START + timedelta(days=1)) for _ in range(4)
    ]
    await asyncio.gather(*(one.open() for one in stores))
    newer = stores[0]
    due = START + timedelta(days=1)
    assert (await newer.facts()).schema_version == SCHEMA
    begun = replace(put.memory, review=due, decayed=due, verified=due, examined=due)
    assert await newer.get(put.memory.id, viewer="default") == begun
    assert await newer.find(Filter(keywords=keyword_forms(["database"]))) == [begun]
    waiting = Filter(viewer="system", due=due)
    assert [one.id for one in await newer.find(waiting, order=Order.DUE)] == [put.memory.id, other.memory.id]
    assert await newer.count(Filter(viewer="system", unverified=True)) == 0
    assert await newer.count(Filter(viewer="system", unexamined=True)) == 0
    assert [finding for finding in await newer.check() if not finding.healthy] == []
    for one in stores:
        await one.close()


async def test_messages_of_an_earlier_schema(mongo_server: MongoServer, store: MongoStore, name: str) -> None:
    build = Builder()
    log = {"kind": Kind.EPISODE, "provenance": Provenance(dialect="project", conversation="talk", position=0)}
    first, later = build.put("said", **log), build.put("more of it", metadata={"part": 1}, **log)
    await store.apply([first, later, build.put("a fact")])
    await store._database.memories.update_many({}, {"$unset": {"turn": ""}})
    assert await store.count(Filter(turns=True, scopes=("Global",))) == 0
    await store._database.metadata.update_one({"_id": "state"}, {"$set": {"schema": SCHEMA - 1}})
    newer = MongoStore(mongo_server.url, database=name, clock=lambda: START)
    await newer.open()
    assert [one.id for one in await newer.find(Filter(turns=True))] == [first.memory.id]
    assert await newer.count(Filter(turns=True, scopes=("Global",))) == 1
    await newer.close()


async def test_documents_that_an_older_version_still_writes(store: MongoStore) -> None:
    put = Builder().put("old words", keywords=("Databases",))
    await store.apply([put])
    await store._database.memories.update_many({}, {"$unset": dict.fromkeys(_NEW, "")})
    assert await store.get(put.memory.id, viewer="default") == put.memory
    assert (await store.search(Search(Filter(), ("old",)))).usefulness.tolist() == [0.0]
    assert await store.count(Filter(unverified=True, unexamined=True)) == 1
    assert await store.count(Filter(keywords=keyword_forms(["database"]))) == 0
    assert [one.name for one in await store.check() if not one.healthy] == ["keywords"]
    await store.repair()
    assert await store.count(Filter(keywords=keyword_forms(["database"]))) == 1
    await store.touch([put.memory.id], START)
    await store.note_shown([put.memory.id], START)
    await store.apply([Rate(put.memory.id, by=0.5, when=START)])
    used = replace(put.memory, uses=1, shown=1, last_used=START, tier=Tier.HOT, review=START, usefulness=0.5)
    assert await store.get(put.memory.id, viewer="default") == used


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
