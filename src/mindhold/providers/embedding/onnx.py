"""The local embedder: ONNX Runtime on the processor, loaded at first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindhold.model.errors import ModelMissing
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.encoding import TextEncoder, padded_inputs
from mindhold.providers.embedding.installed import MODELS, InstalledModel, model_file
from mindhold.providers.embedding.runtime import open_session, session_errors, workers
from mindhold.providers.embedding.windows import combine
from mindhold.providers.folders import sha256_of

# Larger batches fall out of the processor's cache and only cost memory.
DEFAULT_BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    inputs: frozenset[str]
    encoder: TextEncoder
    model: InstalledModel


class OnnxEmbedder:
    """An installed model. Making one touches nothing; the first text loads it."""

    def __init__(
        self,
        models_dir: Path,
        model: str,
        *,
        precision: str = "int8",
        threads: int = 0,
        device: str = "cpu",
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> None:
        self._models_dir = models_dir
        self._model = model
        self._precision = precision
        self._threads = threads
        self._device = device
        self._batch_tokens = batch_tokens
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._dimensions = 0

    @property
    def name(self) -> str:
        return f"{self._model}/{self._precision}"

    @property
    def dimensions(self) -> int:
        if not self._dimensions:
            self._dimensions = MODELS.read(self._models_dir, self._model).dimensions
        return self._dimensions

    @property
    def unrelated(self) -> Cosines:
        return self._ready().model.unrelated

    async def embed(self, texts: Sequence[str]) -> Matrix:
        return await asyncio.to_thread(self.embed_now, texts)

    async def embed_query(self, text: str) -> Matrix:
        return await asyncio.to_thread(self.embed_query_now, text)

    def embed_now(self, texts: Sequence[str]) -> Matrix:
        """`embed`, in the calling thread."""
        loaded = self._ready()
        return self._run(loaded, [loaded.model.text_prefix + text for text in texts])

    def embed_query_now(self, text: str) -> Matrix:
        """`embed_query`, in the calling thread."""
        loaded = self._ready()
        return self._run(loaded, [loaded.model.query_prefix + text])

    def load(self) -> None:
        """Loads the model ahead of its first use. Raises ModelMissing, ModelBroken."""
        self._ready()

    async def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)

    def _side_by_side(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(workers(self._threads), thread_name_prefix="mindhold-embed")
            return self._pool

    def _ready(self) -> _Loaded:
        """The model, loaded once however many threads ask."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._open()
        return self._loaded

    def _open(self) -> _Loaded:
        model = MODELS.read(self._models_dir, self._model)
        folder = self._models_dir / self._model
        if self._precision not in model.precisions:
            raise ModelMissing(
                f"The model {self._model!r} is not installed in {self._precision}.",
                advice=f"`mindhold models pull {self._model} --precision {self._precision}` makes it.",
            )
        MODELS.check_sizes(self._models_dir / model.name, model)
        tokenizer = folder / "tokenizer.json"
        if sha256_of(tokenizer) != model.files[tokenizer.name].sha256:
            raise MODELS.broken(self._model, f"{tokenizer.name} has changed since it was made")
        try:
            session = open_session(folder / model_file(self._precision), device=self._device)
        except session_errors() as error:
            raise MODELS.broken(self._model, "the runtime can't open it") from error
        return _Loaded(
            session=session,
            inputs=frozenset(entry.name for entry in session.get_inputs()),
            encoder=TextEncoder(tokenizer.read_text(encoding="utf-8"), limit=model.limit),
            model=model,
        )

    def _run(self, loaded: _Loaded, texts: Sequence[str]) -> Matrix:
        encoded = [loaded.encoder.encode(text) for text in texts]
        windows = [window for parts in encoded for window in parts]
        vectors = np.zeros((len(windows), loaded.model.dimensions), dtype=np.float32)

        def fill(rows: list[int]) -> None:
            inputs = padded_inputs(
                [windows[row] for row in rows], names=loaded.inputs, pad=loaded.encoder.pad
            )
            vectors[rows] = loaded.session.run(None, inputs)[0]

        chosen = list(batches([len(window) for window in windows], most_tokens=self._batch_tokens))
        try:
            # The longest first, so that no thread is left with it at the end.
            list(self._side_by_side().map(fill, reversed(chosen)) if len(chosen) > 1 else map(fill, chosen))
        except session_errors() as error:
            raise MODELS.broken(self._model, "the runtime failed on it") from error
        if not np.isfinite(vectors).all():
            raise MODELS.broken(self._model, "its vectors are not numbers")
        return _joined(vectors, encoded)


def batches(lengths: Sequence[int], *, most_tokens: int) -> Iterator[list[int]]:
    """Rows of like length together, each batch within the tokens that it takes once padded."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > most_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _joined(vectors: Matrix, encoded: Sequence[Sequence[Sequence[int]]]) -> Matrix:
    if len(vectors) == len(encoded):
        return vectors
    joined = np.empty((len(encoded), vectors.shape[1]), dtype=np.float32)
    start = 0
    for row, parts in enumerate(encoded):
        own = vectors[start : start + len(parts)]
        joined[row] = own[0] if len(parts) == 1 else combine(own, [len(part) for part in parts])
        start += len(parts)
    return joined
