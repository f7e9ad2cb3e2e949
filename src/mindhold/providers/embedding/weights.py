"""Reads BERT weights without torch: from safetensors, or back out of an exported ONNX graph."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.errors import ModelPullFailed

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]

_OLD_NAMES = {"gamma": "weight", "beta": "bias"}
_PARTS = ("embeddings.", "encoder.")


@dataclass(frozen=True, slots=True)
class BertShape:
    """What the graph needs to know beside the weights."""

    layers: int
    heads: int
    epsilon: float


def bert_shape(config: Mapping[str, Any]) -> BertShape | None:
    """The shape that a config.json describes, or None if it isn't a plain BERT."""
    plain = (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
    )
    if not plain:
        return None
    return BertShape(
        layers=int(config["num_hidden_layers"]),
        heads=int(config["num_attention_heads"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
    )


def read_safetensors(path: Path) -> dict[str, Array]:
    """Every floating tensor of the file, as float32, under BERT's own names."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length + 8 > size:
            raise _unreadable(path)
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise _unreadable(path) from error
    header.pop("__metadata__", None)
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        if stop > len(data):
            raise _unreadable(path)
        values = _floats(data[start:stop].tobytes(), entry["dtype"])
        if values is not None:
            tensors[_plain_name(name)] = values.reshape(entry["shape"])
    return tensors


def read_onnx(path: Path) -> dict[str, Array]:
    """The weights inside an exported BERT graph; what can't be told apart is left out.

    An export keeps the names of biases and of layer norms but renames the matrices; each is found by
    the named bias that is added to its product.
    """
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    tensors: dict[str, Array] = {
        _plain_name(name): numpy_helper.to_array(tensor)
        for name, tensor in stored.items()
        if _plain_name(name).startswith(_PARTS)
    }
    products = {node.output[0]: node for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        bias = next((name for name in node.input if name in stored and name.endswith(".bias")), None)
        product = next((products[name] for name in node.input if name in products), None)
        if bias is None or product is None or product.input[1] not in stored:
            continue
        weight = _plain_name(bias).removesuffix("bias") + "weight"
        tensors[weight] = numpy_helper.to_array(stored[product.input[1]]).T
    return tensors


def names_needed(shape: BertShape) -> list[str]:
    """Every tensor that the graph is built from."""
    names = [
        "embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight",
        "embeddings.LayerNorm.weight",
        "embeddings.LayerNorm.bias",
    ]
    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    parts += ["attention.output.dense", "attention.output.LayerNorm"]
    parts += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    for layer in range(shape.layers):
        names += [f"encoder.layer.{layer}.{part}.{kind}" for part in parts for kind in ("weight", "bias")]
    return names


def _plain_name(name: str) -> str:
    start = min((at for part in _PARTS if (at := name.find(part)) >= 0), default=0)
    stem, _, last = name[start:].rpartition(".")
    return f"{stem}.{_OLD_NAMES.get(last, last)}" if stem else last


def _floats(raw: bytes, dtype: str) -> Array | None:
    if dtype == "F32":
        return np.frombuffer(raw, dtype="<f4")
    if dtype == "F16":
        return np.frombuffer(raw, dtype="<f2").astype(np.float32)
    if dtype == "BF16":
        return (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    return None


def _unreadable(path: Path) -> ModelPullFailed:
    return ModelPullFailed(
        f"{path.name} is cut short or is no safetensors file.", advice="Fetch it again, whole, and retry."
    )
