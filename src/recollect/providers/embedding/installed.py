"""The models folder: what is installed, whether it is whole, and how to remove it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from recollect.model.errors import ModelBroken, ModelMissing
from recollect.model.ranking import Cosines

MANIFEST = "model.json"
PARTIAL = ".partial"
PRECISIONS = ("int8", "float")
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Size and hash that a file had when it was made."""

    bytes: int
    sha256: str


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


def write_manifest(folder: Path, model: InstalledModel) -> None:
    content = {"format": _FORMAT, **asdict(model)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(models_dir: Path, name: str) -> InstalledModel:
    """Raises ModelMissing, ModelBroken."""
    path = models_dir / name / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelMissing(
            f"The model {name!r} is not installed.", advice=f"`recollect models pull {name}` fetches it."
        ) from error
    except (OSError, ValueError) as error:
        raise broken(name, f"{MANIFEST} can't be read") from error
    try:
        if content.pop("format") != _FORMAT:
            raise broken(name, f"{MANIFEST} is of another version")
        files = {file: ModelFile(**entry) for file, entry in content.pop("files").items()}
        precisions = tuple(content.pop("precisions"))
        unrelated = Cosines(**content.pop("unrelated"))
        return InstalledModel(files=files, precisions=precisions, unrelated=unrelated, **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise broken(name, f"{MANIFEST} lacks what it should say") from error


def installed_models(models_dir: Path) -> list[InstalledModel]:
    """Those that can be read, by name; a broken one is left out (`verify` says what is wrong)."""
    found = []
    for name in installed_names(models_dir):
        try:
            found.append(read_manifest(models_dir, name))
        except ModelBroken:
            continue
    return found


def installed_names(models_dir: Path) -> list[str]:
    """Every model that has a folder, broken ones included."""
    if not models_dir.is_dir():
        return []
    return sorted(path.name for path in models_dir.iterdir() if (path / MANIFEST).is_file())


def check_sizes(models_dir: Path, model: InstalledModel) -> None:
    """The quick look before loading. Raises ModelBroken."""
    for name, file in model.files.items():
        path = models_dir / model.name / name
        if not path.is_file():
            raise broken(model.name, f"{name} is missing")
        if path.stat().st_size != file.bytes:
            raise broken(model.name, f"{name} has not the size it should have")


def verify(models_dir: Path, name: str) -> InstalledModel:
    """The thorough look: every byte of every file. Raises ModelMissing, ModelBroken."""
    model = read_manifest(models_dir, name)
    check_sizes(models_dir, model)
    for file, expected in model.files.items():
        if sha256_of(models_dir / name / file) != expected.sha256:
            raise broken(name, f"{file} has changed since it was made")
    return model


def remove(models_dir: Path, name: str) -> None:
    """Raises ModelMissing."""
    folder = models_dir / name
    if name not in installed_names(models_dir):
        raise ModelMissing(
            f"The model {name!r} is not installed.", advice="`recollect models list` shows those that are."
        )
    # The manifest goes first: a removal cut short leaves no model that looks whole.
    (folder / MANIFEST).unlink()
    shutil.rmtree(folder)


def describe(path: Path) -> ModelFile:
    return ModelFile(bytes=path.stat().st_size, sha256=sha256_of(path))


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def broken(name: str, what: str) -> ModelBroken:
    return ModelBroken(
        f"The model {name!r} can't be used: {what}.",
        advice=f"`recollect models pull {name} --force` mends it.",
    )
