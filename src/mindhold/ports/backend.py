"""A store as a backend: snapshots, replacement by a restore, the registry of backends. Contract: mindhold.testing.store_contract."""

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

CopyProgress = Callable[[int, int | None], None]  # so much is done, of so much


@dataclass(frozen=True, slots=True)
class Record:
    """A memory and its vector, which is of the model that the memory names."""

    memory: Memory
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRemoval:
    """What was given of this memory, or of this scope, is no more: it went, or is given again."""

    memory_id: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A small named value."""

    name: str
    value: str


SnapshotItem = Scope | Record | SnapshotRemoval | Version | Link | Job | Entry | Cursor


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of everything. `content` is a sum over all ids with their content hashes, in any order."""

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
    """Everything, of all agents and every status."""

    @property
    def raw_form(self) -> str:
        """What the copies that copy_raw() makes are called; empty where the store makes none."""

    async def copy_raw(self, path: Path, *, told: CopyProgress) -> None:
        """All of it as the store itself keeps it, as it is at one moment, whoever writes meanwhile, into a new file.

        Raises StoreFull, StoreDamaged.
        """

    def snapshot(self) -> AsyncIterator[list[SnapshotItem]]:
        """All of it as it is at one moment, whoever writes meanwhile, in bounded memory.

        First scopes, then records, then versions, links, jobs, entries and cursors. Records may be followed by some that
        are Gone, by what is there in their place, scopes first, and by scopes that are Gone.
        """

    async def totals(self) -> Totals:
        """Of what is there now."""


class Backend(Store, Snapshots, Protocol):
    """A store that projects live in."""


@dataclass(frozen=True, slots=True)
class ReplacedStore:
    """What a swap has put aside. `name` is what drop_old() takes."""

    name: str
    location: str
    size: int
    since: datetime | None = None


class BackendSite(Protocol):
    """Where a store stands. Nothing of it need be open, or even sound."""

    @property
    def raw_form(self) -> str:
        """What the copies are called that can be put there as they are; empty where none can."""

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        """Make a place beside the store, empty or a raw copy's. Raises StoreFull, StoreReadOnly, StoreError where it is."""

    def beside(self, stamp: str) -> AbstractAsyncContextManager[Backend]:
        """What is in the prepared place, open as a store: migrated as ever. Raises the errors of Store.open()."""

    async def swap(self, stamp: str, *, now: datetime) -> ReplacedStore | None:
        """Put the prepared place's store into the present one's place, which is put aside; None where there was none.

        Whatever happens, one of the two is there, whole. Raises StoreBusy while another process uses the present one, and
        StoreReadOnly; then everything is as it was before.
        """

    async def discard(self, stamp: str) -> None:
        """Remove a prepared place that isn't wanted; harmless where there is none."""

    async def olds(self) -> list[ReplacedStore]:
        """What swaps have put aside, the newest first."""

    async def drop_old(self, name: str) -> None:
        """Raises NotFound."""


class BackendSites(Protocol):
    """Where stores stand, and where one can be made for a while."""

    def site(self, mode: str) -> BackendSite:
        """Of the store of that mode. Raises SettingsError when it isn't configured."""

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[Backend]:
        """A raw copy of that form, open as a store. Raises Refused for a form that nobody knows, and as Store.open()."""

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        """An empty store in a new file, for as long as it is wanted."""


class NoBackendSites:
    """Where nothing can be made. Keeps the Grounds contract."""

    def site(self, mode: str) -> BackendSite:
        raise _nowhere()

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[Backend]:
        raise _nowhere()

    def scratch(self, path: Path) -> AbstractAsyncContextManager[Backend]:
        raise _nowhere()


def _nowhere() -> Refused:
    return Refused("There is no place for another store here.", advice="Ask the owner.")


LEASE = timedelta(seconds=10)  # how long a hold lasts that isn't renewed
SKEW = 2 * LEASE  # by how much clocks may differ


@dataclass(frozen=True, slots=True)
class Move:
    """A project on its way. Who moves it holds it until then; `frozen` means that writers wait."""

    to: str
    by: str
    until: datetime
    frozen: bool = False


class MoverWatch:
    """Tells whether a mover is gone. Clocks of two machines differ: that it doesn't renew its hold is seen by looking."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[Move, float]] = {}

    def gone(self, move: Move, *, now: datetime) -> bool:
        """Whether it ended long ago, or stood still for a lease's time since this was first asked."""
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
    """Where a project lives. `copies` are where else its records are, hidden: half copied, or left behind.

    `moves` counts, so that one who looks twice can tell that it went and came back.
    """

    mode: str
    moves: int = 0
    copies: tuple[str, ...] = ()
    move: Move | None = None
    renaming: str | None = None  # begun, and finished by whoever finds it

    def modes(self) -> tuple[str, ...]:
        """Every store that has something of it, the one that it lives in first."""
        return tuple(dict.fromkeys((self.mode, *self.copies)))


Placements = Mapping[str, Placement]  # by the scope's name; what isn't named lives at home


class StoreRegistry(Protocol):
    """The stores by mode. The registry is in the home store, where all processes see the same."""

    @property
    def home(self) -> str:
        """The mode of the store that has everything that no other has: scopes, jobs, cursors, entries."""

    @property
    def modes(self) -> tuple[str, ...]:
        """Those that the settings allow, home first."""

    async def house(self, mode: str) -> Backend:
        """Open. Raises SettingsError when it isn't configured, and the errors of Store.open()."""

    async def places(self, *, fresh: bool = False) -> Placements:
        """The registry; unless `fresh`, as it was a second ago at most."""

    async def settle(self, change: Callable[[Placements], Placements]) -> Placements:
        """Change the registry in one step, whoever else does; `change` may be asked again. Returns it as it is then."""

    async def close(self) -> None:
        """Idempotent."""
