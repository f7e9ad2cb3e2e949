"""Classifiers of contradictions: the rules, a tiny model by ONNX, the two together; pulling from a folder and a hub."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mindhold.app.providers import classifier_of
from mindhold.lifecycle.contradiction_detection import SURE, LayeredClassifier, RuleClassifier
from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.embedder import ModelCard
from mindhold.providers.model_registry import MDEBERTA, LocalModelRegistry
from mindhold.providers.nli import OnnxClassifier
from mindhold.settings.loader import load_settings
from mindhold.testing.providers_contract import ClassifierContract
from support.tiny_models import write_tiny_model, write_tiny_nli


def _silent(_stage: str, _done: int, _total: int | None) -> None:
    pass


def pulled(
    shelf: LocalModelRegistry, name: str, *, force: bool = False, precision: str = "int8"
) -> ModelCard:
    return shelf.pull(name, precision=precision, force=force, progress=_silent)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write_tiny_nli(tmp_path / "tiny-nli")
    return tmp_path / "tiny-nli"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def installed(tiny: Path, models: Path) -> Path:
    pulled(LocalModelRegistry(models), str(tiny))
    return models


class TestRules(ClassifierContract):
    @pytest.fixture
    def classifier(self) -> RuleClassifier:
        return RuleClassifier()


class TestModel(ClassifierContract):
    @pytest.fixture
    def classifier(self, installed: Path) -> OnnxClassifier:
        return OnnxClassifier(installed, "tiny-nli", threads=2, batch_tokens=64)


class TestBoth(ClassifierContract):
    @pytest.fixture
    def classifier(self, installed: Path) -> LayeredClassifier:
        return LayeredClassifier(RuleClassifier(), OnnxClassifier(installed, "tiny-nli"))


def test_a_model_says_which_label_is_which(installed: Path) -> None:
    model = OnnxClassifier(installed, "tiny-nli")
    denied, followed, neither = model.judge_now(
        [("a cat", "no cat!"), ("a cat", "a cat?"), ("a cat", "a dog")]
    )
    assert denied.contradiction > 0.9
    assert followed.entailment > 0.9
    assert neither.neutral > max(neither.entailment, neither.contradiction)


async def test_the_rules_come_first_and_the_model_has_the_rest(installed: Path) -> None:
    both = LayeredClassifier(RuleClassifier(), OnnxClassifier(installed, "tiny-nli"))
    sure, apart, left = await both.judge(
        [
            ("The port is 5432.", "The port is 5433."),
            ("svc-01 runs on port 9001", "svc-02 runs on port 9002!"),
            ("The mill grinds rye.", "Barley is what the mill likes best!"),
        ]
    )
    assert sure.contradiction >= SURE
    assert apart.neutral >= SURE, "different services, whatever a model makes of it"
    assert left.contradiction > 0.9


def test_what_does_not_fit_is_not_judged_by_its_beginning(installed: Path) -> None:
    model = OnnxClassifier(installed, "tiny-nli")
    long, short = model.judge_now([("a cat! " * 200, "no cat!"), ("a cat", "no cat!")])
    assert long.contradiction < 0.4
    assert max(long.entailment, long.neutral) < SURE
    assert short.contradiction > 0.9


def test_a_folder_becomes_an_installed_classifier(tiny: Path, models: Path) -> None:
    shelf = LocalModelRegistry(models)
    card = pulled(shelf, str(tiny))
    assert (card.name, card.dimensions, card.precision, card.installed) == ("tiny-nli", 0, "float", True)
    assert [each.name for each in shelf.classifiers()] == ["tiny-nli", MDEBERTA.name]
    assert shelf.installed() == [], "it embeds nothing"
    assert shelf.verify("tiny-nli") == []
    assert sorted(path.name for path in models.iterdir()) == ["tiny-nli"]


def test_it_lives_beside_an_embedding_model(tiny: Path, installed: Path, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "tiny")
    shelf = LocalModelRegistry(installed)
    pulled(shelf, str(tmp_path / "tiny"))
    assert [card.name for card in shelf.installed()] == ["tiny"]
    shelf.remove("tiny-nli")
    assert [card.name for card in shelf.installed()] == ["tiny"]
    assert not any(card.installed for card in shelf.classifiers())
    with pytest.raises(ModelMissing):
        shelf.remove("tiny-nli")


def test_a_second_pull_changes_nothing_and_force_mends(tiny: Path, installed: Path) -> None:
    shelf, graph = LocalModelRegistry(installed), installed / "tiny-nli" / "model.onnx"
    before = graph.stat().st_ino
    pulled(shelf, str(tiny))
    assert graph.stat().st_ino == before
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")
    assert shelf.verify("tiny-nli")
    pulled(shelf, str(tiny), force=True)
    assert shelf.verify("tiny-nli") == []


def test_another_folder_of_the_same_name_is_refused(tiny: Path, installed: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other" / "tiny-nli")
    with pytest.raises(ModelPullFailed, match="Another model"):
        pulled(LocalModelRegistry(installed), str(tmp_path / "other" / "tiny-nli"))


def test_int8_is_taken_where_there_is_one(tiny: Path, models: Path) -> None:
    shutil.copy(tiny / "onnx" / "model.onnx", tiny / "onnx" / "model_quantized.onnx")
    assert pulled(LocalModelRegistry(models), str(tiny)).precision == "int8"
    assert pulled(LocalModelRegistry(models), str(tiny), precision="float", force=True).precision == "float"


def test_labels_that_say_something_else_are_no_classifier(tmp_path: Path, models: Path) -> None:
    write_tiny_nli(tmp_path / "moods", labels=("joy", "anger", "neutral"))
    with pytest.raises(ModelPullFailed):
        pulled(LocalModelRegistry(models), str(tmp_path / "moods"))
    assert not any(card.installed for card in LocalModelRegistry(models).classifiers())


def test_a_graph_that_answers_wrongly_is_not_installed(tiny: Path, models: Path) -> None:
    (tiny / "onnx" / "model.onnx").write_bytes(b"no graph at all")
    with pytest.raises(ModelPullFailed, match="'tiny-nli' can't be used"):
        pulled(LocalModelRegistry(models), str(tiny))
    assert not any(card.installed for card in LocalModelRegistry(models).classifiers())


@pytest.mark.parametrize("spoil", ["model.onnx", "tokenizer.json", "nli.json"])
def test_what_is_broken_says_so(installed: Path, spoil: str) -> None:
    (installed / "tiny-nli" / spoil).write_bytes(b"x")
    with pytest.raises(ModelBroken, match="--force"):
        OnnxClassifier(installed, "tiny-nli").judge_now([("a", "b")])


def test_one_that_is_not_here_says_how_to_get_it(models: Path) -> None:
    with pytest.raises(ModelMissing, match="models pull nli"):
        OnnxClassifier(models, "nobody").judge_now([("a", "b")])


class Hub(ThreadingHTTPServer):
    """Serves a folder as a model hub does, at any revision; what is wanted elsewhere is not there."""

    def __init__(self, folder: Path, repository: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.folder = folder
        self.repository = repository
        self.asked: list[str] = []
        self.cut_after: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        repository, _, rest = self.path.removeprefix("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        path = self.server.folder / name
        if repository != self.server.repository or not revision or not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        asked = self.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.cut_after])

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def serve(tiny: Path) -> Iterator[Hub]:
    with Hub(tiny, "someone/tiny-nli") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_nli_is_the_known_model_at_its_commit(serve: Hub, models: Path) -> None:
    """The first place has none of it, so the second is asked."""
    serve.repository = MDEBERTA.sources[1].repository  # type: ignore[union-attr]
    card = pulled(LocalModelRegistry(models, hub=serve.url), "nli")
    assert (card.name, card.source) == (MDEBERTA.name, str(MDEBERTA.sources[1]))
    commits = {path.partition("/resolve/")[2].partition("/")[0] for path in serve.asked}
    assert commits == {source.revision for source in MDEBERTA.sources}  # type: ignore[union-attr]
    assert all(len(commit) == 40 for commit in commits)
    assert OnnxClassifier(models, card.name).judge_now([("a", "b!")])[0].contradiction > 0.9


def test_a_hubs_name_is_known_by_its_labels(serve: Hub, models: Path, tmp_path: Path) -> None:
    shelf = LocalModelRegistry(models, hub=serve.url)
    assert pulled(shelf, "someone/tiny-nli").dimensions == 0
    assert serve.asked.count("/someone/tiny-nli/resolve/main/config.json") == 1
    write_tiny_model(tmp_path / "words")
    serve.folder, serve.repository = tmp_path / "words", "someone/words"
    assert pulled(shelf, "someone/words").dimensions > 0


def test_a_pull_goes_on_where_it_was_cut(serve: Hub, tiny: Path, models: Path) -> None:
    shelf = LocalModelRegistry(models, hub=serve.url)
    serve.cut_after = 900
    with pytest.raises(ModelPullFailed, match="goes on where it stopped"):
        pulled(shelf, "someone/tiny-nli")
    serve.cut_after = None
    pulled(shelf, "someone/tiny-nli")
    kept = (models / "tiny-nli" / "model.onnx").read_bytes()
    assert kept == (tiny / "onnx" / "model.onnx").read_bytes()


def test_a_hub_that_is_away_is_told(serve: Hub, models: Path) -> None:
    with pytest.raises(ModelPullFailed, match="models pull FOLDER"):
        pulled(LocalModelRegistry(models, hub="http://127.0.0.1:9"), "nli")


def test_the_settings_choose(installed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(installed, home / "models")
    shelf = LocalModelRegistry(home / "models")

    def named(**given: str) -> str:
        settings = load_settings({"home": home, **given}, environ={}).settings
        return classifier_of(settings, shelf).name

    assert named() == "rules and tiny-nli"
    assert named(**{"nli.model": "none"}) == "rules"
    assert named(**{"nli.model": "other"}) == "rules and other"
    shelf.remove("tiny-nli")
    assert named() == "rules"
