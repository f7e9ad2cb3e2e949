"""Long texts: split into linked parts, found in the middle, forgotten whole."""

from __future__ import annotations

from front_door import everything, found, recall, remember, run, show

from mindhold.app.application import App
from mindhold.memories.forget import FORGET


def document(topic: str, *, sentences: int = 300) -> str:
    """A long text in which every sentence stands once."""
    return " ".join(f"Sentence {number} speaks of {topic} number {number}." for number in range(sentences))


async def test_a_long_text_becomes_linked_parts_and_nothing_is_lost(app: App) -> None:
    text = document("turbines")
    answer = await remember(app, text)
    assert len(answer.parts) > 1
    shown = [await show(app, part) for part in answer.parts]
    assert " ".join(one.memory.content for one in shown).split() == text.split()
    assert all(len(one.memory.content) <= 4_000 for one in shown)
    assert answer.id == answer.parts[0]
    for one in shown[1:]:
        assert [(link.link.relation, link.id) for link in one.links] == [("part_of", answer.id)]


async def test_parts_are_each_others_neighbours_in_order(app: App) -> None:
    answer = await remember(app, document("turbines"))
    [hit, *_] = (await recall(app, "turbines number 150", neighbours=1)).hits
    place = answer.parts.index(hit.id)
    assert [turn.id for turn in hit.before] == answer.parts[place - 1 : place]
    assert [turn.id for turn in hit.after] == answer.parts[place + 1 : place + 2]


async def test_the_middle_of_a_long_text_is_found(app: App) -> None:
    words = document("turbines").split(". ")
    words[len(words) // 2] = "The password of the vault is a xylophone"
    answer = await remember(app, ". ".join(words))
    [best, *_] = await found(app, "xylophone vault")
    assert best in answer.parts[1:-1] or len(answer.parts) == 2


async def test_forgetting_one_part_forgets_the_document(app: App) -> None:
    answer = await remember(app, document("turbines"))
    gone = await run(app, FORGET, ids=[answer.parts[1]])
    assert set(gone.forgotten) == set(answer.parts)
    assert await everything(app) == []


async def test_a_long_text_that_repeats_itself_is_stored(app: App) -> None:
    answer = await remember(app, "The same line of a log comes again and again and again.\n" * 300)
    assert answer.created
    assert len(answer.parts) > 1


async def test_long_texts_that_begin_alike_are_two(app: App) -> None:
    head = document("the licence", sentences=120)
    one = await remember(app, head + document("apples", sentences=100))
    two = await remember(app, head + document("pears", sentences=100))
    assert two.created
    assert set(two.parts).isdisjoint(one.parts)
    [best, *_] = await found(app, "pears number 50")
    assert best in two.parts


async def test_a_long_text_given_again_is_a_duplicate(app: App) -> None:
    one, two = await remember(app, document("apples")), await remember(app, document("apples"))
    assert (two.outcome, two.created, two.id) == ("duplicate", False, one.id)
