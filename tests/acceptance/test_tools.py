"""Tools on a real store: arguments in, answer out, as a door would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tool_door import texts, use

from mindhold.app.application import App
from mindhold.model.errors import Refused, ScopeNotFound


async def test_storing_into_a_new_scope_makes_it(app: App) -> None:
    stored = await use(
        app, "store_memory", content="The train to Porto leaves at nine.", metadata={"scope": "Travel"}
    )
    assert stored["status"] == "OK"
    assert stored["scope"] == "Travel"
    again = await use(
        app, "remember", content="Pack light.", topic="packing", type="preference", project="travel"
    )
    assert again["created"]
    scopes = (await use(app, "list_memory_scopes"))["scopes"]
    assert {one["name"]: one["memories"] for one in scopes} == {"Global": 0, "Travel": 2}
    with pytest.raises(ScopeNotFound):
        await use(app, "retrieve_memory", query="train", filter={"scope": "Trvel"})


async def test_a_scope_is_searched_alone(app: App) -> None:
    await use(app, "store_memory", content="The train to Porto leaves at nine.", metadata={"scope": "Travel"})
    await use(app, "store_memory", content="The train set is in the attic.", metadata={"tags": ["toys"]})
    both = await use(app, "retrieve_memory", query="train", filter={"scope": "Travel"})
    assert len(both["results"]) == 2
    for extra in ({}, {"query": "train"}):
        assert texts(await use(app, "search_by_scope", scope="Travel", **extra)) == [
            "The train to Porto leaves at nine."
        ]
        assert texts(await use(app, "search_by_tag", tag="TOYS", **extra)) == [
            "The train set is in the attic."
        ]


async def test_a_time_is_a_phrase_or_limits_and_comes_back(app: App) -> None:
    await use(app, "store_memory", content="The first thing was said.", source="conversation")
    await use(app, "store_memory", content="A second matter came up later.")
    today = await use(app, "recall_memory_by_time", time_query="today")
    assert texts(today) == ["The first thing was said.", "A second matter came up later."]
    assert [one["source"] for one in today["results"]] == ["conversation", "note"]
    frame = today["time_frame"]
    same = await use(app, "recall_memory_by_time", range=frame)
    assert same["results"] == today["results"]
    assert same["time_frame"] == frame
    past = await use(app, "recall_memory_by_time", range={"from": "2020-01-01", "to": "2020-01-31"})
    assert past["results"] == []
    assert past["time_frame"] == {"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"}


async def test_an_export_goes_into_the_folder_for_exports(app: App, home: Path) -> None:
    await use(app, "store_memory", content="The train to Porto leaves at nine.")
    written = await use(app, "export_memory")
    assert Path(written["export_file"]).parent == home / "export"
    assert written["memories"] == 1
    assert "Porto" in Path(written["export_file"]).read_text(encoding="utf-8")


async def test_confirming_is_not_forcing(app: App) -> None:
    for room in ("hall", "attic", "cellar", "porch"):
        await use(app, "store_memory", content=f"The lamp in the {room} is broken.", tags=["lamps"])
    await use(app, "remember", content="The house is ours.", topic="house", type="fact", isAnchor=True)
    many: dict[str, Any] = {"target": {"tag": "lamps"}, "forget_mode": "hard"}
    asked = await use(app, "delete_memory", **many)
    assert (asked["status"], asked["deleted_count"], len(asked["candidates"])) == ("CONFIRM", 0, 4)
    assert (await use(app, "delete_memory", **many, confirm=True))["deleted_count"] == 4
    with pytest.raises(Refused):
        await use(app, "delete_memory", target={"query": "whose house"}, confirm=True)
    assert (await use(app, "delete_memory", target={"query": "whose house"}, force=True))[
        "deleted_count"
    ] == 1
