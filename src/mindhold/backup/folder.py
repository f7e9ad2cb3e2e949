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

from mindhold.backup.file_format import ENDING, read_head
from mindhold.memories.export import partial_of, put_in_place
from mindhold.model.errors import InvalidInput, NotFound, Refused, StoreFull, StoreReadOnly

EARLIER = ".jsonl.gz"  # the format without vectors; it is read, and no longer written
ENDINGS = (ENDING, EARLIER)
SUM = ".sha256"
# Beginnings of generated names.
WHOLE, SAFETY, PART, PRUNED = "backup-", "before-restore-", "scope-", "pruned-"
DAILY, WEEKLY = f"{WHOLE}daily-", f"{WHOLE}weekly-"
MOST_IN_A_SECOND = 1_000
_TEMPORARY = ".making-"
_STALE_SECONDS = 86_400.0  # older temporary files were left by a process that died
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)  # no files on Windows
_STAMP = re.compile(r"\d{8}T\d{6}Z(?:-\d+)?")


@contextmanager
def translate_disk_errors(what: str) -> Iterator[None]:
    """Translate disk errors. Raises StoreFull, StoreReadOnly."""
    try:
        yield
    except OSError as error:
        problem = StoreFull if is_full(error) else StoreReadOnly
        raise problem(
            f"{what} failed: {error.strerror or error}.", advice="Make room, or look at the disk."
        ) from error


def is_full(error: OSError) -> bool:
    """Whether the disk or quota is full."""
    return error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class BackupReason(StrEnum):
    """Why a backup was made."""

    BY_HAND = "by hand"
    DAILY = "daily"
    WEEKLY = "weekly"
    SAFETY = "before a restore"
    SCOPE = "before a scope was forgotten"
    PRUNED = "before upkeep removed it"


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file in the folder; `sha256` is from its checksum file, None if there is none."""

    path: Path
    size: int
    sha256: str | None
    created: datetime
    encrypted: bool = False

    @property
    def made(self) -> BackupReason:
        """The reason, by its name."""
        name = self.path.name
        for begin, reason in (
            (SAFETY, BackupReason.SAFETY),
            (PART, BackupReason.SCOPE),
            (PRUNED, BackupReason.PRUNED),
            (DAILY, BackupReason.DAILY),
            (WEEKLY, BackupReason.WEEKLY),
        ):
            if name.startswith(begin) and (begin in (SAFETY, PART, PRUNED) or is_stamped(name, begin)):
                return reason
        return BackupReason.BY_HAND

    @property
    def whole(self) -> bool:
        """Whether it contains everything, and was not made before another action."""
        return self.made not in (BackupReason.SAFETY, BackupReason.SCOPE, BackupReason.PRUNED)

    @property
    def earlier(self) -> bool:
        """Whether it has the format without vectors, keys and jobs, which can only be merged."""
        return self.path.name.endswith(EARLIER)


def generated_paths(folder: Path, begin: str, now: datetime) -> list[Path]:
    """Names with the time, of which one will be free."""
    stem = f"{begin}{now:%Y%m%dT%H%M%SZ}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, MOST_IN_A_SECOND + 1))]
    return [folder / f"{name}{ENDING}" for name in names]


def named_path(folder: Path, name: str) -> Path:
    """The path of a chosen name. Raises InvalidInput for an invalid one."""
    stem = _stem(name.strip())
    reserved = stem.casefold().startswith((SAFETY, PART, PRUNED, DAILY, WEEKLY))
    if not _NAME.fullmatch(stem) or _DEVICE.fullmatch(stem) or reserved:
        raise InvalidInput(
            f"{name[:100]!r} can't be a backup's name.",
            advice=f"Use letters, digits, dots and dashes, and don't begin with {SAFETY}, {PART}, "
            f"{PRUNED}, {DAILY} or {WEEKLY}.",
        )
    return folder / f"{stem}{ENDING}"


def is_stamped(name: str, begin: str) -> bool:
    """Whether it is a generated name with this beginning."""
    stem = _stem(name)
    return stem.startswith(begin) and bool(_STAMP.fullmatch(stem.removeprefix(begin)))


def list_backup_files(folder: Path) -> list[BackupFile]:
    """The backup files, newest first."""
    files: list[BackupFile] = []
    for ending in ENDINGS:
        for path in folder.glob(f"*{ending}"):
            if path.name.startswith(".") or not path.is_file():
                continue
            with suppress(OSError):  # deleted meanwhile
                facts = path.stat()
                created = datetime.fromtimestamp(facts.st_mtime, UTC)
                files.append(BackupFile(path, facts.st_size, _read_sum(path), created, _is_encrypted(path)))
    return sorted(files, key=lambda file: (file.created, file.path.name), reverse=True)


def find_backup_file(folder: Path, file: str | None) -> BackupFile:
    """The named file, by default the newest complete one with a checksum. Only listed names match, so that no path
    leads out of the folder.

    Raises NotFound.
    """
    files = list_backup_files(folder)
    if file is None:
        whole = [candidate for candidate in files if candidate.whole and candidate.sha256]
        if not whole:
            raise NotFound("There is no backup.", advice="`mindhold backup` makes one.")
        return whole[0]
    names = {name.casefold() for name in (file, *(f"{file}{ending}" for ending in ENDINGS))}
    for candidate in files:
        if candidate.path.name.casefold() in names:
            return candidate
    raise NotFound(f"There is no backup {file[:100]!r}.", advice="List the backups and name one of them.")


def verify_checksum(file: BackupFile) -> None:
    """Raises Refused if the file was changed, and OSError."""
    if file.sha256 is None:
        raise Refused(
            f"{file.path.name} has no sum beside it, so nobody can tell whether it is whole.",
            advice="Choose another backup, or put the .sha256 file back that was beside it.",
        )
    if checksum(file.path) != file.sha256:
        raise Refused(f"{file.path.name} is not what was written: its sum differs.", advice="Choose another.")


def checksum(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def place_backup_file(partial: Path, paths: Sequence[Path], now: datetime, digest: str) -> Path | None:
    """Move the file to the first free name and write its checksum file; None if no name is free. Raises OSError."""
    os.utime(partial, (now.timestamp(), now.timestamp()))  # the listing shows this time
    for path in paths:
        if _claim_name(partial, path):
            try:
                _write_sum(path, digest)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            return path
    return None


def is_taken(path: Path) -> bool:
    """Whether the name exists, in any case: some file systems ignore case."""
    stem = _stem(path.name).casefold()
    return any(
        _stem(other.name).casefold() == stem for ending in ENDINGS for other in path.parent.glob(f"*{ending}")
    )


def delete_backup_file(file: BackupFile) -> bool:
    """Delete the file; returns whether it is gone. Some systems refuse while somebody reads it."""
    with suppress(OSError):
        file.path.unlink(missing_ok=True)
        file.path.with_name(file.path.name + SUM).unlink(missing_ok=True)
        return True
    return False


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to make or read a backup in. Leftovers of dead processes are removed. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder)
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))  # accessible to its owner only
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(folder: Path) -> None:
    before = time.time() - _STALE_SECONDS
    for path in (*folder.glob(f"{_TEMPORARY}*"), *folder.glob(".*.partial")):
        with suppress(OSError):
            if path.stat().st_mtime < before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _claim_name(partial: Path, path: Path) -> bool:
    """Whether the file has that name now. Of several processes, one gets it, in whatever case they write it."""
    marker = path.with_name(f".{_stem(path.name).casefold()}.claim.partial")  # swept if its process dies
    try:
        marker.open("xb").close()
    except FileExistsError:
        return False
    try:
        return not is_taken(path) and _rename_to_new(partial, path)
    finally:
        marker.unlink(missing_ok=True)


def _rename_to_new(partial: Path, path: Path) -> bool:
    try:
        os.link(partial, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        put_in_place(partial, path)
    return True


def _stem(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name


def _write_sum(path: Path, digest: str) -> None:
    sum_path = path.with_name(path.name + SUM)
    partial = partial_of(sum_path)
    try:
        partial.write_text(f"{digest}  {path.name}\n", encoding="utf-8", newline="\n")
        partial.chmod(0o600)
        put_in_place(partial, sum_path)
    finally:
        partial.unlink(missing_ok=True)


def _read_sum(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        words = path.with_name(path.name + SUM).read_text(encoding="utf-8").split()
        return words[0] if words else None
    return None


def _is_encrypted(path: Path) -> bool:
    if not path.name.endswith(ENDING):
        return False
    with suppress(OSError, Refused):
        return read_head(path).seal is not None
    return False
