"""Keywords go through three layers, until one gives enough; what answers equally well stands in one order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from front_door import Open, acting, at, found, recall, run, show, stored

from mindhold.app.application import App
from mindhold.interfaces.runtime import call_operation
from mindhold.lifecycle.status import STATUS
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.memories.recall import RECALL, RecallResult
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.errors import InvalidInput, SettingsError
from mindhold.model.memory import Link, Relation
from mindhold.model.query import Filter
from mindhold.model.tokens import count_tokens
from mindhold.ports.store import Connect, Rate
from mindhold.projects.scope_operations import CREATE_SCOPE
from mindhold.settings.loader import load_settings
from mindhold.testing.builders import Builder
from redis_beside import eventually, settings_of
from support.redis_server import RedisServer

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SAID = {
    "Backups run at night": ["backup", "schedule"],
    "Ann looks after restores": ["backup", "people"],
    "Tapes are in the cellar": ["backup", "tape"],
    "S3 holds copies": ["backup", "bucket", "tape"],
    "Keys rotate": ["secrets"],
}


@pytest.fixture
async def beside(opened: Open, redis_server: RedisServer) -> AsyncIterator[App]:
    async with opened(**settings_of(redis_server)) as app:
        yield app


async def fill(app: App, **fields: Any) -> dict[str, str]:
    """Ids by what was said."""
    return {text: await stored(app, text, keywords=words, **fields) for text, words in SAID.items()}


async def built(app: App) -> None:
    async def whole() -> bool:
        await recall(app, keywords=["backup"], limit=1)
        return (await run(app, STATUS)).beside["keywords"] == "whole"

    await eventually(whole)


def told(answer: RecallResult) -> list[tuple[str, int]]:
    return [(one.layer, one.found) for one in answer.layers]


def layers(answer: RecallResult) -> list[str]:
    return [hit.layer for hit in answer.hits]


async def goes_through_the_layers(app: App) -> None:
    enough = await recall(app, keywords=["Backups"], limit=3)
    assert told(enough) == [("L1", 3)]
    assert layers(enough) == ["L1"] * 3
    assert {hit.similarity for hit in enough.hits} == {None}
    assert enough.hits[0].why == ["words: Backups"]

    deeper = await recall(app, keywords=["backup", "tape"], limit=4)
    assert told(deeper) == [("L1", 2), ("L2", 2)]
    assert layers(deeper) == ["L1", "L1", "L2", "L2"]
    assert {hit.content for hit in deeper.hits[:2]} == {"Tapes are in the cellar", "S3 holds copies"}
    assert [hit.score for hit in deeper.hits] == sorted((hit.score for hit in deeper.hits), reverse=True)

    deepest = await recall(app, keywords=["backup", "tape"], limit=20)
    assert [name for name, _ in told(deepest)] == ["L1", "L2", "L3"]
    assert sum(count for _, count in told(deepest)) == deepest.count
    assert layers(deepest)[:4] == ["L1", "L1", "L2", "L2"]


async def test_a_layer_that_gives_enough_ends_it(app: App) -> None:
    await fill(app)
    await goes_through_the_layers(app)
    assert (await recall(app, keywords=["backup"], limit=2)).rung == "keywords"
    assert (await recall(app, keywords=["backup", "tape"], limit=4)).rung == "full text"


async def test_with_redis_the_layers_are_the_same(beside: App) -> None:
    await fill(beside)
    await built(beside)
    await goes_through_the_layers(beside)
    assert (await recall(beside, keywords=["backup"], limit=2)).rung == "keyword sets"


async def test_with_redis_and_without_the_answers_are_the_same(beside: App, opened: Open) -> None:
    await fill(beside)
    await built(beside)
    async with opened() as plain:
        for words in (["backup"], ["backup", "tape"], ["tape", "secrets"], ["nothing", "of", "it"]):
            for limit in (1, 2, 3, 10):
                one, other = [
                    await recall(app, keywords=words, limit=limit, count_use=False) for app in (beside, plain)
                ]
                assert [(hit.id, hit.layer, hit.score) for hit in one.hits] == [
                    (hit.id, hit.layer, hit.score) for hit in other.hits
                ]


async def test_any_keyword_is_enough_for_the_second_layer(app: App) -> None:
    ids = await fill(app)
    words = ["secrets", "one", "two", "three", "four", "five", "six"]
    answer = await recall(app, keywords=words, limit=1)
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(ids["Keys rotate"], "L2")]
    assert (await recall(app, keywords=words, limit=1, minimum_score=0.99)).count == 0


async def test_words_of_the_text_are_for_the_second_layer(app: App) -> None:
    await fill(app)
    answer = await recall(app, keywords=["cellar"], limit=1)
    assert [(hit.content, hit.layer) for hit in answer.hits] == [("Tapes are in the cellar", "L2")]
    assert told(answer) == [("L1", 0), ("L2", 1)]


async def test_meaning_is_for_the_third_layer(knowing: App) -> None:
    near = await stored(knowing, "My car needs new tires.", keywords=["tires"])
    answer = await recall(knowing, keywords=["automobile", "wheels"])
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(near, "L3")]
    assert told(answer) == [("L1", 0), ("L2", 0), ("L3", 1)]
    similarity = answer.hits[0].similarity
    assert similarity is not None
    asked: dict[str, Any] = {"keywords": ["automobile", "wheels"]}
    assert (await recall(knowing, **asked, minimum_similarity=similarity - 0.01)).count == 1
    assert (await recall(knowing, **asked, minimum_similarity=similarity + 0.01)).count == 0


async def test_only_what_vectors_found_must_be_near(knowing: App) -> None:
    tires = await stored(knowing, "My car needs new tires.", keywords=["tires", "car"])
    wheel = await stored(knowing, "The bicycle wheel is bent.", keywords=["bicycle"])
    assert (await recall(knowing, "tires", minimum_similarity=0.99)).count == 0
    for fields in ({"keywords": ["tires"]}, {"query": "bicycle wheel", "keywords": ["tires"]}):
        [hit] = (await recall(knowing, **fields, minimum_similarity=0.99)).hits
        assert (hit.id, hit.layer) == (tires, "L1")
    [hit] = (await recall(knowing, keywords=["tires", "boat"], minimum_similarity=0.99)).hits
    assert (hit.id, hit.layer) == (tires, "L2")
    both = await recall(knowing, "bent bicycle wheel", keywords=["tires"])
    assert {(hit.id, hit.layer) for hit in both.hits} >= {(wheel, "L3"), (tires, "L1")}


async def test_without_a_model_there_is_no_third_layer(opened: Open) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        await fill(app)
        answer = await recall(app, keywords=["backup"], limit=9)
        assert [name for name, _ in told(answer)] == ["L1", "L2"]
        assert "full text only" in answer.notice
        assert (await recall(app, keywords=["backup"], limit=3)).notice == ""
        answer = await recall(app, "where are the tapes")
        assert told(answer) == [("L2", answer.count)]
        assert set(layers(answer)) == {"L2"}


async def test_a_question_in_words_reaches_the_vectors(app: App) -> None:
    ids = await fill(app)
    answer = await recall(app, "what is in the cellar?", keywords=["backup", "tape"], limit=10)
    assert [name for name, _ in told(answer)] == ["L1", "L2", "L3"]
    assert answer.hits[0].id == ids["Tapes are in the cellar"]
    assert answer.hits[0].layer == "L1"


async def test_a_full_budget_ends_it_too(app: App) -> None:
    await stored(app, "The vault code is kept by Ann. " * 8, keywords=["vault"])
    await stored(app, "The vault is old.", keywords=["other"])
    answer = await recall(app, keywords=["vault"], token_budget=30)
    assert told(answer) == [("L1", 1)]
    assert answer.tokens <= 30
    answer = await recall(app, keywords=["vault"], token_budget=3000)
    assert len(told(answer)) > 1
    assert answer.count == 2


async def test_what_fills_a_budget_is_counted_anew(app: App) -> None:
    put = Builder().put("The vault code is with Ann.", keywords=("vault",), tokens=9_000)
    await app.engine.store.apply([put])
    await stored(app, "The vault is old.", keywords=["other"])
    answer = await recall(app, keywords=["vault"], token_budget=200)
    assert (answer.count, len(told(answer)) > 1) == (2, True)


async def test_the_budget_is_kept_in_every_layer(app: App) -> None:
    ids = []
    for number in range(12):
        text = f"Zebra {number}: " + f"stripes{number} und 줄무늬 {number} " * (number * 2 + 1)
        words = ["zebra", "even"] if number % 2 else ["zebra"]
        ids.append(await stored(app, text, keywords=words, topic="zoo"))
    for one, two in pairwise(ids):
        await run(app, LINK, origin=one, target=two)
    for budget in (1, 7, 20, 64, 150, 400, 1000):
        for asked in ({"keywords": ["zebra"]}, {"keywords": ["zebra", "even"]}, {"topic": "zoo"}):
            answer = await recall(app, token_budget=budget, links=True, count_use=False, **asked)
            texts = [
                text for hit in answer.hits for text in (hit.content, *(one.content for one in hit.links))
            ]
            assert sum(map(count_tokens, texts)) == answer.tokens <= budget


async def test_so_many_linked_memories_come_along_in_all(opened: Open) -> None:
    async with opened() as app:
        hub = await stored(app, "The hub of it all.", keywords=["hub"])
        ends = [
            await stored(app, f"Spoke {number} says {number * 7}.", topic=f"s{number}")
            for number in range(14)
        ]
        for end in ends:
            await run(app, LINK, origin=hub, target=end)
        assert len((await recall(app, keywords=["hub"], limit=1, links=True)).hits[0].links) == 10
    async with opened(**{"recall.most_linked": 3}) as app:
        assert len((await recall(app, keywords=["hub"], limit=1, links=True)).hits[0].links) == 3
    async with opened(**{"recall.most_linked": 0}) as app:
        assert (await recall(app, keywords=["hub"], limit=1, links=True)).hits[0].links == []


@pytest.mark.parametrize("words", [["백업"], ["バックアップ"], ["备份"], ["резервная копия"], ["Sauvegarde"]])
async def test_keywords_of_any_language(app: App, words: Sequence[str]) -> None:
    known = await stored(app, "Night is when it happens.", keywords=[*words, "other"])
    await stored(app, "Noon is when lunch happens.", keywords=["lunch"])
    answer = await recall(app, keywords=[words[0].upper()], limit=1)
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(known, "L1")]


@pytest.mark.parametrize(
    "words", [["!!!"], ["…", "🦓"], ["the"], ["a b c d"], ["NULL", "'; DROP TABLE memory"], ["%", "_", "*"]]
)
async def test_an_odd_keyword_is_only_a_keyword(app: App, words: list[str]) -> None:
    await stored(app, "The zebra eats hay.", keywords=["zebra"])
    known = await stored(app, "Water is wet.", keywords=words)
    answer = await recall(app, keywords=words, limit=1)
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(known, "L1")]
    await recall(app, keywords=[*words, "nowhere"], limit=9)


async def test_very_many_keywords(app: App) -> None:
    words = [f"word{number}" for number in range(300)]
    every = await stored(app, "It has as many as there may be.", keywords=words[:64])
    most = await stored(app, "It has some of them.", keywords=words[:40])
    answer = await recall(app, keywords=words[:64], limit=2)
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(every, "L1"), (most, "L2")]
    answer = await recall(app, keywords=words, limit=2)
    assert [(hit.id, hit.layer) for hit in answer.hits] == [(every, "L2"), (most, "L2")]


async def test_more_keywords_than_anyone_means_are_refused(app: App) -> None:
    await stored(app, "Keys rotate.", keywords=["secrets"])
    with pytest.raises(InvalidInput, match="keywords must have at most 500 entries; it had 501"):
        await call_operation(app, RECALL, keywords=[f"word{number}" for number in range(501)])
    for asked in ({}, {"query": "what rotates?"}):
        with pytest.raises(InvalidInput, match=r"and its keywords have .* characters; at most 8,000"):
            await recall(app, keywords=["secrets", "x" * 8_000], **asked)
    assert (await recall(app, keywords=["secrets", *("x" * 10 for _ in range(499))], limit=1)).count == 1


async def test_a_keyword_that_is_repeated_counts_once(app: App) -> None:
    await stored(app, "Night run.", keywords=["redis", "cache"])
    words = ["redis", "cache", "disk", "pool"]
    repeated = ["redis", "Redis", "REDIS ", "redis.", *words[1:]]
    once, again = [(await recall(app, keywords=one, limit=1)).hits[0] for one in (words, repeated)]
    assert (again.score, again.layer, again.why) == (once.score, "L2", ["words: redis, cache"])
    assert (await recall(app, keywords=repeated, limit=1, minimum_score=0.6)).count == 0
    assert (await recall(app, keywords=["redis", "Redis"], limit=1)).hits[0].why == ["words: redis"]


async def test_what_the_first_layer_did_not_look_at_is_not_counted(app: App) -> None:
    await fill(app)
    assert (await recall(app, keywords=["backup"], limit=2)).considered is None
    assert (await recall(app, keywords=["backup"], limit=9)).considered == len(SAID)


async def test_nobody_finds_anothers_by_any_layer(app: App) -> None:
    ann, bob = acting(app, "ann"), acting(app, "bob")
    theirs = await stored(ann, "The vault opens with the brass key.", keywords=["vault"], topic="vault")
    for asked in ({"keywords": ["vault"]}, {"keywords": ["vault", "key"]}, {"topic": "vault"}):
        assert await found(ann, "", **asked) == [theirs]
        answer = await recall(bob, **asked)
        assert (answer.hits, answer.considered) == ([], 0)
        assert {count for _, count in told(answer)} == {0}


async def test_filters_hold_in_every_layer(app: App) -> None:
    await run(app, CREATE_SCOPE, name="work")
    await fill(app)
    theirs = await fill(app, scope="work", kind="decision")
    for limit in (2, 4, 9):
        answer = await recall(
            app, keywords=["backup", "tape"], kinds=["decision"], everywhere=True, limit=limit
        )
        assert {hit.id for hit in answer.hits} <= set(theirs.values())
        assert answer.count >= 2


async def many(app: App, count: int, **fields: Any) -> None:
    items = [{"content": f"Fact number {n} is {n * 37 % 1009}.", **fields} for n in range(count)]
    await run(app, REMEMBER_MANY, items=items)


async def rivals(app: App) -> tuple[str, str, str]:
    """An old important one, a new unimportant one, and one between: by time, by the usual weights, by others."""
    common: dict[str, Any] = {"topic": "rivals", "keywords": ["rival"], "kind": "fact"}
    vital = await stored(
        app, "The dam must hold.", importance=1.0, occurred=NOW - timedelta(days=400), **common
    )
    usual = await stored(
        app, "The gate is green.", importance=0.4, occurred=NOW - timedelta(days=90), **common
    )
    fresh = await stored(app, "Tea was served.", importance=0.1, occurred=NOW, **common)
    return vital, usual, fresh


async def test_equals_stand_in_order_of_time_while_there_are_few(app: App) -> None:
    vital, usual, fresh = await rivals(app)
    await many(app, 96, topic="others")
    for asked in ({"topic": "rivals"}, {"keywords": ["rival"], "limit": 3}):
        assert await found(at(app, NOW), "", **asked) == [fresh, usual, vital]


async def test_from_a_hundred_on_importance_and_recency_order_equals(app: App) -> None:
    vital, usual, fresh = await rivals(app)
    await many(app, 97, topic="others")
    for asked in (
        {"topic": "rivals"},
        {"topic": "rivals", "kinds": ["fact"]},
        {"keywords": ["rival"], "limit": 3},
    ):
        assert await found(at(app, NOW), "", **asked) == [vital, fresh, usual]
    assert await found(
        at(app, NOW), "", since=NOW - timedelta(days=500), until=NOW + timedelta(seconds=1)
    ) == [
        fresh,
        usual,
        vital,
    ], "a time lists what is newest"


async def test_time_orders_equals_again_when_many_are_gone(opened: Open) -> None:
    async with opened(**{"recall.composite_from": 4}) as app:
        vital, usual, fresh = await rivals(app)
        other = await stored(app, "Lunch is at noon.")
        assert await found(at(app, NOW), "", topic="rivals") == [vital, fresh, usual]
        await run(app, FORGET, ids=[other])
        assert await found(at(app, NOW), "", topic="rivals") == [fresh, usual, vital]


async def test_the_weights_can_be_set(opened: Open) -> None:
    async with opened(**{"recall.composite_from": 3}) as app:
        vital, usual, fresh = await rivals(app)
        assert await found(at(app, NOW), "", topic="rivals") == [vital, fresh, usual]
    for weight, expected in ((1.0, [vital, usual, fresh]), (0.0, [fresh, usual, vital])):
        weights = {"recall.importance_weight": weight, "recall.recency_weight": 1 - weight}
        async with opened(**weights, **{"recall.composite_from": 3}) as app:
            assert await found(at(app, NOW), "", topic="rivals") == expected
            assert await found(at(app, NOW), "", keywords=["rival"], limit=3) == expected


async def test_the_best_of_many_equals_are_found_wherever_they_stand(app: App) -> None:
    await many(app, 150, topic="crowd", importance=0.2, occurred=NOW - timedelta(days=1))
    dear = await stored(
        app, "The oldest rule counts.", topic="crowd", importance=1.0, occurred=NOW - timedelta(days=700)
    )
    assert (await found(at(app, NOW), "", topic="crowd", limit=2))[0] == dear
    for weight in (0.0, 0.3, 0.6, 1.0):
        changed = replace(app.engine.settings.recall, importance_weight=weight, recency_weight=1 - weight)
        weighed = replace(app, engine=app.engine.with_settings(recall=changed))
        place = (await found(at(weighed, NOW), "", topic="crowd", limit=200)).index(dear)
        assert (place == 0) == (weight > 0.5)


async def test_what_was_found_useful_comes_first_among_equals(opened: Open) -> None:
    async with opened(**{"recall.composite_from": 2, "embedding.provider": "none"}) as app:
        common: dict[str, Any] = {"topic": "tools", "keywords": ["tool"], "importance": 0.5, "occurred": NOW}
        texts = ("The hammer is red.", "The saw is blue.", "The drill is loud.")
        first, second, third = [await stored(app, text, **common) for text in texts]
        rates = [Rate(second, 0.6, NOW), Rate(first, -0.6, NOW)]
        await app.engine.store.apply(rates)
        assert await found(at(app, NOW), "", topic="tools") == [second, third, first]
        assert await found(at(app, NOW), "", keywords=["tool"], limit=3) == [second, third, first]
        answer = await recall(at(app, NOW), "hammer saw drill", minimum_score=0.0)
        scores = {hit.id: hit.score for hit in answer.hits}
        assert scores[second] > scores[third] > scores[first]


def test_weights_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(SettingsError, match="sum to 1") as refused:
        load_settings({"recall.importance_weight": 0.9}, environ={})
    assert "recall.recency_weight 0.1" in str(refused.value.advice)
    kept = load_settings({"recall.importance_weight": 0.9, "recall.recency_weight": 0.1}, environ={})
    assert kept.settings.recall.importance_weight == 0.9


async def test_what_contradicts_a_memory_is_told(app: App) -> None:
    old = await stored(app, "The database is MySQL.", keywords=["database"])
    new = await stored(app, "The database is Postgres these days.", keywords=["database"])
    lone = await stored(app, "The queue is Kafka.", keywords=["queue"])
    await run(app, LINK, origin=new, target=old, relation="contradicts")
    await run(app, LINK, origin=old, target=new, relation="superseded_by")
    for fields in (
        {"keywords": ["database"], "limit": 2},
        {"query": "which database"},
        {"links": True, "query": "database"},
    ):
        hits = {hit.id: hit for hit in (await recall(app, **fields)).hits}
        assert (hits[new].contradicts, hits[new].contradicted_by, hits[new].superseded_by) == ([old], [], [])
        assert (hits[old].contradicts, hits[old].contradicted_by, hits[old].superseded_by) == (
            [],
            [new],
            [new],
        )
    [hit] = (await recall(app, keywords=["queue"], limit=1)).hits
    assert (hit.id, hit.contradicts, hit.contradicted_by) == (lone, [], [])
    [hit] = (await recall(app, keywords=["database"], limit=1, links=True, relations=["contradicts"])).hits
    assert [one.link.relation for one in hit.links] == ["contradicts"]
    await run(app, FORGET, ids=[new])
    [hit] = (await recall(app, keywords=["database"], limit=1)).hits
    assert (hit.id, hit.contradicted_by, hit.superseded_by) == (old, [], [])


async def test_every_hit_is_told_what_disputes_it(app: App) -> None:
    await many(app, 120, topic="crowd")
    memories = await app.engine.store.find(Filter(), limit=200)
    hits, others = memories[:60], memories[60:]
    pairs = [
        Link(other.id, hit.id, Relation.CONTRADICTS, NOW) for hit, other in zip(hits, others, strict=True)
    ]
    crowd = [Link(other.id, hits[0].id, Relation.CONTRADICTS, NOW, 0.5) for other in others[1:]]
    await app.engine.store.apply([Connect(link) for link in (*pairs, *crowd)])
    changed = replace(app.engine.settings.recall, composite_from=1_000)
    answer = await recall(
        replace(app, engine=app.engine.with_settings(recall=changed)), topic="crowd", limit=60
    )
    disputed = {hit.id: hit.contradicted_by for hit in answer.hits}
    assert set(disputed) == {hit.id for hit in hits}
    assert all(other.id in disputed[hit.id] for hit, other in zip(hits, others, strict=True))
    assert len(disputed[hits[0].id]) == 10


async def test_an_agents_contradiction_is_no_other_agents_business(app: App) -> None:
    shared = await stored(app, "The database is MySQL.", keywords=["database"])
    ann = acting(app, "ann")
    own = await stored(ann, "The database is Postgres these days.", keywords=["postgres"])
    await run(ann, LINK, origin=own, target=shared, relation="contradicts")
    [hit] = (await recall(ann, keywords=["database"], limit=1)).hits
    assert (hit.id, hit.contradicted_by) == (shared, [own])
    [hit] = (await recall(acting(app, "bob"), keywords=["database"], limit=1)).hits
    assert (hit.id, hit.contradicted_by) == (shared, [])


async def test_being_shown_is_counted_apart_from_being_used(app: App) -> None:
    memory_id = await stored(app, "The lamp is lit.", keywords=["lamp"])
    await recall(app, keywords=["lamp"], limit=1)
    app.engine.use_counter.note_shown([memory_id, memory_id])
    await app.engine.use_counter.flush()
    memory = await app.engine.store.get(memory_id, viewer="default")
    assert (memory.uses, memory.shown) == (1, 2)
    assert (await show(app, memory_id)).memory.uses == 1
