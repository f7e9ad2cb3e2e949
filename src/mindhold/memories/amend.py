"""Corrects a memory: every earlier version is kept, and the index follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import Field

from mindhold.capture.documents import update_documents
from mindhold.engine import Engine
from mindhold.memories.draft import (
    LONG_NOTICE,
    QUARANTINE_FROM,
    QUARANTINED_TRUST,
    content_hash,
    gist_of,
    has_own_keywords,
    is_long,
    labels_of,
    own_keywords,
)
from mindhold.memories.evaluation import evaluate_job
from mindhold.memories.filters import shown_memory
from mindhold.memories.validation import (
    checked_caller_metadata,
    checked_labels,
    checked_metadata,
    checked_moment,
    checked_share,
    checked_topic,
    safe_text,
)
from mindhold.memories.views import MemoryView
from mindhold.model.errors import Changed, ContentTooLarge, InvalidInput, Refused
from mindhold.model.lexemes import lexemes
from mindhold.model.lifecycle import OURS, OUTDATED_FACTOR
from mindhold.model.memory import Kind, Link, Memory, Relation, Status, Tier, Version, moment_of
from mindhold.model.query import Vector
from mindhold.model.tokens import count_tokens
from mindhold.operations import Context, Input, Output, full_id, operation
from mindhold.ports.store import Change, Connect, Enqueue, Keep, Put
from mindhold.text.injection import suspicion

AMEND_TRIES = 3
WHATEVER = "*"  # stands for any state that a caller may have seen


@dataclass(frozen=True, slots=True)
class Amendment:
    """What to change; None leaves a field as it is."""

    content: str | None = None
    kind: Kind | None = None
    topic: str | None = None
    tags: tuple[str, ...] | None = None
    keywords: tuple[str, ...] | None = None
    importance: float | None = None
    anchor: bool | None = None
    tier: Tier | None = None
    occurred: datetime | None = None
    metadata: dict[str, Any] | None = None


async def amend(
    engine: Engine,
    memory_id: str,
    amendment: Amendment | Callable[[Memory], Amendment],
    *,
    agent: str,
    expected: str | None = None,
) -> Memory:
    """The amended memory; a function is asked again when somebody else changed it meanwhile.

    `expected` is the moment_of() the memory that the caller has seen. Raises MemoryNotFound, InvalidInput, Refused, Conflict
    when another one says the same, Changed when it is not the expected one.
    """
    for _ in range(AMEND_TRIES):
        try:
            return await _amend(engine, memory_id, amendment, agent=agent, expected=expected)
        except Changed as error:
            changed = error
    raise changed


async def supersede(
    engine: Engine, memory_id: str, amendment: Amendment, *, agent: str, expected: str | None = None
) -> tuple[Memory, Memory]:
    """The new memory and the old one, whose place and links it takes; the old one stays readable and counts less.

    Raises MemoryNotFound, InvalidInput when nothing would change, Refused, Conflict when another one says the same, Changed
    when it is not the expected one, as amend() has it.
    """
    for _ in range(AMEND_TRIES):
        try:
            return await _supersede(engine, memory_id, amendment, agent=agent, expected=expected)
        except Changed as error:
            changed = error
    raise changed


async def _seen(engine: Engine, memory_id: str, *, agent: str, expected: str | None) -> Memory:
    """Raises MemoryNotFound, and Changed for one that the caller hasn't seen as it is."""
    memory = await engine.store.get(memory_id, viewer=agent)
    if expected not in (None, WHATEVER, moment_of(memory)):
        raise Changed(
            f"Memory {memory_id} was changed since you have read it.",
            advice="Look at it again, then try again.",
        )
    return memory


async def _supersede(
    engine: Engine, memory_id: str, amendment: Amendment, *, agent: str, expected: str | None
) -> tuple[Memory, Memory]:
    before = await _seen(engine, memory_id, agent=agent, expected=expected)
    if before.status is not Status.ACTIVE:
        raise Refused(
            f"The memory {memory_id} is {before.status}: nothing can take its place.", advice="Remember anew."
        )
    wanted = _amended(engine, before, amendment)
    if wanted == before:
        raise InvalidInput("The new memory would be the same.", advice="Say what has changed.")
    if wanted.status is Status.QUARANTINED:
        raise Refused("The new text reads like instructions to its reader.", advice="Put it as a statement.")
    matrix = await engine.vector_source.embed([wanted.content])
    vector = await _vector(engine, before, before)
    before = await _latest(engine, before, agent=agent)
    wanted = _amended(engine, before, amendment)
    now = engine.clock()
    old = replace(
        before,
        status=Status.SUPERSEDED,
        previous_status=before.status,
        importance=before.importance * OUTDATED_FACTOR,
        updated=now,
        decayed=now,
        review=now,
    )
    new = replace(
        wanted,
        id=engine.new_id(),
        created=now,
        updated=now,
        occurred=wanted.occurred if amendment.occurred else now,
        supersedes=before.id,
        merged_from=(),
        verified=None,
        examined=None,
        review=now,
    )
    links = await engine.store.links_of([memory_id], viewer=agent)
    moved = (_moved(link, before.id, new.id) for link in links if _goes_along(link))
    successor = Link(before.id, new.id, Relation.SUPERSEDED_BY, now)
    retired = replace(indexed(engine, old, vector=vector), expected=before.updated)
    taking = indexed(engine, new, vector=None if matrix is None else matrix[0])
    links_made = (Connect(link) for link in (successor, *moved))
    await engine.store.apply([retired, taking, *links_made, Enqueue(evaluate_job(engine))])
    return taking.memory, retired.memory


def _goes_along(link: Link) -> bool:
    """What upkeep found of the old text is looked for anew: only its own book can take it back."""
    found = link.relation is Relation.CONTRADICTS and link.automatic
    return link.relation is not Relation.SUPERSEDED_BY and not found


def _moved(link: Link, old: str, new: str) -> Link:
    return replace(
        link,
        origin=new if link.origin == old else link.origin,
        target=new if link.target == old else link.target,
    )


async def _amend(
    engine: Engine,
    memory_id: str,
    amendment: Amendment | Callable[[Memory], Amendment],
    *,
    agent: str,
    expected: str | None,
) -> Memory:
    before = await _seen(engine, memory_id, agent=agent, expected=expected)
    if before.status is Status.FORGOTTEN:
        raise Refused(
            f"The memory {memory_id} is forgotten.",
            advice=f"`mindhold forget --undo {memory_id}` brings it back.",
        )
    wanted = amendment if isinstance(amendment, Amendment) else amendment(before)
    after = _amended(engine, before, wanted)
    if after == before:
        return before
    put, changes = await amending(engine, before, wanted, agent=agent)
    await engine.store.apply(changes)
    return put.memory


async def amending(
    engine: Engine, before: Memory, wanted: Amendment, *, agent: str
) -> tuple[Put, list[Change]]:
    """What makes a memory the amended one, for a caller who applies it with other changes; the record comes first.

    Raises Changed, and what amend() raises of a text that can't be.
    """
    vector = await _vector(engine, before, _amended(engine, before, wanted))
    kept = await engine.store.versions_of(before.id, latest=1)
    before = await _latest(engine, before, agent=agent)
    after = _amended(engine, before, wanted)
    now = engine.clock()
    # An importance that somebody chose fades from now on.
    faded = before.decayed if after.importance == before.importance else now
    after = replace(after, updated=now, review=now, decayed=faded)
    number = kept[-1].number + 1 if kept else 1
    # The record first: it tells when somebody was faster, before the version's number does.
    put = replace(indexed(engine, after, vector=vector), expected=before.updated)
    changes: list[Change] = [put, Keep(_version(before, number=number, after=after, by=agent))]
    if after.content != before.content:
        changes.append(Enqueue(evaluate_job(engine)))
    return put, changes


async def _latest(engine: Engine, before: Memory, *, agent: str) -> Memory:
    """As it is now, after the time that a model took for its vector.

    What upkeep, an opinion or a contradiction made of it meanwhile is no update, and stays. Only between this look and the
    writing that follows it can such a change still be lost. Raises Changed for an update.
    """
    latest = await engine.store.get(before.id, viewer=agent)
    if latest.updated != before.updated:
        raise Changed(
            f"Memory {before.id} was changed by someone else meanwhile.",
            advice="Look at it again, then try again.",
        )
    return latest


async def _vector(engine: Engine, before: Memory, after: Memory) -> Vector | None:
    model = engine.vector_source.model
    if after.content != before.content:
        matrix = await engine.vector_source.embed([after.content])
        return None if matrix is None else matrix[0]
    if model is None:
        return None
    return (await engine.store.vector_of([after.id], model=model)).get(after.id)


def indexed(engine: Engine, memory: Memory, *, vector: Vector | None) -> Put:
    """The memory with all that it is found by."""
    kept = replace(memory, embedded_by=engine.vector_source.model if vector is not None else None)
    said = lexemes(kept.content)
    return Put(kept, said, labels=labels_of(engine, kept), gist=gist_of(said), vector=vector)


def _amended(engine: Engine, before: Memory, amendment: Amendment) -> Memory:
    after = before
    if amendment.content is not None:
        after = _reworded(engine, after, amendment.content)
    if amendment.kind is not None:
        after = replace(after, kind=amendment.kind)
    if amendment.topic is not None:
        after = replace(after, topic=checked_topic(engine, amendment.topic))
    if amendment.tags is not None:
        after = replace(after, tags=checked_labels(engine, amendment.tags, what="tag"))
    if amendment.keywords is not None:
        after = replace(after, keywords=checked_labels(engine, amendment.keywords, what="keyword"))
    if amendment.importance is not None:
        after = replace(after, importance=checked_share(amendment.importance, what="The importance"))
    if amendment.anchor is not None:
        after = replace(after, anchor=amendment.anchor)
    if amendment.tier is not None:
        after = replace(after, tier=amendment.tier)
    if amendment.occurred is not None:
        after = replace(after, occurred=checked_moment(engine, amendment.occurred))
    if amendment.metadata is not None:
        ours = {name: value for name, value in before.metadata.items() if name.startswith(OURS)}
        after = replace(after, metadata=checked_metadata(engine, {**ours, **amendment.metadata}))
    return after


def _reworded(engine: Engine, memory: Memory, content: str) -> Memory:
    quarantined = suspicion(content).score >= QUARANTINE_FROM
    text = safe_text(engine, content)
    if not text.strip():
        raise InvalidInput("A memory can't be amended to nothing.", advice="`mindhold forget` removes one.")
    if len(text) > engine.settings.intake.part_length:
        raise ContentTooLarge(
            f"The new text has {len(text):,} characters; one memory holds {engine.settings.intake.part_length:,}.",
            advice="Remember it anew: long texts are split into linked parts.",
        )
    status = memory.status
    if quarantined:
        status = Status.QUARANTINED
    elif status is Status.QUARANTINED:
        status = Status.ACTIVE
    same = text == memory.content
    own = not memory.keywords or has_own_keywords(memory)
    return replace(
        memory,
        content=text,
        keywords=own_keywords(text, memory.metadata) if own else memory.keywords,
        content_hash=content_hash(text),
        tokens=count_tokens(text),
        status=status,
        trust=_trust(memory, quarantined=quarantined),
        verified=memory.verified if same else None,  # that was found of the old text
        examined=memory.examined if same else None,
    )


def _trust(memory: Memory, *, quarantined: bool) -> float:
    if quarantined:
        return QUARANTINED_TRUST
    return 1.0 if memory.status is Status.QUARANTINED else memory.trust


def _version(before: Memory, *, number: int, after: Memory, by: str) -> Version:
    return Version(
        memory_id=before.id,
        number=number,
        content=before.content,
        kind=before.kind,
        topic=before.topic,
        tags=before.tags,
        keywords=before.keywords,
        importance=before.importance,
        anchor=before.anchor,
        occurred=before.occurred,
        tier=before.tier,
        metadata=before.metadata,
        amended=after.updated,
        amended_by=by,
    )


REWRITE_TRIES = 5


async def rewrite(engine: Engine, memory_id: str, change: Callable[[Memory], Memory], *, agent: str) -> None:
    """Change the record as it is now, and again when somebody else changed it meanwhile; its content stays.

    Raises MemoryNotFound, and Changed where others never let go of it.
    """
    model = engine.vector_source.model
    for _ in range(REWRITE_TRIES):
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


class AmendInput(Input):
    """What to change; what isn't given stays. With `supersedes` a new memory takes the old one's place.

    `expected` is the `etag` of the memory as the caller has seen it: one that was changed since is left as it is.
    """

    id: str
    content: str | None = None
    kind: Kind | None = None
    topic: str | None = None
    tags: list[str] | None = None
    keywords: list[str] | None = None
    importance: float | None = Field(default=None, ge=0, le=1)
    anchor: bool | None = None
    permanent: bool | None = None
    occurred: datetime | None = None
    metadata: dict[str, Any] | None = None
    supersedes: bool = False
    expected: str | None = None


class AmendResult(Output):
    """The memory as it is now; `previous_id` is the one that it superseded."""

    id: str
    previous_id: str | None = None
    memory: MemoryView
    notice: str = ""
    etag: str = ""


async def _run_amend(context: Context, request: AmendInput) -> AmendResult:
    """Correct a memory; what it said before is kept."""
    tier = None if request.permanent is None else (Tier.PERMANENT if request.permanent else Tier.WARM)
    amendment = Amendment(
        content=request.content,
        kind=request.kind,
        topic=request.topic,
        tags=None if request.tags is None else tuple(request.tags),
        keywords=None if request.keywords is None else tuple(request.keywords),
        importance=request.importance,
        anchor=request.anchor,
        tier=tier,
        occurred=request.occurred,
        metadata=None if request.metadata is None else checked_caller_metadata(request.metadata),
    )
    memory_id = await full_id(context, request.id)
    if amendment == Amendment():
        raise InvalidInput("Nothing was given to change.", advice="Give the content, or another field.")
    previous, seen = None, None if request.expected is None else request.expected.partition("-")[0]
    if request.supersedes:
        memory, old = await supersede(
            context.engine, memory_id, amendment, agent=context.agent, expected=seen
        )
        previous = old.id
    else:
        memory = await amend(context.engine, memory_id, amendment, agent=context.agent, expected=seen)
    told = (
        LONG_NOTICE if request.content is not None and is_long(memory) else "",
        await update_documents(context.engine, [memory]),
    )
    notice = " ".join(filter(None, told))
    shown = await shown_memory(context, memory)
    return AmendResult(
        id=memory.id, previous_id=previous, memory=shown.memory, notice=notice, etag=shown.etag
    )


AMEND = operation("amend", _run_amend, writes=True)
