"""Undoing what a run of upkeep archived, as far as it is archived still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.engine.audit import RETIREMENT, UNDO, AuditRecord, find_record, mark_undone, record
from mindhold.engine.consolidate.leaving import apply_to_existing
from mindhold.engine.consolidate.stage import Told
from mindhold.engine.core import Engine
from mindhold.engine.retiring import RETIRED, revive_scope
from mindhold.model.errors import Conflict
from mindhold.model.life import Fate
from mindhold.model.memory import Memory, Status
from mindhold.ports.store import Mark

LOT = 500
BACK = "brought back"


@dataclass(frozen=True, slots=True)
class Undone:
    """What is back; `passed_over` of those it archived are not in the archive any more, or were said anew."""

    record: AuditRecord
    back: tuple[Memory, ...]
    passed_over: int
    note: str = ""


async def undo(engine: Engine, named: str, *, agent: str) -> Undone:
    """Bring back what that run archived, or switch on the scope that it retired. The second time it does nothing.

    What was removed comes back from the files that the record names. Raises NotFound, InvalidInput.
    """
    kept = await find_record(engine, named)
    if kept.what == RETIREMENT and RETIRED in kept.counts:
        await revive_scope(engine, kept.scope, agent=agent)
        await mark_undone(engine, kept)
        return Undone(kept, (), 0, f"The scope {kept.scope} is switched on again.")
    ids = kept.archived()
    back: list[Memory] = []
    for first in range(0, len(ids), LOT):
        back += await _brought_back(engine, ids[first : first + LOT])
    if back:
        told = [Told(one.id, BACK, "") for one in back]
        said = f"brought back {len(back)} of those that {kept.what} {kept.id} had archived"
        await record(engine, UNDO, who=agent, operations=(said,), memories=told)
        await mark_undone(engine, kept)
    return Undone(kept, tuple(back), len(ids) - len(back), _note(kept))


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
