"""The review of captured memories: the user keeps, edits or drops each of them, or wants its like never again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from mindhold.capture.claude_md import update_documents
from mindhold.capture.extracted_items import CAPTURED, REVIEWED
from mindhold.capture.rejections import drop_rejections, note_rejected
from mindhold.engine import Engine
from mindhold.memories.amend import AmendInput, amend, rewrite
from mindhold.memories.forget import hide, unforget
from mindhold.memories.views import MemoryId, MemoryView, Notice, ScopeName
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory, Status
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, full_id, full_ids, operation
from mindhold.projects.scopes import active_scopes, visible_scopes

MOST_REVIEWED = 1_000  # memories of one call


class ListCapturesInput(Input):
    """Where, and how many at most."""

    scope: ScopeName = None
    everywhere: bool = Field(
        default=False, description="Search every scope that you may see, not only this one and its parents."
    )
    limit: int = Field(default=20, ge=1, le=MOST_REVIEWED, description="Maximum number of results.")


class ListCapturesResult(Output):
    """Captured memories that nobody has reviewed yet, the newest captures first, and how many there are in all."""

    captures: list[MemoryView] = Field(description="Memories.")
    waiting: int = Field(description="Total number.", examples=[1])


class EditedCapture(Input):
    """What a captured memory shall say instead."""

    id: MemoryId
    content: str = Field(description="The text.", examples=["Staging listens on port 5434."])


class ReviewInput(ListCapturesInput):
    """The verdicts, by ids; then the next captures are given, at most `limit`.

    Kept and edited memories don't come again. Dropped ones are forgotten; `never` also keeps what is alike from being
    captured, and so does dropping alike ones repeatedly. `undo` takes a verdict back, but no edited text.
    """

    keep: list[str] = Field(default=[], max_length=MOST_REVIEWED, description="Ids of memories to keep.")
    drop: list[str] = Field(
        default=[], max_length=MOST_REVIEWED, description="Ids of memories to forget; `undo` restores them."
    )
    never: list[str] = Field(
        default=[],
        max_length=MOST_REVIEWED,
        description="Ids of memories to forget, whose like is never captured again.",
    )
    edit: list[EditedCapture] = Field(
        default=[], max_length=MOST_REVIEWED, description="Memories to keep with another text."
    )
    undo: list[str] = Field(
        default=[], max_length=MOST_REVIEWED, description="Ids of memories whose verdict is taken back."
    )


class ReviewResult(ListCapturesResult):
    """What was done, by ids, and the captures that wait next."""

    kept: list[str] = []
    edited: list[str] = []
    dropped: list[str] = Field(default=[], description="Forgotten; `undo` restores them.")
    rejected: list[str] = Field(default=[], description="Forgotten, and their like is left out from now on.")
    restored: list[str] = []
    notice: Notice = ""


async def unreviewed_captures(context: Context, request: ListCapturesInput) -> list[Memory]:
    """Return the captured memories that nobody has reviewed yet, the newest captures first. Raises ScopeNotFound."""
    engine = context.engine
    if request.scope:
        scopes = (await visible_scopes(engine, request.scope))[:1]
    else:
        scopes = await (active_scopes(engine) if request.everywhere else visible_scopes(engine, None))
    where = Filter(viewer=context.agent, scopes=scopes, agents=(context.agent,))
    unreviewed = [
        memory
        async for batch in engine.store.scan(where)
        for memory in batch
        if memory.provenance.source == CAPTURED and REVIEWED not in memory.metadata
    ]
    unreviewed = await _without_reviewed_merges(engine, unreviewed, agent=context.agent)
    return sorted(unreviewed, key=lambda memory: (memory.created, memory.id), reverse=True)


async def _without_reviewed_merges(engine: Engine, memories: Sequence[Memory], *, agent: str) -> list[Memory]:
    """Leave out memories that were merged from reviewed ones alone."""
    source_ids = {source for memory in memories for source in memory.merged_from}
    sources = await engine.store.get_many(list(source_ids), viewer=agent) if source_ids else {}
    reviewed_ids = {memory_id for memory_id, memory in sources.items() if REVIEWED in memory.metadata}
    return [
        memory
        for memory in memories
        if not memory.merged_from or not reviewed_ids.issuperset(memory.merged_from)
    ]


async def _list_captures(context: Context, request: ListCapturesInput) -> ListCapturesResult:
    """The captured memories that nobody has reviewed yet, newest first."""
    memories, now = await unreviewed_captures(context, request), context.engine.clock()
    captures = [MemoryView.of(memory, now) for memory in memories[: request.limit]]
    return ListCapturesResult(captures=captures, waiting=len(memories))


LIST_CAPTURES = operation("list_captures", _list_captures, reads=True, default_scope=True)


async def _review(context: Context, request: ReviewInput) -> ReviewResult:
    """Keep, edit or drop captured memories, or have their like never captured again."""
    engine, agent = context.engine, context.agent
    edits = [(await full_id(context, edit.id), edit.content) for edit in request.edit]
    keep, drop, never, undo = [
        await full_ids(context, ids) for ids in (request.keep, request.drop, request.never, request.undo)
    ]
    named = [*keep, *(memory_id for memory_id, _ in edits), *drop, *never, *undo]
    memories = await _captured(engine, named, agent=agent)
    forgotten = await hide(engine, [*drop, *never], agent=agent, force=False) if drop or never else []
    await note_rejected(engine, [memories[memory_id] for memory_id in drop], never=False)
    await note_rejected(engine, [memories[memory_id] for memory_id in never], never=True)
    for memory_id, content in edits:
        before = memories[memory_id]
        metadata = {**before.metadata, REVIEWED: engine.clock().isoformat()}
        amendment = AmendInput(id=memory_id, content=content, metadata=metadata)
        memories[memory_id] = await amend(engine, amendment, agent=agent)
    for memory_id in keep:
        await _mark(engine, memory_id, engine.clock().isoformat(), agent=agent)
    restored = [memory_id for memory_id in undo if memories[memory_id].status is Status.FORGOTTEN]
    if restored:
        await unforget(engine, restored, agent=agent)
    await drop_rejections(engine, undo)
    for memory_id in undo:
        await _mark(engine, memory_id, "", agent=agent)
    changed = [*forgotten, *(memories[memory_id] for memory_id in (*restored, *(one for one, _ in edits)))]
    notice = await update_documents(engine, changed) if changed else ""
    following = await _list_captures(context, request)
    return ReviewResult(
        captures=following.captures,
        waiting=following.waiting,
        kept=keep,
        edited=[memory_id for memory_id, _ in edits],
        dropped=drop,
        rejected=never,
        restored=restored,
        notice=notice,
    )


REVIEW = operation("review", _review, writes=True, default_scope=True)


async def _captured(engine: Engine, ids: Sequence[str], *, agent: str) -> dict[str, Memory]:
    """Return the named memories. Raises MemoryNotFound, InvalidInput for one that was not captured or has two verdicts."""
    memories = dict(await engine.store.get_many(ids, viewer=agent)) if ids else {}
    for memory_id in ids:
        if memory_id not in memories:
            raise MemoryNotFound(memory_id)
        if memories[memory_id].provenance.source != CAPTURED:
            raise InvalidInput(
                f"The memory {memory_id} was not captured from a conversation, so there is nothing to review.",
                advice="`mindhold amend` and `mindhold forget` change other memories.",
            )
    if twice := next((memory_id for memory_id in ids if ids.count(memory_id) > 1), None):
        raise InvalidInput(f"The memory {twice} is named twice.", advice="Give one verdict for each memory.")
    return memories


async def _mark(engine: Engine, memory_id: str, reviewed: str, *, agent: str) -> None:
    """Mark when the memory was kept; an empty mark removes it.

    The memory gets no younger by it: what was true in February isn't made current.
    """

    def marked(memory: Memory) -> Memory:
        metadata = {name: value for name, value in memory.metadata.items() if name != REVIEWED}
        return replace(memory, metadata={**metadata, REVIEWED: reviewed} if reviewed else metadata)

    await rewrite(engine, memory_id, marked, agent=agent, is_update=False)
