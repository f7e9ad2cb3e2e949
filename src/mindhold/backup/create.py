"""Creates backups on request and on schedule, deletes those that are no longer kept, and reports their state."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.file_format import (
    COUNTS,
    EXPORT,
    ROWS,
    BackupHead,
    BackupPart,
    BackupWriter,
    RowCounter,
    encode_rows,
    verify_file,
)
from mindhold.backup.folder import (
    DAILY,
    PART,
    PRUNED,
    WEEKLY,
    WHOLE,
    BackupFile,
    BackupReason,
    checksum,
    delete_backup_file,
    find_backup_file,
    generated_paths,
    is_stamped,
    is_taken,
    list_backup_files,
    named_path,
    place_backup_file,
    temporary_folder,
    translate_disk_errors,
    verify_checksum,
)
from mindhold.engine import Engine
from mindhold.lifecycle.stage_report import NOTHING, StageLimits, StageResult
from mindhold.locks import claim
from mindhold.memories.export import export_stream, partial_of, to_disk
from mindhold.memories.views import View
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
from mindhold.operations import Context, Input, Output, no_progress, operation
from mindhold.ports.backend import Backend, Placements, ReplacedStore, Totals
from mindhold.ports.store import StoreFinding
from mindhold.settings.sections import BackupSettings

BackupProgress = Callable[[str, int, int | None], None]
KEEP_PER_SCOPE = 3  # backups of a scope before it was forgotten
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was written."""

    path: Path
    parts: tuple[BackupPart, ...]
    size: int
    sha256: str
    created: datetime
    encrypted: bool


def totals_of(parts: Sequence[BackupPart]) -> Totals:
    """The totals of all parts. A copy that a store has of another's scopes is counted again."""
    return Totals(**{name: sum(getattr(part.totals, name) for part in parts) for name in COUNTS})


def backup_folder(engine: Engine) -> Path:
    """The backup folder."""
    return engine.settings.home / "backups"


async def back_up(
    engine: Engine,
    name: str | None = None,
    *,
    begin: str = WHOLE,
    encrypt: bool | None = None,
    without: Collection[str] = (),
    progress: BackupProgress = no_progress,
) -> Backup:
    """Back up all data of all stores except those in `without`. `begin` is the beginning of a generated name.

    Raises InvalidInput for the name, Conflict if it is taken, Refused if it is to be encrypted and there is no
    passphrase, StoreFull, StoreReadOnly, and the errors of a store that doesn't answer.
    """
    secret = _chosen_secret(engine, encrypt=encrypt)
    folder = backup_folder(engine)
    paths = generated_paths(folder, begin, engine.clock())
    if name is not None:
        paths = [named_path(folder, name)]
        if await asyncio.to_thread(is_taken, paths[0]):
            raise _name_taken(paths[0])

    async def write(writer: BackupWriter, room: Path) -> None:
        places = await engine.store_registry.places(fresh=True)
        home = engine.store_registry.home
        for mode in dict.fromkeys((home, *(mode for place in places.values() for mode in place.modes()))):
            if mode not in without:
                await _write_store(engine, writer, room, mode=mode, places=places, progress=progress)

    return await _write_file(engine, paths, secret, write, progress=progress)


async def back_up_scope(engine: Engine, scope: str, *, agent: str) -> Backup:
    """Back up what the agent sees of a scope before it is forgotten. Raises StoreFull, StoreReadOnly, Refused."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", scope).strip("-")[:60] or "other"
    slug = f"{words}-{hashlib.sha256(scope.encode()).hexdigest()[:8]}"  # distinguishes names that differ only in special characters
    begin = f"{PART}{slug}-"
    backup = await _back_up_some(engine, begin, Filter(viewer=agent, scopes=(scope,), statuses=ANY_STATUS))
    await asyncio.to_thread(_drop_old_parts, backup_folder(engine), begin)
    return backup


async def back_up_removed(engine: Engine, ids: Sequence[str], *, keep_days: int) -> Backup:
    """Back up what maintenance is about to erase. The files of the newest `keep_days` days are kept.

    Raises StoreFull, StoreReadOnly, Refused.
    """
    backup = await _back_up_some(engine, PRUNED, Filter(viewer="system", ids=tuple(ids), statuses=ANY_STATUS))
    await asyncio.to_thread(_drop_old_days, backup_folder(engine), PRUNED, keep_days)
    return backup


async def _back_up_some(engine: Engine, begin: str, where: Filter) -> Backup:
    """Back up some memories as an export, which can be merged."""

    async def write(writer: BackupWriter, _room: Path) -> None:
        writer.begin(engine.store_registry.home, EXPORT)
        with io.TextIOWrapper(
            io.BufferedWriter(_PartStream(writer)), encoding="utf-8", newline="\n"
        ) as stream:
            export = await export_stream(engine, stream, where=where)
        writer.end(Totals(export.memories, 0, export.versions, export.links, export.scopes))

    paths = generated_paths(backup_folder(engine), begin, engine.clock())
    return await _write_file(engine, paths, _chosen_secret(engine), write, progress=no_progress)


async def backups(engine: Engine) -> list[BackupFile]:
    """The backups, newest first."""
    return await asyncio.to_thread(list_backup_files, backup_folder(engine))


def _chosen_secret(engine: Engine, *, encrypt: bool | None = None) -> str | None:
    """The passphrase to encrypt with; None for no encryption. Raises Refused if there should be one and isn't."""
    rules = engine.settings.backup
    if not (rules.encrypt if encrypt is None else encrypt):
        return None
    secret = rules.read_passphrase()
    if not secret:
        raise Refused(
            "Backups are to be encrypted, and there is no passphrase: none was made.",
            advice="Set MINDHOLD_BACKUP_PASSPHRASE in the environment, give --passphrase-file, or "
            "`mindhold config set backup.encrypt false`.",
        )
    return secret


async def _write_store(
    engine: Engine,
    writer: BackupWriter,
    room: Path,
    *,
    mode: str,
    places: Placements,
    progress: BackupProgress,
) -> None:
    """Write the part of one store. Raises its errors, with its name."""
    try:
        backend = await engine.store_registry.house(mode)
        if backend.raw_form:
            totals = await _write_raw(
                engine, writer, backend, room / f"{mode}.raw", mode=mode, progress=progress
            )
        else:
            totals = await _write_rows(writer, backend, mode=mode, progress=progress)
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


async def _write_raw(
    engine: Engine, writer: BackupWriter, backend: Backend, path: Path, *, mode: str, progress: BackupProgress
) -> Totals:
    step = f"backup: {mode}"
    copying = backend.copy_raw(path, told=lambda done, total: progress(f"{step}, copied", done, total))
    await run_uncancelled(copying)
    async with engine.backend_sites.opened(backend.raw_form, path) as copy:
        totals = await copy.totals()
    size = path.stat().st_size
    writer.begin(mode, backend.raw_form)

    def pack() -> None:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                writer.write(chunk)
                progress(f"{step}, packed", stream.tell() >> 20, size >> 20)

    await run_uncancelled(asyncio.to_thread(pack))
    path.unlink()
    return totals


async def _write_rows(
    writer: BackupWriter, backend: Backend, *, mode: str, progress: BackupProgress
) -> Totals:
    tally, row_count = RowCounter(), 0
    writer.begin(mode, ROWS)

    def pack(batch: Sequence[Any]) -> None:
        tally.add(batch)
        writer.write(encode_rows(batch))

    async for batch in backend.snapshot():
        await run_uncancelled(asyncio.to_thread(pack, batch))
        row_count += len(batch)
        progress(f"backup: {mode}", row_count, None)
    return tally.totals


async def _write_file(
    engine: Engine,
    paths: Sequence[Path],
    secret: str | None,
    write: Callable[[BackupWriter, Path], Any],
    *,
    progress: BackupProgress,
) -> Backup:
    """Write a backup under the first free name and read it back. Raises Conflict if no name is free."""
    now, folder = engine.clock(), paths[0].parent
    with translate_disk_errors(f"The backup {paths[0].name}"), temporary_folder(folder) as room:
        partial = partial_of(paths[0])
        try:
            head = BackupHead(now, engine.store_registry.home)
            async with _open_writer(partial, head, secret) as writer:
                await write(writer, room)
            progress("backup: read back", 0, None)
            return await run_uncancelled(
                asyncio.to_thread(_verify_and_place, partial, paths, writer.parts, secret, now)
            )
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


@asynccontextmanager
async def _open_writer(partial: Path, head: BackupHead, secret: str | None) -> AsyncIterator[BackupWriter]:
    """A writer to a file that is synced to disk at the end."""
    with partial.open("xb") as raw:
        partial.chmod(0o600)
        writer = await run_uncancelled(asyncio.to_thread(BackupWriter, raw, head, secret))
        try:
            yield writer
            await run_uncancelled(asyncio.to_thread(writer.finish))
        finally:
            await run_uncancelled(asyncio.to_thread(writer.close))
        await run_uncancelled(asyncio.to_thread(to_disk, raw))


def _verify_and_place(
    partial: Path, paths: Sequence[Path], parts: tuple[BackupPart, ...], secret: str | None, now: datetime
) -> Backup:
    try:
        parts_read = verify_file(partial, secret)[1]
    except MindholdError as error:
        raise OSError(errno.EIO, f"what was written can't be read back: {error.message}") from error
    if parts_read != parts:
        raise OSError(errno.EIO, "what was read back is not what was written")
    digest, size = checksum(partial), partial.stat().st_size
    path = place_backup_file(partial, paths, now, digest)
    if path is None and len(paths) == 1:
        raise _name_taken(paths[0])
    if path is None:
        raise Conflict("Too many backups were made in this second.", advice="Wait a moment.")
    return Backup(path, parts, size, digest, now, secret is not None)


def _name_taken(path: Path) -> Conflict:
    return Conflict(f"There is a backup {path.name!r} already.", advice="Choose another name.")


def _drop_old_parts(folder: Path, begin: str) -> None:
    """Keep only the newest backups of this scope."""
    files = [file for file in list_backup_files(folder) if is_stamped(file.path.name, begin)]
    for file in files[KEEP_PER_SCOPE:]:
        delete_backup_file(file)


def _drop_old_days(folder: Path, begin: str, keep: int) -> None:
    """Keep the files of the newest days. A run may write several files, so a day is kept or dropped as a whole."""
    files = [file for file in list_backup_files(folder) if is_stamped(file.path.name, begin)]
    days = sorted({_day(file, begin) for file in files}, reverse=True)[:keep]
    for file in files:
        if _day(file, begin) not in days:
            delete_backup_file(file)


def _day(file: BackupFile, begin: str) -> str:
    return file.path.name.removeprefix(begin).partition("T")[0]


class _PartStream(io.RawIOBase):
    """A part of a backup as a writable file."""

    def __init__(self, writer: BackupWriter) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._writer.write(bytes(data))
        return len(data)


class BackupInput(Input):
    """The name of the backup, by default the time. The settings decide about encryption unless `encrypt` is given."""

    name: str | None = Field(
        default=None,
        description="Name of the backup; the time if absent.",
        examples=["before-the-move"],
    )
    encrypt: bool | None = Field(
        default=None,
        description="Encrypt it with the server's passphrase; the setting decides if absent.",
    )
    without: list[str] = Field(default=[], description="Stores to leave out, by storage mode.")


class BackupView(View):
    """One backup. `file` is its name in the backup folder."""

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
    """No input."""


class BackupFileView(View):
    """One file in the backup folder."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    path: str = Field(
        description="Its folder or file.",
        examples=["/home/me/.mindhold/backups/backup-20261116T103000Z.backup"],
    )
    bytes: int = Field(examples=[48213])
    sha256: str | None = Field(
        default=None, examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
    )  # null if its checksum file is missing
    created: datetime = Field(description="When it was created.", examples=["2026-11-16T10:30:00Z"])
    made: str = Field(examples=["daily"])  # the value of a BackupReason
    encrypted: bool = Field(default=False, examples=[False])
    whole: bool = Field(default=True, examples=[True])  # whether it can replace the whole store


class ListBackupsResult(Output):
    """The backups, newest first."""

    backups: list[BackupFileView]


async def _backup(context: Context, request: BackupInput) -> BackupView:
    """Back up everything to a verified file."""
    backup = await back_up(
        context.engine,
        request.name,
        encrypt=request.encrypt,
        without=request.without,
        progress=context.progress,
    )
    return BackupView.fill(
        totals_of(backup.parts),
        file=backup.path.name,
        path=str(backup.path),
        encrypted=backup.encrypted,
        bytes=backup.size,
        sha256=backup.sha256,
        created=backup.created,
    )


BACKUP = operation("backup", _backup, writes=True, owner_only=True)


async def _list_backups(context: Context, _request: ListBackupsInput) -> ListBackupsResult:
    """List the backups."""
    return ListBackupsResult(backups=[_file_view(file) for file in await backups(context.engine)])


LIST_BACKUPS = operation("list_backups", _list_backups, reads=True, owner_only=True)


def _file_view(file: BackupFile) -> BackupFileView:
    whole = file.whole and not file.earlier
    return BackupFileView.fill(
        file, file=file.path.name, path=str(file.path), bytes=file.size, made=file.made.value, whole=whole
    )


class DropBackupInput(Input):
    """Which file of the backup folder."""

    file: str = Field(
        description="A file name from the list of backups.", examples=["backup-20261116T103000Z.backup"]
    )


class DropBackupResult(Output):
    """The backup that was deleted."""

    dropped: BackupFileView


async def _drop(context: Context, request: DropBackupInput) -> DropBackupResult:
    """Delete one backup."""
    file = await asyncio.to_thread(find_backup_file, backup_folder(context.engine), request.file)
    if not await asyncio.to_thread(delete_backup_file, file):
        raise StoreBusy(f"{file.path.name} can't be removed now.", advice="Somebody reads it: try again.")
    return DropBackupResult(dropped=_file_view(file))


DROP_BACKUP = operation("drop_backup", _drop, destroys=True, owner_only=True)

BACKUP_STEP = "backup"
PROBLEM = "backup.problem"  # the cursor with the reason why the last scheduled backup failed
SCHEDULED = (BackupReason.DAILY, BackupReason.WEEKLY)
_BEGIN = {BackupReason.DAILY: DAILY, BackupReason.WEEKLY: WEEKLY}


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup as the schedule sees it. `good`: it is complete and has a checksum."""

    name: str
    day: date  # in the user's time zone
    made: BackupReason
    good: bool = True


def due_backup(existing: Sequence[StoredBackup], today: date, rules: BackupSettings) -> BackupReason | None:
    """The backup to make today; None if today's exists."""
    scheduled = [backup for backup in existing if backup.made in SCHEDULED and backup.good]
    if any(backup.day == today for backup in scheduled):
        return None
    week = today.isocalendar()[:2]
    first_of_week = not any(backup.day.isocalendar()[:2] == week for backup in scheduled)
    return BackupReason.WEEKLY if first_of_week and rules.keep_weekly else BackupReason.DAILY


def outdated_backups(existing: Sequence[StoredBackup], rules: BackupSettings) -> list[str]:
    """The names of scheduled backups to delete, never the last good one.

    The first of a week also counts as a daily one.
    """
    scheduled = sorted(
        (backup for backup in existing if backup.made in SCHEDULED),
        key=lambda backup: (backup.day, backup.name),
        reverse=True,
    )
    good = [backup for backup in scheduled if backup.good]
    weekly = [backup for backup in good if backup.made is BackupReason.WEEKLY]
    kept_names = {backup.name for backup in (*good[: rules.keep_daily], *weekly[: rules.keep_weekly])}
    if not good:
        return []  # damaged ones are better than nothing
    return [backup.name for backup in scheduled if backup.name not in kept_names]


async def run_scheduled_backup(engine: Engine, within: StageLimits) -> StageResult:
    """Make a due backup, then delete outdated ones. A failure is saved for the status and tried again next time."""
    rules = engine.settings.backup
    if not rules.schedule:
        return StageResult(BACKUP_STEP, 0, "switched off (backup.schedule)")
    today = engine.clock().astimezone(engine.zone()).date()
    reason = due_backup(_stored_backups(engine, await backups(engine)), today, rules)
    if within.dry:
        return StageResult(
            BACKUP_STEP, int(reason is not None), f"one would be made: {reason}" if reason else NOTHING
        )
    async with claim(engine, BACKUP_STEP) as acquired:
        if not acquired:
            return StageResult(BACKUP_STEP, 0, "another process is at it")
        # Another process may just have made it.
        reason = due_backup(_stored_backups(engine, await backups(engine)), today, rules)
        detail = await _make(engine, reason) if reason else ""
        deleted = await _delete_outdated(engine, rules)
    details = [detail, f"{deleted} dropped" if deleted else ""]
    changed = int(bool(reason) and not detail.startswith("failed")) + deleted
    detail = "; ".join(filter(None, details)) or NOTHING
    return StageResult(BACKUP_STEP, changed, detail, looked=changed)


def _stored_backups(engine: Engine, files: Sequence[BackupFile]) -> list[StoredBackup]:
    """The files as the schedule sees them."""
    zone = engine.zone()
    return [
        StoredBackup(
            file.path.name,
            file.created.astimezone(zone).date(),
            file.made,
            good=file.whole and file.sha256 is not None and not file.earlier,
        )
        for file in files
    ]


async def _last_problem(engine: Engine) -> str:
    """Why the last scheduled backup failed; empty if it didn't."""
    cursor = await engine.store.cursor(PROBLEM)
    if cursor is None:
        return ""
    problem = json.loads(cursor)
    return f"{problem['why']} ({problem['when'][:16].replace('T', ' ')} UTC)"


async def _make(engine: Engine, reason: BackupReason) -> str:
    try:
        backup = await back_up(engine, begin=_BEGIN[reason])
    except MindholdError as error:
        with suppress(StoreError):  # the caller of a backup sees the error then
            problem = {"when": engine.clock().isoformat(), "why": f"{error.message} {error.advice}".strip()}
            await engine.store.set_cursor(PROBLEM, json.dumps(problem))
        return f"failed: {error.message}"
    await engine.store.set_cursor(PROBLEM, None)
    return f"{reason}: {backup.path.name}"


async def _delete_outdated(engine: Engine, rules: BackupSettings) -> int:
    files = await backups(engine)
    names = set(outdated_backups(_stored_backups(engine, files), rules))
    outdated = [file for file in files if file.path.name in names]
    return sum([await asyncio.to_thread(delete_backup_file, file) for file in outdated])


LONGEST_SECONDS = 1.5  # a status must not wait long


@dataclass(frozen=True, slots=True)
class BackupState:
    """The state of the backups."""

    last: datetime | None  # of complete ones
    file: str
    count: int
    problem: str
    old: tuple[ReplacedStore, ...]  # stores that restores replaced


async def backup_state(engine: Engine) -> BackupState:
    """Collect the state in limited time."""
    files = await backups(engine)
    whole = [file for file in files if file.whole and file.sha256]
    old: list[ReplacedStore] = []
    with suppress(MindholdError, TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            old = await engine.backend_sites.site(engine.store_registry.home).olds()
    return BackupState(
        last=whole[0].created if whole else None,
        file=whole[0].path.name if whole else "",
        count=len(files),
        problem=await _last_problem(engine) or _no_passphrase(engine),
        old=tuple(old),
    )


async def backup_findings(engine: Engine) -> list[StoreFinding]:
    """The findings for the doctor."""
    state = await backup_state(engine)
    detail = (
        f"{state.count} there, the newest whole one is {state.file}" if state.file else "there is none yet"
    )
    advice = "`mindhold backup` makes one now." if state.problem else ""
    findings = [StoreFinding("backups", not state.problem, state.problem or detail, advice)]
    if state.old:
        names = ", ".join(old.location for old in state.old)
        findings.append(
            StoreFinding(
                "old stores", True, f"kept from before a restore: {names}", "`mindhold restore --drop-old`"
            )
        )
    return findings


def offer_restore(folder: Path) -> str:
    """A sentence that names the backup to restore and the command, for a damaged store. Blocks while it reads them."""
    good = next(filter(_is_good, list_backup_files(folder)), None)
    if good is None:
        return ""
    when, name = f"{good.created:%Y-%m-%d %H:%M} UTC", good.path.name
    if good.earlier:  # it needs a store to be merged into
        return f"The last good backup is of {when}: after a repair `mindhold restore {name} --merge` brings back what is missing."
    return f"The last good backup is of {when}: `mindhold restore {name}` puts it in its place, and keeps what is there aside."


def _is_good(file: BackupFile) -> bool:
    """Whether it is complete and has a correct checksum."""
    if file.whole:
        with suppress(Refused, OSError):
            verify_checksum(file)
            return True
    return False


def _no_passphrase(engine: Engine) -> str:
    rules = engine.settings.backup
    if rules.schedule and rules.encrypt and not rules.read_passphrase():
        return (
            "Backups are to be encrypted, and this process knows no passphrase: none is made. Set "
            "MINDHOLD_BACKUP_PASSPHRASE or backup.passphrase_file."
        )
    return ""
