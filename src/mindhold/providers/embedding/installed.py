"""Embedding models in the models folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindhold.model.ranking import Cosines
from mindhold.providers.folders import ModelFile, ModelFolders

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
