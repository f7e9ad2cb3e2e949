"""Changing what a record was made of, or what it is marked with, beside others who change other things of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mindhold.engine.amend import indexed
from mindhold.engine.core import Engine
from mindhold.model.errors import Changed
from mindhold.model.memory import Memory

TRIES = 5


async def rewrite(engine: Engine, memory_id: str, change: Callable[[Memory], Memory], *, agent: str) -> None:
    """Change the record as it is now, and again when somebody else changed it meanwhile; its content stays.

    Raises MemoryNotFound, and Changed where others never let go of it.
    """
    model = engine.meaning.model
    for _ in range(TRIES):
        before = await engine.store.get(memory_id, viewer=agent)
        after = change(before)
        if after == before:
            return
        vectors = await engine.store.vector_of([memory_id], model=model) if model is not None else {}
        put = indexed(engine, replace(after, updated=engine.clock()), vector=vectors.get(memory_id))
        try:
            await engine.store.apply([replace(put, expected=before.updated)])
            return
        except Changed as error:
            changed = error
    raise changed


async def made_of(
    engine: Engine, memory_id: str, sources: Sequence[str], *, agent: str, trust: float = 1.0
) -> None:
    """Say that it was made of these as well, and trust it no more than that.

    Who erases one of them erases it too. Raises MemoryNotFound, Changed.
    """
    await rewrite(
        engine,
        memory_id,
        lambda memory: replace(
            memory,
            merged_from=tuple(dict.fromkeys((*memory.merged_from, *sources))),
            trust=min(memory.trust, trust),
        ),
        agent=agent,
    )
