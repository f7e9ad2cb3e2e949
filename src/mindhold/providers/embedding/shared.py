"""Serves a question that some server has asked before, without asking the service again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mindhold.model.errors import ModelError
from mindhold.ports.cache import ALONE, Cache
from mindhold.ports.embedder import Embedder, Matrix
from mindhold.providers.embedding.over import OverEmbedder


class SharedEmbedder(OverEmbedder):
    """Any embedder, its vectors of questions kept for a while where all servers find them.

    Questions only: what is remembered may be erased, and a vector that lay somewhere else would outlive it. The cache
    is told a hash of the question, not the question.
    """

    def __init__(self, inner: Embedder, cache: Cache) -> None:
        super().__init__(inner)
        self._cache = cache

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return await self._inner.embed(texts)

    async def embed_query(self, text: str) -> Matrix:
        key = _key(self._inner.name, text)
        held = await self._cache.get(key)
        if held is not None and len(held) == 4 * self._known_dimensions():
            return np.frombuffer(held, np.dtype("<f4")).astype(np.float32)[np.newaxis]
        vectors = await self._inner.embed_query(text)
        await self._cache.put(key, vectors[0].astype("<f4").tobytes())
        return vectors

    def _known_dimensions(self) -> int:
        """0 before a service was ever asked: then it is asked, and measured."""
        try:
            return self._inner.dimensions
        except ModelError:
            return 0


def shared(embedder: Embedder, cache: Cache) -> Embedder:
    """Where nothing is beside the store there is nobody to share with."""
    return embedder if cache is ALONE else SharedEmbedder(embedder, cache)


def _key(model: str, text: str) -> str:
    said = f"query\0{model}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=16).hexdigest()
