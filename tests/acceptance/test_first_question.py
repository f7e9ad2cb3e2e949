"""The first question after a start waits for the model, but not for long."""

from __future__ import annotations

import threading
from dataclasses import replace

from front_door import recall, stored

from mindhold.app.application import App
from mindhold.memories.embedding import LOADING, VectorSource
from mindhold.model.errors import ModelMismatch
from mindhold.providers.embedding.base import HashingEmbedder

QUESTION = "where is the spare key?"


class SlowEmbedder(HashingEmbedder):
    """Is loaded when `ready` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = threading.Event()

    def load(self) -> None:
        self.ready.wait()


def with_source(app: App, source: VectorSource) -> App:
    return replace(app, engine=replace(app.engine, vector_source=source), preparing=[])


async def test_a_question_waits_for_the_model(app: App) -> None:
    await stored(app, "The spare key is under the third flowerpot.")
    embedder = SlowEmbedder()

    async def loaded_once_asked() -> ModelMismatch | None:
        embedder.ready.set()
        return None

    source = VectorSource(embedder, gate=loaded_once_asked)
    started = with_source(app, source)
    started.warm(wait_seconds=600)
    assert source.loading
    answer = await recall(started, QUESTION)
    assert answer.hits[0].similarity is not None
    assert answer.notice == ""
    await started.prepared()


async def test_it_is_answered_by_words_if_the_model_takes_long(app: App) -> None:
    await stored(app, "The spare key is under the third flowerpot.")
    embedder = SlowEmbedder()
    source = VectorSource(embedder)
    started = with_source(app, source)
    started.warm(wait_seconds=0)
    answer = await recall(started, QUESTION)
    assert [hit.similarity for hit in answer.hits] == [None]
    assert LOADING in answer.notice
    embedder.ready.set()
    await source.close()  # waits until it is loaded
    answer = await recall(started, QUESTION)
    assert answer.hits[0].similarity is not None
    assert answer.notice == ""
    await started.prepared()
