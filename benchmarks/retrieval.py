"""The ways of searching that `benchmarks.quality` compares: plain BM25, plain cosine, our full text alone, and all of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from benchmarks.peers.door import OWN_HOME
from benchmarks.questions import Pool, Question
from benchmarks.vectors import KeptEmbedder, KnownVectors

from mindhold.app.application import App, open_app
from mindhold.memories.recall import RECALL, RecallInput
from mindhold.memories.remember import REMEMBER_MANY, RememberManyInput
from mindhold.memories.write import RememberInput
from mindhold.model.lexemes import lexemes, query_lexemes
from mindhold.model.query import Filter
from mindhold.projects.scope_operations import CREATE_SCOPE, CreateScopeInput
from mindhold.settings.loader import load_settings

OURS, WORDS, COSINE, BM25 = "Mindhold", "our full text alone", "plain cosine", "plain BM25"
VECTORS = "our vectors alone"
METHODS = (OURS, WORDS, COSINE, BM25)
SHOWN = 10
SCOPE = "questions"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for a question, by place in the pool and best first, and how sure of the first the method is."""

    pool: str
    question: Question
    places: Sequence[int]
    milliseconds: float
    confidence: float | None = None  # None if the method has none


def by_bm25(pool: Pool) -> list[Answer]:
    """Okapi BM25 with its usual constants, over the words that our full text has too."""
    best = _bm25(pool.texts)
    return [_timed(pool, question, best) for question in pool.questions]


def _bm25(
    texts: Sequence[str], *, saturation: float = 1.5, by_length: float = 0.75
) -> Callable[[str], list[int]]:
    counted = [Counter(lexemes(each)) for each in texts]
    lengths = np.array([each.total() for each in counted], dtype=np.float64)
    damping = saturation * (1 - by_length + by_length * lengths / max(lengths.mean(), 1e-9))
    places: dict[str, list[int]] = {}
    for place, each in enumerate(counted):
        for word in each:
            places.setdefault(word, []).append(place)

    def best(question: str) -> list[int]:
        scores = np.zeros(len(texts))
        for word in query_lexemes(question):
            rows = places.get(word, [])
            rarity = np.log(1 + (len(texts) - len(rows) + 0.5) / (len(rows) + 0.5))
            counts = np.array([counted[row][word] for row in rows], dtype=np.float64)
            scores[rows] += rarity * counts * (saturation + 1) / (counts + damping[rows])
        return [place for place in _first(scores) if scores[place] > 0]

    return best


def by_cosine(pool: Pool, vectors: KnownVectors) -> list[Answer]:
    """The exact nearest by the very vectors that ours has."""
    matrix = vectors.texts(pool.texts)

    def best(question: str) -> list[int]:
        return _first((matrix @ vectors.embedder.embed_query_now(question)[0]).astype(np.float64))

    return [_timed(pool, question, best) for question in pool.questions]


def _first(scores: Floats) -> list[int]:
    found: list[int] = np.argsort(-scores, kind="stable")[:SHOWN].tolist()
    return found


def _timed(pool: Pool, question: Question, best: Callable[[str], list[int]]) -> Answer:
    start = perf_counter()
    places = best(question.text)
    return Answer(pool.name, question, places, (perf_counter() - start) * 1e3)


async def by_front_door(
    pool: Pool, settings: Mapping[str, Any], *, dated: bool = True, vectors_alone: bool = False
) -> dict[str, list[Answer]]:
    """Remember the pool in an empty store and ask as anybody would: with the model, and without one."""
    found: dict[str, list[Answer]] = {}
    with _kept_vectors():
        async with _opened(settings) as app:
            places = await _fill(app, pool, dated=dated)
            await _recalled(app, pool.questions[0], places)  # loads the model
            found[OURS] = [await _answer(app, pool, question, places) for question in pool.questions]
            if vectors_alone:
                found[VECTORS] = [await _nearest(app, pool, question, places) for question in pool.questions]
        async with _opened({**settings, "embedding.provider": "none"}) as app:
            found[WORDS] = [await _answer(app, pool, question, places) for question in pool.questions]
    return found


@contextmanager
def _kept_vectors() -> Iterator[None]:
    """The application makes its embedders itself, whichever it needs; vectors of stored texts are kept between runs."""
    with patch("mindhold.providers.embedding.paired.OnnxEmbedder", KeptEmbedder):
        yield


@asynccontextmanager
async def _opened(settings: Mapping[str, Any]) -> AsyncIterator[App]:
    async with open_app(load_settings({"home": str(OWN_HOME), **settings}, environ={})) as app:
        yield app


async def _fill(app: App, pool: Pool, *, dated: bool) -> dict[str, int]:
    """Remember every text; places by the ids of memories, of which a long text has several."""
    await app.run(CREATE_SCOPE, CreateScopeInput(name=SCOPE))
    items = [
        RememberInput(
            content=content,
            scope=SCOPE,
            occurred=pool.occurred[place] if dated and pool.occurred else None,
            conversation=None if conversation is None else f"{pool.name}/{conversation}",
            position=None if conversation is None else position,
        )
        for place, (content, conversation, position) in enumerate(
            zip(pool.texts, pool.conversations, pool.positions, strict=True)
        )
    ]
    answer = await app.run(REMEMBER_MANY, RememberManyInput(items=items))
    if answer.failed:
        raise SystemExit(f"{answer.failed} of {len(items)} texts of {pool.name} could not be stored.")
    places: dict[str, int] = {}
    for place, result in enumerate(answer.results):
        for one in filter(None, (result.id, *result.parts)):
            places.setdefault(one, place)
    return places


async def _answer(app: App, pool: Pool, question: Question, places: Mapping[str, int]) -> Answer:
    start = perf_counter()
    hits = await _recalled(app, question, places)
    took = (perf_counter() - start) * 1e3
    shown = list(dict.fromkeys(place for place, _ in hits))  # parts of one text count once
    return Answer(pool.name, question, shown, took, hits[0][1] if hits else 0.0)


async def _recalled(app: App, question: Question, places: Mapping[str, int]) -> list[tuple[int, float]]:
    request = RecallInput(query=question.text, scope=SCOPE, limit=SHOWN, minimum_score=0.0, count_use=False)
    result = await app.run(RECALL, request)
    return [(places[hit.id], hit.score) for hit in result.hits]


async def _nearest(app: App, pool: Pool, question: Question, places: Mapping[str, int]) -> Answer:
    """By our vectors alone, from the store's own index."""
    start = perf_counter()
    source = app.engine.vector_source
    matrix = await source.embed_query(question.text)
    assert matrix is not None
    assert source.model is not None
    [hits] = await app.engine.store.nearest(
        [matrix[0]], model=source.model, where=Filter(scopes=(SCOPE,)), limit=SHOWN
    )
    shown = list(dict.fromkeys(places[hit.id] for hit in hits))
    return Answer(pool.name, question, shown, (perf_counter() - start) * 1e3)
