"""The PostgreSQL store, put together. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.ports.clock import Clock
from mindhold.ports.store import Capability, Change, Put, Rate, Tend
from mindhold.stores.postgres.connection import Connection, Database
from mindhold.stores.postgres.cursors import CursorsPart
from mindhold.stores.postgres.entries import EntriesPart
from mindhold.stores.postgres.erase import ErasePart
from mindhold.stores.postgres.estimates import EXACT_UP_TO, Estimates
from mindhold.stores.postgres.jobs import JobsPart
from mindhold.stores.postgres.links import LinksPart
from mindhold.stores.postgres.migrate import prepare
from mindhold.stores.postgres.notices import Notices
from mindhold.stores.postgres.records import RecordsPart
from mindhold.stores.postgres.scopes import ScopesPart
from mindhold.stores.postgres.search import IndexPart
from mindhold.stores.postgres.session import SCHEMA, Limits, Session
from mindhold.stores.postgres.snapshot import SnapshotPart
from mindhold.stores.postgres.upkeep import UpkeepPart
from mindhold.stores.postgres.vector_indexes import VectorIndexes


class PostgresStore(
    RecordsPart,
    ErasePart,
    IndexPart,
    LinksPart,
    ScopesPart,
    JobsPart,
    CursorsPart,
    EntriesPart,
    UpkeepPart,
    SnapshotPart,
):
    """One database of a server, in its schema `agent_memory` unless another is named. Any number of processes may use it at once.

    `conninfo` is a postgresql:// address or libpq's key=value words. Of `max_connections` one listens for what others
    change. A filter that admits more than `exact_up_to` records is searched by approximate indexes and samples.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        clock: Clock,
        max_connections: int = 20,
        idle_timeout_ms: int = 30_000,
        connection_timeout_ms: int = 10_000,
        query_timeout_ms: int = 30_000,
        exact_up_to: int = EXACT_UP_TO,
        schema: str = SCHEMA,
    ) -> None:
        limits = Limits(max_connections, idle_timeout_ms, connection_timeout_ms, query_timeout_ms)
        self._clock = clock
        self._session = Session(conninfo, limits, schema=schema)
        self._database = Database(self._session, limits)
        self._estimates = Estimates(exact_up_to=exact_up_to)
        self._notices = Notices(self._session, heard=self._estimates.changed)
        self._vector_indexes = VectorIndexes(self._session, worth_it=exact_up_to)

    @property
    def capabilities(self) -> frozenset[Capability]:
        always = {Capability.FULL_TEXT, Capability.TRANSACTIONS, Capability.CHANGE_NOTICES}
        if self._session.bound:
            always.add(Capability.ROW_SECURITY)
        return frozenset(always | {Capability.VECTORS} if self._has_vectors else always)

    @property
    def _has_vectors(self) -> bool:  # type: ignore[override]
        return self._session.vectors_in is not None

    async def open(self) -> None:
        now = self._clock()

        def work(connection: Connection) -> None:
            prepare(connection, self._session, now=now)
            if self._has_vectors:
                self._vector_indexes.look(connection)

        await self._database.open(work)
        self._notices.start()

    async def close(self) -> None:
        await self._notices.stop()
        await self._vector_indexes.stop()
        await self._database.close()
        self._estimates.forget()

    def _changed(self, changes: Sequence[Change]) -> None:
        self._tell(
            sum(not isinstance(change, Tend | Rate) for change in changes)
        )  # no estimate is of what those change
        if not self._has_vectors:
            return
        put = [change for change in changes if isinstance(change, Put) and change.vector is not None]
        for change in put[:1]:
            assert change.vector is not None
            self._embedded(change.memory.embedded_by or "", len(change.vector), len(put))

    def _embedded(self, model: str, dimensions: int, number: int) -> None:
        self._tell(number)
        self._vector_indexes.grown(model, dimensions, number)

    def _erased(self, number: int) -> None:
        self._tell(number)

    def _tell(self, records: int) -> None:
        if records:
            self._estimates.changed(records)
            self._notices.tell(records)
