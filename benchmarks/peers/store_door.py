"""Mindhold on the store that the options name, by the front door of every store; and PostgreSQL's floor beside it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from benchmarks.peers.bare_pgvector import BarePgvector
from benchmarks.peers.front_door import FrontDoor, plain_puts
from benchmarks.texts import keywords_in

from mindhold.memories.recall import RecallInput, recall
from mindhold.memories.write import RememberInput, WriteOutcome, write
from mindhold.model.scope import POSTGRES
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Put
from mindhold.stores.postgres.search_queries import EXACT_UP_TO

T = TypeVar("T")

SETTLING = 300.0  # seconds


class StoreDoor(FrontDoor):
    """Its loop never rests, as a server's: drivers and caches have work to do between two calls."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._thread: threading.Thread | None = None
        self._stored: list[str] = []
        self._bare: BarePgvector | None = None
        super().__init__(folder, options)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        """With the upkeep that a day brings, and every index built."""
        taken = super().load(texts, vectors, start)
        self._run(self._app.engine.store.optimise())
        if self._app.loaded.settings.store.mode == POSTGRES and len(texts) > EXACT_UP_TO:
            _until(lambda: self._floor().indexed())
        return taken

    def _puts(self, texts: Sequence[str], rows: Matrix) -> list[Put]:
        return plain_puts(self._app, texts, rows, keywords=keywords_in)

    def store(self, text: str) -> bool:
        answer = self._run(write(self._app.engine, RememberInput(content=text)))
        if answer.memory is not None:
            self._stored.append(answer.memory.id)
        return answer.outcome is WriteOutcome.STORED

    def unstore(self) -> int:
        """Erase what was stored one by one, so that the store is again what it was filled with."""
        self._run(self._app.engine.store.erase(self._stored))
        erased, self._stored = len(self._stored), []
        return erased

    def recall(self, text: str, mode: str) -> int:
        if mode == "bare":
            return len(self._floor().nearest(self._query(text)))
        asked = RecallInput(keywords=[text]) if mode == "keywords" else RecallInput(query=text)
        return len(self._run(recall(self._app.engine, asked, agent=self._agent)).hits)

    def rungs(self, keywords: Sequence[str]) -> list[str]:
        """What recall by each keyword stands on."""
        asked = [RecallInput(keywords=[word], count_use=False) for word in keywords]
        return [self._run(recall(self._app.engine, one, agent=self._agent)).rung for one in asked]

    def settle(self, keyword: str) -> str:
        """Wait until what stands beside the store has caught up with it; what it says then."""
        self.recall(keyword, "keywords")
        _until(lambda: self._beside() in ("whole", "none", "off"))
        return self._beside()

    def _beside(self) -> str:
        return self._run(self._app.engine.sidecar.facts()).keywords

    def recalled(self, texts: Sequence[str]) -> list[list[int]]:
        """Row numbers of the ten memories that each question gets."""
        rows = json.loads(self._names.read_text(encoding="utf-8"))
        return [self._rows(text, rows) for text in texts]

    def _rows(self, text: str, rows: dict[str, int]) -> list[int]:
        question = RecallInput(query=text, limit=10, count_use=False)
        answer = self._run(recall(self._app.engine, question, agent=self._agent))
        return [rows[hit.memory.id] for hit in answer.hits if hit.memory.id in rows]

    def nearest_bare(self, vectors: str) -> list[list[int]]:
        """As `nearest`, by the bare query."""
        rows = json.loads(self._names.read_text(encoding="utf-8"))
        bare = self._floor()
        return [[rows[one] for one in bare.nearest(vector)] for vector in np.load(vectors)]

    def plan(self, text: str) -> str:
        """How PostgreSQL carries out the bare query."""
        return self._floor().plan(self._query(text))

    def size(self) -> int:
        """Bytes that the store says it takes."""
        return self._run(self._app.engine.store.facts()).bytes_used

    def _query(self, text: str) -> Any:
        matrix = self._run(self._app.engine.vector_source.embed_query(text))
        assert matrix is not None
        return matrix.reshape(-1)

    def _floor(self) -> BarePgvector:
        if self._bare is None:
            model = self._app.engine.vector_source.model
            assert model is not None
            self._bare = BarePgvector(self._app.loaded.settings.postgres.url, model=model)
        return self._bare

    def close(self) -> None:
        if self._bare is not None:
            self._bare.close()
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()
        self._loop.close()


def _until(ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + SETTLING
    while not ready() and time.monotonic() < limit:
        time.sleep(0.1)


def open_contestant(folder: Path, options: dict[str, Any]) -> StoreDoor:
    return StoreDoor(folder, options)
