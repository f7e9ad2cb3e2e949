"""The first layer of recall: what has every one of the keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindhold.engine.checks import MOST_LABELS
from mindhold.engine.core import Engine
from mindhold.engine.equals import best_equals
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.ports.cache import ALONE

SETS, INDEX = "keyword sets", "keywords"  # what they were found by: beside the store, or in it


@dataclass(frozen=True, slots=True)
class Keyed:
    """What was found, the best first, and by what."""

    memories: list[Memory]
    rung: str


async def with_all(engine: Engine, forms: Sequence[str], *, where: Filter, limit: int) -> Keyed:
    """The best of the memories that have each of these keywords; by the sets beside the store where these can tell."""
    if len(forms) > MOST_LABELS:  # no memory has so many
        return Keyed([], INDEX)
    asked = replace(where, keywords=tuple(forms))
    ids = await _from_sets(engine, forms, where)
    if ids is not None and not ids:
        return Keyed([], SETS)
    # The store says which of them pass the rest of the filter, and have those keywords still.
    memories = await best_equals(engine, replace(asked, ids=tuple(ids or ())), limit=limit)
    return Keyed(memories, INDEX if ids is None else SETS)


async def _from_sets(engine: Engine, forms: Sequence[str], where: Filter) -> list[str] | None:
    """None where they can't tell: for scopes that are or were in another store, others write without telling them."""
    if engine.aside is ALONE:
        return None
    placed = await engine.houses.places()
    if placed and not (where.scopes and placed.keys().isdisjoint(where.scopes)):
        return None
    return await engine.aside.keywords.having(forms, where)
