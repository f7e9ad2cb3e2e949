"""Restores a backup: merge what is missing into the store, or replace the store with it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.create import Backup, BackupProgress, back_up, folder_of, no_backup_progress
from mindhold.backup.file_format import EXPORT, BackupHead, BackupPart, read_through
from mindhold.backup.folder import (
    SAFETY,
    BackupFile,
    BackupReason,
    check_sum,
    find_backup_file,
    on_disk,
    temporary_folder,
)
from mindhold.backup.reader import PartReader, ReaderContext, StoreLoader, parts_of
from mindhold.backup.rows import lines_of
from mindhold.backup.verify import differences
from mindhold.engine import Engine
from mindhold.memories.export import export_stream
from mindhold.memories.importer import Imported, import_lines
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.backend import Backend, BackendSite, BackendSites, ReplacedStore, Totals
from mindhold.ports.store import Capability

Counted = Callable[[int], None]


async def restore(
    engine: Engine,
    file: str | None = None,
    *,
    passphrase: str | None = None,
    progress: Counted = lambda _: None,
    told: BackupProgress = no_backup_progress,
) -> tuple[BackupFile, Imported, Backup]:
    """Of one backup, or of the newest. Everything as it was is put aside first.

    Raises NotFound, Refused for a file that isn't what was written, and without its passphrase.
    """
    chosen = await asyncio.to_thread(find_backup_file, folder_of(engine), file)
    await asyncio.to_thread(check_sum, chosen)
    secret = passphrase or engine.settings.backup.read_passphrase()
    if not chosen.earlier:
        await run_uncancelled(asyncio.to_thread(read_through, chosen.path, secret))
    safety = await back_up(engine, begin=SAFETY, passphrase=passphrase, told=told)
    if chosen.earlier:
        return chosen, await _of_export(engine, chosen, progress), safety
    done = Imported()
    with on_disk(f"The restore of {chosen.path.name}"), temporary_folder(folder_of(engine)) as room:
        opening = ReaderContext(engine.backend_sites, room, engine.zone(), engine.clock())
        async for part in parts_of(chosen.path, secret, opening):
            done = _sum(done, await _of_part(engine, part, room, progress))
    return chosen, done, safety


async def _of_export(engine: Engine, chosen: BackupFile, progress: Counted) -> Imported:
    try:
        with gzip.open(chosen.path, "rt", encoding="utf-8", newline="\n") as lines:
            return await import_lines(engine, lines, agent="system", progress=progress)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{chosen.path.name} can't be read: {error}.", advice="Choose another backup."
        ) from error


async def _of_part(engine: Engine, part: PartReader, room: Path, progress: Counted) -> Imported:
    if part.form == EXPORT:
        return await _imported(engine, lines_of(part.blocks), progress)
    path = room / "export.jsonl"
    async with part.as_store() as store:
        where = await _living(store, part.told)
        beside = replace(engine, store=store, ledger=store)
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            await export_stream(beside, stream, where=where)
    with path.open("r", encoding="utf-8", newline="\n") as lines:
        done = await _imported(engine, lines, progress)
    path.unlink()
    return done


async def _living(store: Backend, part: BackupPart) -> Filter:
    """What lived there: a store may have copies of what lived in another."""
    everything = Filter(viewer="system", statuses=ANY_STATUS)
    if part.lives:
        return replace(everything, scopes=part.lives)
    if part.elsewhere:
        names = [scope.name for scope in await store.scopes() if scope.name not in part.elsewhere]
        return replace(everything, scopes=tuple(names))
    return everything


async def _imported(engine: Engine, lines: Iterable[str], progress: Counted) -> Imported:
    return await import_lines(engine, lines, agent="system", progress=progress)


def _sum(one: Imported, other: Imported) -> Imported:
    return Imported(*(getattr(one, each.name) + getattr(other, each.name) for each in fields(Imported)))


class RestoreInput(Input):
    """Which file of the folder of backups; the newest when none is named."""

    file: str | None = Field(
        default=None,
        description="A file name from the list of backups.",
        examples=["backup-20261116T103000Z.backup"],
    )


class RestoreResult(Output):
    """What came back; `skipped` were there already. `safety` is the backup that was made before."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    memories: int = Field(description="Number of memories.", examples=[1523])
    skipped: int = Field(examples=[1500])
    links: int = Field(description="Number of links.", examples=[310])
    versions: int = Field(description="Number of versions.", examples=[44])
    scopes: int = Field(examples=[5])
    safety: str = Field(examples=["before-restore-20261116T103000Z.backup"])
    note: str = Field(default="", description="A note about it.")


async def _restore(context: Context, request: RestoreInput) -> RestoreResult:
    """Bring back what a backup holds."""
    file, done, safety = await restore(
        context.engine,
        request.file,
        progress=lambda count: context.progress("restore", count, None),
        told=context.progress,
    )
    return RestoreResult(
        file=file.path.name,
        memories=done.memories,
        skipped=done.skipped,
        links=done.links,
        versions=done.versions,
        scopes=done.scopes,
        safety=safety.path.name,
        note="What is here already stays as it is, also if it was forgotten since." if done.skipped else "",
    )


RESTORE = operation("restore", _restore, writes=True, owner_only=True)


Sites = dict[str, BackendSite]


@dataclass(frozen=True, slots=True)
class RestoreContext:
    """What a restore needs. `home` is the mode of the store that is home now."""

    grounds: BackendSites
    home: str
    folder: Path  # of backups
    zone: ZoneInfo
    clock: Callable[[], datetime]
    passphrase: str = field(default="", repr=False)
    forgets: tuple[str, ...] = ()  # cursors that are true only of what stands beside the present store
    told: BackupProgress = no_backup_progress


@dataclass(frozen=True, slots=True)
class StoreReplacement:
    """What was put in place, and what that put aside, by mode."""

    file: BackupFile
    head: BackupHead
    parts: tuple[BackupPart, ...]
    olds: Mapping[str, ReplacedStore]
    notes: tuple[str, ...] = ()


async def replace_store(work: RestoreContext, file: str | None = None) -> StoreReplacement:
    """Put a backup, or the newest, in the place of everything that is there. Up to the swap nothing is changed.

    Raises NotFound, Refused for what isn't what was written, is of one scope only, or without its passphrase;
    SchemaTooNew, SettingsError, StoreBusy while another process uses what is there, StoreFull, StoreReadOnly.
    """
    chosen = await asyncio.to_thread(find_backup_file, work.folder, file)
    _refuse_partial(chosen)
    work.told("restore: verify", 0, None)
    await run_uncancelled(asyncio.to_thread(check_sum, chosen))
    head, table = await run_uncancelled(asyncio.to_thread(read_through, chosen.path, work.passphrase))
    now = work.clock()
    stamp = f"{now:%Y%m%dT%H%M%S%fZ}"
    prepared: Sites = {}
    try:
        with on_disk(f"The restore of {chosen.path.name}"), temporary_folder(work.folder) as room:
            opening = ReaderContext(work.grounds, room, work.zone, now)
            parts = parts_of(chosen.path, work.passphrase, opening)
            filled = _together if head.home != work.home and len(table) > 1 else _apart
            notes = await filled(work, parts, table, stamp, prepared)
        olds: dict[str, ReplacedStore] = {}
        for mode in sorted(prepared, key=lambda mode: mode == work.home):  # home last
            work.told(f"restore: {mode}, swap", 0, None)
            old = await run_uncancelled(prepared[mode].swap(stamp, now=now))
            if old is not None:
                olds[mode] = old
    finally:
        for site in prepared.values():
            await run_uncancelled(site.discard(stamp))
    return StoreReplacement(chosen, head, table, olds, tuple(notes))


async def _apart(
    work: RestoreContext,
    parts: AsyncIterator[PartReader],
    table: Sequence[BackupPart],
    stamp: str,
    prepared: Sites,
) -> list[str]:
    """Each store's part where it was. Raises as replace_store() does."""
    notes: list[str] = []
    number = 0
    async for part in parts:
        told, number = table[number], number + 1
        mode = work.home if len(table) == 1 else part.mode
        site = work.grounds.site(mode)
        raw = await part.to_file() if part.form == site.raw_form else None
        await _begun(site, mode, stamp, prepared, raw)
        async with site.beside(stamp) as store:
            if raw is None:
                await StoreLoader(store, zone=work.zone, told=_telling(work, mode)).fill(part.rows())
            notes += await _checked(work, store, mode, told.totals)
    return notes


async def _together(
    work: RestoreContext,
    parts: AsyncIterator[PartReader],
    table: Sequence[BackupPart],
    stamp: str,
    prepared: Sites,
) -> list[str]:
    """All of them in the store that is home now: another was, when they were backed up."""
    site, number = work.grounds.site(work.home), 0
    await _begun(site, work.home, stamp, prepared)
    async with site.beside(stamp) as store:
        loading = StoreLoader(store, zone=work.zone, told=_telling(work, work.home), together=True)
        async for part in parts:
            told, number = table[number], number + 1
            await loading.fill(part.rows(), lives=told.lives or None, elsewhere=told.elsewhere)
        return await _checked(work, store, work.home, None)


async def _begun(site: BackendSite, mode: str, stamp: str, prepared: Sites, raw: Path | None = None) -> None:
    await run_uncancelled(site.prepare(stamp, raw))
    prepared[mode] = site


def _telling(work: RestoreContext, mode: str) -> Callable[[int], None]:
    return lambda done: work.told(f"restore: {mode}", done, None)


async def _checked(work: RestoreContext, store: Backend, mode: str, wanted: Totals | None) -> list[str]:
    """What is still wrong after what is derived was rebuilt. Raises Refused where something is missing."""
    work.told(f"restore: {mode}, check", 0, None)
    found = await store.totals()
    if wanted is not None and Capability.VECTORS not in store.capabilities:
        wanted = replace(wanted, vectors=0)
    if wanted is not None and (differing := differences(wanted, found)):
        raise Refused(
            f"What was restored to {mode} is not what was backed up: {differing}. Nothing was replaced.",
            advice="Choose another backup.",
        )
    for name in work.forgets:
        await store.set_cursor(name, None)
    if all(finding.healthy for finding in await store.check()):
        return []
    await store.repair()
    wrong = [finding for finding in await store.check() if not finding.healthy]
    return [f"{mode}: {finding.name}: {finding.detail}" for finding in wrong]


def _refuse_partial(chosen: BackupFile) -> None:
    if chosen.earlier or chosen.made in (BackupReason.SCOPE, BackupReason.PRUNED):
        raise Refused(
            f"{chosen.path.name} doesn't hold everything, so it can't take the place of what is there.",
            advice=f"`mindhold restore {chosen.path.name} --merge` brings back what it holds and is missing now.",
        )


class OldView(Output):
    """What a restore has put aside. It is kept until somebody drops it."""

    store: str
    name: str
    location: str
    bytes: int
    since: datetime | None = None


class ReplaceResult(Output):
    """What was put in place of what was there; `problems` are what is wrong with it even so."""

    file: str
    created: datetime
    memories: int
    vectors: int
    links: int
    versions: int
    scopes: int
    entries: int
    jobs: int
    old: list[OldView]
    problems: list[str]


class DropOldResult(Output):
    """What went."""

    dropped: list[OldView]
