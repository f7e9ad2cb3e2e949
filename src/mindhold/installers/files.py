"""Reads and writes files of other programs as a whole, and records what was added so that it can be removed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.installers.json_text import JsonInsertion, JsonText, KeyPath
from mindhold.model.errors import BrokenJson, InvalidInput, Refused, WrongShape

LARGEST = 200_000_000
_UTF8 = b"\xef\xbb\xbf"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is to be another. `undo` says how what was put in is found again, `told` what it is, in words."""

    path: Path
    before: bytes | None  # None: there is none
    after: bytes | None  # None: there is to be none
    undo: tuple[dict[str, Any], ...] = ()
    told: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        return self.before != self.after


def read(path: Path) -> bytes | None:
    """All of it; None where there is no such file. Raises Refused."""
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


def json_of(path: Path, content: bytes | None, *, comments: bool = False) -> JsonText:
    """The document, which begins as an empty one. Raises InvalidInput, with the place of what is wrong."""
    try:
        text = (content or b"").removeprefix(_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = (content or b"")[: error.start].count(b"\n") + 1
        raise InvalidInput(f"{path}, line {line}: not UTF-8.", advice="Save it as UTF-8.") from error
    found = JsonText(text if text.strip() else "{}\n", comments)
    with errors_name_file(path):
        found.check()
    return found


def json_or_empty(content: bytes | None) -> dict[str, Any]:
    """What a file of others says, where that is only of interest; nothing where it can't be read."""
    try:
        found = JsonText((content or b"").removeprefix(_UTF8).decode("utf-8"), comments=True).value
    except (UnicodeDecodeError, BrokenJson):
        return {}
    return found if isinstance(found, dict) else {}


def bytes_of(text: str, before: bytes | None) -> bytes:
    """As it was written: with the mark at the beginning, if there was one."""
    return (_UTF8 if (before or b"").startswith(_UTF8) else b"") + text.encode("utf-8")


class errors_name_file:  # noqa: N801 - reads as a verb
    """Errors in a text say which file it is."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, BrokenJson | WrongShape):
            named = str(self._path)
            if named not in error.message:
                error.message = f"{named}, {error.message}"
                error.advice = f"{error.advice} Nothing was written.".strip()
                error.args = (error.message,)


def clear_partials(path: Path) -> None:
    """What a run that was killed while it wrote has left beside the file."""
    real = Path(os.path.realpath(path))
    own = re.compile(rf"\.{re.escape(real.name)}\.\d+\.tmp")
    with suppress(OSError):
        for one in real.parent.iterdir():
            if own.fullmatch(one.name):
                one.unlink()


def check_writable(path: Path) -> None:
    """Before anything is written anywhere. Raises Refused."""
    real = Path(os.path.realpath(path))
    if real.exists() and not os.access(real, os.W_OK):
        raise _unwritable(real, "it is read-only")
    folder = next(one for one in real.parents if one.exists())
    if not folder.is_dir():
        raise _unwritable(real, f"{folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(real, f"the folder {folder} is read-only")


def write(path: Path, content: bytes, *, mode: int = 0o666) -> list[Path]:
    """Whole or not at all, where a link leads, with the mode it had. Returns the folders it made. Raises OSError."""
    real = Path(os.path.realpath(path))
    made = make_folders(real.parent)
    known = real.stat() if real.exists() else None
    partial = real.with_name(f".{real.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        partial.unlink()
    descriptor = os.open(partial, _FLAGS, mode if known is None else stat.S_IMODE(known.st_mode) & 0o700)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if known is not None:
            with suppress(OSError, AttributeError):  # not ours to give, or Windows
                os.chown(partial, known.st_uid, known.st_gid)
            partial.chmod(stat.S_IMODE(known.st_mode))
        partial.replace(real)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    return made


def make_folders(folder: Path, *, mode: int = 0o777) -> list[Path]:
    """Those that were missing, the outermost first. Raises OSError."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=mode, exist_ok=True)
    return missing[::-1]


def remove(path: Path) -> None:
    """What a link leads to. Raises OSError."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def sum_of(content: bytes | None) -> str | None:
    """By which it is known again."""
    return None if content is None else sha256(content).hexdigest()


def _unwritable(path: Path, why: str) -> Refused:
    return Refused(
        f"{path} can't be written: {why}.",
        advice="Check the permissions; nothing was written anywhere.",
    )


HOOK, STATUS, HOME, SERVER, BLOCK, TABLE = "hook", "status", "home", "server", "block", "table"


@dataclass(frozen=True, slots=True)
class InsertionNotes:
    """Which containers were made for what was put in, and what stood in empty ones. `made` is None where nobody knows."""

    made: frozenset[KeyPath] | None = None
    inner: Mapping[KeyPath, str] = field(default_factory=dict)

    @classmethod
    def of(cls, undo: Iterable[Mapping[str, Any]]) -> InsertionNotes:
        """Of all that was put into one file."""
        notes = list(undo)
        known = [note["made"] for note in notes if "made" in note]
        inner = {tuple(where): text for note in reversed(notes) for where, text in note.get("inner", ())}
        return cls(frozenset(tuple(one) for made in known for one in made) if known else None, inner)


def insertion_note(do: str, path: KeyPath, put: JsonInsertion) -> dict[str, Any]:
    """As it is kept in a file."""
    return {
        "do": do,
        "path": list(path),
        "made": [list(one) for one in put.made],
        "inner": [[list(where), text] for where, text in put.inner.items()],
    }


def merge_notes(
    known: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Both; of the same thing put in twice, what the first time found counts."""
    kept: dict[str, dict[str, Any]] = {}
    for note in (*known, *new):
        key = f"{note['do']} {note.get('path')}"
        before = kept.get(key, {})
        both = {
            name: [*before.get(name, []), *note.get(name, [])]
            for name in ("made", "inner")
            if name in before or name in note
        }
        kept[key] = {**note, **before, **both}
    return tuple(kept.values())


def remove_empty(document: JsonText, notes: InsertionNotes, path: KeyPath) -> JsonText:
    """Without the containers on the way there that are empty now and were made for us; all that are, if nobody knows."""
    for length in range(len(path), 0, -1):
        one = path[:length]
        if (notes.made is None or one in notes.made) and document.is_empty(one):
            document = JsonText(document.drop_member(one, inner=notes.inner), document.comments)
    return document
