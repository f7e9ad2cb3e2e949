"""A database that can't be opened: what is wrong with it, what can be saved of it, and which backup can take its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mindhold.engine.backup_report import offer
from mindhold.housing import houses_of
from mindhold.housing_redis import address_of
from mindhold.model.errors import Refused, SettingsError, StoreDamaged, StoreError
from mindhold.ports.houses import LOCAL
from mindhold.ports.store import Finding
from mindhold.settings import LoadedSettings
from mindhold.settings.declared import Settings


@contextmanager
def told_what_to_restore(home: Path) -> Iterator[None]:
    """Who finds the database damaged is told of the last good backup, too."""
    try:
        yield
    except StoreDamaged as error:
        words = offer(home / "backups")
        if not words:
            raise
        raise StoreDamaged(error.message, advice=f"{error.advice} {words}".strip()) from error


async def diagnose_store(loaded: LoadedSettings) -> list[Finding]:
    """What can be said of a database that can't be opened, and of what stands beside it."""
    settings = loaded.settings
    beside = [await _tried_beside(settings)] if settings.redis.enabled else []
    if settings.store.mode != LOCAL:
        return [await _tried(settings), *beside]
    from mindhold.stores.sqlite.salvage import diagnose

    found = await asyncio.to_thread(diagnose, settings.database)
    return [*found, *beside, *await asyncio.to_thread(_backup_finding, settings, found)]


def _backup_finding(settings: Settings, found: Sequence[Finding]) -> list[Finding]:
    """What could take its place, where it is damaged."""
    if all(finding.healthy for finding in found):
        return []
    words = offer(settings.home / "backups")
    return [Finding("backup", bool(words), words or "there is none to restore")]


async def salvage_store(loaded: LoadedSettings) -> list[str]:
    """Put what can be read of a damaged database in its place; the damaged file is kept aside. Says what it did.

    Raises StoreBusy while another process uses it, StoreDamaged when nothing can be read, SchemaTooNew, Refused for a
    server's database.
    """
    if loaded.settings.store.mode != LOCAL:
        raise Refused(
            f"The files of {loaded.settings.store.mode} are its server's.", advice="Restore a backup there."
        )
    from mindhold.stores.sqlite.salvage import rescue

    path = loaded.settings.database
    with told_what_to_restore(loaded.settings.home):
        saved = await asyncio.to_thread(rescue, path, now=_utc_now())
    return [f"saved {saved.memories} memories into {path}", f"kept the damaged file as {saved.aside}"]


async def _tried(settings: Settings) -> Finding:
    """A server says more when it is asked again than any look from outside."""
    houses, mode = houses_of(settings, clock=_utc_now), settings.store.mode
    try:
        await houses.house(mode)
    except (StoreError, SettingsError) as error:
        return Finding(mode, False, f"{error.code}: {error.message}", error.advice)
    finally:
        await houses.close()
    return Finding(mode, True, "it answers now")


async def _tried_beside(settings: Settings) -> Finding:
    from mindhold.stores.redis.line import Line  # for those who have one

    try:
        line = Line(address_of(settings.redis))
        await line.open()
        await line.close()
    except (StoreError, SettingsError) as error:
        return Finding("redis", False, f"{error.code}: {error.message}", error.advice)
    if line.fault is not None:
        return Finding("redis", False, f"{line.fault.code}: {line.fault.message}", line.fault.advice)
    return Finding("redis", True, "it answers")


def _utc_now() -> datetime:
    return datetime.now(UTC)
