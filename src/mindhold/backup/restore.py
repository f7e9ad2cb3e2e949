"""Restores a backup: merge what is missing into the store, or replace the store with it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.create import BackupProgress, back_up, backup_folder, totals_of
from mindhold.backup.file_format import EXPORT, BackupPart, split_lines, verify_file
from mindhold.backup.folder import (
    SAFETY,
    BackupFile,
    BackupReason,
    find_backup_file,
    temporary_folder,
    translate_disk_errors,
    verify_checksum,
)
from mindhold.backup.reader import PartReader, ReaderContext, StoreLoader, read_parts
from mindhold.backup.verify import differences
from mindhold.engine import Engine
from mindhold.memories.export import export_stream
from mindhold.memories.importer import Imported, import_lines
from mindhold.memories.views import View
from mindhold.model.errors import InvalidInput, Refused
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, no_progress, operation
from mindhold.ports.backend import Backend, BackendSite, BackendSites, ReplacedStore, Totals
from mindhold.ports.store import Capability

CountProgress = Callable[[int], None]


async def _merge_export(engine: Engine, file: BackupFile, progress: CountProgress) -> Imported:
    try:
        with gzip.open(file.path, "rt", encoding="utf-8", newline="\n") as lines:
            return await import_lines(engine, lines, agent="system", progress=progress)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file.path.name} can't be read: {error}.", advice="Choose another backup."
        ) from error


async def _merge_part(engine: Engine, part: PartReader, folder: Path, progress: CountProgress) -> Imported:
    if part.form == EXPORT:
        return await import_lines(engine, split_lines(part.blocks), agent="system", progress=progress)
    path = folder / "export.jsonl"
    async with part.as_store() as store:
        where = await _living_filter(store, part.summary)
        scratch = replace(engine, store=store, ledger=store)
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            await export_stream(scratch, stream, where=where)
    with path.open("r", encoding="utf-8", newline="\n") as lines:
        imported = await import_lines(engine, lines, agent="system", progress=progress)
    path.unlink()
    return imported


async def _living_filter(store: Backend, part: BackupPart) -> Filter:
    """The scopes that lived in that store: a store may have copies of others."""
    everything = Filter(viewer="system", statuses=ANY_STATUS)
    if part.lives:
        return replace(everything, scopes=part.lives)
    if part.elsewhere:
        names = [scope.name for scope in await store.scopes() if scope.name not in part.elsewhere]
        return replace(everything, scopes=tuple(names))
    return everything


def _sum(first: Imported, second: Imported) -> Imported:
    return Imported(
        *(getattr(first, counter.name) + getattr(second, counter.name) for counter in fields(Imported))
    )


class RestoreInput(Input):
    """Which file of the backup folder; by default the newest."""

    file: str | None = Field(
        default=None,
        description="A file name from the list of backups.",
        examples=["backup-20261116T103000Z.backup"],
    )


class RestoreResult(View):
    """What was restored. `skipped` existed already; `safety` is the backup made before."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    memories: int = Field(description="Number of memories.", examples=[1523])
    skipped: int = Field(examples=[1500])
    links: int = Field(description="Number of links.", examples=[310])
    versions: int = Field(description="Number of versions.", examples=[44])
    scopes: int = Field(examples=[5])
    safety: str = Field(examples=["before-restore-20261116T103000Z.backup"])
    note: str = Field(default="", description="A note about it.")


async def _restore(context: Context, request: RestoreInput) -> RestoreResult:
    """Restore what a backup contains and the store lacks.

    A safety backup is made first. Raises NotFound, or Refused for a changed file or without its passphrase.
    """
    engine = context.engine
    file = await asyncio.to_thread(find_backup_file, backup_folder(engine), request.file)
    await asyncio.to_thread(verify_checksum, file)
    secret = engine.settings.backup.read_passphrase()
    if not file.earlier:
        await run_uncancelled(asyncio.to_thread(verify_file, file.path, secret))
    safety = await back_up(engine, begin=SAFETY, progress=context.progress)

    def on_count(count: int) -> None:
        context.progress("restore", count, None)

    if file.earlier:
        imported = await _merge_export(engine, file, on_count)
    else:
        imported = Imported()
        with (
            translate_disk_errors(f"The restore of {file.path.name}"),
            temporary_folder(backup_folder(engine)) as folder,
        ):
            place = ReaderContext(engine.backend_sites, folder, engine.zone(), engine.clock())
            async for part in read_parts(file.path, secret, place):
                imported = _sum(imported, await _merge_part(engine, part, folder, on_count))
    note = "What is here already stays as it is, also if it was forgotten since." if imported.skipped else ""
    return RestoreResult.fill(imported, file=file.path.name, safety=safety.path.name, note=note)


RESTORE = operation("restore", _restore, writes=True, owner_only=True)


Sites = dict[str, BackendSite]


@dataclass(frozen=True, slots=True)
class RestoreContext:
    """What a restore needs. `home` is the mode of the current main store."""

    sites: BackendSites
    home: str
    folder: Path  # of backups
    zone: ZoneInfo
    clock: Callable[[], datetime]
    passphrase: str = field(default="", repr=False)
    cleared_cursors: tuple[str, ...] = ()  # cursors that describe the sidecar of the present store
    progress: BackupProgress = no_progress


class OldView(View):
    """A store that a restore replaced. It is kept until somebody drops it."""

    store: str
    name: str
    location: str
    bytes: int
    since: datetime | None = None

    @classmethod
    def of(cls, mode: str, old: ReplacedStore) -> OldView:
        return cls.fill(old, store=mode, bytes=old.size)


class ReplaceResult(View):
    """What was restored, the replaced stores, and remaining `problems`."""

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
    """The replaced stores that were dropped."""

    dropped: list[OldView]


async def replace_store(work: RestoreContext, file: str | None = None) -> ReplaceResult:
    """Replace all stores with a backup, by default the newest. Nothing changes before the final swap.

    Raises NotFound; Refused for a changed file, for one that holds only a scope, or without its passphrase;
    SchemaTooNew, SettingsError, StoreBusy while another process uses the store, StoreFull, StoreReadOnly.
    """
    backup = await asyncio.to_thread(find_backup_file, work.folder, file)
    _refuse_partial(backup)
    work.progress("restore: verify", 0, None)
    await run_uncancelled(asyncio.to_thread(verify_checksum, backup))
    head, table = await run_uncancelled(asyncio.to_thread(verify_file, backup.path, work.passphrase))
    now = work.clock()
    stamp = f"{now:%Y%m%dT%H%M%S%fZ}"
    prepared: Sites = {}
    try:
        with (
            translate_disk_errors(f"The restore of {backup.path.name}"),
            temporary_folder(work.folder) as folder,
        ):
            context = ReaderContext(work.sites, folder, work.zone, now)
            parts = read_parts(backup.path, work.passphrase, context)
            load = _load_together if head.home != work.home and len(table) > 1 else _load_separately
            notes = await load(work, parts, table, stamp, prepared)
        olds: list[OldView] = []
        for mode in sorted(prepared, key=lambda mode: mode == work.home):  # the main store last
            work.progress(f"restore: {mode}, swap", 0, None)
            old = await run_uncancelled(prepared[mode].swap(stamp, now=now))
            if old is not None:
                olds.append(OldView.of(mode, old))
    finally:
        for site in prepared.values():
            await run_uncancelled(site.discard(stamp))
    return ReplaceResult.fill(
        totals_of(table), file=backup.path.name, created=head.created, old=olds, problems=notes
    )


async def _load_separately(
    work: RestoreContext,
    parts: AsyncIterator[PartReader],
    table: Sequence[BackupPart],
    stamp: str,
    prepared: Sites,
) -> list[str]:
    """Restore each part to its own store. Raises as replace_store() does."""
    notes: list[str] = []
    number = 0
    async for part in parts:
        summary, number = table[number], number + 1
        mode = work.home if len(table) == 1 else part.mode
        site = work.sites.site(mode)
        raw = await part.to_file() if part.form == site.raw_form else None
        await run_uncancelled(site.prepare(stamp, raw))
        prepared[mode] = site
        async with site.beside(stamp) as store:
            if raw is None:
                loader = StoreLoader(store, zone=work.zone, progress=_count_progress(work, mode))
                await loader.fill(part.rows())
            notes += await _check(work, store, mode, summary.totals)
    return notes


async def _load_together(
    work: RestoreContext,
    parts: AsyncIterator[PartReader],
    table: Sequence[BackupPart],
    stamp: str,
    prepared: Sites,
) -> list[str]:
    """Restore all parts to the current main store, which is another than at the time of the backup."""
    site, number = work.sites.site(work.home), 0
    await run_uncancelled(site.prepare(stamp, None))
    prepared[work.home] = site
    async with site.beside(stamp) as store:
        loader = StoreLoader(store, zone=work.zone, progress=_count_progress(work, work.home), together=True)
        async for part in parts:
            summary, number = table[number], number + 1
            await loader.fill(part.rows(), lives=summary.lives or None, elsewhere=summary.elsewhere)
        return await _check(work, store, work.home, None)


def _count_progress(work: RestoreContext, mode: str) -> Callable[[int], None]:
    return lambda count: work.progress(f"restore: {mode}", count, None)


async def _check(work: RestoreContext, store: Backend, mode: str, expected: Totals | None) -> list[str]:
    """Check the totals and repair derived data; return what is still wrong. Raises Refused if data is missing."""
    work.progress(f"restore: {mode}, check", 0, None)
    actual = await store.totals()
    if expected is not None and Capability.VECTORS not in store.capabilities:
        expected = replace(expected, vectors=0)
    if expected is not None and (differing := differences(expected, actual)):
        raise Refused(
            f"What was restored to {mode} is not what was backed up: {differing}. Nothing was replaced.",
            advice="Choose another backup.",
        )
    for name in work.cleared_cursors:
        await store.set_cursor(name, None)
    if all(finding.healthy for finding in await store.check()):
        return []
    await store.repair()
    wrong = [finding for finding in await store.check() if not finding.healthy]
    return [f"{mode}: {finding.name}: {finding.detail}" for finding in wrong]


def _refuse_partial(file: BackupFile) -> None:
    if file.earlier or file.made in (BackupReason.SCOPE, BackupReason.PRUNED):
        raise Refused(
            f"{file.path.name} doesn't hold everything, so it can't take the place of what is there.",
            advice=f"`mindhold restore {file.path.name} --merge` brings back what it holds and is missing now.",
        )
