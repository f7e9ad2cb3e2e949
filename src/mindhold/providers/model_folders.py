"""Models on disk: embedding models and classifiers, each in a folder with a manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from mindhold.model.errors import ModelBroken, ModelMissing
from mindhold.model.ranking import Cosines

PARTIAL_FOLDER = ".partial"  # name of the folder that holds unfinished pulls
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Size and hash of a file at the time of installation."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The fields that every manifest has."""

    name: str
    limit: int
    source: str
    files: Mapping[str, ModelFile]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


AnyManifest = TypeVar("AnyManifest", bound=Manifest)


@dataclass(frozen=True, slots=True)
class ModelFolders(Generic[AnyManifest]):
    """The installed models of one kind, recognised by the name of their manifest.

    `parse` builds a model from its files and the other fields of the manifest.
    """

    manifest: str
    noun: str
    pull_advice: str  # advice, with {name}
    repair_advice: str
    parse: Callable[[Mapping[str, ModelFile], dict[str, Any]], AnyManifest]

    def write(self, folder: Path, model: Any) -> None:
        """Write the manifest. Call it last: a folder without a manifest is no model."""
        content = {"format": _FORMAT, **asdict(model)}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / self.manifest).write_text(text, encoding="utf-8")

    def read(self, models_dir: Path, name: str) -> AnyManifest:
        """Read one model's manifest. Raises ModelMissing, ModelBroken."""
        path = models_dir / name / self.manifest
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ModelMissing(
                f"The {self.noun} {name!r} is not installed.", advice=self.pull_advice.format(name=name)
            ) from error
        except (OSError, ValueError) as error:
            raise self.broken(name, f"{self.manifest} can't be read") from error
        try:
            if content.pop("format") != _FORMAT:
                raise self.broken(name, f"{self.manifest} is of another version")
            files = {file: ModelFile(**entry) for file, entry in content.pop("files").items()}
            return self.parse(files, content)
        except (AttributeError, KeyError, TypeError) as error:
            raise self.broken(name, f"{self.manifest} lacks what it should say") from error

    def list_models(self, models_dir: Path) -> list[AnyManifest]:
        """List the models by name, without the broken ones (`verify` says what is wrong with those)."""
        models = []
        for name in self.names(models_dir):
            try:
                models.append(self.read(models_dir, name))
            except ModelBroken:
                continue
        return models

    def names(self, models_dir: Path) -> list[str]:
        """List the names of all models, broken ones included."""
        if not models_dir.is_dir():
            return []
        return sorted(path.name for path in models_dir.iterdir() if (path / self.manifest).is_file())

    def check_sizes(self, folder: Path, model: AnyManifest) -> None:
        """Check quickly that each file exists and has its size. Raises ModelBroken."""
        for name, file in model.files.items():
            path = folder / name
            if not path.is_file():
                raise self.broken(model.name, f"{name} is missing")
            if path.stat().st_size != file.bytes:
                raise self.broken(model.name, f"{name} has not the size it should have")

    def verify(self, models_dir: Path, name: str) -> AnyManifest:
        """Check every byte of every file. Raises ModelMissing, ModelBroken."""
        model = self.read(models_dir, name)
        self.check_sizes(models_dir / name, model)
        for file, expected in model.files.items():
            if sha256_of(models_dir / name / file) != expected.sha256:
                raise self.broken(name, f"{file} has changed since it was made")
        return model

    def remove(self, models_dir: Path, name: str) -> None:
        """Delete a model, its manifest first: an interrupted removal leaves no model that looks complete. Raises ModelMissing."""
        if name not in self.names(models_dir):
            raise ModelMissing(
                f"The model {name!r} is not installed.", advice="`mindhold models list` shows those that are."
            )
        (models_dir / name / self.manifest).unlink()
        shutil.rmtree(models_dir / name)

    def broken(self, name: str, what: str) -> ModelBroken:
        """Make the error for a model that can't be used."""
        return ModelBroken(
            f"The {self.noun} {name!r} can't be used: {what}.", advice=self.repair_advice.format(name=name)
        )


def file_fingerprint(path: Path) -> ModelFile:
    """Return the file's current size and hash."""
    return ModelFile(bytes=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


MODEL_MANIFEST = "model.json"
PRECISIONS = ("int8", "float")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel(Manifest):
    """The content of model.json."""

    dimensions: int
    pooling: str
    precisions: tuple[str, ...]
    unrelated: Cosines
    query_prefix: str = ""
    text_prefix: str = ""
    centre: tuple[
        float, ...
    ] = ()  # what all texts have in common, taken off every vector; empty for most models


def model_file(precision: str) -> str:
    return f"model.{precision}.onnx"


def words_file(precision: str) -> str:
    """The name of the file with the embeddings of words, if they are many and not in the model's file."""
    return f"model.{precision}.words"


def _parse_model(files: Mapping[str, ModelFile], content: dict[str, Any]) -> InstalledModel:
    precisions = tuple(content.pop("precisions"))
    unrelated = Cosines(**content.pop("unrelated"))
    centre = tuple(content.pop("centre", ()))
    return InstalledModel(files=files, precisions=precisions, unrelated=unrelated, centre=centre, **content)


MODEL_FOLDERS = ModelFolders(
    MODEL_MANIFEST,
    "model",
    pull_advice="`mindhold models pull {name}` fetches it.",
    repair_advice="`mindhold models pull {name} --force` mends it.",
    parse=_parse_model,
)

CLASSIFIER_MANIFEST = "nli.json"
CLASSIFIER_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledClassifier(Manifest):
    """The content of nli.json. `labels` are in the order of the model's outputs."""

    labels: tuple[str, ...]
    precision: str


def _parse_classifier(files: Mapping[str, ModelFile], content: dict[str, Any]) -> InstalledClassifier:
    model = InstalledClassifier(files=files, labels=tuple(content.pop("labels")), **content)
    if sorted(model.labels) != sorted(LABELS):
        raise CLASSIFIER_FOLDERS.broken(model.name, f"{CLASSIFIER_MANIFEST} names other labels")
    return model


CLASSIFIER_FOLDERS = ModelFolders(
    CLASSIFIER_MANIFEST,
    "classifier",
    pull_advice="`mindhold models pull nli` fetches one.",
    repair_advice="`mindhold models pull nli --force` mends it.",
    parse=_parse_classifier,
)
