"""The person's profile: read from plain words, replaced with its history kept, and there unasked."""

from __future__ import annotations

from assistant_door import DAY, NOW, keep
from front_door import at, run
from tool_door import use

from mindhold.app.application import App
from mindhold.operation_index import operation


async def test_a_plain_sentence_becomes_a_fact(app: App) -> None:
    await keep(app, "My favourite colour is blue.", source="user_profile")
    known = await use(app, "get_profile")
    assert known["facts"] == {"favorite_color": "blue"}


async def test_a_later_word_replaces_the_earlier_and_both_are_history(app: App) -> None:
    await use(at(app, NOW), "update_profile", statement="My favourite colour is blue.")
    later = await use(at(app, NOW + 90 * DAY), "update_profile", statement="My favourite colour is green.")
    assert [(one["value"], one["previous"]) for one in later["changes"]] == [("green", "blue")]
    assert (await use(app, "get_profile"))["facts"]["favorite_color"] == "green"
    told = await run(app, operation("profile_history"), entry="favorite_color")
    assert [one.value for one in told.editions] == ["blue", "green"]


async def test_every_part_of_it_is_kept(app: App) -> None:
    await use(
        app,
        "update_profile",
        name="Jane Doe",
        preferences={"tone": "casual"},
        facts={"home_city": "San Francisco"},
        contacts=[{"name": "Alice", "relation": "sister"}],
        notes=["I'm allergic to penicillin."],
    )
    known = await use(app, "get_profile")
    assert known["name"] == "Jane Doe"
    assert known["preferences"] == {"tone": "casual"}
    assert known["facts"] == {"home_city": "San Francisco"}
    assert known["contacts"] == [{"name": "Alice", "relation": "sister"}]
    assert known["notes"] == ["I'm allergic to penicillin."]


async def test_it_is_part_of_what_a_conversation_begins_with(app: App) -> None:
    await use(app, "update_profile", preferences={"tone": "casual"}, facts={"favorite_color": "blue"})
    begun = str(await run(app, operation("context")))
    assert "casual" in begun
    assert "blue" in begun


async def test_what_is_removed_is_gone_from_it(app: App) -> None:
    await use(app, "update_profile", facts={"favorite_color": "blue", "shoe_size": "43"})
    await use(app, "update_profile", remove=["favorite_color"])
    assert (await use(app, "get_profile"))["facts"] == {"shoe_size": "43"}
