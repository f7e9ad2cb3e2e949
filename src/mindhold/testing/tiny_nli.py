"""A classifier of a few kilobytes, to try pulling and judging without a download.

It counts marks: "!" speaks for a contradiction, "?" for entailment, and every other letter a little for neutral.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mindhold.testing.tiny_model import tiny_tokenizer, tiny_vocabulary

LABELS = (
    "contradiction",
    "entailment",
    "neutral",
)  # in another order than ours, as published models have them
POSITIONS = 128


def write_tiny_nli(folder: Path, *, labels: tuple[str, ...] = LABELS, graph: str = "onnx/model.onnx") -> None:
    """Writes config.json, tokenizer.json and the graph."""
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "deberta-v2",
        "max_position_embeddings": POSITIONS,
        "id2label": {str(place): label.upper() for place, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tiny_tokenizer()), encoding="utf-8")
    (folder / graph).write_bytes(tiny_graph(len(labels)))


def tiny_graph(outputs: int = len(LABELS)) -> bytes:
    """Logits are the sums of a table's rows over the ids that are no padding."""
    from onnx import TensorProto, helper, numpy_helper

    vocabulary = tiny_vocabulary()
    table = np.zeros((len(vocabulary), outputs), dtype=np.float32)
    table[:, -1] = 0.01
    table[[vocabulary["[PAD]"], vocabulary["[CLS]"], vocabulary["[SEP]"]]] = 0
    for mark, place in (("!", 0), ("?", 1)):
        for token in (mark, f"##{mark}"):
            table[vocabulary[token]] = [6.0 if column == place else 0.0 for column in range(outputs)]
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
    made: bytes = model.SerializeToString()
    return made
