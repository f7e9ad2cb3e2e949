"""Fetches a model of natural-language inference, tries it, and puts it into the models folder in one step."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.models import Progress
from mindhold.providers.embedding.hub import fetch_file, hub_address
from mindhold.providers.embedding.lock import file_lock
from mindhold.providers.embedding.pull import check_room, disk_failed, drop_if_empty, swap_in
from mindhold.providers.embedding.registry import FolderSource, HubSource
from mindhold.providers.folders import PARTIAL, describe
from mindhold.providers.nli.installed import CLASSIFIERS, LABELS, MODEL, TOKENIZER, InstalledClassifier

ALIAS = "nli"  # the default one
CONFIG = "config.json"
_FLOAT = ("onnx/model.onnx", "model.onnx")
_INT8 = ("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "model_quantized.onnx")
_LARGEST_LIMIT = 512
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class NamedClassifier:
    """A classifier and where it comes from, tried in order."""

    name: str
    sources: tuple[HubSource | FolderSource, ...]
    about: str = "your own"


# Commits, not branches: what they hold can't change.
MDEBERTA = NamedClassifier(
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
KNOWN: tuple[NamedClassifier, ...] = (MDEBERTA,)


def known_classifier(name: str) -> NamedClassifier | None:
    """By its name, by a hub's name of it, or the default one by `nli`; in any case."""
    wanted = name.casefold()
    if wanted == ALIAS:
        return KNOWN[0]
    for model in KNOWN:
        hubs = {source.repository.casefold() for source in model.sources if isinstance(source, HubSource)}
        if wanted in {model.name.casefold(), *hubs}:
            return model
    return None


def is_classifier(folder: Path) -> bool:
    """Whether the folder's config.json names the three labels."""
    return _labels(_read_json(folder / CONFIG)) is not None


def pull_classifier(
    model: NamedClassifier, models_dir: Path, *, precision: str, force: bool, hub: str, progress: Progress
) -> InstalledClassifier:
    """What is installed whole is left alone unless forced; what was fetched is kept until it is. Raises ModelPullFailed."""
    partial = models_dir / PARTIAL / model.name
    try:
        with file_lock(partial.with_name(f"{model.name}.lock"), waiting=lambda: progress("wait", 0, None)):
            done = None if force else _already(models_dir, model)
            if done is not None:
                return done
            folder, source, path = _fetch_any(
                model, models_dir, partial, precision=precision, hub=hub, progress=progress
            )
            ready = partial / "ready"
            shutil.rmtree(ready, ignore_errors=True)
            installed = _prepared(model.name, folder, ready, source=source, path=path)
            progress("install", 0, None)
            swap_in(ready, models_dir / model.name, partial=partial)
            return installed
    except OSError as error:
        raise disk_failed(error, models_dir) from error
    finally:
        drop_if_empty(models_dir / PARTIAL)


def resolve(what: str) -> NamedClassifier | None:
    """A known one, or a folder that holds one; None for what is something else."""
    known = known_classifier(what)
    if known is not None:
        return known
    folder = Path(what).expanduser()
    if folder.is_dir():
        found = folder.resolve()
        return NamedClassifier(found.name, (FolderSource(str(found)),)) if is_classifier(found) else None
    return None


def resolve_on_hub(what: str, models_dir: Path, *, hub: str, progress: Progress) -> NamedClassifier | None:
    """A hub's org/name whose config.json says that it tells contradictions; None for others. Raises ModelPullFailed."""
    if not _HUB_NAME.fullmatch(what):
        return None
    model = NamedClassifier(what.partition("/")[2], (HubSource(what),))
    folder = _place(models_dir / PARTIAL / model.name, model.sources[0])
    fetched = fetch_file(f"{hub_address(HubSource(what), hub)}/{CONFIG}", folder / CONFIG, progress=progress)
    return model if fetched and is_classifier(folder) else None


def _already(models_dir: Path, model: NamedClassifier) -> InstalledClassifier | None:
    try:
        installed = CLASSIFIERS.read(models_dir, model.name)
        CLASSIFIERS.check_sizes(models_dir / model.name, installed)
    except (ModelMissing, ModelBroken):
        return None
    if installed.source not in {str(source) for source in model.sources}:
        raise ModelPullFailed(
            f"Another model is installed as {model.name!r} (from {installed.source}).",
            advice=f"`mindhold models remove {model.name}` first, or pull with `--force`.",
        )
    return installed


def _fetch_any(
    model: NamedClassifier, models_dir: Path, partial: Path, *, precision: str, hub: str, progress: Progress
) -> tuple[Path, str, Path]:
    """The folder, what it came from, and the graph in it."""
    failures: list[ModelPullFailed] = []
    for source in model.sources:
        try:
            check_room(source, models_dir)
            folder = (
                Path(source.path)
                if isinstance(source, FolderSource)
                else _fetch(source, _place(partial, source), precision=precision, hub=hub, progress=progress)
            )
            return folder, str(source), _graph(folder, precision)
        except ModelPullFailed as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    reasons = " ".join(f"({number}) {failure.message}" for number, failure in enumerate(failures, 1))
    raise ModelPullFailed(f"No source of {model.name} could be used. {reasons}", advice=failures[-1].advice)


def _fetch(source: HubSource, folder: Path, *, precision: str, hub: str, progress: Progress) -> Path:
    base = hub_address(source, hub)
    for name in (CONFIG, TOKENIZER):
        if not fetch_file(f"{base}/{name}", folder / name, progress=progress):
            raise ModelPullFailed(
                f"{source} has no {name} that may be read.", advice="Check the name, or pull another model."
            )
    for name in _graphs(precision):
        if fetch_file(f"{base}/{name}", folder / name, progress=progress):
            return folder
    raise ModelPullFailed(f"{source} has no ONNX graph.", advice="Choose a model that has one.")


def _prepared(name: str, folder: Path, ready: Path, *, source: str, path: Path) -> InstalledClassifier:
    """Copied, described and tried."""
    config = _read_json(folder / CONFIG)
    labels = _labels(config)
    if labels is None:
        raise ModelPullFailed(
            f"{source} doesn't tell entailment, neutral and contradiction apart (config.json's id2label).",
            advice="Choose a model of natural-language inference.",
        )
    if not (folder / TOKENIZER).is_file():
        raise ModelPullFailed(f"{source} lacks {TOKENIZER}.", advice="Give a folder with it.")
    ready.mkdir(parents=True)
    shutil.copyfile(path, ready / MODEL)
    shutil.copyfile(folder / TOKENIZER, ready / TOKENIZER)
    positions = int(config.get("max_position_embeddings") or _LARGEST_LIMIT)
    installed = InstalledClassifier(
        name=name,
        labels=labels,
        limit=max(8, min(positions, _LARGEST_LIMIT)),
        precision="float" if path.name == MODEL else "int8",
        source=source,
        files={file: describe(ready / file) for file in (MODEL, TOKENIZER)},
    )
    CLASSIFIERS.write(ready, installed)
    _try(ready, installed)
    return installed


def _try(ready: Path, installed: InstalledClassifier) -> None:
    from mindhold.providers.nli.onnx import OnnxClassifier  # brings the runtime

    trial = OnnxClassifier(ready.parent, ready.name)
    try:
        trial.judge_now([("The port is 5432.", "The port is 5433.")])
    except ModelBroken as error:
        raise ModelPullFailed(
            _renamed(error.message, ready.name, installed.name), advice="Choose another model."
        ) from error


def _renamed(message: str, shown: str, name: str) -> str:
    """The person knows it by its own name, not by where it was tried."""
    return message.replace(repr(shown), repr(name))


def _graph(folder: Path, precision: str) -> Path:
    for name in _graphs(precision):
        if (folder / name).is_file():
            return folder / name
    raise ModelPullFailed(
        f"{folder} has no ONNX graph.", advice=f"Give a folder with {CONFIG}, {TOKENIZER} and {MODEL}."
    )


def _graphs(precision: str) -> tuple[str, ...]:
    return _FLOAT if precision == "float" else (*_INT8, *_FLOAT)


def _labels(config: dict[str, Any]) -> tuple[str, ...] | None:
    named = config.get("id2label")
    if not isinstance(named, dict) or len(named) != len(LABELS):
        return None
    try:
        labels = tuple(str(named[key]).strip().lower() for key in sorted(named, key=int))
    except ValueError:
        return None
    return labels if sorted(labels) == sorted(LABELS) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _place(partial: Path, source: HubSource | FolderSource) -> Path:
    return partial / re.sub(r"[^\w.-]+", "-", str(source)) / "unpacked"
