"""Contracts of embedders and classifiers. Subclass them and run pytest."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from math import isclose
from typing import ClassVar

import numpy as np

from mindhold.ports.embedder import Embedder
from mindhold.ports.llm import Classifier

TEXTS = (
    "The cat sleeps on the warm window sill.",
    "Our deployment runs every Friday at noon.",
    "",
    "안녕하세요, 반갑습니다 你好 😀",
    "a",
)


class EmbedderContract(ABC):
    """What every embedder promises. `semantic` says whether it knows meanings, or only spellings."""

    semantic: ClassVar[bool]

    @abstractmethod
    def embedder(self) -> Embedder:
        """A pytest fixture."""

    async def test_has_a_name_and_a_length(self, embedder: Embedder) -> None:
        assert embedder.name
        assert (await embedder.embed(["text"])).shape == (1, embedder.dimensions)

    async def test_rows_are_unit_vectors_of_float32(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)

    async def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        assert (await embedder.embed([])).shape == (0, embedder.dimensions)

    async def test_keeps_the_order(self, embedder: Embedder) -> None:
        texts = [text * repeats for repeats in (7, 1, 3) for text in TEXTS if text]
        together = await embedder.embed(texts)
        alone = np.concatenate([await embedder.embed([text]) for text in texts])
        assert np.einsum("ij,ij->i", together, alone).min() > 0.98

    async def test_is_deterministic(self, embedder: Embedder) -> None:
        np.testing.assert_array_equal(await embedder.embed(TEXTS), await embedder.embed(TEXTS))

    async def test_repeated_text_has_one_vector(self, embedder: Embedder) -> None:
        vectors = await embedder.embed([TEXTS[0], TEXTS[1], TEXTS[0]])
        np.testing.assert_array_equal(vectors[0], vectors[2])

    async def test_the_end_of_a_long_text_counts(self, embedder: Embedder) -> None:
        body = "It was a quiet day and nothing much happened at the office. " * 150
        plain, ended = await embedder.embed([body, body + "Then the volcano erupted over the harbour. " * 30])
        assert float(plain @ ended) < 0.9999

    async def test_a_query_is_one_row(self, embedder: Embedder) -> None:
        vector = await embedder.embed_query("Where does the cat sleep?")
        assert vector.shape == (1, embedder.dimensions)
        np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-4)

    async def test_a_query_comes_closest_to_the_text_with_its_words(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS[:2])
        query = await embedder.embed_query("the cat on the window sill")
        assert (vectors @ query[0]).argmax() == 0

    async def test_calls_at_once_do_not_mix(self, embedder: Embedder) -> None:
        alone = [await embedder.embed([text]) for text in TEXTS]
        at_once = await asyncio.gather(*(embedder.embed([text]) for text in TEXTS))
        for expected, actual in zip(alone, at_once, strict=True):
            np.testing.assert_array_equal(expected, actual)

    async def test_like_meanings_are_closer_than_unlike(self, embedder: Embedder) -> None:
        texts = [
            "He purchased a new automobile.",
            "The man bought a car.",
            "Bread needs an hour in the oven.",
        ]
        vectors = await embedder.embed(texts)
        closer = float(vectors[0] @ vectors[1]) > float(vectors[0] @ vectors[2]) + 0.1
        assert closer or not self.semantic


PAIRS = (
    ("The port is 5432.", "The port is 5433."),
    ("The cat sleeps.", "Deployments run on Fridays."),
    ("", ""),
    ("포트는 5432이다.", "포트는 5433이다."),
    ("word " * 2_000, "another " * 2_000),
)


class ClassifierContract(ABC):
    """What every classifier promises, by rules or by a model."""

    @abstractmethod
    def classifier(self) -> Classifier:
        """A pytest fixture."""

    async def test_has_a_name(self, classifier: Classifier) -> None:
        assert classifier.name

    async def test_no_pairs_give_no_judgements(self, classifier: Classifier) -> None:
        assert await classifier.judge([]) == []

    async def test_each_pair_has_three_shares_of_one(self, classifier: Classifier) -> None:
        judgements = await classifier.judge(PAIRS)
        assert len(judgements) == len(PAIRS)
        for judgement in judgements:
            shares = (judgement.entailment, judgement.neutral, judgement.contradiction)
            assert all(0 <= share <= 1 for share in shares)
            assert isclose(sum(shares), 1, abs_tol=1e-6)

    async def test_a_judgement_is_the_same_alone_and_among_others(self, classifier: Classifier) -> None:
        together = await classifier.judge(PAIRS)
        for pair, judgement in zip(PAIRS, together, strict=True):
            [alone] = await classifier.judge([pair])
            assert isclose(alone.contradiction, judgement.contradiction, abs_tol=1e-4)

    async def test_several_may_ask_at_once(self, classifier: Classifier) -> None:
        answers = await asyncio.gather(*(classifier.judge(PAIRS) for _ in range(4)))
        assert all(len(answer) == len(PAIRS) for answer in answers)
