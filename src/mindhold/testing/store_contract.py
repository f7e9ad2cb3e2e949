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

from mindhold.ports.store import Capability, Store
from mindhold.testing.builders import Builder
from mindhold.testing.changes_contract import ChangesContract
from mindhold.testing.due_contract import DueContract, KeywordsContract
from mindhold.testing.entries_contract import EntriesContract
from mindhold.testing.erasure_contract import ErasureContract
from mindhold.testing.isolation_contract import IsolationContract
from mindhold.testing.jobs_contract import CursorsContract, JobsContract
from mindhold.testing.life_contract import TendContract, UseContract
from mindhold.testing.links_contract import LinksContract
from mindhold.testing.needs import leave_out
from mindhold.testing.paging_contract import PagingContract
from mindhold.testing.records_contract import FindContract, RecordsContract
from mindhold.testing.scopes_contract import ScopesContract
from mindhold.testing.search_contract import SearchContract
from mindhold.testing.turns_contract import TurnsContract
from mindhold.testing.upkeep_contract import UpkeepContract

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
