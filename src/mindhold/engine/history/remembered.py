"""What the store remembers, beside what this machine's conversations say."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.history.excerpt import LONGEST_EXCERPT, LONGEST_SUMMARY, cut, plain
from mindhold.engine.history.places import Place
from mindhold.engine.messages import is_message, session_of
from mindhold.engine.recall import Hit, Question, recall
from mindhold.engine.reflect import REFLECTION
from mindhold.model.lexemes import lexemes
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order

TRANSCRIPT, ARCHIVE, MEMORY = "transcript", "archive", "memory"
MOST_JOINED = 3
LOOKED_AT = 30  # memories of a conversation
LONGEST_JOINED = 200


@dataclass(frozen=True, slots=True)
class Joined:
    """A memory that came from a conversation, told briefly."""

    id: str
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Found:
    """A past conversation that answers, where in it, and what was remembered of it."""

    session_id: str  # empty: a memory of no conversation
    project: str
    summary: str
    timestamp: datetime
    relevance: str
    excerpt: str
    source: str
    score: float
    title: str = ""
    agent: str = ""  # whose conversation: claude, codex, gemini, cursor
    file: str | None = None
    line: int | None = None
    memory_id: str | None = None  # where it is found by a memory
    memories: tuple[Joined, ...] = ()


async def remembered(
    engine: Engine, query: str, place: Place, *, agent: str, limit: int, but: Collection[str] = ()
) -> list[Found]:
    """What the store remembers, each conversation once, best first; nothing of those sessions in `but`."""
    if not place.remembers:
        return []
    question = Question(
        text=query, scope=place.scope, everywhere=place.scope is None, scope_only=True, limit=4 * limit
    )
    recalled = await recall(engine, question, agent=agent)
    found: dict[str, Found] = {}
    for hit in recalled.hits:
        one = _of_memory(hit)
        if not one.session_id or one.session_id not in but:
            found.setdefault(one.session_id or hit.memory.id, one)
    return list(found.values())


async def completed(
    engine: Engine, found: Sequence[Found], *, wanted: Collection[str], agent: str
) -> list[Found]:
    """With the memories that came from each, those first that say most of what is wanted."""
    return list(await asyncio.gather(*(_completed(engine, one, wanted, agent=agent) for one in found)))


async def _completed(engine: Engine, found: Found, wanted: Collection[str], *, agent: str) -> Found:
    """A conversation that only the store knows is told by what somebody said of it at its end, where somebody did."""
    if not found.session_id:
        return found
    where = Filter(viewer=agent, conversation=found.session_id, minimum_trust=LEAST_TRUST)
    memories = await engine.store.find(where, order=Order.NEWEST, limit=LOOKED_AT)
    if found.source == MEMORY:
        said = next((one for one in memories if REFLECTION in one.tags), None)
        said = said or await _reflection(engine, where, full=len(memories) == LOOKED_AT)
        found = replace(found, summary=cut(said.content, LONGEST_SUMMARY)) if said else found
    told = [one for one in memories if not is_message(one) and REFLECTION not in one.tags]
    knowing = [one for one in told if one.id != found.memory_id]
    knowing.sort(key=lambda one: (-len(set(wanted).intersection(lexemes(one.content))), -one.importance))
    joined = (
        Joined(one.id, one.kind.value, cut(one.content, LONGEST_JOINED)) for one in knowing[:MOST_JOINED]
    )
    return replace(found, memories=tuple(joined))


async def _reflection(engine: Engine, where: Filter, *, full: bool) -> Memory | None:
    if not full:
        return None
    said = await engine.store.find(replace(where, tags=(REFLECTION,)), order=Order.NEWEST, limit=1)
    return said[0] if said else None


def _of_memory(hit: Hit) -> Found:
    memory = hit.memory
    return Found(
        session_id=session_of(memory) or "",
        project=memory.scope,
        summary=cut(memory.topic or f"{memory.kind.value}: {memory.content}", LONGEST_SUMMARY),
        timestamp=memory.occurred,
        relevance="; ".join(hit.why),
        excerpt=cut(plain(hit.content), LONGEST_EXCERPT),
        source=MEMORY,
        score=hit.score,
        memory_id=memory.id,
        file=memory.provenance.file,
        line=memory.provenance.line,
    )
