"""Mindhold by its Python front door: the engine that every interface of it uses, with default settings."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from benchmarks.peers.door import settings_for, uncached_embedder
from benchmarks.peers.known import KnownTexts

from mindhold.app.application import App, open_app
from mindhold.memories.embedding import VectorSource
from mindhold.memories.prepare import content_hash, labels_of
from mindhold.memories.recall import RecallInput, recall
from mindhold.memories.write import RememberInput, WriteOutcome, write, write_many
from mindhold.model.lexemes import lexemes
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.ports.embedder import Matrix
from mindhold.ports.store import Put

T = TypeVar("T")

BATCH = 5_000


def plain_puts(
    app: App,
    texts: Sequence[str],
    rows: Matrix,
    *,
    scope: str = GLOBAL,
    keywords: Callable[[str], tuple[str, ...]] = lambda _text: (),
) -> list[Put]:
    """Memories as intake would make them of such texts, with vectors that are known."""
    engine = app.engine
    now = engine.clock()
    memories = [
        Memory(
            id=engine.new_id(),
            content=text,
            keywords=keywords(text),
            kind=Kind.NOTE,
            scope=scope,
            agent=app.loaded.settings.agent,
            created=now,
            updated=now,
            occurred=now,
            content_hash=content_hash(text),
            tokens=len(text) // 4,
            embedded_by=engine.vector_source.model,
        )
        for text in texts
    ]
    return [
        Put(memory, lexemes(memory.content), labels=labels_of(engine, memory), vector=row)
        for memory, row in zip(memories, rows, strict=True)
    ]


class FrontDoor:
    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._options = options
        # Not Runner.run: it sets signal handlers at every call, which costs as much as a small query.
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._app = self._run(self._open(folder, options))
        # Which row of the benchmark an id is; beside the folder, so that it isn't counted as ours.
        self._names = folder.with_name(f"{folder.name}-rows.json")
        self._agent = self._app.loaded.settings.agent

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _open(self, folder: Path, options: dict[str, Any]) -> App:
        return await self._stack.enter_async_context(open_app(settings_for(folder, options)))

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        matrix = np.load(vectors, mmap_mode="r")
        rows = json.loads(self._names.read_text(encoding="utf-8")) if start else {}
        take = self._put if self._options.get("plain") else self._remember
        for first in range(start, len(texts), BATCH):
            batch = texts[first : first + BATCH]
            ids = take(batch, np.asarray(matrix[first : first + len(batch)]))
            rows.update({name: first + number for number, name in enumerate(ids)})
        self._names.write_text(json.dumps(rows), encoding="utf-8")
        return len(texts) - start

    def _remember(self, texts: Sequence[str], rows: Matrix) -> list[str]:
        """All of intake, but for the embedding."""
        known = VectorSource(
            KnownTexts(uncached_embedder(self._options), dict(zip(texts, rows, strict=True)))
        )
        requests = [RememberInput(content=text) for text in texts]
        answers = self._run(write_many(replace(self._app.engine, vector_source=known), requests))
        ids = [answer.memory.id for answer in answers if answer.memory is not None]
        if len(ids) < len(texts):
            raise SystemExit(f"it passed over {len(texts) - len(ids)} texts")
        return ids

    def _put(self, texts: Sequence[str], rows: Matrix) -> list[str]:
        """Straight into the store and its index: for a million, where intake would take long and measure nothing new."""
        puts = self._puts(texts, rows)
        self._run(self._app.engine.store.apply(puts))
        return [put.memory.id for put in puts]

    def _puts(self, texts: Sequence[str], rows: Matrix) -> list[Put]:
        return plain_puts(self._app, texts, rows)

    def store(self, text: str) -> bool:
        answer = self._run(write(self._app.engine, RememberInput(content=text)))
        return answer.outcome is WriteOutcome.STORED

    def store_many(self, texts: Sequence[str]) -> int:
        requests = [RememberInput(content=text) for text in texts]
        answers = self._run(write_many(self._app.engine, requests))
        return sum(answer.outcome is WriteOutcome.STORED for answer in answers)

    def recall(self, text: str, mode: str) -> int:
        answer = self._run(recall(self._app.engine, RecallInput(query=text, limit=10), agent=self._agent))
        return len(answer.hits)

    def nearest(self, vectors: str) -> list[list[int]]:
        rows = json.loads(self._names.read_text(encoding="utf-8"))
        engine = self._app.engine
        model = engine.vector_source.model
        assert model is not None
        found = self._run(
            engine.store.nearest(
                list(np.load(vectors)),
                model=model,
                where=Filter(viewer=self._agent, statuses=tuple(Status)),
                limit=10,
            )
        )
        return [[rows[one.id] for one in each if one.id in rows] for each in found]

    def embed(self, texts: Sequence[str]) -> int:
        raise NotImplementedError

    def process(self) -> int:
        return os.getpid()

    def close(self) -> None:
        self._run(self._stack.aclose())
        self._loop.close()


def open_contestant(folder: Path, options: dict[str, Any]) -> FrontDoor:
    return FrontDoor(folder, options)
