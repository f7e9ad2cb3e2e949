"""The first layer of recall: keywords alone, by the sets that stand beside the store, when these give enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recollect.engine.core import Engine
from recollect.engine.ranked import DAY, Evidence, Ranked
from recollect.model.keywords import keyword_forms
from recollect.model.memory import Memory
from recollect.model.query import Filter, Order
from recollect.model.ranking import boost, boosted

MORE_THAN_ASKED, SPARE = 3, 8  # so that duplicates, and what lost a keyword meanwhile, leave enough
FOUND = 0.9  # the score of what has every keyword, before importance, age, use and trust have their say


async def by_keywords(
    engine: Engine, keywords: Sequence[str], *, where: Filter, limit: int
) -> list[tuple[Ranked, Memory]] | None:
    """The best of the memories that have every one of the keywords; None when the store has to be asked.

    So it is when there are fewer than the limit: the deeper layers know of more; and for scopes that are or were in
    another store, where others write without telling these sets.
    """
    placed = await engine.houses.places()
    if placed and not (where.scopes and placed.keys().isdisjoint(where.scopes)):
        return None
    forms = keyword_forms(keywords)
    ids = await engine.aside.keywords.having(forms, where)
    if ids is None or len(ids) < limit:
        return None
    there = await engine.store.find(
        replace(where, ids=tuple(ids)), order=Order.IMPORTANT, limit=limit * MORE_THAN_ASKED + SPARE
    )
    wanted = frozenset(forms)
    memories = [memory for memory in there if wanted.issubset(keyword_forms(memory.keywords))]
    return _ranked(engine, memories) if len(memories) >= limit else None


def spoken_for(keywords: Sequence[str]) -> Evidence:
    """What speaks for each of them."""
    return Evidence(("words: " + ", ".join(keywords),), layer="keywords")


def _ranked(engine: Engine, memories: Sequence[Memory]) -> list[tuple[Ranked, Memory]]:
    now = engine.clock()
    scores = boosted(
        np.full(len(memories), FOUND),
        boost(
            np.array([memory.importance for memory in memories]),
            age_days=np.array([(now - memory.occurred).total_seconds() / DAY for memory in memories]),
            uses=np.array([float(memory.uses) for memory in memories]),
            trust=np.array([memory.trust for memory in memories]),
        ),
    )
    order = np.argsort(-scores, kind="stable").tolist()
    return [(Ranked(memories[row].id, float(scores[row]), row), memories[row]) for row in order]
