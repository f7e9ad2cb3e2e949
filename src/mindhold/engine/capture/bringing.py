"""What a prompt brings to mind, unasked: little, and only what is surely about it."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.bare.printing import one_line
from mindhold.engine.capture.leaflet import TOLD_KINDS, is_told
from mindhold.engine.capture.place import scope_of_folder
from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.recall import Hit, Question, recall
from mindhold.model.scope import GLOBAL

LONGEST_ASKED = 2_000  # characters of a prompt that are looked for
MORE = 3  # times what is told at once: some of it was told before
NEAR = 0.6  # of the best one's score: what is further off was not asked for


@dataclass(frozen=True, slots=True)
class Brought:
    """One memory, as it is told."""

    id: str
    kind: str
    text: str
    score: float


async def brought_by_prompt(engine: Engine, text: str, *, folder: str, agent: str) -> list[Brought]:
    """The best first; nothing where nothing is near. Raises the store's errors."""
    if not text.strip() or not engine.policy.capture.prompt_tokens:
        return []
    found = await recall(
        engine,
        Question(
            text=text.strip()[:LONGEST_ASKED],
            scope=await _scope(engine, folder),
            kinds=TOLD_KINDS,
            limit=engine.policy.capture.prompt_most * MORE,
            minimum_trust=LEAST_TRUST,
            count_use=False,
        ),
        agent=agent,
    )
    hits = [hit for hit in found.hits if is_told(hit.memory) and _stands(hit)]
    hits = [hit for hit in hits if hit.score >= hits[0].score * NEAR]
    return [
        Brought(hit.memory.id, hit.memory.kind.value, one_line(hit.memory.content), hit.score) for hit in hits
    ]


def _stands(hit: Hit) -> bool:
    return hit.memory.anchor or not (hit.disputes.contradicted_by or hit.disputes.superseded_by)


async def _scope(engine: Engine, folder: str) -> str:
    return (await scope_of_folder(engine, folder, create=False) if folder else None) or GLOBAL
