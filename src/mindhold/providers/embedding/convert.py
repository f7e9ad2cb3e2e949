"""Turns a folder of published weights into the ONNX file that we run, without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindhold.model.errors import ModelPullFailed
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding import graph
from mindhold.providers.embedding.encoding import TextEncoder, padded_inputs
from mindhold.providers.embedding.installed import model_file
from mindhold.providers.embedding.runtime import open_session, runtime
from mindhold.providers.embedding.unrelated import QUESTIONS, STATEMENTS, spread
from mindhold.providers.embedding.weights import (
    Weights,
    bert_shape,
    names_needed,
    read_onnx,
    read_safetensors,
)

SAFETENSORS = "model.safetensors"
ONNX_NAMES = ("onnx/model.onnx", "model.onnx")
NEEDED = ("config.json", "tokenizer.json")
OPTIONAL = ("1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
LEAST_COSINE = 0.97

_LARGEST_LIMIT = 512
_SENTENCES = (
    "The meeting was moved to Thursday at three.",
    "Use uv instead of pip in this repository.",
    "She adopted a grey cat from the shelter last spring.",
    "def add(a, b): return a + b",
    "The build fails because the certificate expired on 3 March 2024.",
    "We decided to keep PostgreSQL and drop the old cache.",
    "How tall is the tallest mountain of the island?",
    "ok",
    "I'm allergic to peanuts, and so is my brother.",
    "Error 0x80070005: access is denied to /var/lib/data/index.bin",
    "He has been learning the violin since he was seven years old.",
    "Rain is expected over the weekend, with strong winds along the coast.",
)


@dataclass(frozen=True, slots=True)
class Traits:
    """How a published model is meant to be used."""

    dimensions: int
    pooling: str
    limit: int
    query_prefix: str = ""
    text_prefix: str = ""


def read_traits(folder: Path) -> Traits:
    """From the files that lie beside the weights."""
    config = _read_json(folder / "config.json")
    sentence = _read_json(folder / "sentence_bert_config.json")
    pooling = _read_json(folder / "1_Pooling/config.json")
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    positions = int(config.get("max_position_embeddings", _LARGEST_LIMIT))
    limit = int(sentence.get("max_seq_length") or positions)
    if "hidden_size" not in config:
        raise ModelPullFailed(
            f"{folder / 'config.json'} names no hidden_size.", advice="Give a folder with a text encoder."
        )
    return Traits(
        dimensions=int(config["hidden_size"]),
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        limit=min(limit, positions, _LARGEST_LIMIT),
        query_prefix=str(prompts.get("query", "")),
        text_prefix=str(prompts.get("document") or prompts.get("passage") or ""),
    )


def convert(folder: Path, target: Path, *, precision: str, traits: Traits) -> Path:
    """Writes `model.<precision>.onnx` into the target folder. Raises ModelPullFailed."""
    config = _read_json(folder / "config.json")
    shape = bert_shape(config)
    weights = _read_weights(folder) if shape else None
    path = target / model_file(precision)
    if shape and weights and all(name in weights for name in names_needed(shape)):
        exact = graph.build_float(weights, shape, pooling=traits.pooling)
        made = exact if precision == "float" else graph.build_int8(weights, shape, pooling=traits.pooling)
        path.write_bytes(made.SerializeToString())
    else:
        exact = _with_pooling(folder, traits)
        _save_exported(exact, path, precision=precision)
    if precision != "float":
        _check_quality(folder / "tokenizer.json", path, exact=exact.SerializeToString(), limit=traits.limit)
    return path


def spread_of(folder: Path, path: Path, *, traits: Traits) -> Cosines:
    """How alike this model finds questions and texts that have nothing to do with them."""
    tokenizer, model = folder / "tokenizer.json", path.read_bytes()
    questions = [traits.query_prefix + text for text in QUESTIONS]
    statements = [traits.text_prefix + text for text in STATEMENTS]
    vectors = _vectors(tokenizer, model, [*questions, *statements], limit=traits.limit)
    return spread(vectors[: len(questions)], vectors[len(questions) :])


def mean_cosine(left: Matrix, right: Matrix) -> float:
    return float(np.einsum("ij,ij->i", left, right).mean())


def _read_weights(folder: Path) -> Weights | None:
    if (folder / SAFETENSORS).is_file():
        return read_safetensors(folder / SAFETENSORS)
    exported = _exported(folder)
    return read_onnx(exported) if exported else None


def _exported(folder: Path) -> Path | None:
    return next((folder / name for name in ONNX_NAMES if (folder / name).is_file()), None)


def _with_pooling(folder: Path, traits: Traits) -> Any:
    """An exported graph that isn't a plain BERT, with pooling appended to its last hidden state."""
    import onnx
    from onnx import TensorProto, helper

    exported = _exported(folder)
    if exported is None:
        raise ModelPullFailed(
            "Only BERT encoders can be built from safetensors, and this is another kind of model.",
            advice="Give a folder that has onnx/model.onnx too, or choose a BERT model.",
        )
    model = onnx.version_converter.convert_version(onnx.load(str(exported)), graph.OPSET)
    nodes = graph.Nodes()
    output = graph.add_pooling(nodes, model.graph.output[0].name, pooling=traits.pooling)
    nodes.add_as("Identity", graph.OUTPUT, output)
    model.graph.node.extend(nodes.nodes)
    model.graph.initializer.extend(nodes.constants)
    del model.graph.output[:]
    model.graph.output.append(
        helper.make_tensor_value_info(graph.OUTPUT, TensorProto.FLOAT, ["batch", traits.dimensions])
    )
    return model


def _save_exported(exact: Any, path: Path, *, precision: str) -> None:
    if precision == "float":
        path.write_bytes(exact.SerializeToString())
        return
    runtime()
    from onnx import helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Without this mark the quantiser logs advice that is of no use to the person who pulls a model.
    helper.set_model_props(exact, {"onnx.quant.pre_process": "onnxruntime.quant"})
    quantize_dynamic(exact, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)


def _vectors(tokenizer: Path, model: bytes, texts: Sequence[str], *, limit: int) -> Matrix:
    encoder = TextEncoder(tokenizer.read_text(encoding="utf-8"), limit=limit)
    encoded = [encoder.encode(text)[0] for text in texts]
    session = open_session(model)
    names = {entry.name for entry in session.get_inputs()}
    inputs = padded_inputs(encoded, names=names, pad=encoder.pad)
    return np.asarray(session.run(None, inputs)[0], dtype=np.float32)


def _check_quality(tokenizer: Path, path: Path, *, exact: bytes, limit: int) -> None:
    vectors = [_vectors(tokenizer, model, _SENTENCES, limit=limit) for model in (exact, path.read_bytes())]
    likeness = mean_cosine(vectors[0], vectors[1])
    if not likeness >= LEAST_COSINE:
        raise ModelPullFailed(
            f"In int8 this model drifts too far from the original (cosine {likeness:.3f}).",
            advice="Pull it with `--precision float`.",
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ModelPullFailed(f"{path} is no JSON.", advice="Fetch the file again and retry.") from error
    return content if isinstance(content, dict) else {}
