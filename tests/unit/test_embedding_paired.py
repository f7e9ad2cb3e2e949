"""Two models at once: what their vector is, what a question in another script asks, and when both are chosen."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mindhold.app.application import open_app
from mindhold.ports.embedder import models_in
from mindhold.providers.embedding.base import without_centre
from mindhold.providers.embedding.conversion import PublishedTraits, measure_model
from mindhold.providers.embedding.onnx import OnnxEmbedder
from mindhold.providers.embedding.paired import PairedEmbedder, local_embedder
from mindhold.providers.model_folders import model_file
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.model_registry import MINILM, MULTILINGUAL_E5
from mindhold.settings.loader import load_settings
from mindhold.testing.providers_contract import EmbedderContract
from support.tiny_models import HIDDEN, POSITIONS, write_tiny_model

PAIR = f"{MINILM.name}+{MULTILINGUAL_E5.name}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two tiny models under the names of the real ones."""
    folder = tmp_path_factory.mktemp("home")
    for seed, name in enumerate((MINILM.name, MULTILINGUAL_E5.name)):
        write_tiny_model(folder / "weights" / name, seed=seed)
        pull(str(folder / "weights" / name), PullOptions(folder / "models", precision="int8"))
    return folder


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """An empty home with the same models."""
    shutil.copytree(home / "models", tmp_path / "models")
    return tmp_path


class TestPaired(EmbedderContract):
    semantic = False

    @pytest.fixture
    def embedder(self, home: Path) -> PairedEmbedder:
        paired = local_embedder(home / "models", PAIR, threads=1)
        assert isinstance(paired, PairedEmbedder)
        return paired

    async def test_a_cosine_is_the_mean_of_both_models(self, embedder: PairedEmbedder, home: Path) -> None:
        texts = ["under the mat", "the quick brown fox"]
        cosines = []
        for name in (MINILM.name, MULTILINGUAL_E5.name):
            half = OnnxEmbedder(home / "models", name, threads=1)
            cosines.append(await half.embed(texts) @ (await half.embed_query("where is the key?"))[0])
        together = await embedder.embed(texts) @ (await embedder.embed_query("where is the key?"))[0]
        np.testing.assert_allclose(together, np.mean(cosines, axis=0), atol=1e-5)

    async def test_another_script_asks_the_second_model_alone(
        self, embedder: PairedEmbedder, home: Path
    ) -> None:
        [asked] = await embedder.embed_query("열쇠는 어디에 있나요?")
        second = OnnxEmbedder(home / "models", MULTILINGUAL_E5.name, threads=1)
        assert not asked[:HIDDEN].any()
        np.testing.assert_allclose(
            asked[HIDDEN:], (await second.embed_query("열쇠는 어디에 있나요?"))[0], atol=1e-6
        )


def test_the_name_tells_both() -> None:
    assert models_in(f"{PAIR}/int8") == [MINILM.name, MULTILINGUAL_E5.name]
    assert models_in(f"{MINILM.name}/int8") == [MINILM.name]


@pytest.mark.parametrize(
    ("wanted", "used"), [(MULTILINGUAL_E5.name, f"{PAIR}/int8"), (MINILM.name, f"{MINILM.name}/int8")]
)
async def test_the_multilingual_model_works_beside_the_english_one(
    own_home: Path, wanted: str, used: str
) -> None:
    settings = {"home": str(own_home), "embedding.model": wanted}
    async with open_app(load_settings(settings, environ={})) as app:
        assert app.engine.vector_source.model == used


async def test_a_store_of_both_stays_with_both(own_home: Path) -> None:
    settings = {"home": str(own_home)}
    async with open_app(
        load_settings({**settings, "embedding.model": MULTILINGUAL_E5.name}, environ={})
    ) as app:
        await app.engine.store.set_cursor("embedder", f"{PAIR}/int8")
    async with open_app(load_settings(settings, environ={})) as app:
        assert app.engine.vector_source.model == f"{PAIR}/int8"


def test_what_all_texts_have_in_common_is_taken_off() -> None:
    rng = np.random.default_rng(1)
    centre = np.full(8, 2.0, dtype=np.float32)
    vectors = centre + rng.normal(size=(200, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    moved = without_centre(vectors, vectors.mean(axis=0))
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1.0, atol=1e-5)
    assert (vectors @ vectors.T).mean() > 0.7
    assert abs((moved @ moved.T).mean()) < 0.05


def test_a_centred_model_finds_unrelated_texts_less_similar(home: Path) -> None:
    path = home / "models" / MINILM.name / model_file("int8")
    traits = PublishedTraits(HIDDEN, "mean", POSITIONS)
    plain, nothing = measure_model(path, traits=traits, centred=False)
    moved, centre = measure_model(path, traits=traits, centred=True)
    assert nothing == ()
    assert len(centre) == HIDDEN
    assert abs(moved.mean) < plain.mean
