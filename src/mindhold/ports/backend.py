"""Stores as backends: snapshots, replacement by a restore, and the registry of stores. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from mindhold.model.errors import Refused
from mindhold.model.job import Entry, Job
from mindhold.model.memory import Link, Memory, Version
from mindhold.model.query import Vector
from mindhold.model.scope import Scope
from mindhold.ports.store import Store

CopyProgress = Callable[[int, int | None], None]  # amount done, total amount (None: unknown)


@dataclass(frozen=True, slots=True)
class Record:
    """A memory with its vector, which is of the model that the memory names."""

    memory: Memory
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRemoval:
    """A memory or scope that the snapshot gave earlier and that was removed since, or follows again in its new form."""

    memory_id: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A named value of the store."""

    name: str
    value: str


SnapshotItem = Scope | Record | SnapshotRemoval | Version | Link | Job | Entry | Cursor


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of everything in a store. `content` is an order-independent sum over all ids with their content hashes."""

    memories: int = 0
    vectors: int = 0
    versions: int = 0
    links: int = 0
    scopes: int = 0
    jobs: int = 0
    entries: int = 0
    cursors: int = 0
    content: str = ""


class Snapshots(Protocol):
    """Complete copies of a store: all agents, every status."""

    @property
    def raw_form(self) -> str:
        """The name of the format that copy_raw() writes; empty if the store can't make raw copies."""

    async def copy_raw(self, path: Path, *, told: CopyProgress) -> None:
        """Copy the whole store in its own format into a new file, consistent at one moment even while others write.

        Raises StoreFull, StoreDamaged.
        """

    def snapshot(self) -> AsyncIterator[list[SnapshotItem]]:
        """Yield the whole store in batches, consistent at one moment even while others write, in bounded memory.

        The order is scopes, records, versions, links, jobs, entries, cursors. After the records there may be SnapshotRemovals of
        records, then their replacements (scopes first), then SnapshotRemovals of scopes.
        """

    async def totals(self) -> Totals:
        """Count what the store holds now."""


class Backend(Store, Snapshots, Protocol):
    """A store that holds projects and can be copied as a whole."""


@dataclass(frozen=True, slots=True)
class ReplacedStore:
    """A store that swap() replaced and kept. `name` is the argument of drop_old()."""

    name: str
    location: str
    size: int
    since: datetime | None = None


class BackendSite(Protocol):
    """The location of a store, which need be neither open nor intact."""

    @property
    def raw_form(self) -> str:
        """The name of the raw copy format that prepare() accepts; empty if it accepts none."""

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        """Make a second location next to the store: empty, or with the contents of a raw copy.

        Raises StoreFull, StoreReadOnly, or StoreError if the location exists.
        """

    def beside(self, stamp: str) -> AbstractAsyncContextManager[Backend]:
        """Open the store in the prepared location, migrating its schema as usual. Raises the errors of Store.open()."""

    async def swap(self, stamp: str, *, now: datetime) -> ReplacedStore | None:
        """Replace the present store by the prepared one. Returns the replaced store, which is kept; None if there was none.

        At every moment one of the two is there, complete. Raises StoreBusy while another process uses the present store, and
        StoreReadOnly; in both cases nothing has changed.
        """

    async def discard(self, stamp: str) -> None:
        """Remove a prepared location; does nothing if there is none."""

    async def olds(self) -> list[ReplacedStore]:
        """The stores that swaps have replaced and kept, newest first."""

    async def drop_old(self, name: str) -> None:
        """Delete a replaced store. Raises NotFound."""


class BackendSites(Protocol):
    """The locations of the configured stores, and of temporary ones."""

    def site(self, mode: str) -> BackendSite:
        """The location of the store of that mode. Raises SettingsError if it isn't configured."""

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[Backend]:
        """Open a raw copy of that format as a store. Raises Refused for an unknown format, and the errors of Store.open()."""

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        """Open an empty store in a new file, for temporary use."""


class NoBackendSites:
    """BackendSites for installations that can't create stores: every method refuses."""

    def site(self, mode: str) -> BackendSite:
        raise _nowhere()

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[Backend]:
        raise _nowhere()

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        raise _nowhere()


def _nowhere() -> Refused:
    return Refused("There is no place for another store here.", advice="Ask the owner.")


LEASE = timedelta(seconds=10)  # how long a mover's hold lasts without renewal
SKEW = 2 * LEASE  # the largest difference between two machines' clocks


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a project to another store. The mover `by` holds it `until` then; while `frozen`, writers wait."""

    to: str
    by: str
    until: datetime
    frozen: bool = False


class MoverWatch:
    """Detects movers that have died. It watches whether a hold is renewed, because clocks of two machines differ."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[Move, float]] = {}

    def gone(self, move: Move, *, now: datetime) -> bool:
        """Whether the hold expired long ago, or wasn't renewed for a whole lease since the first call about it."""
        if move.until + SKEW <= now:
            return True
        looked = self._seconds()
        seen, since = self._seen.get(move.by, (None, looked))
        if seen != move:
            self._seen[move.by] = move, looked
            return False
        return looked - since >= LEASE.total_seconds()


@dataclass(frozen=True, slots=True)
class Placement:
    """The store that a project lives in. `copies` are other stores with hidden, incomplete or outdated records of it.

    `moves` counts the moves, so that a reader can tell that the project moved away and came back in between.
    """

    mode: str
    moves: int = 0
    copies: tuple[str, ...] = ()
    move: Move | None = None
    renaming: str | None = None  # the new name of an unfinished rename; any process completes it

    def modes(self) -> tuple[str, ...]:
        """Every store that has records of the project, the one that it lives in first."""
        return tuple(dict.fromkeys((self.mode, *self.copies)))


Placements = Mapping[str, Placement]  # by scope name; a scope without an entry lives in the home store


class StoreRegistry(Protocol):
    """The stores by mode, and which project lives in which. Kept in the home store, so that all processes see the same."""

    @property
    def home(self) -> str:
        """The mode of the store that has the scopes, jobs, cursors and entries, and every project that has no other store."""

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that the settings allow, home first."""

    async def house(self, mode: str) -> Backend:
        """The store of that mode, open. Raises SettingsError if it isn't configured, and the errors of Store.open()."""

    async def places(self, *, fresh: bool = False) -> Placements:
        """The placements of all projects; they may be up to a second old unless `fresh`."""

    async def settle(self, change: Callable[[Placements], Placements]) -> Placements:
        """Change the placements atomically and return the result. `change` may be called again if another process interferes."""

    async def close(self) -> None:
        """Close all stores. Idempotent."""
