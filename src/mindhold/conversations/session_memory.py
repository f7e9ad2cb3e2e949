"""The memory that describes a finished conversation, by counts or in a model's words, with links to its sources."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mindhold.conversations.events import ConversationState
from mindhold.conversations.session_digest import POINTS, SUMMARY, count_summary, model_digest
from mindhold.conversations.sessions import ALONE, DOCUMENT, memories_of
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.amend import AmendInput, amend, made_of
from mindhold.memories.model_costs import REFLECT, metered, note_memories
from mindhold.memories.prepare import prepare
from mindhold.memories.reflect import KINDS, REFLECTION_OF, TAGS, attach, ids_of, stored_together, take_back
from mindhold.memories.write import RememberInput, WriteOutcome
from mindhold.model.errors import (
    Conflict,
    MemoryNotFound,
    MindholdError,
    ModelError,
    NotFound,
    Refused,
    StoreError,
)
from mindhold.model.lifecycle import is_working
from mindhold.model.memory import Kind, Memory, Relation, Status
from mindhold.model.policies import RECAP

LEAST_MEMORIES = 2  # a single memory needs no description
MOST_LOOKED_AT = 500
TRACE_IMPORTANCE = 0.2  # of a memory that only says that there was something
MODEL_CONFIDENCE = 0.7  # of what a model wrote about memories
SOURCE = "end of conversation"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _SessionMemories:
    """What a conversation stored, the most important first, and its existing descriptions.

    `before` is a reflection that was written but not recorded because the process died. `unsourced` are texts of a model
    whose sources were not recorded, for the same reason.
    """

    memories: list[Memory]
    before: str | None
    unsourced: tuple[str, ...]


async def write_session_memory(
    engine: Engine, state: ConversationState, *, by_model: bool = False
) -> str | None:
    """Write the memory that describes a conversation and return its id; None if there is too little, or somebody did.

    It covers only the memories of the most common scope, since everybody who sees that scope sees it.
    """
    if state.by_hand or not engine.settings.life.reflect or state.id.startswith(ALONE):
        return None
    session = await _load_session(engine, state)
    scope = (
        Counter(memory.scope for memory in session.memories).most_common(1)[0][0] if session.memories else ""
    )
    memories = [memory for memory in session.memories if memory.scope == scope]
    if len(memories) < LEAST_MEMORIES:
        return None
    state = replace(state, reflection=state.reflection or session.before)
    if state.reflection is not None and await _covers_all(
        engine, state.reflection, memories, agent=state.agent
    ):
        return state.reflection
    points = await _ask_model(engine, state, memories) if by_model else None
    if points is None:
        return await _write_counts(engine, state, memories)
    try:
        return await _write_digest(engine, state, memories, points, unsourced=session.unsourced)
    except StoreError:
        raise
    except MindholdError as error:
        log.warning("what a model said of a conversation can't be kept: %s", error.code)
        return await write_session_memory(engine, state)


async def _ask_model(
    engine: Engine, state: ConversationState, memories: Sequence[Memory]
) -> Mapping[str, tuple[str, ...]] | None:
    if engine.llm is None:
        return None
    model = metered(engine, engine.llm, purpose=REFLECT)
    try:
        points = await model_digest(model, state, memories)
    except ModelError as error:
        log.warning("no model told of a conversation: %s", error.code)
        return None
    await note_memories(engine, model.line, [memory.id for memory in memories])
    return points


async def _write_counts(engine: Engine, state: ConversationState, memories: Sequence[Memory]) -> str | None:
    """Describe the conversation by counts; an existing description is amended."""
    text = count_summary(state, memories, zone=engine.zone())
    description_id = state.reflection and await _try_amend(engine, state.reflection, text, agent=state.agent)
    if not description_id:
        changes = {"tags": ["conversation"], "importance": TRACE_IMPORTANCE, "confidence": 1.0}
        summary = _request(state, memories[0].scope, SUMMARY, text).model_copy(update=changes)
        description_id = next(iter(ids_of(await stored_together(engine, [summary], agent=state.agent))), None)
    if description_id:
        await attach(engine, [memory.id for memory in memories], to=description_id)
    return description_id or None


async def _write_digest(
    engine: Engine,
    state: ConversationState,
    memories: Sequence[Memory],
    points: Mapping[str, tuple[str, ...]],
    *,
    unsourced: Sequence[str],
) -> str | None:
    """Store a model's digest and return the id of the summary. The texts are erased together with any of their sources."""
    scope, sources = memories[0].scope, [memory.id for memory in memories]
    trust = min(memory.trust for memory in memories)
    summary = _request(state, scope, SUMMARY, points[SUMMARY][0])
    others = [_request(state, scope, name, text) for name in POINTS for text in points.get(name, ())]
    for request in (summary, *others):
        prepare(engine, request)  # find one that can't be stored before any is stored
    summary_id = state.reflection
    if summary_id:
        try:
            # Record the sources first, so that erasing one in between erases this as well.
            await made_of(engine, summary_id, sources, agent=state.agent, trust=trust)
        except NotFound:
            summary_id = None
    summary_id = (
        summary_id and await _try_amend(engine, summary_id, summary.content, agent=state.agent)
    ) or None
    answers = await stored_together(
        engine, others if summary_id else [summary, *others], agent=state.agent, to=summary_id
    )
    stored = [
        result.memory.id for result in answers if result.memory and result.outcome is WriteOutcome.STORED
    ]
    repeated = [
        result.memory.id
        for result in answers
        if result.memory
        and result.outcome is WriteOutcome.DUPLICATE
        and REFLECTION_OF in result.memory.metadata
    ]
    try:
        for memory_id in dict.fromkeys((*stored, *unsourced)):
            await made_of(engine, memory_id, sources, agent=state.agent, trust=trust)
        for memory_id in dict.fromkeys(repeated):  # others said it too, and may be trusted more
            await made_of(engine, memory_id, sources, agent=state.agent)
        erased = set(sources) - (await engine.store.get_many(sources, viewer=state.agent)).keys()
        if erased:
            raise MemoryNotFound(min(erased))
    except MindholdError:
        await take_back(engine, answers)
        if summary_id:
            await engine.store.erase([summary_id])  # with its versions, which say the same
        raise
    summary_id = summary_id or next(iter(ids_of(answers)), None)
    if summary_id is not None:
        await attach(engine, sources, to=summary_id)
    return summary_id


def _request(state: ConversationState, scope: str, name: str, text: str) -> RememberInput:
    """Not validated: a model's answer may have invalid Unicode, which `prepare` cleans."""
    return RememberInput.model_construct(
        content=text,
        kind=KINDS[name],
        scope=scope,
        tags=[*TAGS.get(name, ()), *(["conversation"] if name == SUMMARY else [])],
        confidence=MODEL_CONFIDENCE,
        occurred=state.started if name == SUMMARY else state.last,
        source=SOURCE,
        conversation=state.id,
        metadata={REFLECTION_OF: state.id},
        keep_noise=True,
    )


async def _covers_all(engine: Engine, reflection: str, memories: Sequence[Memory], *, agent: str) -> bool:
    links = await engine.store.links_of([reflection], relations=(Relation.PART_OF,), viewer=agent)
    return {memory.id for memory in memories} <= {link.origin for link in links}


async def _try_amend(engine: Engine, memory_id: str, content: str, *, agent: str) -> str | None:
    try:
        request = AmendInput.model_construct(id=memory_id, content=content)  # as in _request()
        return (await amend(engine, request, agent=agent)).id
    except (NotFound, Refused, Conflict):
        return None  # forgotten, or the same text exists: the conversation gets a new one


async def _load_session(engine: Engine, state: ConversationState) -> _SessionMemories:
    """The active memories that it stored, without working memory and untrusted ones."""
    memories: dict[str, Memory] = {}
    async for batch in memories_of(engine, state.id, agent=state.agent, documents=state.documents):
        memories |= {memory.id: memory for memory in batch}
        if len(memories) >= MOST_LOOKED_AT:
            break
    missing_ids = [memory_id for memory_id in state.memories if memory_id not in memories]
    memories |= await engine.store.get_many(missing_ids, viewer=state.agent) if missing_ids else {}
    descriptions = [memory for memory in memories.values() if memory.metadata.get(REFLECTION_OF) == state.id]
    stored = [
        memory
        for memory in memories.values()
        if memory.status is Status.ACTIVE
        and memory.agent == state.agent
        and memory.trust >= LEAST_TRUST
        and not is_working(memory)
        and not _is_turn(memory)
        and REFLECTION_OF not in memory.metadata
        and RECAP not in memory.metadata
    ]
    stored.sort(key=lambda memory: (-memory.importance, memory.id))
    return _SessionMemories(
        memories=stored,
        before=max((memory.id for memory in descriptions if memory.kind is Kind.EPISODE), default=None),
        unsourced=tuple(
            memory.id
            for memory in descriptions
            if memory.confidence == MODEL_CONFIDENCE and not memory.merged_from
        ),
    )


def _is_turn(memory: Memory) -> bool:
    """Whether it is a message of the log, not a part of a long text stored in the conversation."""
    provenance = memory.provenance
    return provenance.position is not None and not (provenance.conversation or "").startswith(DOCUMENT)
