"""Tiny models with random weights, in the files of published ones: an embedding model and an NLI model."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

HIDDEN = 32
INNER = 64
HEADS = 4
LAYERS = 2
POSITIONS = 32
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'-:/_()=+"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

Tensors = dict[str, npt.NDArray[np.float32]]


def write_tiny_model(folder: Path, *, seed: int = 7) -> Tensors:
    """Write config.json, tokenizer.json and model.safetensors, and return the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tiny_weights(seed)
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tiny_tokenizer()), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors)
    return tensors


def tiny_weights(seed: int) -> Tensors:
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": normal(len(tiny_vocabulary()), HIDDEN),
        "embeddings.position_embeddings.weight": normal(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": normal(2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        shapes = {f"attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        shapes |= {"attention.output.dense": (HIDDEN, HIDDEN), "intermediate.dense": (INNER, HIDDEN)}
        shapes |= {"output.dense": (HIDDEN, INNER)}
        for part, shape in shapes.items():
            tensors[f"{layer}.{part}.weight"] = normal(*shape)
            tensors[f"{layer}.{part}.bias"] = normal(shape[0])
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for norm in norms:
        tensors[f"{norm}.weight"] = 1 + normal(HIDDEN)
        tensors[f"{norm}.bias"] = normal(HIDDEN)
    return tensors


def tiny_vocabulary() -> dict[str, int]:
    tokens = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    return {token: number for number, token in enumerate(tokens)}


def tiny_tokenizer() -> dict[str, object]:
    """A tokenizer by letters, saved with truncation and padding like many published ones."""
    vocabulary = tiny_vocabulary()
    special = [
        {"id": vocabulary[token], "content": token, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for token in SPECIAL
    ]
    frame = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    return {
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": frame,
            "pair": [*frame, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                token: {"id": token, "ids": [vocabulary[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }


def write_safetensors(path: Path, tensors: Tensors) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, values in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(values.shape),
            "data_offsets": [offset, offset + values.nbytes],
        }
        offset += values.nbytes
    encoded = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)))
        file.write(encoded)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values, dtype="<f4").tobytes())


LABELS = ("contradiction", "entailment", "neutral")  # in the order of published models, which isn't ours
NLI_POSITIONS = 128


def write_tiny_nli(folder: Path, *, labels: tuple[str, ...] = LABELS, graph: str = "onnx/model.onnx") -> None:
    """Write config.json, tokenizer.json and the graph."""
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "deberta-v2",
        "max_position_embeddings": NLI_POSITIONS,
        "id2label": {str(index): label.upper() for index, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tiny_tokenizer()), encoding="utf-8")
    (folder / graph).write_bytes(tiny_graph(len(labels)))


def tiny_graph(outputs: int = len(LABELS)) -> bytes:
    """A graph whose logits are the sums of a table's rows over the ids except padding."""
    from onnx import TensorProto, helper, numpy_helper

    vocabulary = tiny_vocabulary()
    table = np.zeros((len(vocabulary), outputs), dtype=np.float32)
    table[:, -1] = 0.01
    table[[vocabulary["[PAD]"], vocabulary["[CLS]"], vocabulary["[SEP]"]]] = 0
    for mark, column_of_mark in (("!", 0), ("?", 1)):
        for token in (mark, f"##{mark}"):
            table[vocabulary[token]] = [6.0 if column == column_of_mark else 0.0 for column in range(outputs)]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["logits"], keepdims=0),
    ]
    shape = ["batch", "length"]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
            numpy_helper.from_array(np.array([1], dtype=np.int64), "middle"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    serialised: bytes = model.SerializeToString()
    return serialised
