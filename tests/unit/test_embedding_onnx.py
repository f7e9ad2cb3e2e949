"""The ONNX embedder on a tiny model: the graph's arithmetic, loading, and what is broken."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import numpy as np
import pytest

from mindhold.model.errors import ModelBroken, ModelMissing
from mindhold.providers.embedding.onnx import OnnxEmbedder, TextEncoder, execution_providers
from mindhold.providers.model_folders import MODEL_FOLDERS
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.testing.providers_contract import EmbedderContract
from support.tiny_models import (
    HEADS,
    HIDDEN,
    LAYERS,
    POSITIONS,
    Tensors,
    tiny_tokenizer,
    tiny_vocabulary,
    write_tiny_model,
    write_tiny_mpnet,
)


@pytest.fixture(scope="module")
def weights_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights") / "tiny"


@pytest.fixture(scope="module")
def weights(weights_dir: Path) -> Tensors:
    return write_tiny_model(weights_dir)


@pytest.fixture(scope="module")
def shared_models(weights_dir: Path, weights: Tensors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    pull(str(weights_dir), PullOptions(folder, precision="int8"))
    pull(str(weights_dir), PullOptions(folder, precision="float"))
    return folder


class TestInt8(EmbedderContract):
    semantic = False

    @pytest.fixture
    def embedder(self, shared_models: Path) -> OnnxEmbedder:
        return OnnxEmbedder(shared_models, "tiny", threads=1)

    async def test_a_text_has_one_vector_whatever_its_neighbours(self, embedder: OnnxEmbedder) -> None:
        alone = await embedder.embed(["memory"])
        among = await embedder.embed(["a", "memory", "something much longer!!"])
        np.testing.assert_allclose(alone[0], among[1], atol=1e-5)


class TestFloat(EmbedderContract):
    semantic = False

    @pytest.fixture
    def embedder(self, shared_models: Path) -> OnnxEmbedder:
        return OnnxEmbedder(shared_models, "tiny", precision="float", threads=1)


@pytest.mark.parametrize(
    ("device", "offered", "chosen"),
    [
        ("cpu", ["CUDAExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"]),
        (
            "gpu",
            ["CPUExecutionProvider", "CoreMLExecutionProvider"],
            ["CoreMLExecutionProvider", "CPUExecutionProvider"],
        ),
        ("gpu", ["CPUExecutionProvider"], ["CPUExecutionProvider"]),
    ],
)
def test_where_it_computes(device: str, offered: list[str], chosen: list[str]) -> None:
    assert execution_providers(device, offered) == chosen


async def test_without_a_gpu_the_cpu_does_it(shared_models: Path) -> None:
    here = await OnnxEmbedder(shared_models, "tiny", threads=1).embed(["memory"])
    there = await OnnxEmbedder(shared_models, "tiny", threads=1, device="gpu").embed(["memory"])
    np.testing.assert_allclose(here, there, atol=1e-3)


async def test_float_is_what_the_architecture_says(shared_models: Path, weights: Tensors) -> None:
    word = "mindhold"
    vocabulary = tiny_vocabulary()
    ids = [vocabulary[token] for token in ("[CLS]", word[0], *(f"##{c}" for c in word[1:]), "[SEP]")]
    embedder = OnnxEmbedder(shared_models, "tiny", precision="float", threads=1)
    np.testing.assert_allclose((await embedder.embed([word]))[0], reference(weights, ids), atol=1e-4)


@pytest.mark.parametrize(("precision", "tolerance"), [("float", 1e-4), ("int8", 0.1)])
async def test_an_mpnet_is_what_its_architecture_says(
    tmp_path: Path, precision: str, tolerance: float
) -> None:
    weights = write_tiny_mpnet(tmp_path / "mpnet")
    pull(str(tmp_path / "mpnet"), PullOptions(tmp_path / "models", precision=precision))
    embedder = OnnxEmbedder(tmp_path / "models", "mpnet", precision=precision, threads=1)
    text = "mindhold remembers what was"
    ids = TextEncoder(json.dumps(tiny_tokenizer()), limit=POSITIONS).encode(text)[0]
    expected = reference(weights, ids, bias=distance_bias(weights, len(ids)))
    vectors = await embedder.embed(["a", text, "some other text"])
    np.testing.assert_allclose(vectors[1], expected, atol=tolerance)


async def test_int8_stays_close_to_float(shared_models: Path) -> None:
    texts = ["where is the key?", "under the mat", "seven", "the quick brown fox"]
    one, other = [
        await OnnxEmbedder(shared_models, "tiny", precision=precision).embed(texts)
        for precision in ("int8", "float")
    ]
    assert np.einsum("ij,ij->i", one, other).min() > 0.98


def test_the_name_is_known_without_a_model(tmp_path: Path) -> None:
    assert OnnxEmbedder(tmp_path, "tiny").name == "tiny/int8"
    assert OnnxEmbedder(tmp_path, "tiny", precision="float").name == "tiny/float"


async def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path, "gte-small")
    with pytest.raises(ModelMissing, match="models pull gte-small"):
        await embedder.embed(["text"])
    with pytest.raises(ModelMissing):
        _ = embedder.dimensions


async def test_a_precision_that_was_not_pulled_is_missing(
    weights_dir: Path, weights: Tensors, tmp_path: Path
) -> None:
    pull(str(weights_dir), PullOptions(tmp_path))
    with pytest.raises(ModelMissing, match="--precision float"):
        await OnnxEmbedder(tmp_path, "tiny", precision="float").embed(["text"])


async def test_a_model_that_is_pulled_later_is_found(
    weights_dir: Path, weights: Tensors, tmp_path: Path
) -> None:
    embedder = OnnxEmbedder(tmp_path, "tiny")
    with pytest.raises(ModelMissing):
        await embedder.embed(["text"])
    pull(str(weights_dir), PullOptions(tmp_path))
    assert (await embedder.embed(["text"])).shape == (1, HIDDEN)


async def test_concurrent_first_calls_load_once_and_agree(shared_models: Path) -> None:
    embedder = OnnxEmbedder(shared_models, "tiny", threads=1)
    rows = await asyncio.gather(*(embedder.embed_query("text") for _ in range(8)))
    assert len({row.tobytes() for row in rows}) == 1


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.int8.onnx", lambda old: old[: len(old) // 2]),
        ("model.int8.onnx", lambda old: b"\xff" * len(old)),
        ("tokenizer.json", lambda old: b"x" * len(old)),
        ("model.json", lambda old: b"{"),
        ("model.json", lambda old: b"[]"),
        ("model.json", lambda old: json.dumps({"format": 1, "name": "tiny", "files": {}}).encode()),
    ],
)
async def test_a_damaged_model_is_named_with_the_way_out(
    weights_dir: Path, weights: Tensors, tmp_path: Path, file: str, damage: object
) -> None:
    pull(str(weights_dir), PullOptions(tmp_path))
    path = tmp_path / "tiny" / file
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ModelBroken, match="models pull tiny --force"):
        await OnnxEmbedder(tmp_path, "tiny").embed(["text"])
    with pytest.raises(ModelBroken):
        MODEL_FOLDERS.verify(tmp_path, "tiny")


def distance_bias(weights: Tensors, length: int) -> np.ndarray:
    """MPNet's bias by heads, words and other words: eight distances by themselves and eight by logarithm, each way."""

    def bucket(ahead: int) -> int:
        far = abs(ahead)
        place = far if far < 8 else min(15, 8 + int(math.log(far / 8) / math.log(128 / 8) * 8))
        return place + (16 if ahead > 0 else 0)

    table = weights["encoder.relative_attention_bias.weight"]
    rows = [[table[bucket(other - word)] for other in range(length)] for word in range(length)]
    return np.asarray(np.array(rows).transpose(2, 0, 1))


def reference(weights: Tensors, ids: list[int], *, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """BERT in plain NumPy, for one text."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            dense(x, f"{layer}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(HIDDEN // HEADS) + bias)
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + dense(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = dense(x, f"{layer}.intermediate.dense")
        inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = x.mean(0)
    return np.asarray(mean / np.linalg.norm(mean))
