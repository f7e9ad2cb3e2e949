"""What a prompt or a failure brings to mind, unasked: little, and only what is surely about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.engine.capture.leaflet import FAILURE_KINDS, TOLD_KINDS, is_told, short, solved
from recollect.engine.capture.place import scope_of_folder
from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.reach import reach
from recollect.engine.recall import Hit, Question, recall
from recollect.model.error_signs import error_signs
from recollect.model.link import Relation
from recollect.model.memory import Memory
from recollect.model.query import Filter
from recollect.model.scope import GLOBAL

LONGEST_ASKED = 2_000  # characters of a prompt that are looked for
MORE = 3  # times what is told at once: some of it was told before
NEAR = 0.6  # of the best one's score: what is further off was not asked for
MOST_FAILURES = 30


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
        Brought(hit.memory.id, hit.memory.kind.value, short(hit.memory.content), hit.score) for hit in hits
    ]


async def brought_by_failure(engine: Engine, text: str, *, folder: str, agent: str) -> list[Brought]:
    """Failures that show alike and were resolved, with how. Raises the store's errors."""
    signs = set(error_signs(text))
    if not signs or not engine.policy.capture.errors:
        return []
    scope = await _scope(engine, folder)
    found = await recall(
        engine,
        Question(
            text="\n".join(signs)[:LONGEST_ASKED],
            scope=scope,
            kinds=FAILURE_KINDS,
            limit=MOST_FAILURES,
            floor=0.0,
            minimum_trust=LEAST_TRUST,
            count_use=False,
        ),
        agent=agent,
    )
    memories = [hit.memory for hit in found.hits if is_told(hit.memory) and _stands(hit)]
    return await _alike(engine, memories, signs, scope=scope, agent=agent)


async def _alike(
    engine: Engine, memories: Sequence[Memory], signs: set[str], *, scope: str, agent: str
) -> list[Brought]:
    where = Filter(viewer=agent, scopes=await reach(engine, scope), minimum_trust=LEAST_TRUST)
    ids = [memory.id for memory in memories]
    links = await engine.store.links_of(ids, relations=(Relation.RESOLVED_BY,), viewer=agent) if ids else []
    kinds = {memory.id: memory.kind.value for memory in memories}
    known = await solved(engine, memories, links, where=where)
    return [
        Brought(one["id"], kinds[one["id"]], one["text"], 1.0) for one in known if signs & set(one["signs"])
    ]


def _stands(hit: Hit) -> bool:
    return hit.memory.anchor or not (hit.disputes.contradicted_by or hit.disputes.superseded_by)


async def _scope(engine: Engine, folder: str) -> str:
    return (await scope_of_folder(engine, folder, create=False) if folder else None) or GLOBAL
