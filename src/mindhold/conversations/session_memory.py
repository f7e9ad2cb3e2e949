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
from mindhold.memories.prepare import prepare
from mindhold.memories.reflect import KINDS, REFLECTION_OF, TAGS, attach, ids_of, stored_together, take_back
from mindhold.memories.spending import REFLECT, metered, note_memories
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

LEAST_TOLD = 2  # a single memory tells itself
MOST_LOOKED_AT = 500
SLIGHT = 0.2  # the importance of a trace, which is only there to say that there was something
SECOND_HAND = 0.7  # the confidence of what a model made of memories
SOURCE = "end of conversation"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Left:
    """What a conversation left, the most important first, and what tells of it already.

    `before` is for one whose reflection was written, and not noted: the process died in between. `unsourced` are a model's
    words of which it isn't said yet what they were made of, for the same reason.
    """

    memories: list[Memory]
    before: str | None
    unsourced: tuple[str, ...]


async def write_session_memory(
    engine: Engine, known: ConversationState, *, by_model: bool = False
) -> str | None:
    """The id of the memory that tells of it; None when there is too little to tell, or somebody has told it.

    Of memories in several scopes those of the most common one are told of, there: a trace of what is elsewhere would be seen
    by whoever sees this scope.
    """
    if known.by_hand or not engine.settings.life.reflect or known.id.startswith(ALONE):
        return None
    found = await _left(engine, known)
    scope = Counter(memory.scope for memory in found.memories).most_common(1)[0][0] if found.memories else ""
    left = [memory for memory in found.memories if memory.scope == scope]
    if len(left) < LEAST_TOLD:
        return None
    known = replace(known, reflection=known.reflection or found.before)
    if known.reflection is not None and await _tells(engine, known.reflection, left, agent=known.agent):
        return known.reflection
    points = await _asked(engine, known, left) if by_model else None
    if points is None:
        return await _by_counts(engine, known, left)
    try:
        return await _by_words(engine, known, left, points, unsourced=found.unsourced)
    except StoreError:
        raise
    except MindholdError as error:
        log.warning("what a model said of a conversation can't be kept: %s", error.code)
        return await write_session_memory(engine, known)


async def _asked(
    engine: Engine, known: ConversationState, left: Sequence[Memory]
) -> Mapping[str, tuple[str, ...]] | None:
    if engine.llm is None:
        return None
    model = metered(engine, engine.llm, purpose=REFLECT)
    try:
        points = await model_digest(model, known, left)
    except ModelError as error:
        log.warning("no model told of a conversation: %s", error.code)
        return None
    await note_memories(engine, model.line, [memory.id for memory in left])
    return points


async def _by_counts(engine: Engine, known: ConversationState, left: Sequence[Memory]) -> str | None:
    """One that is there is amended."""
    text = count_summary(known, left, zone=engine.zone())
    to = known.reflection and await _amended(engine, known.reflection, text, agent=known.agent)
    if not to:
        changes = {"tags": ["conversation"], "importance": SLIGHT, "confidence": 1.0}
        summary = _request(known, left[0].scope, SUMMARY, text).model_copy(update=changes)
        to = next(iter(ids_of(await stored_together(engine, [summary], agent=known.agent))), None)
    if to:
        await attach(engine, [memory.id for memory in left], to=to)
    return to or None


async def _by_words(
    engine: Engine,
    known: ConversationState,
    left: Sequence[Memory],
    points: Mapping[str, tuple[str, ...]],
    *,
    unsourced: Sequence[str],
) -> str | None:
    """The summary's id. A model's words repeat what they were made of, so who erases one of those erases these as well."""
    scope, sources = left[0].scope, [memory.id for memory in left]
    trust = min(memory.trust for memory in left)
    first = _request(known, scope, SUMMARY, points[SUMMARY][0])
    others = [_request(known, scope, name, text) for name in POINTS for text in points.get(name, ())]
    for request in (first, *others):
        prepare(engine, request)  # one that can't be stored is found before any is
    to = known.reflection
    if to:
        try:
            # Before it says anything of them: what is erased in between takes it along.
            await made_of(engine, to, sources, agent=known.agent, trust=trust)
        except NotFound:
            to = None
    to = (to and await _amended(engine, to, first.content, agent=known.agent)) or None
    answers = await stored_together(engine, others if to else [first, *others], agent=known.agent, to=to)
    fresh = [one.memory.id for one in answers if one.memory and one.outcome is WriteOutcome.STORED]
    again = [
        one.memory.id
        for one in answers
        if one.memory and one.outcome is WriteOutcome.DUPLICATE and REFLECTION_OF in one.memory.metadata
    ]
    try:
        for each in dict.fromkeys((*fresh, *unsourced)):
            await made_of(engine, each, sources, agent=known.agent, trust=trust)
        for each in dict.fromkeys(again):  # others said it too, and theirs may be trusted more
            await made_of(engine, each, sources, agent=known.agent)
        gone = set(sources) - (await engine.store.get_many(sources, viewer=known.agent)).keys()
        if gone:
            raise MemoryNotFound(min(gone))
    except MindholdError:
        await take_back(engine, answers)
        if to:
            await engine.store.erase([to])  # with its versions: they say the same
        raise
    to = to or next(iter(ids_of(answers)), None)
    if to is not None:
        await attach(engine, sources, to=to)
    return to


def _request(known: ConversationState, scope: str, name: str, text: str) -> RememberInput:
    """Not validated: a model's answer may hold text that is no valid Unicode, which preparing it cleans."""
    return RememberInput.model_construct(
        content=text,
        kind=KINDS[name],
        scope=scope,
        tags=[*TAGS.get(name, ()), *(["conversation"] if name == SUMMARY else [])],
        confidence=SECOND_HAND,
        occurred=known.started if name == SUMMARY else known.last,
        source=SOURCE,
        conversation=known.id,
        metadata={REFLECTION_OF: known.id},
        keep_noise=True,
    )


async def _tells(engine: Engine, reflection: str, left: Sequence[Memory], *, agent: str) -> bool:
    """Whether all of them are part of it already."""
    links = await engine.store.links_of([reflection], relations=(Relation.PART_OF,), viewer=agent)
    return {memory.id for memory in left} <= {link.origin for link in links}


async def _amended(engine: Engine, memory_id: str, content: str, *, agent: str) -> str | None:
    try:
        request = AmendInput.model_construct(id=memory_id, content=content)  # as in _request()
        return (await amend(engine, request, agent=agent)).id
    except (NotFound, Refused, Conflict):
        return None  # somebody forgot it, or says the same: the conversation gets a new one


async def _left(engine: Engine, known: ConversationState) -> _Left:
    """The active memories that it stored, without its working memory and what nobody would be given."""
    found: dict[str, Memory] = {}
    async for batch in memories_of(engine, known.id, agent=known.agent, documents=known.documents):
        found |= {memory.id: memory for memory in batch}
        if len(found) >= MOST_LOOKED_AT:
            break
    named = [memory_id for memory_id in known.memories if memory_id not in found]
    found |= await engine.store.get_many(named, viewer=known.agent) if named else {}
    told = [memory for memory in found.values() if memory.metadata.get(REFLECTION_OF) == known.id]
    left = [
        memory
        for memory in found.values()
        if memory.status is Status.ACTIVE
        and memory.agent == known.agent
        and memory.trust >= LEAST_TRUST
        and not is_working(memory)
        and not _is_turn(memory)
        and REFLECTION_OF not in memory.metadata
        and RECAP not in memory.metadata
    ]
    left.sort(key=lambda memory: (-memory.importance, memory.id))
    return _Left(
        memories=left,
        before=max((memory.id for memory in told if memory.kind is Kind.EPISODE), default=None),
        unsourced=tuple(
            memory.id for memory in told if memory.confidence == SECOND_HAND and not memory.merged_from
        ),
    )


def _is_turn(memory: Memory) -> bool:
    """The turns of a log are the conversation; the parts of a long text were stored in it."""
    told = memory.provenance
    return told.position is not None and not (told.conversation or "").startswith(DOCUMENT)
