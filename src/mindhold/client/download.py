"""An export that comes over the wire, put in its place when all of it is there."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mindhold.model.errors import ServerError, StoreFull, StoreReadOnly
from mindhold.model.privacy import PERSONAL

if TYPE_CHECKING:
    from mindhold.operations.keeping import ExportResult

_FULL = 28  # ENOSPC, on every system


class Download:
    """A file that is whole or not there; counts what goes into it."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser()
        self._partial = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}.partial")
        self._counts: Counter[str] = Counter()
        self._rest = b""

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._partial.open("xb")
            self._partial.chmod(0o600)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, piece: bytes, /) -> None:
        """The next piece, wherever it was cut. Raises StoreFull, StoreReadOnly."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise self._failed(error) from error
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._counts[_kind(line)] += 1

    def finish(self) -> ExportResult:
        """Put it in its place. Raises ServerError for what is no export, StoreFull, StoreReadOnly."""
        from mindhold.operations.keeping import ExportResult

        if self._rest or self._counts["head"] != 1:
            raise ServerError("What the server sent is no whole export.", advice="Try again.")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise self._failed(error) from error
        found = self._counts
        return ExportResult(
            path=str(self._path),
            memories=found["memory"],
            links=found["link"],
            versions=found["version"],
            scopes=found["scope"],
            contradictions=found["contradiction"],
            notice=PERSONAL,
        )

    def _failed(self, error: OSError) -> StoreFull | StoreReadOnly:
        kind = StoreFull if error.errno == _FULL else StoreReadOnly
        return kind(f"The export to {self._path} failed: {error.strerror}.", advice="Choose another place.")


def _kind(line: bytes) -> str:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    return "head" if document.get("mindhold") == "export" else str(document.get("type", ""))
