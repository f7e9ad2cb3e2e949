"""Backups: an export in the home's folder, compressed, summed and read back before it counts as one."""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from recollect.engine.core import Engine, unbroken
from recollect.engine.imports import Imported, import_lines
from recollect.engine.transfer import Exported, export_stream, partial_of, put_in_place, to_disk
from recollect.model.errors import Conflict, InvalidInput, NotFound, Refused, StoreFull, StoreReadOnly
from recollect.model.memory import ANY_STATUS
from recollect.model.query import Filter

ENDING = ".jsonl.gz"
SUM = ".sha256"
WHOLE, SAFETY, PART, PRUNED = (
    "backup-",
    "before-restore-",
    "scope-",
    "pruned-",
)  # how the names of our own begin
MOST_IN_A_SECOND = 1_000
MOST_OF_A_SCOPE = 3  # of what was put aside before a scope was forgotten
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)  # no files on Windows
_STAMP = re.compile(r"\d{8}T\d{6}Z(?:-\d+)?")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """One file that was written."""

    path: Path
    exported: Exported
    size: int
    sha256: str
    created: datetime


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file in the folder; `sha256` as the file beside it says, None when there is none."""

    path: Path
    size: int
    sha256: str | None
    created: datetime

    @property
    def whole(self) -> bool:
        """Whether somebody asked for it: not what was put aside before something else was done."""
        return not self.path.name.startswith((SAFETY, PART, PRUNED))


def folder_of(engine: Engine) -> Path:
    """Where backups are."""
    return engine.policy.home / "backups"


async def back_up(engine: Engine, name: str | None = None) -> Backup:
    """Everything of everybody. Raises InvalidInput for the name, Conflict when it is taken, StoreFull, StoreReadOnly."""
    if name is None:
        return await _write(engine, WHOLE, where=None)
    chosen = name.strip().removesuffix(ENDING)
    ours = chosen.casefold().startswith((SAFETY, PART, PRUNED))
    if not _NAME.fullmatch(chosen) or _DEVICE.fullmatch(chosen) or ours:
        raise InvalidInput(
            f"{name[:100]!r} can't be a backup's name.",
            advice=f"Use letters, digits, dots and dashes, and don't begin with {SAFETY}, {PART} or {PRUNED}.",
        )
    path = folder_of(engine) / f"{chosen}{ENDING}"
    taken = Conflict(f"There is a backup {path.name!r} already.", advice="Choose another name.")
    if await asyncio.to_thread(_taken, path):
        raise taken
    made = await _written(engine, [path], where=None)
    if made is None:
        raise taken
    return made


async def back_up_scope(engine: Engine, scope: str, *, agent: str) -> Backup:
    """What the agent sees of one scope, put aside before it is forgotten. Raises StoreFull, StoreReadOnly."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", scope).strip("-")[:60] or "other"
    safe = f"{words}-{hashlib.sha256(scope.encode()).hexdigest()[:8]}"  # names that differ in signs alone
    where = Filter(viewer=agent, scopes=(scope,), statuses=ANY_STATUS)
    made = await _write(engine, f"{PART}{safe}-", where=where)
    await asyncio.to_thread(_drop_old_parts, folder_of(engine), f"{PART}{safe}-")
    return made


async def put_aside(engine: Engine, ids: Sequence[str], *, keep_days: int) -> Backup:
    """What upkeep is about to remove, as a backup of its own; those of the newest days are kept.

    Raises StoreFull, StoreReadOnly.
    """
    where = Filter(viewer="system", ids=tuple(ids), statuses=ANY_STATUS)
    made = await _write(engine, PRUNED, where=where)
    await asyncio.to_thread(_drop_old_days, folder_of(engine), PRUNED, keep_days)
    return made


async def backups(engine: Engine) -> list[BackupFile]:
    """The newest first."""
    return await asyncio.to_thread(_listed, folder_of(engine))


async def restore(
    engine: Engine, file: str | None = None, *, progress: Callable[[int], None] = lambda _: None
) -> tuple[BackupFile, Imported, Backup]:
    """Bring back what isn't there any more, of one backup or of the newest; what is there stays as it is now.

    Everything as it was is put aside first. Raises NotFound, Refused for a file that isn't what was written.
    """
    chosen = await _named(engine, file)
    await asyncio.to_thread(_check_sum, chosen)
    safety = await _write(engine, SAFETY, where=None)
    try:
        with gzip.open(chosen.path, "rt", encoding="utf-8", newline="\n") as lines:
            done = await import_lines(engine, lines, agent="system", progress=progress)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{chosen.path.name} can't be read: {error}.", advice="Choose another backup."
        ) from error
    return chosen, done, safety


async def _named(engine: Engine, file: str | None) -> BackupFile:
    """Only names that the folder lists, so that no path leads out of it."""
    known = await backups(engine)
    if file is None:
        known = [one for one in known if one.whole]
        if not known:
            raise NotFound("There is no backup.", advice="Make one first.")
        return known[0]
    for one in known:
        if one.path.name.casefold() in (file.casefold(), f"{file}{ENDING}".casefold()):
            return one
    raise NotFound(f"There is no backup {file[:100]!r}.", advice="List the backups and name one of them.")


async def _write(engine: Engine, begin: str, *, where: Filter | None) -> Backup:
    """Under a name of our own, by the time."""
    stem = f"{begin}{engine.clock():%Y%m%dT%H%M%SZ}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, MOST_IN_A_SECOND + 1))]
    made = await _written(engine, [folder_of(engine) / f"{name}{ENDING}" for name in names], where=where)
    if made is None:
        raise Conflict("Too many backups were made in this second.", advice="Wait a moment.")
    return made


async def _written(engine: Engine, paths: Sequence[Path], *, where: Filter | None) -> Backup | None:
    """Under the first of the names that is free, when it was read back whole; None when none is."""
    partial = partial_of(paths[0])
    try:
        paths[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with _packing(partial) as stream:
            exported = await export_stream(engine, stream, where=where)
        return await unbroken(asyncio.to_thread(_placed, partial, paths, exported, engine.clock()))
    except OSError as error:
        problem = StoreFull if error.errno == errno.ENOSPC else StoreReadOnly
        raise problem(
            f"The backup {paths[0].name} failed: {error.strerror or error}.",
            advice="Make room, or look at the disk.",
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@asynccontextmanager
async def _packing(partial: Path) -> AsyncIterator[TextIO]:
    """A stream into a compressed file, which is on the disk when the body is done."""
    with partial.open("xb") as raw:
        partial.chmod(0o600)
        packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0)
        stream = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
        try:
            yield stream
        finally:
            await unbroken(asyncio.to_thread(stream.close))
        await unbroken(asyncio.to_thread(to_disk, raw))


def _placed(partial: Path, paths: Sequence[Path], exported: Exported, now: datetime) -> Backup | None:
    """Raises OSError."""
    os.utime(partial, (now.timestamp(), now.timestamp()))  # by which it is listed
    digest = _verified(partial, exported)
    size = partial.stat().st_size
    for path in paths:
        if _claimed(partial, path):
            try:
                _write_sum(path, digest)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            return Backup(path, exported, size, digest, now)
    return None


def _claimed(partial: Path, path: Path) -> bool:
    """Whether the file has that name now: of several who want it, in whatever processes, one gets it."""
    if _taken(path):
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


def _taken(path: Path) -> bool:
    """Also by a name that differs in case only: there are disks where it is the same."""
    return any(other.name.casefold() == path.name.casefold() for other in path.parent.glob(f"*{ENDING}"))


def _write_sum(path: Path, digest: str) -> None:
    beside = path.with_name(path.name + SUM)
    partial = partial_of(beside)
    try:
        partial.touch(mode=0o600)
        partial.write_text(f"{digest}  {path.name}\n", encoding="utf-8", newline="\n")
        put_in_place(partial, beside)
    finally:
        partial.unlink(missing_ok=True)


def _drop_old_parts(folder: Path, begin: str) -> None:
    """What was put aside of a scope is no archive: the newest few are kept. Those of other scopes are not touched."""
    own = [one for one in _listed(folder) if _begins(one, begin)]
    for one in own[MOST_OF_A_SCOPE:]:
        _drop(one)


def _drop_old_days(folder: Path, begin: str, keep: int) -> None:
    """All of a day stay or go together: one run may write many."""
    own = [one for one in _listed(folder) if _begins(one, begin)]
    days = sorted({_day(one, begin) for one in own}, reverse=True)[:keep]
    for one in own:
        if _day(one, begin) not in days:
            _drop(one)


def _day(one: BackupFile, begin: str) -> str:
    return one.path.name.removeprefix(begin).partition("T")[0]


def _drop(one: BackupFile) -> None:
    with suppress(OSError):  # somebody reads it: the next time drops it
        one.path.unlink(missing_ok=True)
        one.path.with_name(one.path.name + SUM).unlink(missing_ok=True)


def _begins(one: BackupFile, begin: str) -> bool:
    name = one.path.name
    return name.startswith(begin) and bool(_STAMP.fullmatch(name.removeprefix(begin).removesuffix(ENDING)))


def _verified(path: Path, exported: Exported) -> str:
    """The sum of a file that holds what was written into it. Raises OSError when it doesn't."""
    found: Counter[str] = Counter()
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                found[json.loads(line).get("type", "head")] += 1
    except (EOFError, ValueError) as error:
        raise OSError(errno.EIO, f"what was written can't be read back: {error}") from error
    wanted = {
        "head": 1,
        "scope": exported.scopes,
        "memory": exported.memories,
        "version": exported.versions,
        "link": exported.links,
        "contradiction": exported.contradictions,
    }
    if any(found[name] != count for name, count in wanted.items()):
        raise OSError(errno.EIO, "what was read back is not what was written")
    return _sum(path)


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check_sum(chosen: BackupFile) -> None:
    if chosen.sha256 is None:
        raise Refused(
            f"{chosen.path.name} has no sum beside it, so nobody can tell whether it is whole.",
            advice="`recollect import` reads an export without one, once it is unpacked.",
        )
    if _sum(chosen.path) != chosen.sha256:
        raise Refused(
            f"{chosen.path.name} is not what was written: its sum differs.", advice="Choose another."
        )


def _listed(folder: Path) -> list[BackupFile]:
    found: list[BackupFile] = []
    for path in folder.glob(f"*{ENDING}"):
        if path.name.startswith(".") or not path.is_file():
            continue
        facts = path.stat()
        created = datetime.fromtimestamp(facts.st_mtime, UTC)
        found.append(BackupFile(path, facts.st_size, _noted_sum(path), created))
    return sorted(found, key=lambda one: (one.created, one.path.name), reverse=True)


def _noted_sum(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        words = path.with_name(path.name + SUM).read_text(encoding="utf-8").split()
        return words[0] if words else None
    return None
