"""One store to the engine, over as many as projects live in."""

from __future__ import annotations

from recollect.ports.store import Capability
from recollect.stores.routed.index import IndexPart
from recollect.stores.routed.records import ReadingPart
from recollect.stores.routed.routing import Routing
from recollect.stores.routed.scopes import ScopesPart
from recollect.stores.routed.upkeep import HomePart, UpkeepPart
from recollect.stores.routed.writing import WritingPart


class Routed(ReadingPart, WritingPart, IndexPart, ScopesPart, HomePart, UpkeepPart, Routing):
    """The home store has everything but the records of projects that live elsewhere.

    While no project does, every call is handed on as it is.
    """

    _capabilities: frozenset[Capability] = frozenset()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those of the home store."""
        return self._capabilities

    async def open(self) -> None:
        self._capabilities = (await self._home()).capabilities

    async def close(self) -> None:
        await self._houses.close()
