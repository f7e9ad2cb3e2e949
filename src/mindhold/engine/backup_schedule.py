"""Backups by themselves: one a day, the first of a week kept longer, and the oldest dropped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from time import perf_counter

from mindhold.engine.backup import Told, back_up, backups, silent
from mindhold.engine.backup_shelf import DAILY, WEEKLY, BackupFile, Made, dropped
from mindhold.engine.claims import claim
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.model.backup import BackupRules
from mindhold.model.errors import MindholdError, StoreError

NAME = "backup"
PROBLEM = "backup.problem"  # the cursor: why the last one that was due could not be made
SCHEDULED = (Made.DAILY, Made.WEEKLY)
_BEGIN = {Made.DAILY: DAILY, Made.WEEKLY: WEEKLY}


@dataclass(frozen=True, slots=True)
class Shelved:
    """A backup as the rule sees it. `good`: everything is in it, and its sum is beside it."""

    name: str
    day: date  # where the person lives
    made: Made
    good: bool = True


def due(there: Sequence[Shelved], today: date, rules: BackupRules) -> Made | None:
    """What is to be made today; None where one of today is there already."""
    own = [one for one in there if one.made in SCHEDULED and one.good]
    if any(one.day == today for one in own):
        return None
    week = today.isocalendar()[:2]
    first = not any(one.day.isocalendar()[:2] == week for one in own)
    return Made.WEEKLY if first and rules.keep_weekly else Made.DAILY


def outdated(there: Sequence[Shelved], rules: BackupRules) -> list[str]:
    """Names of what may go: of those that were made by themselves alone, and never the last good one that there is.

    The first of a week stands for its day as well.
    """
    own = sorted(
        (one for one in there if one.made in SCHEDULED), key=lambda one: (one.day, one.name), reverse=True
    )
    good = [one for one in own if one.good]
    weekly = [one for one in good if one.made is Made.WEEKLY]
    kept = {one.name for one in (*good[: rules.keep_daily], *weekly[: rules.keep_weekly])}
    if not good:
        return []  # what is left of them is better than nothing
    return [one.name for one in own if one.name not in kept]


async def run(engine: Engine, within: Bounds, *, told: Told = silent) -> Stage:
    """Make what is due, then drop what is outdated. What fails is noted, and told by status; it is tried again next time."""
    begun = perf_counter()
    rules = engine.policy.backup
    if not rules.schedule:
        return Stage(NAME, 0, "switched off (backup.schedule)")
    today = engine.clock().astimezone(engine.zone()).date()
    made = due(shelved(engine, await backups(engine)), today, rules)
    if within.dry:
        return Stage(NAME, int(made is not None), f"one would be made: {made}" if made else NOTHING)
    async with claim(engine, NAME) as mine:
        if not mine:
            return Stage(NAME, 0, "another process is at it", perf_counter() - begun)
        made = due(shelved(engine, await backups(engine)), today, rules)  # another may just have been at it
        detail = await _made(engine, made, told) if made else ""
        gone = await _dropped(engine, rules)
    words = [detail, f"{gone} dropped" if gone else ""]
    done = int(bool(made) and not detail.startswith("failed")) + gone
    return Stage(NAME, done, "; ".join(filter(None, words)) or NOTHING, perf_counter() - begun, looked=done)


def shelved(engine: Engine, files: Sequence[BackupFile]) -> list[Shelved]:
    """As the rule sees them."""
    zone = engine.zone()
    return [
        Shelved(
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


async def _made(engine: Engine, made: Made, told: Told) -> str:
    try:
        done = await back_up(engine, begin=_BEGIN[made], told=told)
    except MindholdError as error:
        with suppress(StoreError):  # then it is told by who asks for a backup
            noted = {"when": engine.clock().isoformat(), "why": f"{error.message} {error.advice}".strip()}
            await engine.store.set_cursor(PROBLEM, json.dumps(noted))
        return f"failed: {error.message}"
    await engine.store.set_cursor(PROBLEM, None)
    return f"{made}: {done.path.name}"


async def _dropped(engine: Engine, rules: BackupRules) -> int:
    files = await backups(engine)
    names = set(outdated(shelved(engine, files), rules))
    old = [one for one in files if one.path.name in names]
    return sum([await asyncio.to_thread(dropped, one) for one in old])
