"""Corrects a memory: every earlier version is kept, and the index follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar

from pydantic import Field

from mindhold.capture.claude_md import update_documents
from mindhold.engine import Engine
from mindhold.memories.evaluation import evaluate_job
from mindhold.memories.filters import shown_memory
from mindhold.memories.prepare import (
    LONG_NOTICE,
    QUARANTINE_FROM,
    QUARANTINED_TRUST,
    checked_caller_metadata,
    checked_labels,
    checked_metadata,
    checked_moment,
    checked_share,
    checked_topic,
    content_hash,
    has_own_keywords,
    indexed,
    is_long,
    own_keywords,
    safe_text,
)
from mindhold.memories.views import MemoryId, MemoryView, Notice
from mindhold.model.errors import Changed, ContentTooLarge, InvalidInput, Refused
from mindhold.model.lifecycle import OURS, OUTDATED_FACTOR
from mindhold.model.memory import Kind, Link, Memory, Relation, Status, Tier, Version, moment_of
from mindhold.model.query import Vector
from mindhold.model.tokens import count_tokens
from mindhold.operations import Context, Input, Output, full_id, operation
from mindhold.ports.store import Change, Connect, Enqueue, Keep, Put
from mindhold.text.injection import suspicion

AMEND_TRIES = 3
T = TypeVar("T")
WHATEVER = "*"  # matches any state that a caller may have seen


class AmendInput(Input):
    """What to change; what isn't given stays. With `supersedes` a new memory takes the old one's place.

    `expected` is the `etag` of the memory as the caller has seen it: one that was changed since is left as it is.
    """

    id: MemoryId
    content: str | None = Field(
        default=None, description="The text.", examples=["Staging listens on port 5434."]
    )
    kind: Kind | None = Field(default=None, description="Its kind.")
    topic: str | None = Field(default=None, description="Topic, in a word or two.")
    tags: list[str] | None = Field(default=None, description="Tags.")
    keywords: list[str] | None = Field(default=None, description="Keywords for search.")
    importance: float | None = Field(
        default=None, ge=0, le=1, description="Importance, from 0 to 1.", examples=[0.8]
    )
    anchor: bool | None = Field(default=None, description="Whether it is an anchor, which never fades.")
    permanent: bool | None = Field(default=None, description="Whether it is kept permanently.")
    occurred: datetime | None = Field(default=None, description="When it happened.")
    metadata: dict[str, Any] | None = Field(default=None, description="Free metadata, stored unchanged.")
    supersedes: bool = Field(default=False, description="Store a new memory that supersedes this one.")
    expected: str | None = None


class AmendResult(Output):
    """The memory as it is now; `previous_id` is the one that it superseded."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    previous_id: str | None = Field(default=None, description="Id of the memory that it replaced.")
    memory: MemoryView = Field(examples=[{"content": "Staging listens on port 5434."}])
    notice: Notice = ""
    etag: str = ""


NOT_CHANGED = frozenset(
    {"id", "supersedes", "expected"}
)  # fields of AmendInput that are no field of the memory


async def amend(engine: Engine, request: AmendInput, *, agent: str) -> Memory:
    """Amend a memory and return it; retried when somebody else changes the memory meanwhile.

    Raises MemoryNotFound, InvalidInput, Refused, Conflict if another memory has the same content, and Changed if the
    memory isn't in the expected state.
    """
    return await _retried(lambda: _amend(engine, request, agent=agent))


async def supersede(engine: Engine, request: AmendInput, *, agent: str) -> tuple[Memory, Memory]:
    """Store a new memory that takes the place and the links of an old one; return both.

    The old memory stays readable and counts less. Raises what amend() raises, and InvalidInput if nothing would change.
    """
    return await _retried(lambda: _supersede(engine, request, agent=agent))


async def _retried(attempt: Callable[[], Awaitable[T]], *, tries: int = AMEND_TRIES) -> T:
    for _ in range(tries):
        try:
            return await attempt()
        except Changed as error:
            changed = error
    raise changed


async def _seen(engine: Engine, request: AmendInput, *, agent: str) -> Memory:
    """Return the memory. Raises MemoryNotFound, and Changed if it isn't in the state that the caller expects."""
    memory = await engine.store.get(request.id, viewer=agent)
    expected = None if request.expected is None else request.expected.partition("-")[0]
    if expected not in (None, WHATEVER, moment_of(memory)):
        raise Changed(
            f"Memory {request.id} was changed since you have read it.",
            advice="Look at it again, then try again.",
        )
    return memory


async def _supersede(engine: Engine, request: AmendInput, *, agent: str) -> tuple[Memory, Memory]:
    before = await _seen(engine, request, agent=agent)
    if before.status is not Status.ACTIVE:
        raise Refused(
            f"The memory {before.id} is {before.status}: nothing can take its place.",
            advice="Remember anew.",
        )
    amended = _amended(engine, before, request)
    if amended == before:
        raise InvalidInput("The new memory would be the same.", advice="Say what has changed.")
    if amended.status is Status.QUARANTINED:
        raise Refused("The new text reads like instructions to its reader.", advice="Put it as a statement.")
    matrix = await engine.vector_source.embed([amended.content])
    vector = await _vector(engine, before, before)
    before = await _latest(engine, before, agent=agent)
    amended = _amended(engine, before, request)
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
        amended,
        id=engine.new_id(),
        created=now,
        updated=now,
        occurred=amended.occurred if request.occurred else now,
        supersedes=before.id,
        merged_from=(),
        verified=None,
        examined=None,
        review=now,
    )
    links = await engine.store.links_of([before.id], viewer=agent)
    ids = {before.id: new.id}
    moved = (
        replace(link, origin=ids.get(link.origin, link.origin), target=ids.get(link.target, link.target))
        for link in links
        if _goes_along(link)
    )
    successor = Link(before.id, new.id, Relation.SUPERSEDED_BY, now)
    retired = replace(indexed(engine, old, vector=vector), expected=before.updated)
    put = indexed(engine, new, vector=None if matrix is None else matrix[0])
    links_made = (Connect(link) for link in (successor, *moved))
    await engine.store.apply([retired, put, *links_made, Enqueue(evaluate_job(engine))])
    return put.memory, retired.memory


def _goes_along(link: Link) -> bool:
    """Whether the new memory takes the link over. Contradictions that upkeep found are searched for anew."""
    detected = link.relation is Relation.CONTRADICTS and link.automatic
    return link.relation is not Relation.SUPERSEDED_BY and not detected


async def _amend(engine: Engine, request: AmendInput, *, agent: str) -> Memory:
    before = await _seen(engine, request, agent=agent)
    if before.status is Status.FORGOTTEN:
        raise Refused(
            f"The memory {before.id} is forgotten.",
            advice=f"`mindhold forget --undo {before.id}` brings it back.",
        )
    if _amended(engine, before, request) == before:
        return before
    put, changes = await amending(engine, before, request, agent=agent)
    await engine.store.apply(changes)
    return put.memory


async def amending(
    engine: Engine, before: Memory, request: AmendInput, *, agent: str
) -> tuple[Put, list[Change]]:
    """Return the amended record, and all changes that store it, for a caller who applies them with other changes.

    The record is the first change. Raises Changed, and what amend() raises for an invalid text.
    """
    vector = await _vector(engine, before, _amended(engine, before, request))
    versions = await engine.store.versions_of(before.id, latest=1)
    before = await _latest(engine, before, agent=agent)
    after = _amended(engine, before, request)
    now = engine.clock()
    # An importance that the caller chose decays from now on.
    faded = before.decayed if after.importance == before.importance else now
    after = replace(after, updated=now, review=now, decayed=faded)
    number = versions[-1].number + 1 if versions else 1
    # The record goes first: it detects a concurrent change before the version's number would collide.
    put = replace(indexed(engine, after, vector=vector), expected=before.updated)
    changes: list[Change] = [put, Keep(_version(before, number=number, after=after, by=agent))]
    if after.content != before.content:
        changes.append(Enqueue(evaluate_job(engine)))
    return put, changes


async def _latest(engine: Engine, before: Memory, *, agent: str) -> Memory:
    """Read the memory again, after the time that the model took to embed it.

    Changes by upkeep, by feedback or by a contradiction in the meantime are not updates, and are kept. Such a change is
    lost only if it happens between this read and the write that follows. Raises Changed after an update.
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


def _amended(engine: Engine, before: Memory, request: AmendInput) -> Memory:
    after = before if request.content is None else _reworded(engine, before, request.content)
    changes: dict[str, Any] = {}
    if request.kind is not None:
        changes["kind"] = request.kind
    if request.topic is not None:
        changes["topic"] = checked_topic(engine, request.topic)
    if request.tags is not None:
        changes["tags"] = checked_labels(engine, request.tags, what="tag")
    if request.keywords is not None:
        changes["keywords"] = checked_labels(engine, request.keywords, what="keyword")
    if request.importance is not None:
        changes["importance"] = checked_share(request.importance, what="The importance")
    if request.anchor is not None:
        changes["anchor"] = request.anchor
    if request.permanent is not None:
        changes["tier"] = Tier.PERMANENT if request.permanent else Tier.WARM
    if request.occurred is not None:
        changes["occurred"] = checked_moment(engine, request.occurred)
    if request.metadata is not None:
        ours = {name: value for name, value in before.metadata.items() if name.startswith(OURS)}
        changes["metadata"] = checked_metadata(engine, {**ours, **request.metadata})
    return replace(after, **changes)


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
    status, trust = memory.status, memory.trust
    if quarantined:
        status, trust = Status.QUARANTINED, QUARANTINED_TRUST
    elif status is Status.QUARANTINED:
        status, trust = Status.ACTIVE, 1.0
    same = text == memory.content
    own = not memory.keywords or has_own_keywords(memory)
    return replace(
        memory,
        content=text,
        keywords=own_keywords(text, memory.metadata) if own else memory.keywords,
        content_hash=content_hash(text),
        tokens=count_tokens(text),
        status=status,
        trust=trust,
        verified=memory.verified if same else None,  # was derived from the old text
        examined=memory.examined if same else None,
    )


def _version(before: Memory, *, number: int, after: Memory, by: str) -> Version:
    own: dict[str, Any] = {
        "memory_id": before.id,
        "number": number,
        "amended": after.updated,
        "amended_by": by,
    }
    inherited = {item.name: getattr(before, item.name) for item in fields(Version) if item.name not in own}
    return Version(**own, **inherited)


REWRITE_TRIES = 5


async def rewrite(
    engine: Engine,
    memory_id: str,
    change: Callable[[Memory], Memory],
    *,
    agent: str,
    is_update: bool = True,
) -> None:
    """Apply `change` to the current record, again if somebody else changed it meanwhile; the content stays the same.

    Without `is_update` the time of its last update stays, so that the change makes it no younger. Raises MemoryNotFound, and Changed if every attempt collides with another change.
    """

    async def attempt() -> None:
        before = await engine.store.get(memory_id, viewer=agent)
        after = change(before)
        if after != before:
            vector = await _vector(engine, before, before)
            updated = engine.clock() if is_update else before.updated
            put = indexed(engine, replace(after, updated=updated), vector=vector)
            await engine.store.apply([replace(put, expected=before.updated)])

    await _retried(attempt, tries=REWRITE_TRIES)


async def made_of(
    engine: Engine, memory_id: str, sources: Sequence[str], *, agent: str, trust: float = 1.0
) -> None:
    """Add `sources` to the memories that this one was merged from, and lower its trust to at most `trust`.

    Erasing one of the sources then erases this memory too. Raises MemoryNotFound, Changed.
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


async def _run_amend(context: Context, request: AmendInput) -> AmendResult:
    """Correct a memory; what it said before is kept."""
    if request.metadata is not None:
        checked_caller_metadata(request.metadata)
    request = request.model_copy(update={"id": await full_id(context, request.id)})
    if all(getattr(request, name) is None for name in AmendInput.model_fields.keys() - NOT_CHANGED):
        raise InvalidInput("Nothing was given to change.", advice="Give the content, or another field.")
    previous = None
    if request.supersedes:
        memory, old = await supersede(context.engine, request, agent=context.agent)
        previous = old.id
    else:
        memory = await amend(context.engine, request, agent=context.agent)
    notices = (
        LONG_NOTICE if request.content is not None and is_long(memory) else "",
        await update_documents(context.engine, [memory]),
    )
    view = await shown_memory(context, memory)
    return AmendResult(
        id=memory.id,
        previous_id=previous,
        memory=view.memory,
        notice=" ".join(filter(None, notices)),
        etag=view.etag,
    )


AMEND = operation("amend", _run_amend, writes=True)
