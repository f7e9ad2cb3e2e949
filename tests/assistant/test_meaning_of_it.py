"""Recall by meaning with the model that is shipped: a small set of sentences whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from assistant_door import keep, retrieved
from front_door import Open, run
from tool_door import use

from mindhold.app.application import App
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.model.memory import Status
from mindhold.model.query import Filter

pytestmark = pytest.mark.xdist_group("model")

KNOWN = {
    "apollo": "Project Apollo deadline is June 5",
    "birthday": "Alice's birthday is Jan 20",
    "launch": "We plan to launch the product next week",
    "allergy": "My daughter can't have peanuts",
    "timeline": "We decided the timeline for Alpha project: design in May, building until autumn",
    "desk": "John sits at desk 142 on the third floor",
    "cat": "The user's cat's name is Whiskers.",  # as the profile has it
}
ASKED = [
    ("When is Apollo due?", "apollo"),
    ("birthday", "birthday"),
    ("when was Alice born", "birthday"),
    ("what is happening next week", "launch"),
    ("which food is dangerous for my child?", "allergy"),
    ("What's the plan for Project Alpha?", "timeline"),
    ("where is John's place in the office?", "desk"),
    ("what is my pet called", "cat"),
]
STRANGE = ("capital of Mongolia", "how to bake sourdough bread", "asdf qwer zxcv")


async def test_other_words_find_the_known_answer_first(knowing: App) -> None:
    for sentence in KNOWN.values():
        await keep(knowing, sentence)
    for question, answer in ASKED:
        assert (await retrieved(knowing, question))[:1] == [KNOWN[answer]], question


async def test_what_nobody_told_is_not_answered(knowing: App) -> None:
    for sentence in KNOWN.values():
        await keep(knowing, sentence)
    for question in STRANGE:
        assert await retrieved(knowing, question) == [], question


async def test_a_right_answer_is_surer_than_a_far_one(knowing: App) -> None:
    for sentence in KNOWN.values():
        await keep(knowing, sentence)
    for question, answer in ASKED:
        found = (await use(knowing, "retrieve_memory", query=question, top_k=7))["results"]
        confidence = {one["text"]: one["confidence"] for one in found}
        others = [value for text, value in confidence.items() if text != KNOWN[answer]]
        assert confidence[KNOWN[answer]] > max(others, default=0.0), question


async def test_a_rare_word_is_found_by_the_word(knowing: App) -> None:
    for sentence in KNOWN.values():
        await keep(knowing, sentence)
    await keep(knowing, "Valve QX-7731 sits behind the pump")
    assert (await retrieved(knowing, "QX-7731"))[:1] == ["Valve QX-7731 sits behind the pump"]


async def test_without_a_model_words_still_find_it(opened: Open) -> None:
    async with opened(**{"embedding.provider": "none"}) as app:
        for sentence in KNOWN.values():
            await keep(app, sentence)
        assert (await retrieved(app, "Apollo deadline"))[:1] == [KNOWN["apollo"]]
        assert (await retrieved(app, "Whiskers"))[:1] == [KNOWN["cat"]]


async def test_the_index_finds_what_comparing_all_finds(knowing: App) -> None:
    """Ours is searched by codes and compared exactly afterwards: the ten nearest are the ten nearest."""
    things = ("kettle", "ladder", "violin", "rowing boat", "greenhouse", "camera", "beehive", "chess clock")
    acts = ("was sold to", "is lent to", "was repaired by", "belongs to", "was stolen from")
    people = ("Mirela", "Ove", "Tariq", "Ingrid", "Sunniva", "Paulo", "Beatriz", "Kenji")
    said = [f"The {thing} {act} {who}" for thing in things for act in acts for who in people]
    engine, model = knowing.engine, knowing.engine.vector_source.model
    assert model is not None
    for start in range(0, len(said), 64):
        await run(knowing, REMEMBER_MANY, items=[{"content": one} for one in said[start : start + 64]])
    where = Filter(viewer="default", statuses=tuple(Status))
    stored = [one async for batch in engine.store.scan(where) for one in batch]
    vectors = await engine.store.vector_of([one.id for one in stored], model=model)
    names = list(vectors)
    matrix = np.stack([vectors[name] for name in names])
    questions = await engine.vector_source.embed(
        ["who has the boat now?", "musical instruments", "what was stolen?"]
    )
    found = await engine.store.nearest(list(questions), model=model, where=where, limit=10)
    for question, near in zip(questions, found, strict=True):
        exact = {names[row] for row in np.argsort(-(matrix @ question))[:10]}
        assert len(exact & {one.id for one in near}) >= 9
