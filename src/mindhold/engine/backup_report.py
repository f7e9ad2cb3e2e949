"""What is told of backups: the last one, what went wrong, what restores left aside, and which to go back to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mindhold.engine.backup import backups
from mindhold.engine.backup_schedule import last_problem
from mindhold.engine.backup_shelf import BackupFile, check_sum, listed
from mindhold.engine.core import Engine
from mindhold.model.errors import MindholdError, Refused
from mindhold.ports.snapshot import Old
from mindhold.ports.store import Finding

LONGEST_SECONDS = 1.5  # who asks how things are won't wait long


@dataclass(frozen=True, slots=True)
class BackupState:
    """How things are with them."""

    last: datetime | None  # of those that hold everything
    file: str
    count: int
    problem: str
    old: tuple[Old, ...]  # what restores have put aside


async def backup_state(engine: Engine) -> BackupState:
    """In bounded time."""
    files = await backups(engine)
    whole = [one for one in files if one.whole and one.sha256]
    old: list[Old] = []
    with suppress(MindholdError, TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS):
            old = await engine.grounds.site(engine.houses.home).olds()
    return BackupState(
        last=whole[0].created if whole else None,
        file=whole[0].path.name if whole else "",
        count=len(files),
        problem=await last_problem(engine) or _no_passphrase(engine),
        old=tuple(old),
    )


async def backup_findings(engine: Engine) -> list[Finding]:
    """For the doctor."""
    state = await backup_state(engine)
    told = f"{state.count} there, the newest whole one is {state.file}" if state.file else "there is none yet"
    advice = "`mindhold backup` makes one now." if state.problem else ""
    findings = [Finding("backups", not state.problem, state.problem or told, advice)]
    if state.old:
        names = ", ".join(old.location for old in state.old)
        findings.append(
            Finding(
                "old stores", True, f"kept from before a restore: {names}", "`mindhold restore --drop-old`"
            )
        )
    return findings


def last_good(folder: Path) -> BackupFile | None:
    """The newest whole one that is what was written. Reads them; blocks."""
    for one in listed(folder):
        if one.whole:
            with suppress(Refused, OSError):
                check_sum(one)
                return one
    return None


def offer(folder: Path) -> str:
    """Which backup takes the place of a store that can't be used, and by which command; words. Blocks."""
    good = last_good(folder)
    if good is None:
        return ""
    when, name = f"{good.created:%Y-%m-%d %H:%M} UTC", good.path.name
    if good.earlier:  # it needs a store to be merged into
        return f"The last good backup is of {when}: after a repair `mindhold restore {name} --merge` brings back what is missing."
    return f"The last good backup is of {when}: `mindhold restore {name}` puts it in its place, and keeps what is there aside."


def _no_passphrase(engine: Engine) -> str:
    rules = engine.policy.backup
    if rules.schedule and rules.encrypt and not rules.passphrase:
        return (
            "Backups are to be encrypted, and this process knows no passphrase: none is made. Set "
            "MINDHOLD_BACKUP_PASSPHRASE or backup.passphrase_file."
        )
    return ""
