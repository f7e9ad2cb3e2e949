"""What all stores share: reading a single record, the rules for scopes, and common errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindhold.model.errors import (
    Changed,
    Conflict,
    InvalidInput,
    JobNotFound,
    MemoryNotFound,
    Refused,
    ScopeNotFound,
)
from mindhold.model.job import Job, JobState
from mindhold.model.memory import Memory
from mindhold.model.query import Order
from mindhold.model.scope import GLOBAL, Scope
from mindhold.ports.backend import CopyProgress
from mindhold.ports.store import Put, Receipt, Store

LAST_CHARACTER = "\U0010ffff"  # every id with a prefix sorts before the prefix followed by this
MOST_RESOLVED = 10
SILENT_RUNNER = "Its runner went silent at each attempt."
COUNTED_BY = tuple("kind status scope tier topic agent tag embedded_by conversation source".split())
# The field of each order, and whether its largest value comes first; ids sort in the same direction.
ORDERS = {
    Order.NEWEST: ("occurred", True),
    Order.OLDEST: ("occurred", False),
    Order.IMPORTANT: ("importance", True),
    Order.USED: ("uses", True),
    Order.DUE: ("review", False),
    Order.CHANGED: ("updated", True),
}
_EXPORT_FIRST = "Export and forget them first."


class StoreWrapper:
    """A store that delegates to another store every method that its subclass doesn't define."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class NoRawCopies:
    """The Snapshots methods of a store that can't make raw copies."""

    raw_form = ""

    async def copy_raw(self, path: Path, *, told: CopyProgress) -> None:
        raise Refused("This store makes no copies as they are.", advice="Use its snapshot.")


class SingleRecords:
    """Implements Records.get() by get_many()."""

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        raise NotImplementedError

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        memories = await self.get_many([memory_id], viewer=viewer)
        if memory_id not in memories:
            raise MemoryNotFound(memory_id)
        return memories[memory_id]


@dataclass(frozen=True, slots=True)
class Erased:
    """Records that were erased, and what was removed of them from each place."""

    ids: tuple[str, ...]  # that were to be erased
    rows: Mapping[str, int]  # of those that existed
    removed: dict[str, int]
    references: bool  # whether references to them were removed too

    def receipt(self, remaining: Mapping[str, int]) -> Receipt:
        erased_ids = tuple(memory_id for memory_id in self.ids if memory_id in self.rows)
        return Receipt(ids=erased_ids, removed=self.removed, remaining=remaining)


def check_counted_by(by: str) -> None:
    """Raises InvalidInput for a field that tally() doesn't count by."""
    if by not in COUNTED_BY:
        raise InvalidInput(f"Can't count by {by!r}.", advice=f"Choose one of {', '.join(COUNTED_BY)}.")


def check_vector(put: Put) -> None:
    if put.vector is not None and not put.memory.embedded_by:
        raise InvalidInput("A vector needs the name of its model.", advice="Set embedded_by.")


def check_existing(ids: Collection[str], existing: Collection[str]) -> None:
    """Raises MemoryNotFound for the first id that doesn't exist."""
    for memory_id in ids:
        if memory_id not in existing:
            raise MemoryNotFound(memory_id)


def changed_meanwhile(memory_id: str) -> Changed:
    return Changed(
        f"Memory {memory_id} was changed by someone else meanwhile.",
        advice="Look at it again, then try again.",
    )


def amended_meanwhile(memory_id: str) -> Conflict:
    return Conflict(
        f"Memory {memory_id} was amended by someone else meanwhile.",
        advice="Look at it again, then amend it again.",
    )


def same_content(holder: str, scope: str) -> Conflict:
    return Conflict(
        f"Memory {holder} says the same in scope {scope!r}.", advice="Amend that one, or forget it first."
    )


def job_missing(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id!r}.", advice="`mindhold jobs` shows the ones that there are."
    )


def job_exists() -> Conflict:
    return Conflict("There is a job of that id already.")


def without_lease(job: Job) -> Job:
    """The job as it replaces another: only a running job has a lease."""
    return job if job.state is JobState.RUNNING else replace(job, lease_owner=None, lease_until=None)


def existing_scope(scopes: Mapping[str, Scope], name: str) -> Scope:
    if name not in scopes:
        raise ScopeNotFound(name)
    return scopes[name]


def check_parent(scopes: Mapping[str, Scope], scope: Scope) -> None:
    """Raises ScopeNotFound for a missing parent, Conflict for a cycle."""
    above, seen = scope.parent, set[str]()
    while above is not None and above not in seen:
        seen.add(above)
        above = existing_scope(scopes, above).parent
    if scope.name in seen:
        raise Conflict(
            f"Scope {scope.name!r} can't be inside {scope.parent!r}: that is inside it already.",
            advice="Choose another parent.",
        )


def check_new_name(scopes: Mapping[str, Scope], old: str, new: str) -> bool:
    """Whether the name changes. Raises ScopeNotFound, Conflict."""
    existing_scope(scopes, old)
    if old == new:
        return False
    if old == GLOBAL:
        raise Conflict("Global always exists under that name.")
    if new in scopes:
        raise Conflict(f"There is a scope {new!r} already.", advice="Choose another name.")
    return True


def check_droppable(scopes: Mapping[str, Scope], name: str) -> None:
    """Raises ScopeNotFound, and Conflict for the global scope."""
    existing_scope(scopes, name)
    if name == GLOBAL:
        raise Conflict("Global always exists.")


def check_empty(scopes: Mapping[str, Scope], name: str, records: int) -> None:
    """Raises Conflict while the scope has records or children."""
    children = sum(scope.parent == name for scope in scopes.values())
    if records or children:
        raise Conflict(
            f"Scope {name!r} still has {records} memories and {children} scopes in it.", advice=_EXPORT_FIRST
        )


def scope_filled(name: str) -> Conflict:
    """The error for a scope that got a record while it was being dropped."""
    return Conflict(f"Scope {name!r} still has memories in it.", advice=_EXPORT_FIRST)
