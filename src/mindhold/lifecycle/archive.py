"""Moves memories to the archive, and erases archived ones after a backup of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import isclose

from pydantic import Field

from mindhold.backup.create import back_up_removed
from mindhold.capture.claude_md import update_documents
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
from mindhold.lifecycle.stage_report import StageExample
from mindhold.memories.views import Notice
from mindhold.model.errors import Conflict, MemoryNotFound, StoreFull, StoreReadOnly
from mindhold.model.lifecycle import Fate, fate_of, is_being_erased, may_be_erased, next_review
from mindhold.model.memory import Memory, Status, Tier
from mindhold.operations import Context, Output, operation
from mindhold.ports.store import Change, Mark, Tend
from mindhold.projects.scope_operations import RETIRED, revive_scope

TRIES = 3
ERASE_BATCH = 100  # memories erased at a time
_AMENDABLE = (
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
log = logging.getLogger(__name__)


async def archive(
    engine: Engine, leaving: Mapping[str, tuple[Memory, Memory]], *, read: datetime
) -> set[str]:
    """Archive memories and return the ids of those that stay archived.

    `leaving` maps an id to the memory as it was read and as maintenance changed it. A memory that somebody used or
    changed since it was read becomes active again.
    """
    await apply_to_existing(
        engine,
        [
            Mark(memory_id, Status.ARCHIVED, Status.ACTIVE, read, only_from=Status.ACTIVE)
            for memory_id in leaving
        ],
    )
    current = await engine.store.get_many(list(leaving), viewer="system")
    archived = {memory.id: memory for memory in current.values() if memory.status is Status.ARCHIVED}
    touched = {
        memory_id for memory_id, memory in archived.items() if _is_touched(*leaving[memory_id], memory)
    }
    for memory_id in touched:
        await _bring_back(engine, *leaving[memory_id], archived[memory_id])
    reviews = [
        Tend(memory_id, review=next_review(memory, read, engine.settings.lifecycle_rules))
        for memory_id, memory in archived.items()
        if memory_id not in touched
    ]
    await engine.store.apply(reviews)
    return archived.keys() - touched


def archived_copy(memory: Memory, now: datetime) -> Memory:
    """The memory as it is in the archive."""
    return replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=now)


async def erase(engine: Engine, ids: Sequence[str]) -> set[str]:
    """Erase the archived memories whose time is up and return their ids.

    They are written to a backup file first; if that fails, nothing is erased. Their content may live on in memories
    that were made from them.
    """
    erased: set[str] = set()
    try:
        await _back_up(engine, ids)
    except (StoreFull, StoreReadOnly) as error:
        log.warning("nothing is removed from the archive: %s", error.message)
        return erased
    for start in range(0, len(ids), ERASE_BATCH):
        erased |= await _erase_batch(engine, ids[start : start + ERASE_BATCH])
    return erased


async def _back_up(engine: Engine, ids: Sequence[str]) -> None:
    now, life = engine.clock(), engine.settings.lifecycle_rules
    memories = await engine.store.get_many(ids, viewer="system")
    expired = [
        memory.id
        for memory in memories.values()
        if memory.status is Status.ARCHIVED and fate_of(memory, now, life)[0] is Fate.ERASED
    ]
    if expired:
        await back_up_removed(engine, expired, keep_days=engine.settings.retention.keep_pruned_files)


async def _erase_batch(engine: Engine, ids: Sequence[str]) -> set[str]:
    """Erase one batch in two steps: mark as forgotten, then erase.

    The mark keeps anybody from restoring a memory that is about to go. After a crash between the steps the memories
    are hidden and still due, and the next run erases them.
    """
    now, life = engine.clock(), engine.settings.lifecycle_rules
    memories = await engine.store.get_many(ids, viewer="system")
    expired = {
        memory.id: memory for memory in memories.values() if fate_of(memory, now, life)[0] is Fate.ERASED
    }
    marks = [
        Mark(memory_id, Status.FORGOTTEN, Status.FORGOTTEN, now, only_from=Status.ARCHIVED)
        for memory_id in expired
    ]
    await apply_to_existing(engine, marks)
    marked = await engine.store.get_many(list(expired), viewer="system")
    going = [memory for memory in marked.values() if is_being_erased(memory)]
    spared: dict[str, Mark] = {}
    for memory in going:
        before = expired[memory.id]
        was_archived = before.status is Status.ARCHIVED
        if not may_be_erased(memory) or (was_archived and _is_touched(before, before, memory)):
            previous = before.previous_status if was_archived else Status.ACTIVE
            spared[memory.id] = Mark(memory.id, Status.ARCHIVED, previous, now, only_from=Status.FORGOTTEN)
    await apply_to_existing(engine, list(spared.values()))
    final_ids = [memory.id for memory in going if memory.id not in spared]
    return set((await engine.store.erase(final_ids)).ids) if final_ids else set()


async def apply_to_existing(engine: Engine, marks: Sequence[Mark]) -> None:
    """Apply marks, leaving out those whose memory is erased in the meantime."""
    for _ in range(TRIES if marks else 0):
        try:
            await engine.store.apply(list[Change](marks))
            break
        except MemoryNotFound:
            memories = await engine.store.get_many([mark.memory_id for mark in marks], viewer="system")
            marks = [mark for mark in marks if mark.memory_id in memories]


async def _bring_back(engine: Engine, before: Memory, tended: Memory, now: Memory) -> None:
    """Make a memory active again. One that was amended gets the current time, since the time of its amendment is lost."""
    updated = engine.clock() if _is_amended(before, tended, now) else before.updated
    with suppress(Conflict):  # the same content was stored again
        await apply_to_existing(
            engine, [Mark(now.id, Status.ACTIVE, None, updated, only_from=Status.ARCHIVED)]
        )


def _is_touched(before: Memory, tended: Memory, now: Memory) -> bool:
    """Whether somebody used or changed the memory since it was read."""
    same_counts = (before.uses, before.shown) == (now.uses, now.shown)
    rated = not _is_close(now.usefulness, tended.usefulness)
    return not same_counts or rated or _is_amended(before, tended, now)


def _is_amended(before: Memory, tended: Memory, now: Memory) -> bool:
    """Whether somebody changed the memory. Its importance may also be the one before maintenance, if that was skipped."""
    if not _is_close(now.importance, tended.importance) and not _is_close(now.importance, before.importance):
        return True
    if (before.tier is Tier.PERMANENT) != (now.tier is Tier.PERMANENT):
        return True
    if not _is_close(now.confidence, before.confidence) or not _is_close(now.trust, before.trust):
        return True
    return any(getattr(before, name) != getattr(now, name) for name in _AMENDABLE)


def _is_close(first: float, second: float) -> bool:
    """Compare with a tolerance: a store may keep fewer digits."""
    return isclose(first, second, abs_tol=1e-6)


UNDO_BATCH = 500
RESTORED_REASON = "brought back"


def _note(record: AuditRecord) -> str:
    sentences: list[str] = []
    if record.counts.get("merged"):
        sentences.append("What was merged lives on in what it was merged into.")
    if record.files:
        sentences.append(f"`mindhold restore {record.files[0]} --merge` brings back what was removed.")
    elif record.counts.get(Fate.ERASED):
        sentences.append("The file of what was removed is gone.")
    return " ".join(sentences)


async def _restore_archived(engine: Engine, ids: Sequence[str]) -> list[Memory]:
    memories = await engine.store.get_many(ids, viewer="system")
    archived = [memory for memory in memories.values() if memory.status is Status.ARCHIVED]
    marks = [
        Mark(
            memory.id,
            memory.previous_status or Status.ACTIVE,
            None,
            engine.clock(),
            only_from=Status.ARCHIVED,
        )
        for memory in archived
    ]
    try:
        await apply_to_existing(engine, marks)
    except Conflict:  # one of them was stored again: restore the others one by one
        for mark in marks:
            with suppress(Conflict):
                await apply_to_existing(engine, [mark])
    current = await engine.store.get_many([memory.id for memory in archived], viewer="system")
    return [memory for memory in current.values() if memory.status is not Status.ARCHIVED]


class UndoAuditResult(Output):
    """The ids of the restored memories. `passed_over` counts those that left the archive or were stored again."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    restored: list[str] = Field(examples=[["01m7gv42a3fzcy3gb19vmek4q7"]])
    count: int = Field(description="Number of items in this answer.", examples=[1])
    passed_over: int = Field(examples=[0])
    note: str = Field(default="", description="A note about it.")
    notice: Notice = ""  # of documents that couldn't be written


async def _undo(context: Context, request: AuditInput) -> UndoAuditResult:
    """Restore the memories that a maintenance run archived.

    A scope that it retired is switched on again. A second call does nothing. Erased memories can be restored from the files
    that the record names. Raises NotFound, InvalidInput.
    """
    engine = context.engine
    record = await find_audit_record(engine, request.id)
    if record.what == RETIREMENT and RETIRED in record.counts:
        await revive_scope(engine, record.scope, agent=context.agent)
        await mark_undone(engine, record)
        note = f"The scope {record.scope} is switched on again."
        return UndoAuditResult(id=record.id, restored=[], count=0, passed_over=0, note=note)
    ids = record.archived()
    restored: list[Memory] = []
    for start in range(0, len(ids), UNDO_BATCH):
        restored += await _restore_archived(engine, ids[start : start + UNDO_BATCH])
    notice = ""
    if restored:
        examples = [StageExample(memory.id, RESTORED_REASON, "") for memory in restored]
        summary = f"brought back {len(restored)} of those that {record.what} {record.id} had archived"
        await write_audit_record(engine, UNDO, who=context.agent, operations=(summary,), memories=examples)
        await mark_undone(engine, record)
        notice = await update_documents(engine, restored)
    return UndoAuditResult(
        id=record.id,
        restored=[memory.id for memory in restored],
        count=len(restored),
        passed_over=len(ids) - len(restored),
        note=_note(record),
        notice=notice,
    )


UNDO_AUDIT = operation("undo_audit", _undo, writes=True, owner_only=True)
