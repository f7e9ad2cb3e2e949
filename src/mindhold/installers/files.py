"""Reads and writes files of other programs as a whole, and records what was added so that it can be removed."""

from __future__ import annotations

import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.installers.config_text import JsonInsertion, JsonText, KeyPath
from mindhold.model.errors import BrokenJson, InvalidInput, Refused, WrongShape

LARGEST = 200_000_000
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A planned change of a file. `undo` records how to find what was inserted; `summary` names it for people."""

    path: Path
    before: bytes | None  # None: the file doesn't exist
    after: bytes | None  # None: the file is removed
    undo: tuple[dict[str, Any], ...] = ()
    summary: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        return self.before != self.after


def read(path: Path) -> bytes | None:
    """The content of a file; None if it doesn't exist. Raises Refused."""
    try:
        if path.stat().st_size > LARGEST:
            raise Refused(f"{path} is too large to be such a file.", advice="Look what it is.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Refused(
            f"{path} can't be read: {error.strerror}.", advice="Check what it is, and its permissions."
        ) from error


def parse_json_file(path: Path, content: bytes | None, *, comments: bool = False) -> JsonText:
    """Parse a file as JSON; an empty file counts as an empty object. Raises InvalidInput with the position of an error."""
    try:
        text = (content or b"").removeprefix(BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = (content or b"")[: error.start].count(b"\n") + 1
        raise InvalidInput(f"{path}, line {line}: not UTF-8.", advice="Save it as UTF-8.") from error
    document = JsonText(text if text.strip() else "{}\n", comments)
    with errors_name_file(path):
        document.check()
    return document


def encode_text(text: str, before: bytes | None) -> bytes:
    """The text as bytes, with a byte order mark if the file had one."""
    return (BOM_UTF8 if (before or b"").startswith(BOM_UTF8) else b"") + text.encode("utf-8")


@contextmanager
def errors_name_file(path: Path) -> Iterator[None]:
    """Add the file's name to errors in its text."""
    try:
        yield
    except (BrokenJson, WrongShape) as error:
        if str(path) not in error.message:
            error.message = f"{path}, {error.message}"
            error.advice = f"{error.advice} Nothing was written.".strip()
            error.args = (error.message,)
        raise


def clear_partials(path: Path) -> None:
    """Remove temporary files of a killed run."""
    real = Path(os.path.realpath(path))
    pattern = re.compile(rf"\.{re.escape(real.name)}\.\d+\.tmp")
    with suppress(OSError):
        for entry in real.parent.iterdir():
            if pattern.fullmatch(entry.name):
                entry.unlink()


def check_writable(path: Path) -> None:
    """Check that a file can be written, before anything is written. Raises Refused."""
    real = Path(os.path.realpath(path))
    if real.exists() and not os.access(real, os.W_OK):
        raise _unwritable(real, "it is read-only")
    folder = next(parent for parent in real.parents if parent.exists())
    if not folder.is_dir():
        raise _unwritable(real, f"{folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(real, f"the folder {folder} is read-only")


def write(path: Path, content: bytes, *, mode: int = 0o666) -> list[Path]:
    """Write a file atomically, through links, and keep its mode. Returns the folders that were created. Raises OSError."""
    real = Path(os.path.realpath(path))
    new_folders = make_folders(real.parent)
    status = real.stat() if real.exists() else None
    partial = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        partial.unlink()
    descriptor = os.open(partial, _FLAGS, mode if status is None else stat.S_IMODE(status.st_mode) & 0o700)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if status is not None:
            with suppress(OSError, AttributeError):  # not permitted, or Windows
                os.chown(partial, status.st_uid, status.st_gid)
            partial.chmod(stat.S_IMODE(status.st_mode))
        partial.replace(real)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    return new_folders


def make_folders(folder: Path, *, mode: int = 0o777) -> list[Path]:
    """Create the missing folders and return them, outermost first. Raises OSError."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=mode, exist_ok=True)
    return missing[::-1]


def remove(path: Path) -> None:
    """Remove a file, or the target of a link. Raises OSError."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def hash_content(content: bytes | None) -> str | None:
    """The SHA-256 of the content; None for a missing file."""
    return None if content is None else sha256(content).hexdigest()


def _unwritable(path: Path, why: str) -> Refused:
    return Refused(
        f"{path} can't be written: {why}.",
        advice="Check the permissions; nothing was written anywhere.",
    )


HOOK, STATUS, HOME, SERVER, BLOCK, TABLE = "hook", "status", "home", "server", "block", "table"


@dataclass(frozen=True, slots=True)
class InsertionNotes:
    """Which containers were created for an insertion, and the content of empty ones. `created` is None if nothing was recorded."""

    created: frozenset[KeyPath] | None = None
    inner: Mapping[KeyPath, str] = field(default_factory=dict)

    @classmethod
    def of(cls, undo: Iterable[Mapping[str, Any]]) -> InsertionNotes:
        """The notes of all insertions into one file."""
        notes = list(undo)
        recorded = [note["made"] for note in notes if "made" in note]
        inner = {
            tuple(path_keys): text for note in reversed(notes) for path_keys, text in note.get("inner", ())
        }
        return cls(frozenset(tuple(path) for made in recorded for path in made) if recorded else None, inner)


def insertion_note(do: str, path: KeyPath, insertion: JsonInsertion) -> dict[str, Any]:
    """An insertion as it is stored in the manifest."""
    return {
        "do": do,
        "path": list(path),
        "made": [list(container) for container in insertion.created],
        "inner": [[list(container_path), text] for container_path, text in insertion.inner.items()],
    }


def merge_notes(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Merge notes; for two insertions at the same place the first one's findings count."""
    merged: dict[str, dict[str, Any]] = {}
    for note in (*old, *new):
        key = f"{note['do']} {note.get('path')}"
        before = merged.get(key, {})
        lists = {
            name: [*before.get(name, []), *note.get(name, [])]
            for name in ("made", "inner")
            if name in before or name in note
        }
        merged[key] = {**note, **before, **lists}
    return tuple(merged.values())


def remove_empty(document: JsonText, notes: InsertionNotes, path: KeyPath) -> JsonText:
    """The document without the empty containers on the path that were created for us; all empty ones if nothing was recorded."""
    for length in range(len(path), 0, -1):
        container = path[:length]
        if (notes.created is None or container in notes.created) and document.is_empty(container):
            document = document.drop_member(container, inner=notes.inner)
    return document
