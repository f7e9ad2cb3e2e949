"""Fetches a model's files from a hub over HTTPS, going on where it stopped."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from mindhold.model.errors import ModelPullFailed
from mindhold.providers.embedding.clients import Progress
from mindhold.providers.embedding.convert import NEEDED, ONNX_NAMES, OPTIONAL, SAFETENSORS
from mindhold.providers.embedding.registry import HubSource

_TIMEOUT_SECONDS = 10
_CHUNK = 1 << 20
_ABSENT = frozenset({401, 403, 404})
_RANGE_REFUSED = 416


def fetch_hub(source: HubSource, folder: Path, *, hub: str, progress: Progress) -> Path:
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


def fetch_file(url: str, path: Path, *, progress: Progress) -> bool:
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


def _save(answer: Any, part: Path, *, tag: Path, progress: Progress) -> None:
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
