"""An embedder that makes no vector twice: for texts whose vectors are there, or that several stores are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Embedder, Matrix


class KnownTexts:
    """Begins with the rows that are known, and keeps every one that it makes."""

    def __init__(self, live: Embedder, known: Mapping[str, Matrix] | None = None) -> None:
        self._live = live
        self._texts = dict(known or {})
        self._queries: dict[str, Matrix] = {}

    @property
    def name(self) -> str:
        return self._live.name

    @property
    def dimensions(self) -> int:
        return self._live.dimensions

    @property
    def unrelated(self) -> Cosines:
        return self._live.unrelated

    def load(self) -> None:
        self._live.load()

    async def close(self) -> None:
        await self._live.close()

    def words(self, most: int) -> Sequence[str]:
        return self._live.words(most)

    async def embed(self, texts: Sequence[str]) -> Matrix:
        unknown = [text for text in dict.fromkeys(texts) if text not in self._texts]
        if unknown:
            self._texts.update(zip(unknown, await self._live.embed(unknown), strict=True))
        return np.asarray([self._texts[text] for text in texts], dtype=np.float32)

    async def embed_query(self, text: str) -> Matrix:
        if text not in self._queries:
            self._queries[text] = await self._live.embed_query(text)
        return self._queries[text]
