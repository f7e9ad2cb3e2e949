"""The benchmark's only way into Mindhold: its embedder, its models, its command line."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindhold.ports.embedder import Matrix
from mindhold.providers.embedding.onnx import OnnxEmbedder
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.settings.loader import LoadedSettings, load_settings
from mindhold.settings.schema import EmbeddingSettings

PRECISION = "int8"
CACHE = Path(__file__).resolve().parent.parent / ".cache"
OWN_HOME = CACHE / "mindhold-home"
PEERS_HOME = CACHE / "home"

# What peers download for themselves where there is internet: the float model, its last hidden state as the output.
_PEER_MODEL = "all-MiniLM-L6-v2"
_PEER_FOLDERS = ("chroma", "mcp_memory")
_PEER_FILES = ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt")


class BareEmbedder:
    """The embedder without cache, in the calling thread."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._embedder = uncached_embedder(options)

    def texts(self, texts: Sequence[str]) -> Matrix:
        return self._embedder.embed_now(texts)

    def query(self, text: str) -> Matrix:
        row: Matrix = self._embedder.embed_query_now(text)[0]
        return row


def uncached_embedder(options: dict[str, Any]) -> OnnxEmbedder:
    """Ours, as the settings of the benchmark have it."""
    return OnnxEmbedder(
        OWN_HOME / "models", options["model"], threads=options["threads"], precision=options["precision"]
    )


def open_embedder(options: dict[str, Any]) -> BareEmbedder:
    return BareEmbedder(options)


def door_options(model: str) -> dict[str, Any]:
    """What every contestant is told."""
    return {
        "model": model,
        "precision": PRECISION,
        "threads": EmbeddingSettings().threads,
        "name": f"{model}/{PRECISION}",
    }


def settings_for(folder: Path, options: dict[str, Any]) -> LoadedSettings:
    """Default settings, but for where the file is and which model."""
    return load_settings(_arguments(folder, options), environ={})


def command_line(folder: Path, options: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """`mindhold recall --json` with what it needs in the environment; the question comes last."""
    program = Path(sys.executable).with_name("mindhold" + Path(sys.executable).suffix)
    variables = {"MINDHOLD_HOME": str(OWN_HOME)}
    for key, value in _arguments(folder, options).items():
        if key != "home":
            variables["MINDHOLD_" + key.replace(".", "_").upper()] = str(value)
    return [str(program), "recall", "--json"], variables


def _arguments(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "home": str(OWN_HOME),
        "store.path": str(folder / "mindhold.db"),
        "embedding.model": options["model"],
        **options.get("settings", {}),
    }


def place_models(options: dict[str, Any]) -> None:
    """Pull our model, and put the float one where the peers look for theirs."""
    pull(options["model"], PullOptions(OWN_HOME / "models", precision=options["precision"]))
    if all(_peer_folder(peer).joinpath("model.onnx").is_file() for peer in _PEER_FOLDERS):
        return
    pull(_PEER_MODEL, PullOptions(OWN_HOME / "models", precision="float"))
    source = OWN_HOME / "models" / _PEER_MODEL / "model.float.onnx"
    prepared = CACHE / "peer-model.onnx"
    _cut_before_pooling(source, prepared)
    for peer in _PEER_FOLDERS:
        folder = _peer_folder(peer)
        folder.mkdir(parents=True, exist_ok=True)
        for name in _PEER_FILES:
            beside = source.parent / name
            folder.joinpath(name).write_bytes(beside.read_bytes() if beside.is_file() else b"{}")
        _published_tokenizer(source.parent / "tokenizer.json", folder / "tokenizer.json")
        shutil.copyfile(prepared, folder / "model.onnx")


def _peer_folder(peer: str) -> Path:
    return PEERS_HOME / ".cache" / peer / "onnx_models" / _PEER_MODEL / "onnx"


def _published_tokenizer(source: Path, target: Path) -> None:
    # The published file cuts and pads at 128; peers that don't set their own lengths work with these.
    rules = json.loads(source.read_text(encoding="utf-8"))
    rules["truncation"] = {"direction": "Right", "max_length": 128, "strategy": "LongestFirst", "stride": 0}
    rules["padding"] = {
        "strategy": {"Fixed": 128},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    target.write_text(json.dumps(rules, ensure_ascii=False), encoding="utf-8")


def _cut_before_pooling(source: Path, target: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = onnx.load(source).graph
    kinds = ("SkipLayerNormalization", "LayerNormalization")
    last = max(place for place, node in enumerate(graph.node) if node.op_type in kinds)
    nodes = [*graph.node[: last + 1]]
    hidden = nodes[-1].output[0]
    nodes.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", 384])
    needed = {name for node in nodes for name in node.input}
    constants = [constant for constant in graph.initializer if constant.name in needed]
    cut = helper.make_graph(nodes, "encoder", list(graph.input), [output], constants)
    whole = onnx.load(source, load_external_data=False)
    onnx.save(helper.make_model(cut, opset_imports=whole.opset_import, ir_version=whole.ir_version), target)
