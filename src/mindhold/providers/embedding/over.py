"""What stands between the engine and an embedder, and is one itself."""

from __future__ import annotations

from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Embedder


class OverEmbedder:
    """An Embedder but for the two methods that embed: all others are the inner one's."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    @property
    def unrelated(self) -> Cosines:
        return self._inner.unrelated

    def load(self) -> None:
        self._inner.load()

    async def close(self) -> None:
        await self._inner.close()
