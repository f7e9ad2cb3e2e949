"""Operations that take memories away, and bring them back."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from mindhold.engine.backup import back_up_scope, backups
from mindhold.engine.capture.rewriting import off_the_documents, rewrite_documents
from mindhold.engine.checks import MOST_LABELS
from mindhold.engine.choice import Choice, candidates, chosen
from mindhold.engine.core import LEAST_TRUST
from mindhold.engine.forget import erase, forget, forgettable, kept_for_good, unforget
from mindhold.engine.projects import PROJECT
from mindhold.engine.reach import find_scope, scope_called
from mindhold.engine.scopes import delete_scope
from mindhold.engine.surroundings import HIDDEN, shortened
from mindhold.model.errors import Conflict, MemoryNotFound, Refused, ScopeNotFound
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.model.storage import LOCAL
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output, full_id, full_ids
from mindhold.operations.views import MemoryView, ReceiptView

FEW = 3  # what nobody named by id is forgotten without asking only up to here
MOST_SHOWN = 20  # of those that are asked about
LONGEST_SHOWN = 200


class ForgetInput(Input):
    """What to forget: all that holds of it narrows. `query` finds by meaning.

    What is kept for good goes only with `force`: of a topic or a tag it is passed over and told, otherwise it is an error.
    More than a few that nobody named by id need `confirm`, if a query found them or if they go for good.
    """

    ids: list[str] = []
    query: str | None = None
    tags: list[str] = Field(default=[], max_length=MOST_LABELS)
    topic: str | None = None
    scope: str | None = None
    everywhere: bool = True  # without a scope: in all of them, or in those that the call sees
    force: bool = False
    hard: bool = False
    confirm: bool = False
    missing_ok: bool = False  # an unknown id or scope is no error
    backup: bool = True  # of a whole scope that goes, a copy is put aside first
    drop_scope: bool = False  # a whole scope that goes for good goes with its name, if nothing else is in it


class CandidateView(Output):
    """What would be forgotten."""

    id: str
    content: str
    score: float


class ForgetResult(Output):
    """What was forgotten; the receipt when it was for good. Candidates mean that nothing was: confirm first."""

    forgotten: list[str]
    count: int
    hard: bool
    receipt: ReceiptView | None = None
    candidates: list[CandidateView] = []
    note: str = ""
    notice: str = ""  # of documents that couldn't be written
    scope: str | None = None
    backup: str | None = None
    kept: list[str] = []  # passed over, for they are kept for good


class UnforgetInput(Input):
    """Which to bring back."""

    ids: list[str] = Field(min_length=1)


class UnforgetResult(Output):
    """What is back."""

    memories: list[MemoryView]
    notice: str = ""


async def _forget(call: Call, given: ForgetInput) -> ForgetResult:
    if given.scope:
        try:
            given = given.model_copy(update={"scope": await scope_called(call.engine, given.scope)})
        except ScopeNotFound:
            if not given.missing_ok:
                raise
            return _nothing(given, "There is no such scope.")
    choice = Choice(
        ids=tuple(await _named(call, given)),
        query=(given.query or "").strip() or None,
        tags=tuple(given.tags),
        topic=given.topic,
        scope=given.scope,
        everywhere=given.everywhere,
        hidden=given.hard,
    )
    if given.ids and not choice.ids:
        return _nothing(given, "There is no such memory.")
    if choice.query:
        hits = await candidates(call.engine, choice, agent=call.agent)
        if len(hits) > FEW and not given.confirm:
            return _asking(given, [_candidate(hit.memory, hit.score) for hit in hits], count=len(hits))
        ids = [hit.memory.id for hit in hits]
    else:
        ids = await chosen(call.engine, choice, agent=call.agent)
    if not ids:
        dropped = await _dropped(call, given, choice)
        return _nothing(given, f"Nothing matches. {dropped}".strip())
    kept: list[Memory] = []
    if not (choice.ids or choice.query or choice.whole_scope or given.force):
        kept = await kept_for_good(call.engine, ids, agent=call.agent)
        spared = {memory.id for memory in kept}
        ids = [memory_id for memory_id in ids if memory_id not in spared]
        if not ids:
            return _nothing(given, _sparing(kept), kept=kept)
    if given.hard and not (choice.ids or given.confirm) and len(ids) > FEW:
        some = await call.engine.store.get_many(ids[:MOST_SHOWN], viewer=call.agent)
        return _asking(given, [_candidate(memory, 1.0) for memory in some.values()], count=len(ids))
    await forgettable(call.engine, ids, agent=call.agent, force=given.force)
    aside = None
    if choice.whole_scope and given.scope and given.backup:
        aside = (await back_up_scope(call.engine, given.scope, agent=call.agent)).path.name
    act = erase if given.hard else forget
    gone = await act(call.engine, ids, agent=call.agent, force=given.force)
    if not gone.memories:
        return _nothing(given, "They were forgotten already.", kept=kept)
    receipt = gone.receipt
    if receipt is not None:
        receipt, unwritten = await off_the_documents(call.engine, receipt, gone.memories)
    else:
        unwritten = await rewrite_documents(call.engine, gone.memories)
    said = (
        await _note(call, given, aside),
        await _dropped(call, given, choice),
        _sparing(kept) if kept else "",
        unwritten,
    )
    return ForgetResult(
        forgotten=[memory.id for memory in gone.memories],
        count=len(gone.memories),
        hard=given.hard,
        receipt=ReceiptView.of(receipt) if receipt else None,
        note=" ".join(filter(None, said)),
        notice=unwritten,
        scope=given.scope if choice.whole_scope else None,
        backup=aside,
        kept=[memory.id for memory in kept],
    )


async def _dropped(call: Call, given: ForgetInput, choice: Choice) -> str:
    """What became of the scope itself. Keys that are bound to scopes may empty one, and not reshape what there is."""
    if not (given.drop_scope and given.hard and given.scope and choice.whole_scope and call.owner):
        return ""
    if call.engine.fence or given.scope == GLOBAL:
        return ""
    scope = await find_scope(call.engine, given.scope)
    if scope.kind == PROJECT:
        return "The project itself stays: `mindhold projects delete` removes it."
    if await call.engine.store.count(
        Filter(viewer="system", scopes=(scope.name,), statuses=ANY_STATUS), most=1
    ):
        return "The scope stays, for something is left in it."
    try:
        await delete_scope(call.engine, scope.name, agent=call.agent)
    except (Conflict, Refused) as error:
        return f"The scope stays. {error.message}"
    return "The scope is gone too."


def _sparing(kept: list[Memory]) -> str:
    anchors = sum(memory.anchor for memory in kept)
    sorts = ((anchors, "anchored"), (len(kept) - anchors, "permanent"))
    why = ", ".join(f"{number} {sort}" for number, sort in sorts if number)
    verb = "was" if len(kept) == 1 else "were"
    return f"{len(kept)} {verb} kept ({why}): they go only with `force`."


async def _named(call: Call, given: ForgetInput) -> list[str]:
    if not given.missing_ok:
        return await full_ids(call, given.ids)
    known: dict[str, None] = {}
    for one in given.ids:
        try:
            known[await full_id(call, one)] = None
        except MemoryNotFound:
            continue
    return list(known)


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


async def _note(call: Call, given: ForgetInput, aside: str | None) -> str:
    if not given.hard:
        kept = f" A copy of the scope is kept: backups/{aside} in the home folder." if aside else ""
        return (
            "Marked as forgotten: no recall finds them. Their owner can undo it: `mindhold forget --undo ID`."
            + kept
        )
    said: list[str] = []
    if aside:
        said.append(
            f"A copy of the scope is kept: backups/{aside} in the home folder. Delete that file, and the .sha256 "
            "beside it, for it to be gone altogether."
        )
    said.append("Removed from the store for good." if aside else "Removed for good.")
    others = sum(one.path.name != aside for one in await backups(call.engine))
    if others:
        said.append(f"{others} earlier backup{'s' if others > 1 else ''} may still hold them.")
    if await _is_shared(call):
        said.append("Other machines that share this store may tell them once more, at their next event.")
    return " ".join(said)


async def _is_shared(call: Call) -> bool:
    """Whether hooks of other machines may have leaflets of what was in this store."""
    modes = {call.engine.houses.home, *(place.mode for place in (await call.engine.houses.places()).values())}
    return modes != {LOCAL}


async def _unforget(call: Call, given: UnforgetInput) -> UnforgetResult:
    back = await unforget(call.engine, await full_ids(call, given.ids), agent=call.agent)
    notice = await rewrite_documents(call.engine, back)
    views = [MemoryView.of(memory, call.engine.clock()) for memory in back]
    return UnforgetResult(memories=views, notice=notice)


FORGET = Operation(
    "forget",
    "Hide memories, or remove them for good with proof.",
    ForgetInput,
    ForgetResult,
    _forget,
    Effect.DESTROYS,
)
UNFORGET = Operation(
    "unforget", "Bring forgotten memories back.", UnforgetInput, UnforgetResult, _unforget, Effect.WRITES
)
