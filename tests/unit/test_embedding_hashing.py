"""The embedder without a download, and the cache, against the contract."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.base import CachedEmbedder, HashingEmbedder
from mindhold.testing.providers_contract import EmbedderContract


class TestHashing(EmbedderContract):
    semantic = False

    @pytest.fixture
    def embedder(self) -> HashingEmbedder:
        return HashingEmbedder()

    async def test_inflected_words_stay_close(self, embedder: HashingEmbedder) -> None:
        vectors = await embedder.embed(["deploying services", "deployed service", "purple elephants"])
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3


class TestCached(EmbedderContract):
    semantic = False

    @pytest.fixture
    def embedder(self) -> CachedEmbedder:
        return CachedEmbedder(HashingEmbedder(), size=3)


class Recording(HashingEmbedder):
    """Writes down what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Matrix:
        self.asked += texts
        return await super().embed(texts)

    async def embed_query(self, text: str) -> Matrix:
        self.asked.append(f"? {text}")
        return await super().embed_query(text)


async def test_repeated_text_is_embedded_once() -> None:
    inner = Recording()
    cached = CachedEmbedder(inner)
    first = await cached.embed(["a", "b", "a"])
    again = await cached.embed(["c", "b", "a"])
    assert inner.asked == ["a", "b", "c"]
    np.testing.assert_array_equal(first[0], again[2])


async def test_questions_and_texts_are_kept_apart() -> None:
    inner = Recording()
    cached = CachedEmbedder(inner)
    await cached.embed(["a"])
    for _ in range(2):
        assert (await cached.embed_query("a")).shape == (1, 256)
    assert inner.asked == ["a", "? a"]


async def test_the_longest_unused_is_dropped_first() -> None:
    inner = Recording()
    cached = CachedEmbedder(inner, size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert inner.asked == ["a", "b", "c", "b"]


async def test_what_the_caller_does_to_a_row_stays_with_the_caller() -> None:
    cached = CachedEmbedder(HashingEmbedder())
    before = (await cached.embed_query("text")).copy()
    (await cached.embed_query("text"))[:] = 0
    np.testing.assert_array_equal(await cached.embed_query("text"), before)
