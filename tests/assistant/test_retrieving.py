"""retrieve_memory, search_by_tag and search_by_scope: what is found, and what must not be."""

from __future__ import annotations

import pytest
from assistant_door import DAY, NOW, keep, retrieved
from front_door import at
from tool_door import texts, use

from mindhold.app.application import App
from mindhold.model.errors import ScopeNotFound

NOTES = [
    "Alpha project deadline is June 5.",
    "Alice's birthday is on the 20th of January.",
    "The product will be launched next week.",
    "My bicycle is locked with the code of the old house.",
    "Dr. Ferrand moved her practice to Rue Lepic.",
]


async def test_its_own_words_find_a_memory_first(app: App) -> None:
    for note in NOTES:
        await keep(app, note)
    for note in NOTES:
        assert (await retrieved(app, note))[0] == note


async def test_a_result_says_what_the_contract_names(app: App) -> None:
    name = await keep(at(app, NOW), NOTES[0], scope="Alpha", tags=["dates"])
    [found] = (await use(app, "retrieve_memory", query="Alpha project deadline", filter={"scope": "Alpha"}))[
        "results"
    ]
    assert (
        found.items()
        >= {
            "text": NOTES[0],
            "scope": "Alpha",
            "tags": ["dates"],
            "memory_id": name,
        }.items()
    )
    assert found.keys() >= {"source", "timestamp", "confidence"}
    assert 0 < found["confidence"] <= 1


async def test_a_surer_match_has_the_higher_confidence(app: App) -> None:
    for note in NOTES:
        await keep(app, note)
    results = (await use(app, "retrieve_memory", query="Alice's birthday is on the 20th of January"))[
        "results"
    ]
    sure = [one["confidence"] for one in results]
    assert sure == sorted(sure, reverse=True)
    assert all(0 <= one <= 1 for one in sure)


async def test_another_scope_stays_silent(app: App) -> None:
    await keep(app, "The vault opens with the blue key.", scope="Bank")
    await keep(app, "The shed opens with the red key.", scope="Garden")
    await keep(app, "The house opens with the brass key.")
    assert set(await retrieved(app, "which key opens it", scope="Garden")) == {
        "The shed opens with the red key.",
        "The house opens with the brass key.",
    }
    assert len(await retrieved(app, "which key opens it", scope="ALL")) == 3


async def test_an_unknown_scope_is_told(app: App) -> None:
    with pytest.raises(ScopeNotFound):
        await retrieved(app, "which key opens it", scope="Gardn")


async def test_only_what_has_the_tag_comes(app: App) -> None:
    await keep(app, "The lamp in the hall is broken.", tags=["repairs"])
    await keep(app, "The lamp in the attic was bought in Lyon.", tags=["furniture"])
    assert await retrieved(app, "lamp", tags=["repairs"]) == ["The lamp in the hall is broken."]
    assert await retrieved(app, "lamp", tags=["#Repairs"]) == ["The lamp in the hall is broken."]


async def test_only_what_is_of_the_time_comes(app: App) -> None:
    for days in (1, 10, 100):
        await keep(at(app, NOW - days * DAY), f"The gauge showed {days} bar.")
    since, until = NOW - 20 * DAY, NOW - 5 * DAY
    span = {"from": since.isoformat(), "to": until.isoformat()}
    assert await retrieved(app, "gauge", time_range=span) == ["The gauge showed 10 bar."]
    assert len(await retrieved(app, "gauge")) == 3


async def test_nothing_is_better_than_anything(app: App) -> None:
    for note in NOTES:
        await keep(app, note)
    for query in ("capital of Mongolia", "sourdough hydration", "zxcv qwerty"):
        assert await retrieved(app, query) == [], query


async def test_no_more_come_than_asked_for(app: App) -> None:
    for number in range(9):
        await keep(app, f"Locker {number} belongs to team {number * 3}.")
    assert len(await retrieved(app, "locker team")) == 5
    assert len(await retrieved(app, "locker team", top_k=2)) == 2


async def test_a_fact_that_was_told_twice_comes_once(app: App) -> None:
    await keep(app, "The spare key hangs behind the clock.")
    await keep(app, "The spare key hangs behind the clock!")
    assert len(await retrieved(app, "where is the spare key")) == 1


async def test_all_with_a_tag_come_whatever_their_scope(app: App) -> None:
    tagged = [
        await keep(app, f"Step {number} of the move is done.", tags=["projectX"], scope=scope)
        for number, scope in enumerate(("Global", "Flat", "Flat"))
    ]
    await keep(app, "The move costs 900.", tags=["money"])
    for spelled in ("projectX", "#projectX", "PROJECTX"):
        found = (await use(app, "search_by_tag", tag=spelled))["results"]
        assert {one["memory_id"] for one in found} == set(tagged)


async def test_a_question_narrows_a_tag(app: App) -> None:
    await keep(app, "The boiler was mended by Jensen.", tags=["house"])
    await keep(app, "The roof has new tiles.", tags=["house"])
    await keep(app, "Jensen plays the trombone.", tags=["people"])
    found = texts(await use(app, "search_by_tag", tag="house", query="who mended the boiler?"))
    assert found[0] == "The boiler was mended by Jensen."
    assert "Jensen plays the trombone." not in found


async def test_an_unknown_tag_finds_nothing(app: App) -> None:
    await keep(app, "The boiler was mended by Jensen.", tags=["house"])
    assert texts(await use(app, "search_by_tag", tag="hose")) == []


async def test_a_scope_without_a_question_gives_its_newest_and_a_digest(app: App) -> None:
    for number in range(30):
        await keep(at(app, NOW + number * DAY), f"Day {number}: walked {number + 5} miles.", scope="Walk")
    await keep(app, "The tax return is due.", scope="Money")
    answer = await use(at(app, NOW + 40 * DAY), "search_by_scope", scope="Walk")
    assert texts(answer)[0] == "Day 29: walked 34 miles."
    assert len(answer["results"]) < 30
    assert {one["scope"] for one in answer["results"]} == {"Walk"}
    assert answer["digest"]
    assert "tax" not in str(answer["digest"])


async def test_a_scope_with_a_question_is_searched_alone(app: App) -> None:
    await keep(app, "The tent is waterproof.", scope="Walk")
    await keep(app, "The tent was too expensive.", scope="Money")
    await keep(app, "A tent is a kind of house.")
    assert texts(await use(app, "search_by_scope", scope="Walk", query="tent")) == ["The tent is waterproof."]
