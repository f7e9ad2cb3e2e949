"""Forgetting: soft hides memories and can be undone; hard erases them and proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from mindhold.backup.create import back_up_scope, backups
from mindhold.capture.claude_md import erase_from_documents, update_documents
from mindhold.capture.hook_cache_removal import blank_hook_caches, erase_from_hook_caches
from mindhold.capture.journal import note_erased
from mindhold.conversations.recap_queue import hide_recaps, queue_recap_rebuild, with_derived
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.filters import MOST_HITS
from mindhold.memories.hit_context import HIDDEN, shortened
from mindhold.memories.prepare import MOST_LABELS, bare_tags
from mindhold.memories.ranking import at_least
from mindhold.memories.recall import Hit, RecallInput, recall
from mindhold.memories.views import MemoryView, Notice, ReceiptView
from mindhold.model.errors import Changed, Conflict, InvalidInput, MemoryNotFound, Refused, ScopeNotFound
from mindhold.model.lifecycle import PROFILE_SECTION_KEY, is_being_erased, is_kept_for_good
from mindhold.model.memory import ANY_STATUS, Memory, Relation, Status
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, LOCAL
from mindhold.operations import Context, Input, Output, full_id, full_ids, operation
from mindhold.ports.store import Change, Mark, Receipt
from mindhold.projects.placement import PROJECT
from mindhold.projects.scopes import delete_scope, find_scope, scope_name, visible_scopes


async def hide(engine: Engine, ids: Sequence[str], *, agent: str, force: bool) -> list[Memory]:
    """Hide memories everywhere, a permanent or anchored one only with `force`; return those that were not hidden before.

    The other parts of a split document go with any of its parts. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(engine, ids, agent=agent, force=force)
    now = engine.clock()
    fresh = [memory for memory in memories if memory.status is not Status.FORGOTTEN]
    changes: list[Change] = [
        Mark(memory.id, Status.FORGOTTEN, previous=memory.status, updated=now) for memory in fresh
    ]
    if changes:
        await engine.store.apply(changes)
        await hide_recaps(engine, memories)
        await blank_hook_caches(engine)
    return fresh


async def unforget(engine: Engine, ids: Sequence[str], *, agent: str) -> list[Memory]:
    """Undo a soft forget, or bring memories back from the archive.

    A memory that somebody else changes at that moment doesn't come back. Raises MemoryNotFound, Changed, Conflict, and Refused
    for one that is neither forgotten nor archived, or that is being erased.
    """
    memories = await _with_parts(engine, ids, agent=agent, force=True)
    for memory in memories:
        if memory.status not in (Status.FORGOTTEN, Status.ARCHIVED):
            raise Refused(f"The memory {memory.id} is neither forgotten nor archived: it is {memory.status}.")
        if is_being_erased(memory):
            raise Refused(f"The memory {memory.id} was archived for its time, and is being removed for good.")
    now = engine.clock()
    back = [
        replace(memory, status=memory.previous_status or Status.ACTIVE, previous_status=None, updated=now)
        for memory in memories
    ]
    marks = [
        Mark(memory.id, new.status, previous=None, updated=now, only_from=memory.status)
        for memory, new in zip(memories, back, strict=True)
    ]
    await engine.store.apply(list[Change](marks))
    current = await engine.store.get_many([memory.id for memory in back], viewer=agent)
    for memory in back:
        if memory.id not in current:
            raise MemoryNotFound(memory.id)
        if current[memory.id].status is not memory.status:
            raise Changed(
                f"The memory {memory.id} was changed meanwhile: it is {current[memory.id].status}.",
                advice="Look at it, then try again.",
            )
    return back


async def erase(
    engine: Engine, ids: Sequence[str], *, agent: str, force: bool = False
) -> tuple[list[Memory], Receipt]:
    """Remove memories, everything derived from them and every trace in the index; return them and the proof.

    A memory that was merged from an erased one repeats its words, so it is erased too. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(engine, ids, agent=agent, force=force)
    named_ids = {memory.id for memory in memories}
    doomed = await with_derived(engine, memories)
    await note_erased(engine, list(doomed.values()))
    receipt = await erase_from_hook_caches(engine, await engine.store.erase(list(doomed)))
    # A summary that was named is not wanted any more; one that was only derived is made anew.
    await queue_recap_rebuild(
        engine, (other for other in doomed.values() if other.id not in named_ids), besides=set(doomed)
    )
    return list(doomed.values()), receipt


async def forgettable(engine: Engine, ids: Sequence[str], *, agent: str, force: bool) -> list[Memory]:
    """Return the memories if all of them may be forgotten. Raises MemoryNotFound, Refused if one needs `force`."""
    if not ids:
        raise InvalidInput("Nothing was named to forget.", advice="Give at least one id.")
    memories = await engine.store.get_many(ids, viewer=agent)
    for memory_id in ids:
        if memory_id not in memories:
            raise MemoryNotFound(memory_id)
        memory = memories[memory_id]
        if not force and needs_force(memory):
            raise Refused(
                f"The memory {memory_id} is kept for good ({'an anchor' if memory.anchor else 'permanent'}).",
                advice="Say so with `force`.",
            )
    return list(memories.values())


def needs_force(memory: Memory) -> bool:
    """Whether only `force` forgets it. Profile facts don't need it, though upkeep never removes them."""
    return is_kept_for_good(memory) and PROFILE_SECTION_KEY not in memory.metadata


async def _with_parts(engine: Engine, ids: Sequence[str], *, agent: str, force: bool) -> list[Memory]:
    """Return the memories and the other parts of split documents, which `part_of` links to their first part.

    Raises MemoryNotFound, Refused if one of the named memories needs `force`.
    """
    memories = await forgettable(engine, ids, agent=agent, force=force)
    by_id = {memory.id: memory for memory in memories}
    relations = (Relation.PART_OF,)
    roots = {
        link.target
        for link in await engine.store.links_of(list(by_id), relations=relations, viewer=agent)
        if link.automatic
    }
    if roots:
        links = await engine.store.links_of(list(roots), relations=relations, viewer=agent)
        ends = {end for link in links if link.automatic for end in (link.origin, link.target)}
        by_id.update(await engine.store.get_many(list(ends - by_id.keys()), viewer=agent))
    return list(by_id.values())


MOST_FOUND = 20
FOUND = (Status.ACTIVE, Status.ARCHIVED)  # statuses that recall finds, by default or on request


async def _chosen_ids(engine: Engine, request: ForgetInput, *, agent: str) -> list[str]:
    """Return the ids that a request without a query means. Raises InvalidInput without a condition, ScopeNotFound."""
    if not (request.ids or request.tags or request.topic or request.scope):
        raise InvalidInput(
            "Nothing was named to forget.", advice="Give ids, a query, or a tag, topic or scope."
        )
    if request.ids and not (request.tags or request.topic or request.scope):
        return request.ids
    scopes: tuple[str, ...] = (request.scope,) if request.scope else ()
    if not scopes and not request.everywhere:
        scopes = await visible_scopes(engine, None)
    where = Filter(
        viewer=agent,
        ids=tuple(request.ids),
        tags=bare_tags(request.tags),
        topic=request.topic,
        scopes=scopes,
        statuses=ANY_STATUS if request.hard or request.ids else FOUND,
    )
    return [memory.id async for batch in engine.store.scan(where) for memory in batch]


async def _candidates(engine: Engine, request: ForgetInput, query: str, *, agent: str) -> list[Hit]:
    """Return what the query finds, best first; only among the ids if there are some. Raises InvalidInput, ScopeNotFound."""
    recall_request = RecallInput(
        query=query,
        scope=request.scope,
        scope_only=request.scope is not None,
        tags=request.tags,
        topic=request.topic,
        statuses=list(FOUND),
        limit=MOST_HITS if request.ids else MOST_FOUND,
        minimum_score=at_least(engine, LIKELY),
        count_use=False,
    )
    hits = (await recall(engine, recall_request, agent=agent)).hits
    return [hit for hit in hits if not request.ids or hit.memory.id in request.ids]


LIKELY = 0.5  # what a query finds is forgotten only if it is probably meant
FEW = 3  # more than this, not named by id, need a confirmation
MOST_SHOWN = 20  # candidates that are shown for confirmation
LONGEST_SHOWN = 200


class ForgetInput(Input):
    """What to forget: all that holds of it narrows. `query` finds by meaning.

    What is kept for good goes only with `force`: of a topic or a tag it is passed over and told, otherwise it is an error.
    More than a few that nobody named by id need `confirm`, if a query found them or if they go for good.
    """

    ids: list[str] = Field(default=[], description="Ids of memories.")
    query: str | None = Field(default=None, description="What to search for, in plain words.")
    tags: list[str] = Field(default=[], max_length=MOST_LABELS, description="Tags.")
    topic: str | None = Field(default=None, description="Topic, in a word or two.")
    scope: str | None = Field(default=None, description="The scope; the server's default scope if absent.")
    everywhere: bool = Field(
        default=True, description="Search every scope that you may see, not only this one and its parents."
    )  # without a scope: in all of them, or in those that the call sees
    force: bool = Field(default=False, description="Also anchors and permanent memories.")
    hard: bool = Field(
        default=False, description="Erase permanently, with every trace; otherwise it can be restored."
    )
    confirm: bool = Field(default=False, description="Must be true; otherwise candidates are only listed.")
    missing_ok: bool = Field(
        default=False, description="Ignore unknown ids."
    )  # an unknown id or scope is no error
    backup: bool = Field(
        default=True, description="Whether a backup was made first."
    )  # of a whole scope that goes, a copy is put aside first
    drop_scope: bool = Field(
        default=False, description="Also delete the scope itself when all of it is erased."
    )

    @property
    def whole_scope(self) -> bool:
        """Whether everything in a scope is selected."""
        return bool(self.scope and not (self.ids or self.query or self.tags or self.topic))


class CandidateView(Output):
    """What would be forgotten."""

    id: str = Field(description="Its id.")
    content: str = Field(description="The text.")
    score: float = Field(description="Relevance score, from 0 to 1.")


class ForgetResult(Output):
    """What was forgotten; the receipt when it was for good. Candidates mean that nothing was: confirm first."""

    forgotten: list[str] = Field(examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])
    count: int = Field(description="Number of items in this answer.", examples=[1])
    hard: bool = Field(
        description="Erase permanently, with every trace; otherwise it can be restored.", examples=[False]
    )
    receipt: ReceiptView | None = None
    candidates: list[CandidateView] = Field(
        default=[], description="Memories that would be forgotten with `confirm`."
    )
    note: str = Field(default="", description="A note about it.", examples=["Marked as forgotten."])
    notice: Notice = ""  # of documents that couldn't be written
    scope: str | None = Field(default=None, description="Its scope.")
    backup: str | None = Field(default=None, description="The backup that was made first.")
    kept: list[str] = []  # passed over, for they are kept for good


class UnforgetInput(Input):
    """Which to bring back."""

    ids: list[str] = Field(min_length=1, description="Ids of memories.")


class UnforgetResult(Output):
    """What is back."""

    memories: list[MemoryView] = Field(description="Memories.")
    notice: Notice = ""


async def _forget(context: Context, request: ForgetInput) -> ForgetResult:
    """Hide memories, or remove them for good with proof."""
    engine, agent = context.engine, context.agent
    scope = request.scope
    if scope:
        try:
            scope = await scope_name(engine, scope)
        except ScopeNotFound:
            if not request.missing_ok:
                raise
            return _nothing(request, "There is no such scope. Nothing was forgotten.")
    named_ids = await _named(context, request)
    if request.ids and not named_ids:
        return _nothing(request, "There is no such memory. Nothing was forgotten.")
    query = (request.query or "").strip() or None
    request = request.model_copy(update={"scope": scope, "ids": named_ids, "query": query})
    if query:
        hits = await _candidates(engine, request, query, agent=agent)
        if len(hits) > FEW and not request.confirm:
            return _asking(request, [_candidate(hit.memory, hit.score) for hit in hits], count=len(hits))
        ids = [hit.memory.id for hit in hits]
    else:
        ids = await _chosen_ids(engine, request, agent=agent)
    if not ids:
        dropped = await _dropped(context, request)
        return _nothing(
            request, " ".join(filter(None, ("Nothing matches.", dropped, "Nothing was forgotten.")))
        )
    protected: list[Memory] = []
    if not (named_ids or query or request.whole_scope or request.force):
        memories = await engine.store.get_many(ids, viewer=agent)
        protected = [memory for memory in memories.values() if needs_force(memory)]
        protected_ids = {memory.id for memory in protected}
        ids = [memory_id for memory_id in ids if memory_id not in protected_ids]
        if not ids:
            return _nothing(request, f"{_sparing(protected)} Nothing was forgotten.", kept=protected)
    if request.hard and not (named_ids or request.confirm) and len(ids) > FEW:
        some = await engine.store.get_many(ids[:MOST_SHOWN], viewer=agent)
        return _asking(request, [_candidate(memory, 1.0) for memory in some.values()], count=len(ids))
    await forgettable(engine, ids, agent=agent, force=request.force)
    backup = None
    if request.whole_scope and scope and request.backup:
        backup = (await back_up_scope(engine, scope, agent=agent)).path.name
    receipt = None
    if request.hard:
        forgotten, receipt = await erase(engine, ids, agent=agent, force=request.force)
        receipt, unwritten = await erase_from_documents(engine, receipt, forgotten)
    else:
        forgotten = await hide(engine, ids, agent=agent, force=request.force)
        unwritten = await update_documents(engine, forgotten) if forgotten else ""
    if not forgotten:
        return _nothing(request, "They were forgotten already. Nothing was forgotten.", kept=protected)
    notes = (
        await _note(context, request, backup),
        await _dropped(context, request),
        _sparing(protected) if protected else "",
        unwritten,
    )
    return ForgetResult(
        forgotten=[memory.id for memory in forgotten],
        count=len(forgotten),
        hard=request.hard,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=" ".join(filter(None, notes)),
        notice=unwritten,
        scope=scope if request.whole_scope else None,
        backup=backup,
        kept=[memory.id for memory in protected],
    )


FORGET = operation("forget", _forget, destroys=True)


async def _dropped(context: Context, request: ForgetInput) -> str:
    """Delete the emptied scope if that was asked for; return what became of it.

    Keys that are bound to scopes may empty a scope but not delete it.
    """
    if not (request.drop_scope and request.hard and request.scope and request.whole_scope and context.owner):
        return ""
    if context.engine.allowed_scopes or request.scope == GLOBAL:
        return ""
    scope = await find_scope(context.engine, request.scope)
    if scope.kind == PROJECT:
        return "The project itself stays: `mindhold projects delete` removes it."
    if await context.engine.store.count(
        Filter(viewer="system", scopes=(scope.name,), statuses=ANY_STATUS), most=1
    ):
        return "The scope stays, for something is left in it."
    try:
        await delete_scope(context.engine, scope.name, agent=context.agent)
    except (Conflict, Refused) as error:
        return f"The scope stays. {error.message}"
    return "The scope is gone too."


def _sparing(kept: list[Memory]) -> str:
    anchors = sum(memory.anchor for memory in kept)
    sorts = ((anchors, "anchored"), (len(kept) - anchors, "permanent"))
    why = ", ".join(f"{number} {sort}" for number, sort in sorts if number)
    verb = "was" if len(kept) == 1 else "were"
    return f"{len(kept)} {verb} kept ({why}): they go only with `force`."


async def _named(context: Context, request: ForgetInput) -> list[str]:
    if not request.missing_ok:
        return await full_ids(context, request.ids)
    ids: dict[str, None] = {}
    for prefix in request.ids:
        try:
            ids[await full_id(context, prefix)] = None
        except MemoryNotFound:
            continue
    return list(ids)


def _nothing(
    request: ForgetInput,
    note: str,
    *,
    kept: Sequence[Memory] = (),
    candidates: Sequence[CandidateView] = (),
) -> ForgetResult:
    return ForgetResult(
        forgotten=[],
        count=0,
        hard=request.hard,
        candidates=list(candidates),
        note=note,
        kept=[memory.id for memory in kept],
    )


def _asking(request: ForgetInput, candidates: list[CandidateView], *, count: int) -> ForgetResult:
    shown = f" {len(candidates)} of them are shown." if len(candidates) < count else ""
    note = f"{count} memories match: nothing was forgotten.{shown} Name ids, or confirm that all shall go."
    return _nothing(request, note, candidates=candidates)


def _candidate(memory: Memory, score: float) -> CandidateView:
    hidden = memory.status in HIDDEN or memory.trust < LEAST_TRUST
    content = "(hidden)" if hidden else shortened(memory, LONGEST_SHOWN).content
    return CandidateView(id=memory.id, content=content, score=round(score, 4))


async def _note(context: Context, request: ForgetInput, backup: str | None) -> str:
    if not request.hard:
        copy_note = f" A copy of the scope is kept: backups/{backup} in the home folder." if backup else ""
        return (
            "Marked as forgotten: no recall finds them. Their owner can undo it: `mindhold forget --undo ID`."
            + copy_note
        )
    notes: list[str] = []
    if backup:
        notes.append(
            f"A copy of the scope is kept: backups/{backup} in the home folder. Delete that file, and the .sha256 "
            "beside it, for it to be gone altogether."
        )
    notes.append("Removed from the store for good." if backup else "Removed for good.")
    others = sum(file.path.name != backup for file in await backups(context.engine))
    if others:
        notes.append(f"{others} earlier backup{'s' if others > 1 else ''} may still hold them.")
    if await _is_shared(context):
        notes.append("Other machines that share this store may tell them once more, at their next event.")
    return " ".join(notes)


async def _is_shared(context: Context) -> bool:
    """Whether hooks of other machines may have cached memories of this store."""
    modes = {
        context.engine.store_registry.home,
        *(place.mode for place in (await context.engine.store_registry.places()).values()),
    }
    return modes != {LOCAL}


async def _unforget(context: Context, request: UnforgetInput) -> UnforgetResult:
    """Bring forgotten memories back."""
    back = await unforget(context.engine, await full_ids(context, request.ids), agent=context.agent)
    notice = await update_documents(context.engine, back)
    views = [MemoryView.of(memory, context.engine.clock()) for memory in back]
    return UnforgetResult(memories=views, notice=notice)


UNFORGET = operation("unforget", _unforget, writes=True)
