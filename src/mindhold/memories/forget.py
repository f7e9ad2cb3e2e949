"""Forgetting: soft hides memories and can be undone; hard erases them and proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from mindhold.memories.recall import Hit, RecallInput, recall
from mindhold.memories.views import MemoryView, ReceiptView
from mindhold.model.errors import Changed, Conflict, InvalidInput, MemoryNotFound, Refused, ScopeNotFound
from mindhold.model.lifecycle import PROFILE_SECTION_KEY, is_being_erased, is_kept_for_good
from mindhold.model.memory import ANY_STATUS, Memory, Relation, Status
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, LOCAL
from mindhold.operations import Context, Input, Output, full_id, full_ids, operation
from mindhold.ports.store import Change, Mark, Receipt
from mindhold.projects.placement import PROJECT
from mindhold.projects.scopes import delete_scope, find_scope, scope_name, visible_scopes


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten; `receipt` is set if it was erased."""

    memories: tuple[Memory, ...]
    receipt: Receipt | None = None


async def forget(engine: Engine, ids: Sequence[str], *, agent: str, force: bool = False) -> Forgotten:
    """Hide memories everywhere; a permanent or anchored one only with `force`.

    The other parts of a split document go with any of its parts. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(
        engine, await forgettable(engine, ids, agent=agent, force=force), agent=agent
    )
    now = engine.clock()
    changes: list[Change] = [
        Mark(memory.id, Status.FORGOTTEN, previous=memory.status, updated=now)
        for memory in memories
        if memory.status is not Status.FORGOTTEN
    ]
    if changes:
        await engine.store.apply(changes)
        await hide_recaps(engine, memories)
        await blank_hook_caches(engine)
    return Forgotten(tuple(memory for memory in memories if memory.status is not Status.FORGOTTEN))


async def unforget(engine: Engine, ids: Sequence[str], *, agent: str) -> list[Memory]:
    """Undo a soft forget, or bring memories back from the archive.

    A memory that somebody else changes at that moment doesn't come back. Raises MemoryNotFound, Changed, Conflict, and Refused
    for one that is neither forgotten nor archived, or that is being erased.
    """
    memories = await _with_parts(engine, await forgettable(engine, ids, agent=agent, force=True), agent=agent)
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


async def erase(engine: Engine, ids: Sequence[str], *, agent: str, force: bool = False) -> Forgotten:
    """Remove memories, everything derived from them and every trace in the index; return the proof.

    A memory that was merged from an erased one repeats its words, so it is erased too. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(
        engine, await forgettable(engine, ids, agent=agent, force=force), agent=agent
    )
    named_ids = {memory.id for memory in memories}
    doomed = await with_derived(engine, memories)
    await note_erased(engine, list(doomed.values()))
    receipt = await erase_from_hook_caches(engine, await engine.store.erase(list(doomed)))
    # A summary that was named is not wanted any more; one that was only derived is made anew.
    await queue_recap_rebuild(
        engine, (other for other in doomed.values() if other.id not in named_ids), besides=set(doomed)
    )
    return Forgotten(tuple(doomed.values()), receipt)


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


async def kept_for_good(engine: Engine, ids: Sequence[str], *, agent: str) -> list[Memory]:
    """Return those that need `force`: anchors and permanent memories."""
    memories = await engine.store.get_many(ids, viewer=agent)
    return [memory for memory in memories.values() if needs_force(memory)]


async def _with_parts(engine: Engine, memories: Sequence[Memory], *, agent: str) -> list[Memory]:
    """Add the other parts of split documents, which `part_of` links to their first part."""
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


@dataclass(frozen=True, slots=True)
class ForgetChoice:
    """Which memories to forget: all conditions must hold. `hidden` includes memories that recall doesn't find."""

    ids: tuple[str, ...] = ()
    query: str | None = None
    tags: tuple[str, ...] = ()
    topic: str | None = None
    scope: str | None = None
    everywhere: bool = True  # without a scope: in all scopes, or in those that the call sees
    hidden: bool = False

    @property
    def whole_scope(self) -> bool:
        """Whether everything in a scope is selected."""
        return bool(self.scope and not (self.ids or self.query or self.tags or self.topic))


async def chosen_memories(engine: Engine, choice: ForgetChoice, *, agent: str) -> list[str]:
    """Return the ids of a choice without a query. Raises InvalidInput without a condition, ScopeNotFound."""
    if not (choice.ids or choice.tags or choice.topic or choice.scope):
        raise InvalidInput(
            "Nothing was named to forget.", advice="Give ids, a query, or a tag, topic or scope."
        )
    scope = await scope_name(engine, choice.scope) if choice.scope else None
    if choice.ids and not (choice.tags or choice.topic or choice.scope):
        return list(choice.ids)
    scopes = (scope,) if scope else () if choice.everywhere else await visible_scopes(engine, None)
    where = Filter(
        viewer=agent,
        ids=choice.ids,
        tags=bare_tags(choice.tags),
        topic=choice.topic,
        scopes=scopes,
        statuses=ANY_STATUS if choice.hidden or choice.ids else FOUND,
    )
    return [memory.id async for batch in engine.store.scan(where) for memory in batch]


async def candidates(engine: Engine, choice: ForgetChoice, *, agent: str) -> tuple[Hit, ...]:
    """Return what the query finds, best first; only among the ids if there are some. Raises InvalidInput, ScopeNotFound."""
    request = RecallInput(
        query=choice.query or "",
        scope=choice.scope,
        scope_only=choice.scope is not None,
        tags=list(choice.tags),
        topic=choice.topic,
        statuses=list(FOUND),
        limit=MOST_HITS if choice.ids else MOST_FOUND,
        count_use=False,
    )
    hits = (await recall(engine, request, agent=agent)).hits
    return tuple(hit for hit in hits if hit.memory.id in choice.ids) if choice.ids else hits


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
        default=True,
        description="Whether a backup was made first.",
    )  # of a whole scope that goes, a copy is put aside first
    drop_scope: bool = Field(
        default=False, description="Also delete the scope itself when all of it is erased."
    )  # a whole scope that goes for good goes with its name, if nothing else is in it


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
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # of documents that couldn't be written
    scope: str | None = Field(default=None, description="Its scope.")
    backup: str | None = Field(
        default=None,
        description="The backup that was made first.",
    )
    kept: list[str] = []  # passed over, for they are kept for good


class UnforgetInput(Input):
    """Which to bring back."""

    ids: list[str] = Field(min_length=1, description="Ids of memories.")


class UnforgetResult(Output):
    """What is back."""

    memories: list[MemoryView] = Field(description="Memories.")
    notice: str = Field(default="", description="A notice about this answer; usually empty.")


async def _forget(context: Context, request: ForgetInput) -> ForgetResult:
    """Hide memories, or remove them for good with proof."""
    if request.scope:
        try:
            request = request.model_copy(update={"scope": await scope_name(context.engine, request.scope)})
        except ScopeNotFound:
            if not request.missing_ok:
                raise
            return _nothing(request, "There is no such scope.")
    choice = ForgetChoice(
        ids=tuple(await _named(context, request)),
        query=(request.query or "").strip() or None,
        tags=tuple(request.tags),
        topic=request.topic,
        scope=request.scope,
        everywhere=request.everywhere,
        hidden=request.hard,
    )
    if request.ids and not choice.ids:
        return _nothing(request, "There is no such memory.")
    if choice.query:
        hits = await candidates(context.engine, choice, agent=context.agent)
        if len(hits) > FEW and not request.confirm:
            return _asking(request, [_candidate(hit.memory, hit.score) for hit in hits], count=len(hits))
        ids = [hit.memory.id for hit in hits]
    else:
        ids = await chosen_memories(context.engine, choice, agent=context.agent)
    if not ids:
        dropped = await _dropped(context, request, choice)
        return _nothing(request, f"Nothing matches. {dropped}".strip())
    protected: list[Memory] = []
    if not (choice.ids or choice.query or choice.whole_scope or request.force):
        protected = await kept_for_good(context.engine, ids, agent=context.agent)
        spared = {memory.id for memory in protected}
        ids = [memory_id for memory_id in ids if memory_id not in spared]
        if not ids:
            return _nothing(request, _sparing(protected), kept=protected)
    if request.hard and not (choice.ids or request.confirm) and len(ids) > FEW:
        some = await context.engine.store.get_many(ids[:MOST_SHOWN], viewer=context.agent)
        return _asking(request, [_candidate(memory, 1.0) for memory in some.values()], count=len(ids))
    await forgettable(context.engine, ids, agent=context.agent, force=request.force)
    aside = None
    if choice.whole_scope and request.scope and request.backup:
        aside = (await back_up_scope(context.engine, request.scope, agent=context.agent)).path.name
    act = erase if request.hard else forget
    forgotten = await act(context.engine, ids, agent=context.agent, force=request.force)
    if not forgotten.memories:
        return _nothing(request, "They were forgotten already.", kept=protected)
    receipt = forgotten.receipt
    if receipt is not None:
        receipt, unwritten = await erase_from_documents(context.engine, receipt, forgotten.memories)
    else:
        unwritten = await update_documents(context.engine, forgotten.memories)
    notes = (
        await _note(context, request, aside),
        await _dropped(context, request, choice),
        _sparing(protected) if protected else "",
        unwritten,
    )
    return ForgetResult(
        forgotten=[memory.id for memory in forgotten.memories],
        count=len(forgotten.memories),
        hard=request.hard,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=" ".join(filter(None, notes)),
        notice=unwritten,
        scope=request.scope if choice.whole_scope else None,
        backup=aside,
        kept=[memory.id for memory in protected],
    )


FORGET = operation("forget", _forget, destroys=True)


async def _dropped(context: Context, given: ForgetInput, choice: ForgetChoice) -> str:
    """Delete the emptied scope if that was asked for; return what became of it.

    Keys that are bound to scopes may empty a scope but not delete it.
    """
    if not (given.drop_scope and given.hard and given.scope and choice.whole_scope and context.owner):
        return ""
    if context.engine.allowed_scopes or given.scope == GLOBAL:
        return ""
    scope = await find_scope(context.engine, given.scope)
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


async def _named(context: Context, given: ForgetInput) -> list[str]:
    if not given.missing_ok:
        return await full_ids(context, given.ids)
    ids: dict[str, None] = {}
    for prefix in given.ids:
        try:
            ids[await full_id(context, prefix)] = None
        except MemoryNotFound:
            continue
    return list(ids)


def _nothing(given: ForgetInput, why: str, *, kept: Sequence[Memory] = ()) -> ForgetResult:
    return ForgetResult(
        forgotten=[],
        count=0,
        hard=given.hard,
        note=f"{why} Nothing was forgotten.",
        kept=[memory.id for memory in kept],
    )


def _asking(given: ForgetInput, candidates: list[CandidateView], *, count: int) -> ForgetResult:
    shown = f" {len(candidates)} of them are shown." if len(candidates) < count else ""
    return ForgetResult(
        forgotten=[],
        count=0,
        hard=given.hard,
        candidates=candidates,
        note=f"{count} memories match: nothing was forgotten.{shown} Name ids, or confirm that all shall go.",
    )


def _candidate(memory: Memory, score: float) -> CandidateView:
    hidden = memory.status in HIDDEN or memory.trust < LEAST_TRUST
    content = "(hidden)" if hidden else shortened(memory, LONGEST_SHOWN).content
    return CandidateView(id=memory.id, content=content, score=round(score, 4))


async def _note(context: Context, given: ForgetInput, aside: str | None) -> str:
    if not given.hard:
        copy_note = f" A copy of the scope is kept: backups/{aside} in the home folder." if aside else ""
        return (
            "Marked as forgotten: no recall finds them. Their owner can undo it: `mindhold forget --undo ID`."
            + copy_note
        )
    notes: list[str] = []
    if aside:
        notes.append(
            f"A copy of the scope is kept: backups/{aside} in the home folder. Delete that file, and the .sha256 "
            "beside it, for it to be gone altogether."
        )
    notes.append("Removed from the store for good." if aside else "Removed for good.")
    others = sum(backup.path.name != aside for backup in await backups(context.engine))
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
