"""Creates backups of every store in one verified file; lists and removes them."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.file_format import EXPORT, ROWS, BackupHead, BackupPart, BackupWriter, read_through
from mindhold.backup.folder import (
    PART,
    PRUNED,
    WHOLE,
    BackupFile,
    chosen_name,
    delete_backup_file,
    find_backup_file,
    is_stamped,
    is_taken,
    list_backup_files,
    on_disk,
    own_names,
    place_backup_file,
    sum_of,
    temporary_folder,
)
from mindhold.backup.rows import RowCounter, as_lines
from mindhold.engine import Engine
from mindhold.memories.export import export_stream, partial_of, to_disk
from mindhold.model.errors import (
    Conflict,
    MindholdError,
    Refused,
    SettingsError,
    StoreAway,
    StoreBusy,
    StoreError,
)
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.backend import Backend, Placements, Totals

BackupProgress = Callable[[str, int, int | None], None]
MOST_OF_A_SCOPE = 3  # of what was put aside before a scope was forgotten
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """One file that was written."""

    path: Path
    parts: tuple[BackupPart, ...]
    size: int
    sha256: str
    created: datetime
    encrypted: bool

    @property
    def totals(self) -> Totals:
        """Of all parts; what one store has of another's scopes is counted once more."""
        every = [part.totals for part in self.parts]
        names = ("memories", "vectors", "versions", "links", "scopes", "jobs", "entries", "cursors")
        return Totals(**{name: sum(getattr(one, name) for one in every) for name in names})


def no_backup_progress(_step: str, _done: int, _total: int | None) -> None:
    """For who isn't told."""


def folder_of(engine: Engine) -> Path:
    """Where backups are."""
    return engine.settings.home / "backups"


async def back_up(
    engine: Engine,
    name: str | None = None,
    *,
    begin: str = WHOLE,
    encrypt: bool | None = None,
    passphrase: str | None = None,
    without: Collection[str] = (),
    told: BackupProgress = no_backup_progress,
) -> Backup:
    """Everything of everybody, of all stores but those named `without`; `begin` is how the name begins that it gets itself.

    Raises InvalidInput for the name, Conflict when it is taken, Refused where it is to be encrypted and there is no
    passphrase, StoreFull, StoreReadOnly, and the errors of a store that doesn't answer.
    """
    secret = chosen_secret(engine, encrypt=encrypt, passphrase=passphrase)
    folder = folder_of(engine)
    paths = own_names(folder, begin, engine.clock())
    if name is not None:
        paths = [chosen_name(folder, name)]
        if await asyncio.to_thread(is_taken, paths[0]):
            raise _taken(paths[0])

    async def write(writer: BackupWriter, room: Path) -> None:
        places = await engine.store_registry.places(fresh=True)
        home = engine.store_registry.home
        for mode in dict.fromkeys((home, *(mode for place in places.values() for mode in place.modes()))):
            if mode not in without:
                await _house(engine, writer, room, mode=mode, places=places, told=told)

    made = await _written(engine, paths, secret, write, told=told)
    if made is None and name is not None:
        raise _taken(paths[0])
    return _one(made)


async def back_up_scope(engine: Engine, scope: str, *, agent: str) -> Backup:
    """What the agent sees of one scope, put aside before it is forgotten. Raises StoreFull, StoreReadOnly, Refused."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", scope).strip("-")[:60] or "other"
    safe = f"{words}-{hashlib.sha256(scope.encode()).hexdigest()[:8]}"  # names that differ in signs alone
    begin = f"{PART}{safe}-"
    made = await _some(engine, begin, Filter(viewer=agent, scopes=(scope,), statuses=ANY_STATUS))
    await asyncio.to_thread(_drop_old_parts, folder_of(engine), begin)
    return made


async def back_up_removed(engine: Engine, ids: Sequence[str], *, keep_days: int) -> Backup:
    """What upkeep is about to remove, as a backup of its own; those of the newest days are kept.

    Raises StoreFull, StoreReadOnly, Refused.
    """
    made = await _some(engine, PRUNED, Filter(viewer="system", ids=tuple(ids), statuses=ANY_STATUS))
    await asyncio.to_thread(_drop_old_days, folder_of(engine), PRUNED, keep_days)
    return made


async def _some(engine: Engine, begin: str, where: Filter) -> Backup:
    """Not everything: as an export, which can be merged."""

    async def write(writer: BackupWriter, _room: Path) -> None:
        writer.begin(engine.store_registry.home, EXPORT)
        with io.TextIOWrapper(io.BufferedWriter(_Into(writer)), encoding="utf-8", newline="\n") as stream:
            done = await export_stream(engine, stream, where=where)
        writer.end(Totals(done.memories, 0, done.versions, done.links, done.scopes))

    paths = own_names(folder_of(engine), begin, engine.clock())
    return _one(await _written(engine, paths, chosen_secret(engine), write, told=no_backup_progress))


async def backups(engine: Engine) -> list[BackupFile]:
    """The newest first."""
    return await asyncio.to_thread(list_backup_files, folder_of(engine))


def chosen_secret(
    engine: Engine, *, encrypt: bool | None = None, passphrase: str | None = None
) -> str | None:
    """What it is encrypted with; None: it isn't. Raises Refused where it should be and can't."""
    rules = engine.settings.backup
    if not (rules.encrypt if encrypt is None else encrypt):
        return None
    secret = passphrase or rules.read_passphrase()
    if not secret:
        raise Refused(
            "Backups are to be encrypted, and there is no passphrase: none was made.",
            advice="Set MINDHOLD_BACKUP_PASSPHRASE in the environment, give --passphrase-file, or "
            "`mindhold config set backup.encrypt false`.",
        )
    return secret


async def _house(
    engine: Engine, writer: BackupWriter, room: Path, *, mode: str, places: Placements, told: BackupProgress
) -> None:
    """One store's part. Raises its errors, with its name."""
    try:
        house = await engine.store_registry.house(mode)
        if house.raw_form:
            totals = await _raw(engine, writer, house, room / f"{mode}.raw", mode=mode, told=told)
        else:
            totals = await _rows(writer, house, mode=mode, told=told)
    except (StoreError, SettingsError) as error:
        if mode == engine.store_registry.home:
            raise
        raise StoreAway(
            f"{mode}, where projects live, can't be backed up: {error.message}",
            advice=f"{error.advice} `mindhold backup --without {mode}` leaves it out.".strip(),
        ) from error
    home = mode == engine.store_registry.home
    lives = () if home else tuple(sorted(name for name, place in places.items() if place.mode == mode))
    elsewhere = sorted(name for name, place in places.items() if place.mode != mode) if home else ()
    await run_uncancelled(asyncio.to_thread(writer.end, totals, lives=lives, elsewhere=tuple(elsewhere)))


async def _raw(
    engine: Engine, writer: BackupWriter, house: Backend, path: Path, *, mode: str, told: BackupProgress
) -> Totals:
    step = f"backup: {mode}"
    copying = house.copy_raw(path, told=lambda done, total: told(f"{step}, copied", done, total))
    await run_uncancelled(copying)
    async with engine.backend_sites.opened(house.raw_form, path) as copy:
        totals = await copy.totals()
    size = path.stat().st_size
    writer.begin(mode, house.raw_form)

    def pack() -> None:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                writer.write(chunk)
                told(f"{step}, packed", stream.tell() >> 20, size >> 20)

    await run_uncancelled(asyncio.to_thread(pack))
    path.unlink()
    return totals


async def _rows(writer: BackupWriter, house: Backend, *, mode: str, told: BackupProgress) -> Totals:
    tally, done = RowCounter(), 0
    writer.begin(mode, ROWS)

    def pack(batch: Sequence[Any]) -> None:
        tally.add(batch)
        writer.write(as_lines(batch))

    async for batch in house.snapshot():
        await run_uncancelled(asyncio.to_thread(pack, batch))
        done += len(batch)
        told(f"backup: {mode}", done, None)
    return tally.totals


async def _written(
    engine: Engine,
    paths: Sequence[Path],
    secret: str | None,
    write: Callable[[BackupWriter, Path], Any],
    *,
    told: BackupProgress,
) -> Backup | None:
    """Under the first of the names that is free, when it was read back whole; None when none is."""
    now, folder = engine.clock(), paths[0].parent
    with on_disk(f"The backup {paths[0].name}"), temporary_folder(folder) as room:
        partial = partial_of(paths[0])
        try:
            head = BackupHead(now, engine.store_registry.home)
            async with _writing(partial, head, secret) as writer:
                await write(writer, room)
            told("backup: read back", 0, None)
            return await run_uncancelled(
                asyncio.to_thread(_placed, partial, paths, writer.parts, secret, now)
            )
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


@asynccontextmanager
async def _writing(partial: Path, head: BackupHead, secret: str | None) -> AsyncIterator[BackupWriter]:
    """Into a file that is on the disk when the body is done."""
    with partial.open("xb") as raw:
        partial.chmod(0o600)
        writer = await run_uncancelled(asyncio.to_thread(BackupWriter, raw, head, secret))
        try:
            yield writer
            await run_uncancelled(asyncio.to_thread(writer.finish))
        finally:
            await run_uncancelled(asyncio.to_thread(writer.close))
        await run_uncancelled(asyncio.to_thread(to_disk, raw))


def _placed(
    partial: Path, paths: Sequence[Path], parts: tuple[BackupPart, ...], secret: str | None, now: datetime
) -> Backup | None:
    """Raises OSError."""
    try:
        found = read_through(partial, secret)[1]
    except MindholdError as error:
        raise OSError(errno.EIO, f"what was written can't be read back: {error.message}") from error
    if found != parts:
        raise OSError(errno.EIO, "what was read back is not what was written")
    digest, size = sum_of(partial), partial.stat().st_size
    path = place_backup_file(partial, paths, now, digest)
    return None if path is None else Backup(path, parts, size, digest, now, secret is not None)


def _one(made: Backup | None) -> Backup:
    if made is None:
        raise Conflict("Too many backups were made in this second.", advice="Wait a moment.")
    return made


def _taken(path: Path) -> Conflict:
    return Conflict(f"There is a backup {path.name!r} already.", advice="Choose another name.")


def _drop_old_parts(folder: Path, begin: str) -> None:
    """What was put aside of a scope is no archive: the newest few are kept. Those of other scopes are not touched."""
    own = [one for one in list_backup_files(folder) if is_stamped(one.path.name, begin)]
    for one in own[MOST_OF_A_SCOPE:]:
        delete_backup_file(one)


def _drop_old_days(folder: Path, begin: str, keep: int) -> None:
    """All of a day stay or go together: one run may write many."""
    own = [one for one in list_backup_files(folder) if is_stamped(one.path.name, begin)]
    days = sorted({_day(one, begin) for one in own}, reverse=True)[:keep]
    for one in own:
        if _day(one, begin) not in days:
            delete_backup_file(one)


def _day(one: BackupFile, begin: str) -> str:
    return one.path.name.removeprefix(begin).partition("T")[0]


class _Into(io.RawIOBase):
    """A part of a backup as a file to write to."""

    def __init__(self, writer: BackupWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._writer.write(bytes(data))
        return len(data)


class BackupInput(Input):
    """What to call it; by the time when there is no name. Encrypted as the settings say, unless told."""

    name: str | None = Field(
        default=None,
        description="Name of the backup; the time if absent.",
        examples=["before-the-move"],
    )
    encrypt: bool | None = Field(
        default=None,
        description="Encrypt it with the server's passphrase; the setting decides if absent.",
    )
    without: list[str] = Field(
        default=[], description="Stores to leave out, by storage mode."
    )  # stores that projects live in, and that may be left out


class BackupView(Output):
    """One backup. `file` is its name in the folder of backups."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    path: str = Field(
        description="Its folder or file.",
        examples=["/home/me/.mindhold/backups/backup-20261116T103000Z.backup"],
    )
    memories: int = Field(description="Number of memories.", examples=[1523])
    links: int = Field(description="Number of links.", examples=[310])
    versions: int = Field(description="Number of versions.", examples=[44])
    scopes: int = Field(examples=[5])
    vectors: int = Field(examples=[1523])
    entries: int = Field(description="How many entries there are.", examples=[61])
    jobs: int = Field(examples=[2])
    encrypted: bool = Field(examples=[False])
    bytes: int = Field(examples=[48213])
    sha256: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])


class ListBackupsInput(Input):
    """Nothing to say."""


class BackupFileView(Output):
    """One file in the folder of backups."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    path: str = Field(
        description="Its folder or file.",
        examples=["/home/me/.mindhold/backups/backup-20261116T103000Z.backup"],
    )
    bytes: int = Field(examples=[48213])
    sha256: str | None = Field(
        default=None, examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    )  # None when the sum beside it is missing
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])
    made: str = Field(
        examples=["daily"]
    )  # what for: by hand, daily, weekly, before a restore, before a scope was forgotten
    encrypted: bool = Field(default=False, examples=[False])
    whole: bool = Field(
        default=True, examples=[True]
    )  # whether it can take the place of everything that is there


class ListBackupsResult(Output):
    """The newest first."""

    backups: list[BackupFileView]


async def _backup(context: Context, request: BackupInput) -> BackupView:
    """Write everything into a verified file."""
    made = await back_up(
        context.engine, request.name, encrypt=request.encrypt, without=request.without, told=context.progress
    )
    written = made.totals
    return BackupView(
        file=made.path.name,
        path=str(made.path),
        memories=written.memories,
        links=written.links,
        versions=written.versions,
        scopes=written.scopes,
        vectors=written.vectors,
        entries=written.entries,
        jobs=written.jobs,
        encrypted=made.encrypted,
        bytes=made.size,
        sha256=made.sha256,
        created=made.created,
    )


BACKUP = operation("backup", _backup, writes=True, owner_only=True)


async def _list_backups(context: Context, _given: ListBackupsInput) -> ListBackupsResult:
    """The backups that there are."""
    return ListBackupsResult(backups=[file_view(one) for one in await backups(context.engine)])


LIST_BACKUPS = operation("list_backups", _list_backups, reads=True, owner_only=True)


def file_view(one: BackupFile) -> BackupFileView:
    """As it is listed."""
    return BackupFileView(
        file=one.path.name,
        path=str(one.path),
        bytes=one.size,
        sha256=one.sha256,
        created=one.created,
        made=one.made.value,
        encrypted=one.encrypted,
        whole=one.whole and not one.earlier,
    )


class DropBackupInput(Input):
    """Which file of the folder of backups."""

    file: str = Field(
        description="A file name from the list of backups.", examples=["backup-20261116T103000Z.backup"]
    )


class DropBackupResult(Output):
    """What went."""

    dropped: BackupFileView


async def _drop(context: Context, request: DropBackupInput) -> DropBackupResult:
    """Remove one backup."""
    chosen = await asyncio.to_thread(find_backup_file, folder_of(context.engine), request.file)
    if not await asyncio.to_thread(delete_backup_file, chosen):
        raise StoreBusy(f"{chosen.path.name} can't be removed now.", advice="Somebody reads it: try again.")
    return DropBackupResult(dropped=file_view(chosen))


DROP_BACKUP = operation("drop_backup", _drop, destroys=True, owner_only=True)
