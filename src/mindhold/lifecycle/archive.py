"""Moves memories to the archive, and erases archived ones after a backup of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isclose

from pydantic import Field

from mindhold.backup.create import back_up_removed
from mindhold.capture.documents import update_documents
from mindhold.engine import Engine
from mindhold.lifecycle.audit import (
    RETIREMENT,
    UNDO,
    AuditInput,
    AuditRecord,
    find_audit_record,
    mark_undone,
    write_audit_record,
)
from mindhold.lifecycle.stages import StageExample
from mindhold.model.errors import Conflict, MemoryNotFound, StoreFull, StoreReadOnly
from mindhold.model.lifecycle import Fate, fate_of, is_being_erased, may_be_erased, next_review
from mindhold.model.memory import Memory, Status, Tier
from mindhold.operations import Context, Output, operation
from mindhold.ports.store import Change, Mark, Tend
from mindhold.projects.scope_operations import RETIRED, revive_scope

TRIES = 3
FEW = 100  # that are erased at a time
log = logging.getLogger(__name__)


async def archive(
    engine: Engine, leaving: Mapping[str, tuple[Memory, Memory]], *, read: datetime
) -> set[str]:
    """Archive these, given as they were read and as upkeep left them; which of them went.

    What somebody used or changed meanwhile comes back.
    """
    await apply_to_existing(
        engine, [Mark(one, Status.ARCHIVED, Status.ACTIVE, read, only_from=Status.ACTIVE) for one in leaving]
    )
    now = await engine.store.get_many(list(leaving), viewer="system")
    gone = {one.id: one for one in now.values() if one.status is Status.ARCHIVED}
    stirred = {name for name, one in gone.items() if _is_stirred(*leaving[name], one)}
    for name in stirred:
        await _bring_back(engine, *leaving[name], gone[name])
    reviews = [
        Tend(name, review=next_review(one, read, engine.settings.lifecycle_rules))
        for name, one in gone.items()
        if name not in stirred
    ]
    await engine.store.apply(reviews)
    return gone.keys() - stirred


async def erase(engine: Engine, ids: Sequence[str]) -> set[str]:
    """Remove those that are to go still; which went. Their words may live on in what was made of them.

    They are put aside in a file first: where that can't be written, nothing goes.
    """
    gone: set[str] = set()
    try:
        await _put_aside(engine, ids)
    except (StoreFull, StoreReadOnly) as error:
        log.warning("nothing is removed from the archive: %s", error.message)
        return gone
    for first in range(0, len(ids), FEW):
        gone |= await _erase(engine, ids[first : first + FEW])
    return gone


async def _put_aside(engine: Engine, ids: Sequence[str]) -> None:
    """As they are in the archive. One that an earlier run left half-way was put aside by that one."""
    now, life = engine.clock(), engine.settings.lifecycle_rules
    known = await engine.store.get_many(ids, viewer="system")
    leaving = [
        one.id
        for one in known.values()
        if one.status is Status.ARCHIVED and fate_of(one, now, life)[0] is Fate.ERASED
    ]
    if leaving:
        await back_up_removed(engine, leaving, keep_days=engine.settings.retention.keep_pruned_files)


async def _erase(engine: Engine, ids: Sequence[str]) -> set[str]:
    """First they leave the archive, so that nobody brings back from there what is about to go; then they go.

    One that stops in between leaves them hidden, and due: the next one goes on with them.
    """
    now, life = engine.clock(), engine.settings.lifecycle_rules
    known = await engine.store.get_many(ids, viewer="system")
    doomed = {one.id: one for one in known.values() if fate_of(one, now, life)[0] is Fate.ERASED}
    leave = [
        Mark(name, Status.FORGOTTEN, Status.FORGOTTEN, now, only_from=Status.ARCHIVED) for name in doomed
    ]
    await apply_to_existing(engine, leave)
    left = await engine.store.get_many(list(doomed), viewer="system")
    going = [one for one in left.values() if is_being_erased(one)]
    kept = [one for one in going if not may_be_erased(one) or _is_wanted(doomed[one.id], one)]
    back = [
        Mark(one.id, Status.ARCHIVED, _before_the_archive(doomed[one.id]), now, only_from=Status.FORGOTTEN)
        for one in kept
    ]
    await apply_to_existing(engine, back)
    stay = {one.id for one in kept}
    last = [one.id for one in going if one.id not in stay]
    return set((await engine.store.erase(last)).ids) if last else set()


async def apply_to_existing(engine: Engine, marks: Sequence[Mark]) -> None:
    """All of them, but for those whose record somebody erases meanwhile."""
    for _ in range(TRIES if marks else 0):
        try:
            await engine.store.apply(list[Change](marks))
            break
        except MemoryNotFound:
            known = await engine.store.get_many([mark.memory_id for mark in marks], viewer="system")
            marks = [mark for mark in marks if mark.memory_id in known]


async def _bring_back(engine: Engine, before: Memory, tended: Memory, now: Memory) -> None:
    """What was only shown or used is as old as it was; of what was amended the time is lost, so it is now."""
    updated = engine.clock() if _is_amended(before, tended, now) else before.updated
    back = Mark(now.id, Status.ACTIVE, None, updated, only_from=Status.ARCHIVED)
    try:
        await apply_to_existing(engine, [back])
    except Conflict:  # the same was remembered anew
        return


def _is_stirred(before: Memory, tended: Memory, now: Memory) -> bool:
    """Whether somebody used or changed it since it was read."""
    counted = (before.uses, before.shown) == (now.uses, now.shown)
    rated = not _is_close(now.usefulness, tended.usefulness)
    return not counted or rated or _is_amended(before, tended, now)


def _before_the_archive(memory: Memory) -> Status | None:
    return memory.previous_status if memory.status is Status.ARCHIVED else Status.ACTIVE


def _is_wanted(before: Memory, now: Memory) -> bool:
    """Whether somebody used or changed in the archive what was to leave it."""
    return before.status is Status.ARCHIVED and _is_stirred(before, before, now)


def _is_amended(before: Memory, tended: Memory, now: Memory) -> bool:
    """Upkeep itself may have been passed over: then the importance is as it was."""
    if not _is_close(now.importance, tended.importance) and not _is_close(now.importance, before.importance):
        return True
    if (before.tier is Tier.PERMANENT) != (now.tier is Tier.PERMANENT):
        return True
    if not _is_close(now.confidence, before.confidence) or not _is_close(now.trust, before.trust):
        return True
    stated = (
        "content_hash",
        "kind",
        "topic",
        "tags",
        "keywords",
        "anchor",
        "occurred",
        "metadata",
        "provenance",
    )
    return any(getattr(before, name) != getattr(now, name) for name in stated)


def _is_close(one: float, other: float) -> bool:
    """A store may keep fewer digits."""
    return isclose(one, other, abs_tol=1e-6)


LOT = 500
BACK = "brought back"


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What is back; `passed_over` of those it archived are not in the archive any more, or were said anew."""

    record: AuditRecord
    back: tuple[Memory, ...]
    passed_over: int
    note: str = ""


async def undo_run(engine: Engine, named: str, *, agent: str) -> UndoResult:
    """Bring back what that run archived, or switch on the scope that it retired. The second time it does nothing.

    What was removed comes back from the files that the record names. Raises NotFound, InvalidInput.
    """
    kept = await find_audit_record(engine, named)
    if kept.what == RETIREMENT and RETIRED in kept.counts:
        await revive_scope(engine, kept.scope, agent=agent)
        await mark_undone(engine, kept)
        return UndoResult(kept, (), 0, f"The scope {kept.scope} is switched on again.")
    ids = kept.archived()
    back: list[Memory] = []
    for first in range(0, len(ids), LOT):
        back += await _brought_back(engine, ids[first : first + LOT])
    if back:
        told = [StageExample(one.id, BACK, "") for one in back]
        said = f"brought back {len(back)} of those that {kept.what} {kept.id} had archived"
        await write_audit_record(engine, UNDO, who=agent, operations=(said,), memories=told)
        await mark_undone(engine, kept)
    return UndoResult(kept, tuple(back), len(ids) - len(back), _note(kept))


def _note(kept: AuditRecord) -> str:
    said: list[str] = []
    if kept.counts.get("merged"):
        said.append("What was merged lives on in what it was merged into.")
    if kept.files:
        said.append(f"`mindhold restore {kept.files[0]} --merge` brings back what was removed.")
    elif kept.counts.get(Fate.ERASED):
        said.append("The file of what was removed is gone.")
    return " ".join(said)


async def _brought_back(engine: Engine, ids: Sequence[str]) -> list[Memory]:
    """Those that were in the archive, and are no more."""
    known = await engine.store.get_many(ids, viewer="system")
    archived = [one for one in known.values() if one.status is Status.ARCHIVED]
    marks = [_mark(engine, one) for one in archived]
    try:
        await apply_to_existing(engine, marks)
    except Conflict:  # one of them was remembered anew: the others come one by one
        for mark in marks:
            await _each(engine, mark)
    now = await engine.store.get_many([one.id for one in archived], viewer="system")
    return [one for one in now.values() if one.status is not Status.ARCHIVED]


async def _each(engine: Engine, mark: Mark) -> None:
    try:
        await apply_to_existing(engine, [mark])
    except Conflict:
        return


def _mark(engine: Engine, memory: Memory) -> Mark:
    status = memory.previous_status or Status.ACTIVE
    return Mark(memory.id, status, None, engine.clock(), only_from=Status.ARCHIVED)


class UndoAuditResult(Output):
    """The ids that are back. Others are archived no more, or were said anew."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    restored: list[str] = Field(examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])
    count: int = Field(description="Number of items in this answer.", examples=[1])
    passed_over: int = Field(examples=[0])
    note: str = Field(default="", description="A note about it.")
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # of documents that couldn't be written


async def _undo(context: Context, request: AuditInput) -> UndoAuditResult:
    """Bring back what a run of upkeep archived."""
    done = await undo_run(context.engine, request.id, agent=context.agent)
    notice = await update_documents(context.engine, done.back) if done.back else ""
    return UndoAuditResult(
        id=done.record.id,
        restored=[memory.id for memory in done.back],
        count=len(done.back),
        passed_over=done.passed_over,
        note=done.note,
        notice=notice,
    )


UNDO_AUDIT = operation("undo_audit", _undo, writes=True, owner_only=True)
