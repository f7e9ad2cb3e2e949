"""What says the same is kept once; what differs in a detail is kept apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from front_door import Open, acting, everything, found, recall, remember, run, show, stored

from mindhold.app.application import App
from mindhold.memories.forget import FORGET
from mindhold.projects.scope_operations import CREATE_SCOPE


async def test_the_same_text_again_is_the_same_memory(app: App) -> None:
    memory_id = await stored(app, "The billing service listens on port 8080.")
    again = await remember(app, "The billing service listens on port 8080.")
    assert (again.outcome, again.created, again.id) == ("duplicate", False, memory_id)
    assert len(await everything(app)) == 1


async def test_a_repetition_draws_the_links_it_asks_for_and_says_what_it_left(app: App) -> None:
    other = await stored(app, "Bees sleep at night.", topic="insects")
    known = await stored(app, "Omega is the last letter of Greek.", kind="fact", topic="letters")
    asked: Any = {
        "content": "Omega is the last letter of Greek.",
        "kind": "fact",
        "linked_to": [other, known],
    }
    tried = await remember(app, **asked, dry_run=True)
    assert (tried.outcome, tried.id, tried.linked, tried.notice) == ("duplicate", known, [other], "")
    assert other not in [link.id for link in (await show(app, known)).links]
    again = await remember(app, **asked, anchor=True, importance=0.95, topic="Letters")
    assert (again.outcome, again.id, again.linked) == ("duplicate", known, [other])
    assert again.notice == "It was there already; amend changes its importance, anchor."
    shown = await show(app, known)
    assert other in [link.id for link in shown.links]
    assert (shown.memory.anchor, shown.memory.topic) == (False, "letters")


async def test_a_value_in_another_case_is_another_memory(app: App) -> None:
    await stored(app, "The guest network of the office is called swordfish.", kind="fact")
    answer = await remember(app, "The guest network of the office is called SwordFish.", kind="fact")
    assert (answer.outcome, answer.superseded) == ("stored", [])


async def test_white_space_makes_no_difference(app: App) -> None:
    memory_id = await stored(app, "The billing service listens on port 8080.")
    again = await remember(app, "  The billing   service\nlistens on\tport 8080. \n")
    assert (again.created, again.id) == (False, memory_id)


async def test_the_same_text_in_another_scope_is_another_memory(app: App) -> None:
    await run(app, CREATE_SCOPE, name="work")
    one = await stored(app, "The billing service listens on port 8080.")
    assert await stored(app, "The billing service listens on port 8080.", scope="work") != one


async def test_the_same_text_of_another_agent_is_another_memory(app: App) -> None:
    one = await stored(acting(app, "ada"), "The billing service listens on port 8080.")
    assert await stored(acting(app, "grace"), "The billing service listens on port 8080.") != one


async def test_what_was_forgotten_can_be_remembered_anew(app: App) -> None:
    memory_id = await stored(app, "The billing service listens on port 8080.")
    await run(app, FORGET, ids=[memory_id])
    assert await stored(app, "The billing service listens on port 8080.") != memory_id


async def test_two_processes_that_remember_the_same_at_once_make_one_memory(opened: Open) -> None:
    async with opened() as one, opened() as two:
        for number in range(10):
            text = f"Both processes heard fact number {number} at once."
            answers = await asyncio.gather(*(remember(app, text) for app in (one, two, one, two)))
            assert sum(answer.created for answer in answers) == 1
            assert len({answer.id for answer in answers}) == 1
        assert len(await everything(one)) == 10


async def test_a_rewording_supersedes_what_it_repeats(app: App) -> None:
    old = await stored(app, "We use PostgreSQL for the store.", importance=0.9)
    answer = await remember(app, "we use PostgreSQL for the store")
    assert answer.id is not None
    assert answer.superseded == [old]
    assert (await show(app, old)).memory.status == "superseded"
    new = await show(app, answer.id)
    assert (new.memory.supersedes, new.memory.importance) == (old, 0.9)
    assert [(one.link.relation, one.id) for one in new.links] == [("superseded_by", old)]
    assert await found(app, "PostgreSQL store") == [answer.id]


@pytest.mark.parametrize("kept", ["anchor", "permanent"])
async def test_what_is_kept_for_good_is_not_superseded_by_itself(app: App, kept: str) -> None:
    old = await stored(app, "We use PostgreSQL for the store.", **{kept: True})
    answer = await remember(app, "we use PostgreSQL for the store")
    assert answer.superseded == []
    assert (await show(app, old)).memory.status == "active"


async def test_memories_of_two_kinds_do_not_supersede_each_other(app: App) -> None:
    await stored(app, "We use PostgreSQL for the store.", kind="decision")
    assert (await remember(app, "we use PostgreSQL for the store", kind="fact")).superseded == []


DIFFERENT = [
    ("The billing service listens on port 8080.", "The billing service listens on port 8081."),
    ("Alice reviews the migrations on our team.", "Bob reviews the migrations on our team."),
    ("The release of the app is on 2026-05-01.", "The release of the app is on 2026-06-01."),
    ("The settings are in /etc/app/main.toml now.", "The settings are in /etc/app/test.toml now."),
    ("The staging API supports XML requests.", "The staging API does not support XML requests."),
    ("배포 포트는 8080이다", "배포 포트는 9090이다"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
async def test_what_differs_in_a_detail_is_never_merged(app: App, one: str, other: str) -> None:
    await stored(app, one)
    assert (await remember(app, other)).superseded == []
    assert {memory.content for memory in await everything(app)} == {one, other}


async def test_forty_services_on_forty_ports_are_forty_facts(app: App) -> None:
    texts = [f"Service {number:02} listens on port {8000 + number}." for number in range(40)]
    for text in texts:
        await stored(app, text)
    assert {memory.content for memory in await everything(app)} == set(texts)
    hits = (await recall(app, "which port does service listen on", limit=40, minimum_score=0)).hits
    assert {hit.content for hit in hits} == set(texts)
