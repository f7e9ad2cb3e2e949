"""Classifiers in the models folder: each in a folder of its own with an nli.json, beside the embedding models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from recollect.model.errors import ModelBroken, ModelMissing
from recollect.providers.embedding.installed import ModelFile, sha256_of

MANIFEST = "nli.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
LABELS = ("entailment", "neutral", "contradiction")
_FORMAT = 1


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


def write_manifest(folder: Path, model: InstalledClassifier) -> None:
    """Last of all: without it the folder is no model."""
    content = {"format": _FORMAT, **asdict(model)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(models_dir: Path, name: str) -> InstalledClassifier:
    """Raises ModelMissing, ModelBroken."""
    path = models_dir / name / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelMissing(
            f"The classifier {name!r} is not installed.", advice="`recollect models pull nli` fetches one."
        ) from error
    except (OSError, ValueError) as error:
        raise broken(name, f"{MANIFEST} can't be read") from error
    try:
        if content.pop("format") != _FORMAT:
            raise broken(name, f"{MANIFEST} is of another version")
        files = {file: ModelFile(**entry) for file, entry in content.pop("files").items()}
        model = InstalledClassifier(files=files, labels=tuple(content.pop("labels")), **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise broken(name, f"{MANIFEST} lacks what it should say") from error
    if sorted(model.labels) != sorted(LABELS):
        raise broken(name, f"{MANIFEST} names other labels")
    return model


def installed_classifiers(models_dir: Path) -> list[InstalledClassifier]:
    """Those that can be read, by name."""
    found = []
    for name in installed_names(models_dir):
        try:
            found.append(read_manifest(models_dir, name))
        except ModelBroken:
            continue
    return found


def installed_names(models_dir: Path) -> list[str]:
    """Every classifier that has a folder, broken ones included."""
    if not models_dir.is_dir():
        return []
    return sorted(path.name for path in models_dir.iterdir() if (path / MANIFEST).is_file())


def check_sizes(folder: Path, model: InstalledClassifier) -> None:
    """The quick look before loading. Raises ModelBroken."""
    for name, file in model.files.items():
        path = folder / name
        if not path.is_file():
            raise broken(model.name, f"{name} is missing")
        if path.stat().st_size != file.bytes:
            raise broken(model.name, f"{name} has not the size it should have")


def verify(models_dir: Path, name: str) -> InstalledClassifier:
    """Every byte of every file. Raises ModelMissing, ModelBroken."""
    model = read_manifest(models_dir, name)
    check_sizes(models_dir / name, model)
    for file, expected in model.files.items():
        if sha256_of(models_dir / name / file) != expected.sha256:
            raise broken(name, f"{file} has changed since it was made")
    return model


def remove(models_dir: Path, name: str) -> None:
    """The manifest goes first: a removal cut short leaves no model that looks whole. Raises ModelMissing."""
    if name not in installed_names(models_dir):
        raise ModelMissing(
            f"The model {name!r} is not installed.", advice="`recollect models list` shows those that are."
        )
    (models_dir / name / MANIFEST).unlink()
    shutil.rmtree(models_dir / name)


def broken(name: str, what: str) -> ModelBroken:
    """The error for a classifier that can't be used."""
    return ModelBroken(
        f"The classifier {name!r} can't be used: {what}.",
        advice="`recollect models pull nli --force` mends it.",
    )
