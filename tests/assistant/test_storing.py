"""store_memory: what is kept of a text, where, and what is made of nothing and of much."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from assistant_door import NOW, keep, retrieved
from front_door import at, everything, run, show
from tool_door import use

from mindhold.app.application import App
from mindhold.memories.stats import STATS
from mindhold.model.errors import ContentTooLarge, InvalidInput


async def test_a_plain_text_is_kept_with_scope_time_and_id(app: App) -> None:
    answer = await use(at(app, NOW), "store_memory", content="The boiler was serviced by Jensen.")
    assert (answer["status"], answer["scope"]) == ("OK", "Global")
    kept = (await show(app, answer["memory_id"])).memory
    assert kept.content == "The boiler was serviced by Jensen."
    assert (kept.scope, kept.status) == ("Global", "active")
    assert kept.created == kept.occurred == NOW
    assert kept.provenance["dialect"] == "assistant"


async def test_scope_and_tags_are_kept_whether_beside_or_in_the_metadata(app: App) -> None:
    nested = {"scope": "Boat", "tags": ["wood", "hull"]}
    first = await keep(app, "The keel is made of oak.", metadata=nested)
    answer = await use(
        app, "store_memory", content="The mast is made of spruce.", scope="Boat", tags=["wood"]
    )
    assert answer["scope"] == "Boat"
    for name, tags in ((first, {"wood", "hull"}), (answer["memory_id"], {"wood"})):
        kept = (await show(app, name)).memory
        assert (kept.scope, set(kept.tags)) == ("Boat", tags)


@pytest.mark.parametrize("source", ["conversation", "user_profile", "summary"])
async def test_where_it_is_from_comes_back_with_it(app: App, source: str) -> None:
    await keep(app, "Marta is allergic to walnuts.", source=source)
    [found] = (await use(app, "retrieve_memory", query="Marta walnuts"))["results"]
    assert found["source"] == source


async def test_a_memory_gets_one_vector_of_the_models_length(app: App) -> None:
    assert (await run(app, STATS)).embedded == 0
    name = await keep(app, "The cellar floods when the river rises.")
    told = await run(app, STATS)
    assert told.embedded == 1
    assert told.model is not None
    vectors = await app.engine.store.vector_of([name], model=told.model)
    [other] = await app.engine.vector_source.embed(["any other text"])
    assert len(vectors[name]) == len(other)


@pytest.mark.parametrize("content", ["", "   \n\t "])
async def test_nothing_is_refused(app: App, content: str) -> None:
    with pytest.raises(InvalidInput):
        await use(app, "store_memory", content=content)
    assert await everything(app) == []


@pytest.mark.parametrize("content", ["Ok", "Sure", "Thanks!"])
async def test_an_acknowledgement_is_passed_over(app: App, content: str) -> None:
    answer = await use(app, "store_memory", content=content)
    assert answer["status"] == "IGNORED"
    assert await everything(app) == []


async def test_a_short_fact_is_a_fact(app: App) -> None:
    await keep(app, "PIN hint: 1887")
    assert await retrieved(app, "PIN hint") == ["PIN hint: 1887"]


async def test_a_long_text_is_kept_whole_in_linked_parts(app: App) -> None:
    chapters = [
        f"Chapter {number}. The ship called at harbour {number} and took on cargo {number * 7}." * 20
        for number in range(12)
    ]
    name = await keep(app, "\n\n".join(chapters))
    parts = await everything(app)
    assert len(parts) > 1
    said = " ".join(part.content for part in parts)
    for number in range(12):
        assert f"harbour {number} and took on cargo {number * 7}." in said
    drawn = [one.link for one in (await show(app, name)).links]
    assert {link.origin for link in drawn if link.relation == "part_of"} == {part.id for part in parts} - {
        name
    }


async def test_more_than_the_limit_is_refused_and_says_so(app: App) -> None:
    with pytest.raises(ContentTooLarge):
        await use(app, "store_memory", content="word " * 300_000)
    assert await everything(app) == []


async def test_the_same_text_again_is_the_same_memory(app: App) -> None:
    first = await use(app, "store_memory", content="The ferry leaves at noon.")
    again = await use(app, "store_memory", content="The ferry leaves at noon.")
    assert again["memory_id"] == first["memory_id"]
    assert (first["created"], again["created"]) == (True, False)


async def test_secrets_and_control_characters_stay_out(app: App) -> None:
    await keep(app, "The token is ghp_0123456789abcdefghijABCDEFGHIJ012345 and\x00 a bell\x07 rings.")
    [kept] = await everything(app)
    assert "ghp_" not in kept.content
    assert "\x00" not in kept.content
    assert "\x07" not in kept.content


async def test_times_are_moments_not_words(app: App) -> None:
    await keep(at(app, NOW), "The regatta is over.")
    [found] = (await use(app, "retrieve_memory", query="regatta"))["results"]
    moment = datetime.fromisoformat(found["timestamp"])
    assert moment == NOW
    assert moment.utcoffset() == timedelta(0)
