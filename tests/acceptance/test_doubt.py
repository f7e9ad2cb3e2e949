"""What is merely nearest is given as such, and nothing is done on the strength of it."""

from __future__ import annotations

from front_door import Open, found, recall, run, show, stored

from mindhold.app.application import App
from mindhold.capture.hook_cache import MATCH_PROMPT
from mindhold.memories.ask import ASK, NOTHING
from mindhold.memories.forget import FORGET
from mindhold.memories.recall import MOST_NEAREST, NEAREST
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.relevance import DOUBT, FLOOR, UNLIKELY

SURE = "where is the spare key?"
NEAR = "Which key encrypts our backups, and who answers for it after a migration?"
DOUBTFUL = "Which key signs the Windows builds, and who rotates it after an incident?"


async def keys(app: App) -> str:
    """One memory that answers SURE and shares a word with the others."""
    await stored(app, "The hotel in Lisbon was booked for two nights.")
    return await stored(app, "The spare key is under the third flowerpot.")


async def test_a_clear_answer_is_no_doubt(app: App) -> None:
    key = await keys(app)
    answer = await recall(app, SURE)
    assert answer.hits[0].id == key
    assert answer.hits[0].score > 0.5
    assert answer.nearest == []
    assert NEAREST not in answer.notice


async def test_the_nearest_are_no_hits(app: App) -> None:
    key = await keys(app)
    answer = await recall(app, NEAR)
    assert (answer.hits, answer.count) == ([], 0)
    assert answer.nearest[0].id == key
    assert FLOOR <= answer.nearest[0].score < UNLIKELY
    assert answer.notice.startswith(NEAREST)
    assert answer.tokens == sum(hit.tokens for hit in answer.nearest)


async def test_a_doubtful_answer_is_a_hit_with_a_notice(app: App) -> None:
    key = await keys(app)
    answer = await recall(app, DOUBTFUL)
    assert answer.hits[0].id == key
    assert UNLIKELY <= answer.hits[0].score < DOUBT
    assert answer.nearest == []
    assert answer.notice.startswith(NEAREST)


async def test_the_nearest_are_few(app: App) -> None:
    for number in range(6):
        await stored(app, f"The spare key of room {number} is under the flowerpot of floor {number + 20}.")
    answer = await recall(app, NEAR, limit=10)
    assert answer.hits == []
    assert len(answer.nearest) == MOST_NEAREST
    assert len((await recall(app, NEAR, limit=2)).nearest) == 2


async def test_there_is_a_nearest_even_below_the_floor(app: App) -> None:
    key = await keys(app)
    answer = await recall(app, "quarterly tax estimate")
    assert answer.hits == []
    assert [hit.id for hit in answer.nearest] == [key]
    assert 0 < answer.nearest[0].score < FLOOR
    assert answer.notice.startswith(NEAREST)


async def test_what_has_nothing_to_do_with_a_question_is_not_near(opened: Open) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        await keys(app)
        answer = await recall(app, "quarterly tax estimate")
        assert (answer.hits, answer.nearest) == ([], [])


async def test_a_minimum_decides_what_is_a_hit(app: App) -> None:
    key = await keys(app)
    for minimum in ({"minimum_score": 0.0}, {"minimum_score": FLOOR}, {"minimum_similarity": 0.0}):
        answer = await recall(app, NEAR, **minimum)
        assert answer.hits[0].id == key
        assert answer.nearest == []
        assert answer.notice.startswith(NEAREST)
    strict = await recall(app, NEAR, minimum_score=DOUBT)
    assert (strict.hits, strict.nearest) == ([], [])


async def test_the_floor_of_the_settings_holds_for_the_nearest_too(opened: Open) -> None:
    async with opened(**{"recall.floor": DOUBT}) as app:
        await keys(app)
        answer = await recall(app, NEAR)
        assert (answer.hits, answer.nearest) == ([], [])


async def test_what_comes_after_a_clear_answer_stays_a_hit(app: App) -> None:
    key = await keys(app)
    await stored(app, "The mayor gave the city a golden key in 1950, a year of many feasts.")
    answer = await recall(app, SURE)
    assert answer.hits[0].id == key
    assert answer.hits[-1].score < DOUBT
    assert answer.nearest == []


async def test_the_nearest_count_as_no_use(app: App) -> None:
    key = await keys(app)
    await recall(app, NEAR)
    await app.engine.use_counter.flush()
    assert (await show(app, key)).memory.uses == 0
    await recall(app, SURE)
    await app.engine.use_counter.flush()
    assert (await show(app, key)).memory.uses == 1


async def test_a_memory_with_a_keyword_is_a_hit(app: App) -> None:
    key = await stored(app, "It is under the third flowerpot.", keywords=["key"])
    answer = await recall(app, keywords=["key", *"abcdefgh"])
    assert [hit.id for hit in answer.hits] == [key]
    assert answer.hits[0].score < DOUBT


async def test_the_nearest_is_not_forgotten(app: App) -> None:
    key = await keys(app)
    answer = await run(app, FORGET, query=DOUBTFUL)
    assert not answer.forgotten
    assert key in await found(app, SURE)
    assert (await run(app, FORGET, query=SURE)).forgotten == [key]
    assert key not in await found(app, SURE)


async def test_a_question_is_not_answered_from_the_nearest(app: App) -> None:
    key = await keys(app)
    answer = await run(app, ASK, question=NEAR)
    assert (answer.answer, answer.citations) == (NOTHING, [])
    assert answer.nearest[0].id == key
    answer = await run(app, ASK, question=SURE)
    assert "flowerpot" in answer.answer
    assert answer.nearest == []


async def test_a_prompt_is_not_given_the_nearest(app: App) -> None:
    for place in ("flowerpot", "doormat"):
        await stored(app, f"Decision: the spare key is under the {place}.", kind="decision")
    assert (await run(app, MATCH_PROMPT, text=DOUBTFUL)).memories == []
    assert (await run(app, MATCH_PROMPT, text="where is the spare key, under the flowerpot?")).memories


async def test_a_question_about_a_speaker_is_compared_without_the_name(app: App) -> None:
    said = (
        "Caroline: Caroline here, hello everybody!",
        "Caroline: Caroline again, good morning.",
        "Melanie: Did you find out about agencies?",
        "Caroline: I researched adoption agencies all weekend.",
    )
    items = [{"content": text, "conversation": "talk", "position": place} for place, text in enumerate(said)]
    stored_turns = await run(app, REMEMBER_MANY, items=items)
    answer = await recall(app, "What did Caroline research?")
    assert answer.hits[0].id == stored_turns.results[3].id
    plain = await recall(app, "What did research?")
    [named] = [hit.similarity for hit in answer.hits if hit.id == answer.hits[0].id]
    [bare] = [hit.similarity for hit in plain.hits if hit.id == answer.hits[0].id]
    assert named == bare
