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
    check_sum,
    delete_backup_file,
    list_backup_files,
)
from mindhold.engine import Engine
from mindhold.lifecycle.stages import NOTHING, StageLimits, StageResult
from mindhold.locks import claim
from mindhold.model.errors import MindholdError, Refused, StoreError
from mindhold.ports.backend import ReplacedStore
from mindhold.ports.store import StoreFinding
from mindhold.settings.sections import BackupSettings

BACKUP_STEP = "backup"
PROBLEM = "backup.problem"  # the cursor: why the last one that was due could not be made
SCHEDULED = (BackupReason.DAILY, BackupReason.WEEKLY)
_BEGIN = {BackupReason.DAILY: DAILY, BackupReason.WEEKLY: WEEKLY}


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup as the rule sees it. `good`: everything is in it, and its sum is beside it."""

    name: str
    day: date  # where the person lives
    made: BackupReason
    good: bool = True


def due_backup(there: Sequence[StoredBackup], today: date, rules: BackupSettings) -> BackupReason | None:
    """What is to be made today; None where one of today is there already."""
    own = [one for one in there if one.made in SCHEDULED and one.good]
    if any(one.day == today for one in own):
        return None
    week = today.isocalendar()[:2]
    first = not any(one.day.isocalendar()[:2] == week for one in own)
    return BackupReason.WEEKLY if first and rules.keep_weekly else BackupReason.DAILY


def outdated_backups(there: Sequence[StoredBackup], rules: BackupSettings) -> list[str]:
    """Names of what may go: of those that were made by themselves alone, and never the last good one that there is.

    The first of a week stands for its day as well.
    """
    own = sorted(
        (one for one in there if one.made in SCHEDULED), key=lambda one: (one.day, one.name), reverse=True
    )
    good = [one for one in own if one.good]
    weekly = [one for one in good if one.made is BackupReason.WEEKLY]
    kept = {one.name for one in (*good[: rules.keep_daily], *weekly[: rules.keep_weekly])}
    if not good:
        return []  # what is left of them is better than nothing
    return [one.name for one in own if one.name not in kept]


async def run_scheduled_backup(
    engine: Engine, within: StageLimits, *, told: BackupProgress = no_backup_progress
) -> StageResult:
    """Make what is due, then drop what is outdated. What fails is noted, and told by status; it is tried again next time."""
    begun = perf_counter()
    rules = engine.settings.backup
    if not rules.schedule:
        return StageResult(BACKUP_STEP, 0, "switched off (backup.schedule)")
    today = engine.clock().astimezone(engine.zone()).date()
    made = due_backup(stored_backups(engine, await backups(engine)), today, rules)
    if within.dry:
        return StageResult(
            BACKUP_STEP, int(made is not None), f"one would be made: {made}" if made else NOTHING
        )
    async with claim(engine, BACKUP_STEP) as mine:
        if not mine:
            return StageResult(BACKUP_STEP, 0, "another process is at it", perf_counter() - begun)
        made = due_backup(
            stored_backups(engine, await backups(engine)), today, rules
        )  # another may just have been at it
        detail = await _made(engine, made, told) if made else ""
        gone = await _dropped(engine, rules)
    words = [detail, f"{gone} dropped" if gone else ""]
    done = int(bool(made) and not detail.startswith("failed")) + gone
    return StageResult(
        BACKUP_STEP, done, "; ".join(filter(None, words)) or NOTHING, perf_counter() - begun, looked=done
    )


def stored_backups(engine: Engine, files: Sequence[BackupFile]) -> list[StoredBackup]:
    """As the rule sees them."""
    zone = engine.zone()
    return [
        StoredBackup(
            one.path.name,
            one.created.astimezone(zone).date(),
            one.made,
            good=one.whole and one.sha256 is not None and not one.earlier,
        )
        for one in files
    ]


async def last_problem(engine: Engine) -> str:
    """Why the last one that was due could not be made; empty where it could."""
    noted = await engine.store.cursor(PROBLEM)
    if noted is None:
        return ""
    said = json.loads(noted)
    return f"{said['why']} ({said['when'][:16].replace('T', ' ')} UTC)"


async def _made(engine: Engine, made: BackupReason, told: BackupProgress) -> str:
    try:
        done = await back_up(engine, begin=_BEGIN[made], told=told)
    except MindholdError as error:
        with suppress(StoreError):  # then it is told by who asks for a backup
            noted = {"when": engine.clock().isoformat(), "why": f"{error.message} {error.advice}".strip()}
            await engine.store.set_cursor(PROBLEM, json.dumps(noted))
        return f"failed: {error.message}"
    await engine.store.set_cursor(PROBLEM, None)
    return f"{made}: {done.path.name}"


async def _dropped(engine: Engine, rules: BackupSettings) -> int:
    files = await backups(engine)
    names = set(outdated_backups(stored_backups(engine, files), rules))
    old = [one for one in files if one.path.name in names]
    return sum([await asyncio.to_thread(delete_backup_file, one) for one in old])


LONGEST_SECONDS = 1.5  # who asks how things are won't wait long


@dataclass(frozen=True, slots=True)
class BackupState:
    """How things are with them."""

    last: datetime | None  # of those that hold everything
    file: str
    count: int
    problem: str
    old: tuple[ReplacedStore, ...]  # what restores have put aside


async def backup_state(engine: Engine) -> BackupState:
    """In bounded time."""
    files = await backups(engine)
    whole = [one for one in files if one.whole and one.sha256]
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
    """For the doctor."""
    state = await backup_state(engine)
    told = f"{state.count} there, the newest whole one is {state.file}" if state.file else "there is none yet"
    advice = "`mindhold backup` makes one now." if state.problem else ""
    findings = [StoreFinding("backups", not state.problem, state.problem or told, advice)]
    if state.old:
        names = ", ".join(old.location for old in state.old)
        findings.append(
            StoreFinding(
                "old stores", True, f"kept from before a restore: {names}", "`mindhold restore --drop-old`"
            )
        )
    return findings


def last_good(folder: Path) -> BackupFile | None:
    """The newest whole one that is what was written. Reads them; blocks."""
    for one in list_backup_files(folder):
        if one.whole:
            with suppress(Refused, OSError):
                check_sum(one)
                return one
    return None


def offer_restore(folder: Path) -> str:
    """Which backup takes the place of a store that can't be used, and by which command; words. Blocks."""
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
