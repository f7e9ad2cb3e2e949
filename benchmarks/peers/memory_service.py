"""mcp-memory-service by its storage class, in process: for filling it, and as a row of its own.

Its MCP door takes one memory a call, so both filling and bulk storing go through `store_batch` of its SQLite-vec backend.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 2_000


class _Prepared:
    """Stands in for its embedding model while it is filled with vectors that are known already."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def encode(self, texts: Sequence[str], convert_to_numpy: bool = True) -> Any:
        return np.asarray(self._rows[: len(texts)])


class MemoryService:
    def __init__(self, folder: Path) -> None:
        backend: Any = importlib.import_module("mcp_memory_service.storage.sqlite_vec")
        self._memory: Any = importlib.import_module("mcp_memory_service.models.memory").Memory
        self._hash: Any = importlib.import_module("mcp_memory_service.utils.hashing").generate_content_hash
        # Not Runner.run: it sets signal handlers at every call, which costs as much as a small query.
        self._loop = asyncio.new_event_loop()
        self._storage = backend.SqliteVecMemoryStorage(str(folder / "sqlite_vec.db"))
        self._loop.run_until_complete(self._storage.initialize())
        self._model = self._storage.embedding_model

    def _records(self, texts: Sequence[str]) -> list[Any]:
        return [self._memory(content=text, content_hash=self._hash(text)) for text in texts]

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        matrix = np.load(vectors, mmap_mode="r")
        taken = 0
        for first in range(start, len(texts), BATCH):
            self._storage.embedding_model = _Prepared(matrix[first : first + BATCH])
            taken += self._batch(texts[first : first + BATCH])
        self._storage.embedding_model = self._model
        return taken

    def _batch(self, texts: Sequence[str]) -> int:
        answers = self._loop.run_until_complete(self._storage.store_batch(self._records(texts)))
        refused = [message for stored, message in answers if not stored and "Duplicate" not in message]
        if refused:
            raise SystemExit(f"it refused {len(refused)} texts: {refused[0]}")
        return sum(stored for stored, _ in answers)

    def store(self, text: str) -> bool:
        stored, _ = self._loop.run_until_complete(self._storage.store(self._records([text])[0]))
        return bool(stored)

    def store_many(self, texts: Sequence[str]) -> int:
        return self._batch(texts)

    def recall(self, text: str, mode: str) -> int:
        search = self._storage.retrieve_hybrid if mode == "hybrid" else self._storage.retrieve
        return len(self._loop.run_until_complete(search(text, n_results=10)))

    def nearest(self, vectors: str) -> list[list[int]]:
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> int:
        return len(self._model.encode(list(texts)))

    def process(self) -> int:
        return os.getpid()

    def close(self) -> None:
        closing = self._storage.close()
        if asyncio.iscoroutine(closing):
            self._loop.run_until_complete(closing)
        self._loop.close()


def open_contestant(folder: Path, options: dict[str, Any]) -> MemoryService:
    folder.mkdir(parents=True, exist_ok=True)
    return MemoryService(folder)
