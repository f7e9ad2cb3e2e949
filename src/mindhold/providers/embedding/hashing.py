"""An embedder with nothing to download: words and their parts, hashed into a vector."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np

from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix

UNRELATED = Cosines(0.03, 0.09)  # of English sentences
_WORD = re.compile(r"\w+")
_PART = 3
_PART_WEIGHT = 0.5
_SIGN = 1 << 31


class HashingEmbedder:
    """Texts that share words, or parts of words, come close. It knows no meanings."""

    def __init__(self, dimensions: int = 256) -> None:
        self._dimensions = dimensions

    @property
    def name(self) -> str:
        return f"hashing-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def unrelated(self) -> Cosines:
        return UNRELATED

    def load(self) -> None:
        return

    async def close(self) -> None:
        return

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return self.embed_now(texts)

    async def embed_query(self, text: str) -> Matrix:
        return self.embed_now([text])

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """`embed`, in the calling thread."""
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for (feature, weight), count in Counter(_features(text)).items():
                code = crc32(feature.encode("utf-8", "surrogatepass"))
                sign = 1.0 if code & _SIGN else -1.0
                vector[code % self._dimensions] += sign * weight * (1 + np.log(count))
            norm = float(np.linalg.norm(vector))
            if norm:
                vector /= norm
            else:  # a text without words still gets a direction
                vector[0] = 1.0
        return vectors


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text.casefold()):
        yield word, 1.0
        framed = f"<{word}>"
        for start in range(len(framed) - _PART + 1):
            yield framed[start : start + _PART], _PART_WEIGHT
