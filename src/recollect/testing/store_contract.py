"""The whole contract of a store.

A store's test is a subclass that says what the store can do and how to open it:

    class TestMine(StoreContract):
        expects = frozenset({Capability.FULL_TEXT})

        @pytest.fixture
        async def reopen(self, tmp_path): ...  # a factory: each call opens another handle to the same fresh data
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from recollect.ports.store import Capability, Store
from recollect.testing.builders import Builder
from recollect.testing.changes_contract import ChangesContract
from recollect.testing.due_contract import DueContract, KeywordsContract
from recollect.testing.entries_contract import EntriesContract
from recollect.testing.erasure_contract import ErasureContract
from recollect.testing.isolation_contract import IsolationContract
from recollect.testing.jobs_contract import CursorsContract, JobsContract
from recollect.testing.life_contract import TendContract, UseContract
from recollect.testing.links_contract import LinksContract
from recollect.testing.needs import leave_out
from recollect.testing.paging_contract import PagingContract
from recollect.testing.records_contract import FindContract, RecordsContract
from recollect.testing.scopes_contract import ScopesContract
from recollect.testing.search_contract import SearchContract
from recollect.testing.turns_contract import TurnsContract
from recollect.testing.upkeep_contract import UpkeepContract

Reopen = Callable[[], Awaitable[Store]]


class StoreContract(
    RecordsContract,
    ChangesContract,
    UseContract,
    TendContract,
    DueContract,
    KeywordsContract,
    FindContract,
    PagingContract,
    TurnsContract,
    ErasureContract,
    LinksContract,
    ScopesContract,
    JobsContract,
    CursorsContract,
    EntriesContract,
    IsolationContract,
    SearchContract,
    UpkeepContract,
):
    """Subclass it with `expects` and a `reopen` fixture that closes what it opened."""

    expects: frozenset[Capability]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        leave_out(cls, expects=getattr(cls, "expects", frozenset(Capability)))

    @pytest.fixture
    async def store(self, reopen: Reopen) -> Store:
        return await reopen()

    @pytest.fixture
    async def other(self, store: Store, reopen: Reopen) -> Store:
        """A second handle, as another process would have it."""
        return await reopen()

    @pytest.fixture
    def build(self) -> Builder:
        return Builder()

    def test_it_can_what_it_is_expected_to(self, store: Store) -> None:
        assert store.capabilities == self.expects
