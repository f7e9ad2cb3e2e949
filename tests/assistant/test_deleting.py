"""delete_memory and forget_memory: by id, scope, tag and query, softly and for good, and never by accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from assistant_door import keep, retrieved
from front_door import everything, on_disk, run, show
from tool_door import texts, use

from mindhold.app.application import App
from mindhold.lifecycle.status import DOCTOR
from mindhold.memories.forget import UNFORGET
from mindhold.model.errors import InvalidInput, MemoryNotFound

BOTH = pytest.mark.parametrize("tool", ["delete_memory", "forget_memory"])


async def contents(app: App) -> set[str]:
    return {one.content for one in await everything(app)}


@BOTH
async def test_one_by_its_id(app: App, tool: str) -> None:
    name = await keep(app, "The alarm code is in the drawer.")
    await keep(app, "The alarm was made in Graz.")
    answer = await use(app, tool, target={"memory_id": name})
    assert (answer["status"], answer["deleted_count"]) == ("OK", 1)
    assert answer["note"]
    assert await retrieved(app, "alarm") == ["The alarm was made in Graz."]


async def test_softly_it_is_hidden_everywhere_and_comes_back(app: App) -> None:
    name = await keep(app, "The alarm code is in the drawer.", tags=["house"])
    answer = await use(app, "delete_memory", target={"memory_id": name}, forget_mode="soft")
    assert (await show(app, name)).memory.status == "forgotten"
    assert "forgotten" in answer["note"]
    assert await retrieved(app, "alarm code in the drawer") == []
    assert texts(await use(app, "search_by_tag", tag="house")) == []
    assert texts(await use(app, "search_by_scope", scope="Global")) == []
    assert texts(await use(app, "recall_memory_by_time", time_query="today")) == []
    await run(app, UNFORGET, ids=[name])
    assert await retrieved(app, "alarm code in the drawer") == ["The alarm code is in the drawer."]


async def test_for_good_nothing_is_left_of_it_in_any_file(app: App) -> None:
    name = await keep(app, "The alarm word is xylocarpous.")
    assert on_disk(app, "xylocarpous")
    answer = await use(app, "delete_memory", target={"memory_id": name}, forget_mode="hard")
    assert answer["deleted_count"] == 1
    with pytest.raises(MemoryNotFound):
        await show(app, name)
    model = app.engine.vector_source.model
    assert model is not None
    assert await app.engine.store.vector_of([name], model=model) == {}
    assert await retrieved(app, "xylocarpous") == []
    await run(app, DOCTOR, scrub=True)  # what the database's own log still has
    assert on_disk(app, "xylocarpous") == []


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_all_with_a_tag_and_no_other(app: App, mode: str) -> None:
    for number in range(3):
        await keep(app, f"Draft {number} of the speech.", tags=["temp"])
    await keep(app, "The speech is on Friday.")
    await keep(app, "The hall has 200 seats.", tags=["venue"])
    answer = await use(app, "delete_memory", target={"tag": "temp"}, forget_mode=mode)
    assert answer["deleted_count"] == 3
    assert await contents(app) == {"The speech is on Friday.", "The hall has 200 seats."}


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_a_whole_scope_and_no_other(app: App, home: Path, mode: str) -> None:
    for number in range(5):
        await keep(app, f"Invoice {number} of the old firm.", scope="Old firm")
    await keep(app, "Invoice 7 of the new firm.", scope="New firm")
    await keep(app, "Invoices are kept for ten years.")
    answer = await use(app, "delete_memory", target={"scope": "Old firm"}, forget_mode=mode, confirm=True)
    assert (answer["deleted_count"], answer["scope"]) == (5, "Old firm")
    assert await contents(app) == {"Invoice 7 of the new firm.", "Invoices are kept for ten years."}
    assert (home / "backups" / answer["backup_file"]).is_file()


async def test_fields_together_narrow(app: App) -> None:
    await keep(app, "Red paint for the hull.", scope="Boat", tags=["paint"])
    await keep(app, "Blue paint for the door.", scope="House", tags=["paint"])
    await keep(app, "The hull leaks.", scope="Boat")
    answer = await use(app, "delete_memory", target={"scope": "Boat", "tag": "#paint"})
    assert answer["deleted_count"] == 1
    assert await contents(app) == {"Blue paint for the door.", "The hull leaks."}


async def test_an_id_in_another_scope_is_not_meant(app: App) -> None:
    name = await keep(app, "Red paint for the hull.", scope="Boat")
    await keep(app, "The door squeaks.", scope="House")
    answer = await use(app, "delete_memory", target={"memory_id": name, "scope": "House"})
    assert answer["deleted_count"] == 0
    assert len(await contents(app)) == 2


async def test_a_question_forgets_what_it_finds(app: App) -> None:
    await keep(app, "My landlord is called Pettersson.")
    await keep(app, "The rent is due on the third.")
    answer = await use(app, "delete_memory", target={"query": "what is my landlord called?"})
    assert answer["deleted_count"] == 1
    assert await contents(app) == {"The rent is due on the third."}


async def test_a_question_that_finds_many_asks_first(app: App) -> None:
    for room in ("hall", "attic", "cellar", "porch", "study"):
        await keep(app, f"The lamp in the {room} is broken.")
    asked = await use(app, "delete_memory", target={"query": "broken lamp"})
    assert (asked["status"], asked["deleted_count"], len(asked["candidates"])) == ("CONFIRM", 0, 5)
    assert len(await contents(app)) == 5
    done = await use(app, "delete_memory", target={"query": "broken lamp"}, confirm=True)
    assert (done["status"], done["deleted_count"]) == ("OK", 5)


@pytest.mark.parametrize(
    "target",
    [
        {"memory_id": "01m00000000000000000000000"},
        {"tag": "nobody-has-it"},
        {"query": "zxcv qwerty"},
        {"scope": "Nowhere"},
    ],
)
async def test_what_is_not_there_is_no_error(app: App, target: dict[str, Any]) -> None:
    await keep(app, "The rent is due on the third.")
    answer = await use(app, "delete_memory", target=target)
    assert (answer["status"], answer["deleted_count"]) == ("OK", 0)
    assert answer["note"]
    assert len(await contents(app)) == 1


async def test_no_target_forgets_nothing(app: App) -> None:
    await keep(app, "The rent is due on the third.")
    with pytest.raises(InvalidInput):
        await use(app, "delete_memory", target={})
    assert len(await contents(app)) == 1


async def test_twice_is_as_once(app: App) -> None:
    name = await keep(app, "The rent is due on the third.")
    await use(app, "delete_memory", target={"memory_id": name})
    again = await use(app, "delete_memory", target={"memory_id": name})
    assert (again["status"], again["deleted_count"]) == ("OK", 0)
