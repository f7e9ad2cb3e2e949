"""Retiring a scope: put aside, switched off, and removed only where that was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.engine.audit import RETIREMENT, record
from mindhold.engine.backup import back_up_scope
from mindhold.engine.capture.blanking import blank_leaflets
from mindhold.engine.core import Engine
from mindhold.engine.reach import find_scope
from mindhold.engine.scopes import DroppedScope, change_scope, delete_scope
from mindhold.engine.tenants import refuse_shared
from mindhold.model.errors import Refused
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL

RETIRED, DELETED, REVIVED = "retired", "deleted", "revived"


@dataclass(frozen=True, slots=True)
class Retired:
    """What became of a scope. `backup` is a file in the folder of backups; `dropped` is there where it was removed."""

    name: str
    memories: int
    backup: str
    audit: str
    dropped: DroppedScope | None = None


async def retire_scope(engine: Engine, name: str, *, agent: str, delete: bool = False) -> Retired:
    """Put aside what is in it, then switch it off: only who names it finds it. With `delete` it goes for good.

    Raises ScopeNotFound, Refused for Global, Conflict for one with children that is to be deleted, StoreFull.
    """
    scope = await find_scope(engine, name)
    if name == GLOBAL:
        raise Refused("Global is above every scope and always there.")
    if delete:
        await refuse_shared(engine, name, what="deleted")
    memories = await engine.store.count(Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS))
    aside = (await back_up_scope(engine, name, agent=agent)).path.name
    dropped = await delete_scope(engine, name, agent=agent) if delete else None
    if dropped is None:
        await change_scope(engine, name, active=False)
        await blank_leaflets(engine)
    counted = f"{memories} memor{'y' if memories == 1 else 'ies'}"
    done = f"deleted with its {counted}" if delete else f"switched off with its {counted}"
    written = await record(
        engine,
        RETIREMENT,
        who=agent,
        operations=(f"the scope {scope.name} was put aside and {done}",),
        counts={DELETED if delete else RETIRED: memories},
        scope=name,
        files=(aside,),
    )
    return Retired(name, memories, aside, written.id, dropped)


async def revive_scope(engine: Engine, name: str, *, agent: str) -> None:
    """Switch it on again. Raises ScopeNotFound."""
    if (await find_scope(engine, name)).active:
        return
    await change_scope(engine, name, active=True)
    operations = (f"the scope {name} was switched on again",)
    await record(engine, RETIREMENT, who=agent, operations=operations, counts={REVIVED: 1}, scope=name)
