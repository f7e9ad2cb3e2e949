"""Serves repeated text without running the model again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from mindhold.ports.embedder import Embedder, Matrix
from mindhold.providers.embedding.over import OverEmbedder


class CachedEmbedder(OverEmbedder):
    """Any embedder, remembering the vectors of the texts that were used last."""

    def __init__(self, inner: Embedder, *, size: int = 4096) -> None:
        super().__init__(inner)
        self._size = size
        self._rows: OrderedDict[bytes, Matrix] = OrderedDict()
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        keys = [_key("text", text) for text in texts]
        rows = self._held(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
        if missing or not texts:
            vectors = await self._inner.embed(list(missing.values()))
            if not texts:
                return vectors
            fresh = dict(zip(missing, vectors, strict=True))
            self._hold(fresh)
            rows |= fresh
        return np.stack([rows[key] for key in keys])

    async def embed_query(self, text: str) -> Matrix:
        key = _key("query", text)
        rows = self._held([key])
        if key in rows:
            return rows[key][np.newaxis].copy()
        vectors = await self._inner.embed_query(text)
        self._hold({key: vectors[0]})
        return vectors

    def _held(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        with self._lock:
            held = {key: self._rows[key] for key in keys if key in self._rows}
            for key in held:
                self._rows.move_to_end(key)
        return held

    def _hold(self, rows: dict[bytes, Matrix]) -> None:
        with self._lock:
            for key, row in rows.items():
                # A copy: a view would keep the whole batch in memory.
                self._rows[key] = row.copy()
                self._rows.move_to_end(key)
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)


def cached(embedder: Embedder, size: int) -> Embedder:
    """The embedder with a cache of that size; by itself where that is 0."""
    return CachedEmbedder(embedder, size=size) if size else embedder


def _key(kind: str, text: str) -> bytes:
    content = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest()
