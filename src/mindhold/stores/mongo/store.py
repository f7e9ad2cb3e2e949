"""The MongoDB store, put together. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

from mindhold.ports.clock import Clock
from mindhold.ports.store import Capability
from mindhold.stores.mongo.connection import REFUSED_SECONDS, Database
from mindhold.stores.mongo.cursors import CursorsPart
from mindhold.stores.mongo.entries import EntriesPart
from mindhold.stores.mongo.erase import ErasePart
from mindhold.stores.mongo.jobs import JobsPart
from mindhold.stores.mongo.links import LinksPart
from mindhold.stores.mongo.live import DRIVING, LiveIndex
from mindhold.stores.mongo.migrate import prepare
from mindhold.stores.mongo.records import RecordsPart
from mindhold.stores.mongo.scopes import ScopesPart
from mindhold.stores.mongo.search import IndexPart
from mindhold.stores.mongo.snapshot import SnapshotPart
from mindhold.stores.mongo.together import Together
from mindhold.stores.mongo.upkeep import UpkeepPart
from mindhold.stores.mongo.vectors import HELD
from mindhold.stores.mongo.writing import LEASE_SECONDS


class MongoStore(
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
    """One database of a server that others may use as well. It is never shut down from here.

    Without `database` it is the one that the address names. `embedded` says that the server is
    the home's own, which is brought back by itself and therefore waited for.
    Each call waits for the server for `timeout_ms` at most, and for `refused_seconds` where nobody listens. Whoever writes to a lone server holds a lease of
    `lease_seconds`: for so long others wait for one that died. Where the server has vector search, the codes of the
    newest `held_vectors` records alone are kept in memory. `prefix` stands before the names of all collections, for a
    store that is made beside another.
    """

    def __init__(
        self,
        uri: str,
        *,
        clock: Clock,
        database: str = "",
        embedded: bool = False,
        timeout_ms: int = 10_000,
        max_connections: int = 20,
        lease_seconds: float = LEASE_SECONDS,
        refused_seconds: float = REFUSED_SECONDS,
        driving: int = DRIVING,
        held_vectors: int = HELD,
        prefix: str = "",
    ) -> None:
        self._clock = clock
        self._embedded = embedded
        self._driving = driving
        self._database = Database(
            uri,
            name=database,
            timeout_ms=timeout_ms,
            max_connections=max_connections,
            lease_seconds=lease_seconds,
            refused_seconds=timeout_ms / 1000 if embedded else refused_seconds,
            prefix=prefix,
        )
        self._together = Together(self._database)
        self._live = LiveIndex(self._database, driving=driving, held=held_vectors)

    @property
    def capabilities(self) -> frozenset[Capability]:
        own = {Capability.FULL_TEXT, Capability.VECTORS}
        return frozenset(own | ({Capability.TRANSACTIONS} if self._database.transactions else set()))

    async def open(self) -> None:
        await self._database.open(lambda database: prepare(database, clock=self._clock))
        await self._live.open()

    async def close(self) -> None:
        self._live.close()
        await self._database.close()
