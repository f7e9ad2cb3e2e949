"""Scheduled jobs. A due entry is queued once, whichever process sees it first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mindhold.engine import Engine
from mindhold.history.vectors import EMBED_HISTORY_JOB, history_model, own_job
from mindhold.jobs.handlers import ARCHIVE_HISTORY, TIDY
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB
from mindhold.lifecycle.maintenance import MAINTENANCE_JOB
from mindhold.memories.embedding import EMBED
from mindhold.memories.evaluation import EVALUATE
from mindhold.model.job import Job
from mindhold.model.policies import is_time, next_run
from mindhold.ports.store import Enqueue


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job by name, and how often it runs."""

    name: str
    every: timedelta


EMBED_EVERY = timedelta(hours=6)
HOURS_PER_DAY = 24
# New memories are evaluated soon; what came in another way, as by an import, within a day.
ALWAYS: Sequence[ScheduledJob] = (
    ScheduledJob(EMBED, timedelta(hours=1)),
    ScheduledJob(EVALUATE, timedelta(days=1)),
    ScheduledJob(TIDY, timedelta(days=1)),
)


def schedule_of(engine: Engine) -> Sequence[ScheduledJob]:
    """The schedule of the settings, without the nightly maintenance, which runs at an hour."""
    hours, nightly = engine.settings.life.consolidate_hours, engine.settings.maintenance.schedule
    separate = 0 < hours < HOURS_PER_DAY if nightly else hours > 0
    consolidation = (ScheduledJob(CONSOLIDATION_JOB, timedelta(hours=hours)),) if separate else ()
    return (*ALWAYS, *consolidation, *_history_schedule(engine))


def _history_schedule(engine: Engine) -> Sequence[ScheduledJob]:
    """Embedding is queued when conversations are indexed; the schedule catches what was missed."""
    settings, jobs = engine.settings.history, []
    if history_model(engine) is not None:
        jobs.append(ScheduledJob(own_job(engine, EMBED_HISTORY_JOB), EMBED_EVERY))
    if settings.enabled and settings.archive:
        jobs.append(ScheduledJob(own_job(engine, ARCHIVE_HISTORY), timedelta(hours=settings.archive_hours)))
    return jobs


async def enqueue_due(
    engine: Engine, entries: Sequence[ScheduledJob] | None = None, *, besides: Collection[str] = ()
) -> list[str]:
    """Queue due jobs and return their names. Two callers at once never queue one twice."""
    now = engine.clock()
    queued: list[str] = []
    for entry in schedule_of(engine) if entries is None else entries:
        if entry.name in besides:
            continue
        last = await engine.store.cursor(_cursor(entry.name))
        if last is not None and datetime.fromisoformat(last) + entry.every > now:
            continue
        if await _queue(engine, entry.name, last=last, now=now):
            queued.append(entry.name)
    if entries is None and MAINTENANCE_JOB not in besides and await _queue_nightly(engine, now=now):
        queued.append(MAINTENANCE_JOB)
    return queued


async def next_runs(engine: Engine, entries: Sequence[ScheduledJob] | None = None) -> dict[str, datetime]:
    """When each job is due next."""
    runs: dict[str, datetime] = {}
    for entry in schedule_of(engine) if entries is None else entries:
        last = await engine.store.cursor(_cursor(entry.name))
        runs[entry.name] = datetime.fromisoformat(last) + entry.every if last else engine.clock()
    if entries is None and engine.settings.maintenance.schedule:
        last = await engine.store.cursor(_cursor(MAINTENANCE_JOB))
        runs[MAINTENANCE_JOB] = _next_night(engine, last or engine.clock().isoformat())
    return runs


async def _queue_nightly(engine: Engine, *, now: datetime) -> bool:
    """Queue the nightly run once it is quiet, or late. A new store starts with the next night."""
    rules, cursor = engine.settings.maintenance, _cursor(MAINTENANCE_JOB)
    if not rules.schedule:
        return False
    idle = engine.idle_tracker.idle_for(now, rules.idle)  # tracks idleness from the first call on
    last = await engine.store.cursor(cursor)
    if last is None:
        await engine.store.swap_cursor(cursor, old=None, new=now.isoformat())
        return False
    if not is_time(_next_night(engine, last), now, quiet=idle):
        return False
    return await _queue(engine, MAINTENANCE_JOB, last=last, now=now)


def _next_night(engine: Engine, last: str) -> datetime:
    return next_run(
        datetime.fromisoformat(last), engine.clock(), engine.zone(), engine.settings.maintenance.time_of_day
    )


async def _queue(engine: Engine, name: str, *, last: str | None, now: datetime) -> bool:
    if not await engine.store.swap_cursor(_cursor(name), old=last, new=now.isoformat()):
        return False
    await engine.store.apply([Enqueue(Job(id=engine.new_id(), name=name, created=now, due=now, key=name))])
    return True


def _cursor(name: str) -> str:
    return f"schedule:{name}"
