"""Classifiers in the models folder: each in a folder of its own with an nli.json, beside the embedding models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindhold.providers.folders import ModelFile, ModelFolders

MANIFEST = "nli.json"
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


def _built(files: Mapping[str, ModelFile], content: dict[str, Any]) -> InstalledClassifier:
    model = InstalledClassifier(files=files, labels=tuple(content.pop("labels")), **content)
    if sorted(model.labels) != sorted(LABELS):
        raise CLASSIFIERS.broken(model.name, f"{MANIFEST} names other labels")
    return model


CLASSIFIERS = ModelFolders(
    MANIFEST,
    "classifier",
    fetching="`mindhold models pull nli` fetches one.",
    mending="`mindhold models pull nli --force` mends it.",
    built=_built,
)
