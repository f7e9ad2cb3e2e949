"""Two local models at once: one that knows English best, and one for all other languages."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mindhold.model.lexemes import query_lexemes
from mindhold.model.ranking import Cosines
from mindhold.model.relevance import is_foreign
from mindhold.ports.embedder import BETWEEN_MODELS, Matrix
from mindhold.providers.embedding.onnx import OnnxEmbedder

_HALF = np.float32(math.sqrt(0.5))


def local_embedder(
    models_dir: Path, name: str, *, precision: str = "int8", threads: int = 0, device: str = "cpu"
) -> OnnxEmbedder | PairedEmbedder:
    """The embedder of an installed model, or of two whose names are joined by a plus."""
    models = [
        OnnxEmbedder(models_dir, model, precision=precision, threads=threads, device=device)
        for model in name.split(BETWEEN_MODELS)
    ]
    return PairedEmbedder(*models) if len(models) > 1 else models[0]


class PairedEmbedder:
    """A text's vector is that of the English model beside that of the other, so a cosine is the mean of both.

    A question in another script than Latin is asked of the second half alone: the English model would only add noise.
    """

    def __init__(self, english: OnnxEmbedder, other: OnnxEmbedder) -> None:
        self.name = f"{english.name.rpartition('/')[0]}{BETWEEN_MODELS}{other.name}"
        self._english = english
        self._other = other

    @property
    def dimensions(self) -> int:
        return self._english.dimensions + self._other.dimensions

    @property
    def unrelated(self) -> Cosines:
        """As if the two models erred independently."""
        english, other = self._english.unrelated, self._other.unrelated
        return Cosines((english.mean + other.mean) / 2, math.hypot(english.deviation, other.deviation) / 2)

    def load(self) -> None:
        self._english.load()
        self._other.load()

    def words(self, most: int) -> Sequence[str]:
        words = [*self._english.words(most // 2), *self._other.words(most)]
        return list(dict.fromkeys(words))[:most]

    async def close(self) -> None:
        await self._english.close()
        await self._other.close()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return await asyncio.to_thread(self.embed_now, texts)

    async def embed_query(self, text: str) -> Matrix:
        return await asyncio.to_thread(self.embed_query_now, text)

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """Do the same as `embed`, in the calling thread."""
        return np.hstack([self._english.embed_now(texts), self._other.embed_now(texts)]) * _HALF

    def embed_query_now(self, text: str) -> Matrix:
        """Do the same as `embed_query`, in the calling thread."""
        other = self._other.embed_query_now(text)
        if is_foreign(query_lexemes(text)):
            return np.hstack([np.zeros((1, self._english.dimensions), dtype=np.float32), other])
        return np.hstack([self._english.embed_query_now(text), other]) * _HALF
