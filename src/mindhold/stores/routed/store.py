"""One store to the engine, over as many as projects live in."""

from __future__ import annotations

from mindhold.ports.store import Capability
from mindhold.stores.routed.index import IndexPart
from mindhold.stores.routed.records import ReadingPart
from mindhold.stores.routed.routing import Routing
from mindhold.stores.routed.scopes import ScopesPart
from mindhold.stores.routed.upkeep import HomePart, UpkeepPart
from mindhold.stores.routed.writing import WritingPart


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
