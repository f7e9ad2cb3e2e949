"""The parts that all embedders share: caches, windows over long texts, the similarity of unrelated texts."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import TypeVar
from zlib import crc32

import numpy as np

from mindhold.model.errors import ModelError
from mindhold.model.ranking import Cosines
from mindhold.ports.cache import NO_SIDECAR, Cache
from mindhold.ports.embedder import Embedder, Matrix


class EmbedderWrapper:
    """Base of embedders that wrap another: it forwards everything except the two methods that embed."""

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

    def words(self, most: int) -> Sequence[str]:
        return self._inner.words(most)


OVERLAP_DIVISOR = 8
Item = TypeVar("Item")


def windows(ids: Sequence[Item], limit: int) -> list[Sequence[Item]]:
    """Cut the ids, or characters, into windows of at most `limit`; neighbours share an eighth or more.

    The windows are spread evenly, so that no short rest is left at the end.
    """
    if len(ids) <= limit:
        return [ids]
    step = max(1, limit - limit // OVERLAP_DIVISOR)
    last = len(ids) - limit
    count = 1 + -(-last // step)
    starts = [round(index * last / (count - 1)) for index in range(count)]
    return [ids[start : start + limit] for start in starts]


def combine(vectors: Matrix, lengths: Sequence[int]) -> Matrix:
    """Combine the windows' vectors into one unit vector, each weighted by its length."""
    weighted = np.average(vectors, axis=0, weights=np.asarray(lengths, dtype=np.float64))
    norm = float(np.linalg.norm(weighted))
    return (weighted / norm if norm else vectors[0]).astype(np.float32)


def combine_windows(vectors: Matrix, lengths: Sequence[Sequence[int]]) -> Matrix:
    """Combine the windows' vectors of each text; `lengths` lists the lengths of each text's windows."""
    if len(vectors) == len(lengths):
        return vectors
    rows, start = [], 0
    for text_lengths in lengths:
        end = start + len(text_lengths)
        rows.append(vectors[start] if end == start + 1 else combine(vectors[start:end], text_lengths))
        start = end
    return np.stack(rows)


UNRELATED_QUESTIONS = (
    "Which editor does the team use?",
    "When is the rent due?",
    "How do I restart the queue worker?",
    "Who designed the poster for the festival?",
    "What did the doctor say about the knee?",
    "Where is the spare key kept?",
    "Why was the order cancelled?",
    "How long does the battery last?",
    "Which port does the proxy listen on?",
    "What is the name of the new colleague?",
    "When did the lease begin?",
    "How many eggs are in the cake?",
)
UNRELATED_STATEMENTS = (
    "The meeting was moved to Thursday at three.",
    "She adopted a grey cat from the shelter last spring.",
    "The build fails because the certificate has expired.",
    "Rain is expected over the weekend, with strong winds along the coast.",
    "He has been learning the violin since he was seven years old.",
    "We decided to keep the old database and drop the cache.",
    "I am allergic to peanuts, and so is my brother.",
    "The museum shows Roman coins found under the bridge.",
    "Interest rates rose by half a percent in June.",
    "Whales sleep with one half of their brain at a time.",
    "Add two spoons of sugar and stir until the butter melts.",
    "The striker was sold to another club for ten million.",
    "Our flight to Lisbon leaves from the second terminal.",
    "The professor published a paper on medieval trade routes.",
    "Paint the fence before the first frost.",
    "The new phone charges twice as fast as the last one.",
    "My grandmother keeps bees behind the orchard.",
    "The court dismissed the appeal on Monday.",
    "Turn left at the church and follow the river.",
    "The novel is told from the view of a lighthouse keeper.",
    "Vaccines for travellers are given on the third floor.",
    "Their first album was recorded in a single night.",
    "The printer is out of paper again.",
    "Wolves returned to the valley after a hundred years.",
)


def measure_unrelated(questions: Matrix, statements: Matrix) -> Cosines:
    """Return mean and deviation of every question's cosine with every statement; the rows are unit vectors."""
    cosines = questions @ statements.T
    return Cosines(float(cosines.mean()), float(cosines.std()))


def without_centre(vectors: Matrix, centre: Matrix) -> Matrix:
    """Unit vectors without what all texts have in common, which makes everything similar in some models."""
    if not centre.size:
        return vectors
    moved: Matrix = vectors - centre
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-9)
    return moved


class CachedEmbedder(EmbedderWrapper):
    """Caches the vectors of the texts that were used last."""

    def __init__(self, inner: Embedder, *, size: int = 4096) -> None:
        super().__init__(inner)
        self._size = size
        self._rows: OrderedDict[bytes, Matrix] = OrderedDict()
        self._lock = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        keys = [_key("text", text) for text in texts]
        rows = self._cached_rows(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in rows}
        if missing or not texts:
            vectors = await self._inner.embed(list(missing.values()))
            if not texts:
                return vectors
            new_rows = dict(zip(missing, vectors, strict=True))
            self._store_rows(new_rows)
            rows |= new_rows
        return np.stack([rows[key] for key in keys])

    async def embed_query(self, text: str) -> Matrix:
        key = _key("query", text)
        rows = self._cached_rows([key])
        if key in rows:
            return rows[key][np.newaxis].copy()
        vectors = await self._inner.embed_query(text)
        self._store_rows({key: vectors[0]})
        return vectors

    def _cached_rows(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        with self._lock:
            rows = {key: self._rows[key] for key in keys if key in self._rows}
            for key in rows:
                self._rows.move_to_end(key)
        return rows

    def _store_rows(self, rows: dict[bytes, Matrix]) -> None:
        with self._lock:
            for key, row in rows.items():
                # A copy: a view would keep the whole batch in memory.
                self._rows[key] = row.copy()
                self._rows.move_to_end(key)
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)


def with_cache(embedder: Embedder, size: int) -> Embedder:
    """Wrap the embedder in a cache of that size; 0 means none."""
    return CachedEmbedder(embedder, size=size) if size else embedder


def _key(kind: str, text: str) -> bytes:
    content = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest()


class SharedEmbedder(EmbedderWrapper):
    """Shares the vectors of questions with other servers through a cache.

    Only questions are shared: a memory may be erased, and a vector elsewhere would outlive it. The cache gets a hash of
    the question, not the question.
    """

    def __init__(self, inner: Embedder, cache: Cache) -> None:
        super().__init__(inner)
        self._cache = cache

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return await self._inner.embed(texts)

    async def embed_query(self, text: str) -> Matrix:
        key = _key("query", f"{self._inner.name}\0{text}").hex()
        cached_bytes = await self._cache.get(key)
        if cached_bytes is not None and len(cached_bytes) == 4 * self._known_dimensions():
            return np.frombuffer(cached_bytes, np.dtype("<f4")).astype(np.float32)[np.newaxis]
        vectors = await self._inner.embed_query(text)
        await self._cache.put(key, vectors[0].astype("<f4").tobytes())
        return vectors

    def _known_dimensions(self) -> int:
        """Return 0 before a service was ever called: then it is called, and measured."""
        try:
            return self._inner.dimensions
        except ModelError:
            return 0


def with_shared_cache(embedder: Embedder, cache: Cache) -> Embedder:
    """Wrap the embedder in the shared cache, if there is one."""
    return embedder if cache is NO_SIDECAR else SharedEmbedder(embedder, cache)


_WORD = re.compile(r"\w+")
_NGRAM = 3
_NGRAM_WEIGHT = 0.5
_SIGN_BIT = 1 << 31


class HashingEmbedder:
    """Embeds by hashed words and parts of words: texts that share them are similar. It knows no meanings."""

    unrelated = Cosines(0.03, 0.09)  # of English sentences

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}"

    def load(self) -> None:
        return

    async def close(self) -> None:
        return

    def words(self, most: int) -> Sequence[str]:
        return ()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return self.embed_now(texts)

    async def embed_query(self, text: str) -> Matrix:
        return self.embed_now([text])

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """Do the same as `embed`, in the calling thread."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for (feature, weight), count in Counter(_features(text)).items():
                code = crc32(feature.encode("utf-8", "surrogatepass"))
                sign = 1.0 if code & _SIGN_BIT else -1.0
                vector[code % self.dimensions] += sign * weight * (1 + np.log(count))
            norm = float(np.linalg.norm(vector))
            if norm:
                vector /= norm
            else:  # a text without words still needs a direction
                vector[0] = 1.0
        return vectors


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text.casefold()):
        yield word, 1.0
        framed = f"<{word}>"
        for start in range(len(framed) - _NGRAM + 1):
            yield framed[start : start + _NGRAM], _NGRAM_WEIGHT
