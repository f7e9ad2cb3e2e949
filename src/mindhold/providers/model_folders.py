"""Models on disk: embedding models and classifiers, each in a folder with a manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from mindhold.model.errors import ModelBroken, ModelMissing
from mindhold.model.ranking import Cosines

PARTIAL = ".partial"  # how the names of folders end that aren't ready
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Size and hash that a file had when it was made."""

    bytes: int
    sha256: str


class Installed(Protocol):
    """What any manifest says."""

    @property
    def name(self) -> str: ...

    @property
    def files(self) -> Mapping[str, ModelFile]: ...


M = TypeVar("M", bound=Installed)


@dataclass(frozen=True, slots=True)
class ModelFolders(Generic[M]):
    """Those of one sort, told by the manifest's name. `built` makes a model of its files and the rest of what it says."""

    manifest: str
    noun: str
    fetching: str  # advice, with {name}
    mending: str
    built: Callable[[Mapping[str, ModelFile], dict[str, Any]], M]

    def write(self, folder: Path, model: Any) -> None:
        """Last of all: without it the folder is no model."""
        content = {"format": _FORMAT, **asdict(model)}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / self.manifest).write_text(text, encoding="utf-8")

    def read(self, models_dir: Path, name: str) -> M:
        """Raises ModelMissing, ModelBroken."""
        path = models_dir / name / self.manifest
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ModelMissing(
                f"The {self.noun} {name!r} is not installed.", advice=self.fetching.format(name=name)
            ) from error
        except (OSError, ValueError) as error:
            raise self.broken(name, f"{self.manifest} can't be read") from error
        try:
            if content.pop("format") != _FORMAT:
                raise self.broken(name, f"{self.manifest} is of another version")
            files = {file: ModelFile(**entry) for file, entry in content.pop("files").items()}
            return self.built(files, content)
        except (AttributeError, KeyError, TypeError) as error:
            raise self.broken(name, f"{self.manifest} lacks what it should say") from error

    def readable(self, models_dir: Path) -> list[M]:
        """By name; a broken one is left out (`verify` says what is wrong)."""
        found = []
        for name in self.names(models_dir):
            try:
                found.append(self.read(models_dir, name))
            except ModelBroken:
                continue
        return found

    def names(self, models_dir: Path) -> list[str]:
        """Every one that has a folder, broken ones included."""
        if not models_dir.is_dir():
            return []
        return sorted(path.name for path in models_dir.iterdir() if (path / self.manifest).is_file())

    def check_sizes(self, folder: Path, model: M) -> None:
        """The quick look before loading. Raises ModelBroken."""
        for name, file in model.files.items():
            path = folder / name
            if not path.is_file():
                raise self.broken(model.name, f"{name} is missing")
            if path.stat().st_size != file.bytes:
                raise self.broken(model.name, f"{name} has not the size it should have")

    def verify(self, models_dir: Path, name: str) -> M:
        """The thorough look: every byte of every file. Raises ModelMissing, ModelBroken."""
        model = self.read(models_dir, name)
        self.check_sizes(models_dir / name, model)
        for file, expected in model.files.items():
            if sha256_of(models_dir / name / file) != expected.sha256:
                raise self.broken(name, f"{file} has changed since it was made")
        return model

    def remove(self, models_dir: Path, name: str) -> None:
        """The manifest goes first: a removal cut short leaves no model that looks whole. Raises ModelMissing."""
        if name not in self.names(models_dir):
            raise ModelMissing(
                f"The model {name!r} is not installed.",
                advice="`mindhold models list` shows those that are.",
            )
        (models_dir / name / self.manifest).unlink()
        shutil.rmtree(models_dir / name)

    def broken(self, name: str, what: str) -> ModelBroken:
        """The error for one that can't be used."""
        return ModelBroken(
            f"The {self.noun} {name!r} can't be used: {what}.", advice=self.mending.format(name=name)
        )


def describe(path: Path) -> ModelFile:
    """The file as it is now."""
    return ModelFile(bytes=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    """In hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


MANIFEST = "model.json"
PRECISIONS = ("int8", "float")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """What model.json says."""

    name: str
    dimensions: int
    pooling: str
    limit: int
    source: str
    precisions: tuple[str, ...]
    files: Mapping[str, ModelFile]
    unrelated: Cosines
    query_prefix: str = ""
    text_prefix: str = ""

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


def model_file(precision: str) -> str:
    return f"model.{precision}.onnx"


def _built(files: Mapping[str, ModelFile], content: dict[str, Any]) -> InstalledModel:
    precisions = tuple(content.pop("precisions"))
    unrelated = Cosines(**content.pop("unrelated"))
    return InstalledModel(files=files, precisions=precisions, unrelated=unrelated, **content)


MODELS = ModelFolders(
    MANIFEST,
    "model",
    fetching="`mindhold models pull {name}` fetches it.",
    mending="`mindhold models pull {name} --force` mends it.",
    built=_built,
)

CLASSIFIER_MANIFEST = "nli.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class InstalledClassifier:
    """What nli.json says. `labels` are in the order of the model's outputs."""

    name: str
    labels: tuple[str, ...]
    limit: int
    precision: str
    source: str
    files: Mapping[str, ModelFile]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


def _built_classifier(files: Mapping[str, ModelFile], content: dict[str, Any]) -> InstalledClassifier:
    model = InstalledClassifier(files=files, labels=tuple(content.pop("labels")), **content)
    if sorted(model.labels) != sorted(LABELS):
        raise CLASSIFIERS.broken(model.name, f"{CLASSIFIER_MANIFEST} names other labels")
    return model


CLASSIFIERS = ModelFolders(
    CLASSIFIER_MANIFEST,
    "classifier",
    fetching="`mindhold models pull nli` fetches one.",
    mending="`mindhold models pull nli --force` mends it.",
    built=_built_classifier,
)
