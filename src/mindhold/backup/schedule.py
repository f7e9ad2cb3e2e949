"""Scheduled backups, how long each is kept, and the report on the state of backups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from time import perf_counter

from mindhold.backup.create import BackupProgress, back_up, backups, no_backup_progress
from mindhold.backup.folder import (
    DAILY,
    WEEKLY,
    BackupFile,
    BackupReason,
    delete_backup_file,
    list_backup_files,
    verify_checksum,
)
from mindhold.engine import Engine
from mindhold.lifecycle.stages import NOTHING, StageLimits, StageResult
from mindhold.locks import claim
from mindhold.model.errors import MindholdError, Refused, StoreError
from mindhold.ports.backend import ReplacedStore
from mindhold.ports.store import StoreFinding
from mindhold.settings.sections import BackupSettings

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


async def run_scheduled_backup(
    engine: Engine, within: StageLimits, *, progress: BackupProgress = no_backup_progress
) -> StageResult:
    """Make a due backup, then delete outdated ones. A failure is saved for the status and tried again next time."""
    began = perf_counter()
    rules = engine.settings.backup
    if not rules.schedule:
        return StageResult(BACKUP_STEP, 0, "switched off (backup.schedule)")
    today = engine.clock().astimezone(engine.zone()).date()
    reason = due_backup(stored_backups(engine, await backups(engine)), today, rules)
    if within.dry:
        return StageResult(
            BACKUP_STEP, int(reason is not None), f"one would be made: {reason}" if reason else NOTHING
        )
    async with claim(engine, BACKUP_STEP) as acquired:
        if not acquired:
            return StageResult(BACKUP_STEP, 0, "another process is at it", perf_counter() - began)
        # Another process may just have made it.
        reason = due_backup(stored_backups(engine, await backups(engine)), today, rules)
        detail = await _make(engine, reason, progress) if reason else ""
        deleted = await _delete_outdated(engine, rules)
    details = [detail, f"{deleted} dropped" if deleted else ""]
    changed = int(bool(reason) and not detail.startswith("failed")) + deleted
    return StageResult(
        BACKUP_STEP,
        changed,
        "; ".join(filter(None, details)) or NOTHING,
        perf_counter() - began,
        looked=changed,
    )


def stored_backups(engine: Engine, files: Sequence[BackupFile]) -> list[StoredBackup]:
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


async def last_problem(engine: Engine) -> str:
    """Why the last scheduled backup failed; empty if it didn't."""
    cursor = await engine.store.cursor(PROBLEM)
    if cursor is None:
        return ""
    problem = json.loads(cursor)
    return f"{problem['why']} ({problem['when'][:16].replace('T', ' ')} UTC)"


async def _make(engine: Engine, reason: BackupReason, progress: BackupProgress) -> str:
    try:
        backup = await back_up(engine, begin=_BEGIN[reason], progress=progress)
    except MindholdError as error:
        with suppress(StoreError):  # the caller of a backup sees the error then
            problem = {"when": engine.clock().isoformat(), "why": f"{error.message} {error.advice}".strip()}
            await engine.store.set_cursor(PROBLEM, json.dumps(problem))
        return f"failed: {error.message}"
    await engine.store.set_cursor(PROBLEM, None)
    return f"{reason}: {backup.path.name}"


async def _delete_outdated(engine: Engine, rules: BackupSettings) -> int:
    files = await backups(engine)
    names = set(outdated_backups(stored_backups(engine, files), rules))
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
        problem=await last_problem(engine) or _no_passphrase(engine),
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


def last_good(folder: Path) -> BackupFile | None:
    """The newest complete backup with a correct checksum. Blocks while it reads them."""
    for file in list_backup_files(folder):
        if file.whole:
            with suppress(Refused, OSError):
                verify_checksum(file)
                return file
    return None


def offer_restore(folder: Path) -> str:
    """A sentence that names the backup to restore and the command, for a damaged store. Blocks."""
    good = last_good(folder)
    if good is None:
        return ""
    when, name = f"{good.created:%Y-%m-%d %H:%M} UTC", good.path.name
    if good.earlier:  # it needs a store to be merged into
        return f"The last good backup is of {when}: after a repair `mindhold restore {name} --merge` brings back what is missing."
    return f"The last good backup is of {when}: `mindhold restore {name}` puts it in its place, and keeps what is there aside."


def _no_passphrase(engine: Engine) -> str:
    rules = engine.settings.backup
    if rules.schedule and rules.encrypt and not rules.read_passphrase():
        return (
            "Backups are to be encrypted, and this process knows no passphrase: none is made. Set "
            "MINDHOLD_BACKUP_PASSPHRASE or backup.passphrase_file."
        )
    return ""
