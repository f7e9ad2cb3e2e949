"""Bringing back what a backup holds and isn't there any more; what is there stays as it is now."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path

from mindhold.engine.backup import Backup, Told, back_up, folder_of, silent
from mindhold.engine.backup_file import EXPORT, Part, read_through
from mindhold.engine.backup_read import Opening, PartReading, parts_of
from mindhold.engine.backup_rows import lines_of
from mindhold.engine.backup_shelf import SAFETY, BackupFile, check_sum, named, on_disk, workshop
from mindhold.engine.core import Engine, unbroken
from mindhold.engine.imports import Imported, import_lines
from mindhold.engine.transfer import export_stream
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.ports.snapshot import House

Counted = Callable[[int], None]


async def restore(
    engine: Engine,
    file: str | None = None,
    *,
    passphrase: str | None = None,
    progress: Counted = lambda _: None,
    told: Told = silent,
) -> tuple[BackupFile, Imported, Backup]:
    """Of one backup, or of the newest. Everything as it was is put aside first.

    Raises NotFound, Refused for a file that isn't what was written, and without its passphrase.
    """
    chosen = await asyncio.to_thread(named, folder_of(engine), file)
    await asyncio.to_thread(check_sum, chosen)
    secret = passphrase or engine.policy.backup.passphrase
    if not chosen.earlier:
        await unbroken(asyncio.to_thread(read_through, chosen.path, secret))
    safety = await back_up(engine, begin=SAFETY, passphrase=passphrase, told=told)
    if chosen.earlier:
        return chosen, await _of_export(engine, chosen, progress), safety
    done = Imported()
    with on_disk(f"The restore of {chosen.path.name}"), workshop(folder_of(engine)) as room:
        opening = Opening(engine.grounds, room, engine.zone(), engine.clock())
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


async def _of_part(engine: Engine, part: PartReading, room: Path, progress: Counted) -> Imported:
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


async def _living(store: House, part: Part) -> Filter:
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
