"""Everything that a store holds at one moment, and putting another store in its place.

Contract: mindhold.testing.snapshot_contract and site_contract.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from mindhold.model.entry import Entry
from mindhold.model.errors import Refused
from mindhold.model.job import Job
from mindhold.model.link import Link
from mindhold.model.memory import Memory, Version
from mindhold.model.query import Vector
from mindhold.model.scope import Scope
from mindhold.ports.store import Store

Step = Callable[[int, int | None], None]  # so much is done, of so much


@dataclass(frozen=True, slots=True)
class Record:
    """A memory and its vector, which is of the model that the memory names."""

    memory: Memory
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """What was given of this memory, or of this scope, is no more: it went, or is given again."""

    memory_id: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A small named value."""

    name: str
    value: str


Kept = Scope | Record | Gone | Version | Link | Job | Entry | Cursor


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

    async def copy_raw(self, path: Path, *, told: Step) -> None:
        """All of it as the store itself keeps it, as it is at one moment, whoever writes meanwhile, into a new file.

        Raises StoreFull, StoreDamaged.
        """

    def snapshot(self) -> AsyncIterator[list[Kept]]:
        """All of it as it is at one moment, whoever writes meanwhile, in bounded memory.

        First scopes, then records, then versions, links, jobs, entries and cursors. Records may be followed by some that
        are Gone, by what is there in their place, scopes first, and by scopes that are Gone.
        """

    async def totals(self) -> Totals:
        """Of what is there now."""


class House(Store, Snapshots, Protocol):
    """A store that projects live in."""


@dataclass(frozen=True, slots=True)
class Old:
    """What a swap has put aside. `name` is what drop_old() takes."""

    name: str
    location: str
    size: int
    since: datetime | None = None


class Site(Protocol):
    """Where a store stands. Nothing of it need be open, or even sound."""

    @property
    def raw_form(self) -> str:
        """What the copies are called that can be put there as they are; empty where none can."""

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        """Make a place beside the store, empty or a raw copy's. Raises StoreFull, StoreReadOnly, StoreError where it is."""

    def beside(self, stamp: str) -> AbstractAsyncContextManager[House]:
        """What is in the prepared place, open as a store: migrated as ever. Raises the errors of Store.open()."""

    async def swap(self, stamp: str, *, now: datetime) -> Old | None:
        """Put the prepared place's store into the present one's place, which is put aside; None where there was none.

        Whatever happens, one of the two is there, whole. Raises StoreBusy while another process uses the present one, and
        StoreReadOnly; then everything is as it was before.
        """

    async def discard(self, stamp: str) -> None:
        """Remove a prepared place that isn't wanted; harmless where there is none."""

    async def olds(self) -> list[Old]:
        """What swaps have put aside, the newest first."""

    async def drop_old(self, name: str) -> None:
        """Raises NotFound."""


class Grounds(Protocol):
    """Where stores stand, and where one can be made for a while."""

    def site(self, mode: str) -> Site:
        """Of the store of that mode. Raises SettingsError when it isn't configured."""

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[House]:
        """A raw copy of that form, open as a store. Raises Refused for a form that nobody knows, and as Store.open()."""

    def scratch(self, path: Path) -> AbstractAsyncContextManager[House]:
        """An empty store in a new file, for as long as it is wanted."""


class NoGrounds:
    """Where nothing can be made. Keeps the Grounds contract."""

    def site(self, mode: str) -> Site:
        raise _nowhere()

    def opened(self, form: str, path: Path) -> AbstractAsyncContextManager[House]:
        raise _nowhere()

    def scratch(self, path: Path) -> AbstractAsyncContextManager[House]:
        raise _nowhere()


def _nowhere() -> Refused:
    return Refused("There is no place for another store here.", advice="Ask the owner.")
