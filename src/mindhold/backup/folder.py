"""The backup folder: file names, listing, checksums, and atomic placement of new files."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from mindhold.backup.file_format import ENDING, head_of
from mindhold.memories.export import partial_of, put_in_place
from mindhold.model.errors import InvalidInput, NotFound, Refused, StoreFull, StoreReadOnly

EARLIER = ".jsonl.gz"  # of backups before there were vectors in them: they are read, and no more written
ENDINGS = (ENDING, EARLIER)
SUM = ".sha256"
# How the names of our own begin.
WHOLE, SAFETY, PART, PRUNED = "backup-", "before-restore-", "scope-", "pruned-"
DAILY, WEEKLY = f"{WHOLE}daily-", f"{WHOLE}weekly-"
MOST_IN_A_SECOND = 1_000
_MAKING = ".making-"
_STALE_SECONDS = 86_400.0  # whoever left it is not at it any more
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)  # no files on Windows
_STAMP = re.compile(r"\d{8}T\d{6}Z(?:-\d+)?")
_CHUNK = 1 << 20


@contextmanager
def on_disk(what: str) -> Iterator[None]:
    """What the disk refuses, as errors of ours. Raises StoreFull, StoreReadOnly."""
    try:
        yield
    except OSError as error:
        problem = StoreFull if is_full(error) else StoreReadOnly
        raise problem(
            f"{what} failed: {error.strerror or error}.", advice="Make room, or look at the disk."
        ) from error


def is_full(error: OSError) -> bool:
    """Whether there is no room left, or no more may be used."""
    return error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class BackupReason(StrEnum):
    """What a backup was made for."""

    BY_HAND = "by hand"
    DAILY = "daily"
    WEEKLY = "weekly"
    SAFETY = "before a restore"
    SCOPE = "before a scope was forgotten"
    PRUNED = "before upkeep removed it"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file in the folder; `sha256` as the file beside it says, None when there is none."""

    path: Path
    size: int
    sha256: str | None
    created: datetime
    encrypted: bool = False

    @property
    def made(self) -> BackupReason:
        """By its name."""
        name = self.path.name
        for begin, made in (
            (SAFETY, BackupReason.SAFETY),
            (PART, BackupReason.SCOPE),
            (PRUNED, BackupReason.PRUNED),
            (DAILY, BackupReason.DAILY),
            (WEEKLY, BackupReason.WEEKLY),
        ):
            if name.startswith(begin) and (begin in (SAFETY, PART, PRUNED) or is_stamped(name, begin)):
                return made
        return BackupReason.BY_HAND

    @property
    def whole(self) -> bool:
        """Whether everything is in it: not what was put aside before something else was done."""
        return self.made not in (BackupReason.SAFETY, BackupReason.SCOPE, BackupReason.PRUNED)

    @property
    def earlier(self) -> bool:
        """Whether it is of the form that has no vectors, keys or jobs, and can only be merged."""
        return self.path.name.endswith(EARLIER)


def own_names(folder: Path, begin: str, now: datetime) -> list[Path]:
    """By the time, one of which will be free."""
    stem = f"{begin}{now:%Y%m%dT%H%M%SZ}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, MOST_IN_A_SECOND + 1))]
    return [folder / f"{name}{ENDING}" for name in names]


def chosen_name(folder: Path, name: str) -> Path:
    """Raises InvalidInput for what can't be one."""
    chosen = name.strip()
    for ending in ENDINGS:
        chosen = chosen.removesuffix(ending)
    ours = chosen.casefold().startswith((SAFETY, PART, PRUNED, DAILY, WEEKLY))
    if not _NAME.fullmatch(chosen) or _DEVICE.fullmatch(chosen) or ours:
        raise InvalidInput(
            f"{name[:100]!r} can't be a backup's name.",
            advice=f"Use letters, digits, dots and dashes, and don't begin with {SAFETY}, {PART}, "
            f"{PRUNED}, {DAILY} or {WEEKLY}.",
        )
    return folder / f"{chosen}{ENDING}"


def is_stamped(name: str, begin: str) -> bool:
    """Whether a name is one of our own that begins so."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name.startswith(begin) and bool(_STAMP.fullmatch(name.removeprefix(begin)))


def list_backup_files(folder: Path) -> list[BackupFile]:
    """The newest first."""
    found: list[BackupFile] = []
    for ending in ENDINGS:
        for path in folder.glob(f"*{ending}"):
            if path.name.startswith(".") or not path.is_file():
                continue
            with suppress(OSError):  # dropped meanwhile
                facts = path.stat()
                created = datetime.fromtimestamp(facts.st_mtime, UTC)
                found.append(BackupFile(path, facts.st_size, _noted_sum(path), created, _is_sealed(path)))
    return sorted(found, key=lambda one: (one.created, one.path.name), reverse=True)


def find_backup_file(folder: Path, file: str | None) -> BackupFile:
    """The newest whole one that has its sum when none is named. Only names that the folder lists, so that no path leads out of it.

    Raises NotFound.
    """
    known = list_backup_files(folder)
    if file is None:
        whole = [one for one in known if one.whole and one.sha256]
        if not whole:
            raise NotFound("There is no backup.", advice="`mindhold backup` makes one.")
        return whole[0]
    wanted = {name.casefold() for name in (file, *(f"{file}{ending}" for ending in ENDINGS))}
    for one in known:
        if one.path.name.casefold() in wanted:
            return one
    raise NotFound(f"There is no backup {file[:100]!r}.", advice="List the backups and name one of them.")


def check_sum(chosen: BackupFile) -> None:
    """Raises Refused for a file that isn't what was written, OSError."""
    if chosen.sha256 is None:
        raise Refused(
            f"{chosen.path.name} has no sum beside it, so nobody can tell whether it is whole.",
            advice="Choose another backup, or put the .sha256 file back that was beside it.",
        )
    if sum_of(chosen.path) != chosen.sha256:
        raise Refused(
            f"{chosen.path.name} is not what was written: its sum differs.", advice="Choose another."
        )


def sum_of(path: Path) -> str:
    """Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def place_backup_file(partial: Path, paths: Sequence[Path], now: datetime, digest: str) -> Path | None:
    """Under the first of the names that is free, with its sum beside it; None when none is. Raises OSError."""
    os.utime(partial, (now.timestamp(), now.timestamp()))  # by which it is listed
    for path in paths:
        if _claimed(partial, path):
            try:
                _write_sum(path, digest)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            return path
    return None


def is_taken(path: Path) -> bool:
    """Also by a name that differs in case only: there are disks where it is the same."""
    stem = _stem(path).casefold()
    return any(
        _stem(other).casefold() == stem for ending in ENDINGS for other in path.parent.glob(f"*{ending}")
    )


def delete_backup_file(one: BackupFile) -> bool:
    """Whether it is gone; not while somebody reads it, where the system doesn't allow that."""
    with suppress(OSError):
        one.path.unlink(missing_ok=True)
        one.path.with_name(one.path.name + SUM).unlink(missing_ok=True)
        return True
    return False


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A folder for what is only needed while a backup is made or read. What the dead left is swept away. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder)
    made = Path(tempfile.mkdtemp(prefix=_MAKING, dir=folder))  # for its owner alone
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _sweep(folder: Path) -> None:
    before = time.time() - _STALE_SECONDS
    for left in (*folder.glob(f"{_MAKING}*"), *folder.glob(".*.partial")):
        with suppress(OSError):
            if left.stat().st_mtime < before:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _claimed(partial: Path, path: Path) -> bool:
    """Whether the file has that name now: of several who want it, in whatever processes, one gets it."""
    if is_taken(path):
        return False
    try:
        os.link(partial, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        put_in_place(partial, path)
    return True


def _stem(path: Path) -> str:
    name = path.name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name


def _write_sum(path: Path, digest: str) -> None:
    beside = path.with_name(path.name + SUM)
    partial = partial_of(beside)
    try:
        partial.write_text(f"{digest}  {path.name}\n", encoding="utf-8", newline="\n")
        partial.chmod(0o600)
        put_in_place(partial, beside)
    finally:
        partial.unlink(missing_ok=True)


def _noted_sum(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        words = path.with_name(path.name + SUM).read_text(encoding="utf-8").split()
        return words[0] if words else None
    return None


def _is_sealed(path: Path) -> bool:
    if not path.name.endswith(ENDING):
        return False
    with suppress(OSError, Refused):
        return head_of(path).seal is not None
    return False
