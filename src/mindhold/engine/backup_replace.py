"""Restoring: what a backup holds is put into new places, proved there, and swapped with what is there now.

Nothing need be open for it, nor sound: it is what a damaged database is replaced by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from mindhold.engine.backup import Told, silent
from mindhold.engine.backup_file import Head, Part, read_through
from mindhold.engine.backup_load import Loading
from mindhold.engine.backup_read import Opening, PartReading, parts_of
from mindhold.engine.backup_shelf import BackupFile, Made, check_sum, named, on_disk, workshop
from mindhold.engine.backup_verify import differences
from mindhold.engine.core import unbroken
from mindhold.model.errors import Refused
from mindhold.ports.snapshot import Grounds, House, Old, Site, Totals
from mindhold.ports.store import Capability

Sites = dict[str, Site]


@dataclass(frozen=True, slots=True)
class Restoring:
    """What a restore needs. `home` is the mode of the store that is home now."""

    grounds: Grounds
    home: str
    folder: Path  # of backups
    zone: ZoneInfo
    clock: Callable[[], datetime]
    passphrase: str = field(default="", repr=False)
    forgets: tuple[str, ...] = ()  # cursors that are true only of what stands beside the present store
    told: Told = silent


@dataclass(frozen=True, slots=True)
class Replaced:
    """What was put in place, and what that put aside, by mode."""

    file: BackupFile
    head: Head
    parts: tuple[Part, ...]
    olds: Mapping[str, Old]
    notes: tuple[str, ...] = ()


async def replace_store(work: Restoring, file: str | None = None) -> Replaced:
    """Put a backup, or the newest, in the place of everything that is there. Up to the swap nothing is changed.

    Raises NotFound, Refused for what isn't what was written, is of one scope only, or without its passphrase;
    SchemaTooNew, SettingsError, StoreBusy while another process uses what is there, StoreFull, StoreReadOnly.
    """
    chosen = await asyncio.to_thread(named, work.folder, file)
    _refuse_partial(chosen)
    work.told("restore: verify", 0, None)
    await unbroken(asyncio.to_thread(check_sum, chosen))
    head, table = await unbroken(asyncio.to_thread(read_through, chosen.path, work.passphrase))
    now = work.clock()
    stamp = f"{now:%Y%m%dT%H%M%S%fZ}"
    prepared: Sites = {}
    try:
        with on_disk(f"The restore of {chosen.path.name}"), workshop(work.folder) as room:
            opening = Opening(work.grounds, room, work.zone, now)
            parts = parts_of(chosen.path, work.passphrase, opening)
            filled = _together if head.home != work.home and len(table) > 1 else _apart
            notes = await filled(work, parts, table, stamp, prepared)
        olds: dict[str, Old] = {}
        for mode in sorted(prepared, key=lambda mode: mode == work.home):  # home last
            work.told(f"restore: {mode}, swap", 0, None)
            old = await unbroken(prepared[mode].swap(stamp, now=now))
            if old is not None:
                olds[mode] = old
    finally:
        for site in prepared.values():
            await unbroken(site.discard(stamp))
    return Replaced(chosen, head, table, olds, tuple(notes))


async def _apart(
    work: Restoring, parts: AsyncIterator[PartReading], table: Sequence[Part], stamp: str, prepared: Sites
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
                await Loading(store, zone=work.zone, told=_telling(work, mode)).fill(part.rows())
            notes += await _checked(work, store, mode, told.totals)
    return notes


async def _together(
    work: Restoring, parts: AsyncIterator[PartReading], table: Sequence[Part], stamp: str, prepared: Sites
) -> list[str]:
    """All of them in the store that is home now: another was, when they were backed up."""
    site, number = work.grounds.site(work.home), 0
    await _begun(site, work.home, stamp, prepared)
    async with site.beside(stamp) as store:
        loading = Loading(store, zone=work.zone, told=_telling(work, work.home), together=True)
        async for part in parts:
            told, number = table[number], number + 1
            await loading.fill(part.rows(), lives=told.lives or None, elsewhere=told.elsewhere)
        return await _checked(work, store, work.home, None)


async def _begun(site: Site, mode: str, stamp: str, prepared: Sites, raw: Path | None = None) -> None:
    await unbroken(site.prepare(stamp, raw))
    prepared[mode] = site


def _telling(work: Restoring, mode: str) -> Callable[[int], None]:
    return lambda done: work.told(f"restore: {mode}", done, None)


async def _checked(work: Restoring, store: House, mode: str, wanted: Totals | None) -> list[str]:
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
    if chosen.earlier or chosen.made in (Made.SCOPE, Made.PRUNED):
        raise Refused(
            f"{chosen.path.name} doesn't hold everything, so it can't take the place of what is there.",
            advice=f"`mindhold restore {chosen.path.name} --merge` brings back what it holds and is missing now.",
        )
