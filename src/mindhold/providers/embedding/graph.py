"""Builds the ONNX graph of a BERT sentence encoder, pooling and normalisation inside.

The runtime's fused operators are written out, so nothing hangs on its pattern matching. In int8, each
token's activations get a scale of their own (not one a batch): a text has the same vector whatever stands
beside it in the batch, and comes closer to the float model at nearly the same cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindhold.providers.embedding.weights import Array, BertShape, Weights

FUSED = "com.microsoft"
OPSET = 17
IR_VERSION = 8
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "embedding"

# Weights use 7 bits: processors without VNNI add pairs of products in 16 bits, where 8 bits overflow.
_WEIGHT_LIMIT = 63
_TABLE_LIMIT = 127


class Nodes:
    """Nodes and constants of a graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, values: Any) -> str:
        from onnx import numpy_helper

        # ascontiguousarray makes a scalar a vector, and the quantisation operators want scalars.
        array = np.asarray(values, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, fused: bool = False, **attributes: Any) -> str:
        name = f"{operator}_{len(self.nodes)}"
        return self.add_as(operator, name, *inputs, fused=fused, **attributes)

    def add_as(self, operator: str, name: str, *inputs: str, fused: bool = False, **attributes: Any) -> str:
        from onnx import helper

        domain = FUSED if fused else ""
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
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="mindhold")


def build_float(weights: Weights, shape: BertShape, *, pooling: str) -> Any:
    """The model as it was trained."""
    return _build(_FloatLayers(weights, shape), pooling=pooling)


def build_int8(weights: Weights, shape: BertShape, *, pooling: str) -> Any:
    """A quarter of the size, faster, and nearly the same ranking."""
    return _build(_Int8Layers(weights, shape), pooling=pooling)


def add_pooling(nodes: Nodes, hidden: str, *, pooling: str) -> str:
    """Unit vectors from the last hidden state. The mean's divisor falls out in the normalisation."""
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
    def __init__(self, weights: Weights, shape: BertShape) -> None:
        self.weights = weights
        self.shape = shape
        self.nodes = Nodes()

    def constant(self, name: str) -> str:
        return self.nodes.constant(name, self.weights[name])

    def words(self) -> str:
        return self.nodes.add("Gather", self.constant("embeddings.word_embeddings.weight"), "input_ids")

    def attention(self, hidden: str, prefix: str, mask: str) -> str:
        parts = [f"{prefix}.self.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        matrix_name = self.nodes.constant(f"{prefix}.matrix", matrix)
        bias = self.nodes.constant(f"{prefix}.bias", _joined_bias(self.weights, parts))
        return self.nodes.add(
            "Attention", hidden, matrix_name, bias, mask, fused=True, num_heads=self.shape.heads
        )

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
    def __init__(self, weights: Weights, shape: BertShape) -> None:
        super().__init__(weights, shape)
        self.step = self.nodes.constant("step", np.float32(1 / 127))
        self.zero = self.nodes.constant("zero", np.uint8(128))
        self.tiny = self.nodes.constant("tiny", np.float32(1e-9))

    def words(self) -> str:
        from onnx import TensorProto

        table = self.weights["embeddings.word_embeddings.weight"]
        codes, scales = quantize_rows(table, limit=_TABLE_LIMIT)
        picked = self.nodes.add("Gather", self.nodes.constant("words.codes", codes), "input_ids")
        scale = self.nodes.add("Gather", self.nodes.constant("words.scales", scales), "input_ids")
        return self.nodes.add("Mul", self.nodes.add("Cast", picked, to=TensorProto.FLOAT), scale)

    def attention(self, hidden: str, prefix: str, mask: str) -> str:
        parts = [f"{prefix}.self.{part}" for part in ("query", "key", "value")]
        codes, scale = self._codes(hidden)
        inputs = [self._product(codes, scale, name=part) for part in parts]
        bias = self.nodes.constant(f"{prefix}.bias", _joined_bias(self.weights, parts))
        return self.nodes.add(
            "MultiHeadAttention", *inputs, bias, mask, fused=True, num_heads=self.shape.heads
        )

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
    """Signed codes within the limit, and the scale of each row."""
    scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True) / limit, 1e-12).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales


def _joined_bias(weights: Weights, parts: list[str]) -> Array:
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
    numbers = [nodes.constant(f"number.{value}", np.array([value], np.int64)) for value in range(3)]
    length = nodes.add("Slice", nodes.add("Shape", "input_ids"), numbers[1], numbers[2])
    table = layers.constant("embeddings.position_embeddings.weight")
    positions = nodes.add("Unsqueeze", nodes.add("Slice", table, numbers[0], length), numbers[0])
    kinds = nodes.add("Gather", layers.constant("embeddings.token_type_embeddings.weight"), "token_type_ids")
    summed = nodes.add("Add", nodes.add("Add", layers.words(), kinds), positions)
    weight, bias = (layers.constant(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias"))
    return nodes.add("LayerNormalization", summed, weight, bias, axis=-1, epsilon=layers.shape.epsilon)
