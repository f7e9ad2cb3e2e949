"""Runs queued jobs under a lease (retried with backoff, dead after too many attempts) and queues scheduled ones once, whichever process sees them first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mindhold.aio import cancel_tasks
from mindhold.engine import Engine
from mindhold.history.passages import EMBED_HISTORY_JOB, history_model, own_job
from mindhold.jobs.handlers import ARCHIVE_HISTORY, TIDY
from mindhold.jobs.progress import Handler, Unfinished
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB
from mindhold.lifecycle.maintenance import MAINTENANCE_JOB
from mindhold.memories.embedding import EMBED
from mindhold.memories.evaluation import EVALUATE
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.job import Job, JobState, backoff_seconds
from mindhold.model.policies import is_time, next_run
from mindhold.ports.store import Enqueue

LEASE = timedelta(seconds=60)
RENEW_EVERY = 20.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job that was run, in its new state."""

    job: Job
    kept: bool  # False if the lease was lost to another runner


class Runner:
    """Runs due jobs one at a time. Several runners, in any processes, never run the same job at once."""

    def __init__(self, engine: Engine, handlers: Mapping[str, Handler], *, owner: str) -> None:
        self._engine = engine
        self._handlers = handlers
        self._owner = owner

    async def run_next(self, *, names: Sequence[str] = ()) -> JobRun | None:
        """Run the most overdue job; None if nothing is due."""
        job = await self._engine.store.lease(
            self._owner, now=self._engine.clock(), duration=LEASE, names=names or tuple(self._handlers)
        )
        if job is None:
            return None
        work = asyncio.create_task(self._run(job))
        renewal = asyncio.create_task(self._renew_lease(job, work))
        try:
            outcome = await work
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not renewal.done() or (caller is not None and caller.cancelling()):
                raise
            return JobRun(job, kept=False)
        finally:
            await cancel_tasks(renewal)
        return JobRun(outcome, await self._engine.store.finish(outcome, self._owner))

    async def run_all(
        self,
        *,
        most: int = 10_000,
        names: Sequence[str] = (),
        on_progress: Callable[[int], None] = lambda _: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[JobRun]:
        """Run jobs until nothing is due, `most` have run, or it is `enough` after one; reports the count after each."""
        runs: list[JobRun] = []
        while (
            len(runs) < most
            and not (runs and enough())
            and (run := await self.run_next(names=names)) is not None
        ):
            runs.append(run)
            on_progress(len(runs))
        return runs

    async def _run(self, job: Job) -> Job:
        try:
            result = await self._handlers[job.name](self._engine, job)
        except MindholdError as error:
            return self._fail(job, f"{error.code}: {error}")
        except Exception as error:  # a job may fail in any way; the queue continues
            log.exception("job %s (%s) failed", job.id, job.name)
            return self._fail(job, f"{type(error).__name__}: {error}")
        ended = replace(job, error=None, lease_owner=None, lease_until=None)
        now = self._engine.clock()
        if isinstance(result, Unfinished):  # it progressed, so that was no failed attempt
            return replace(
                ended, state=JobState.WAITING, due=now + result.after, attempts=0, result=result.result
            )
        return replace(ended, state=JobState.DONE, finished=now, result=result)

    def _fail(self, job: Job, reason: str) -> Job:
        now = self._engine.clock()
        dead = job.attempts >= job.most_attempts
        return replace(
            job,
            state=JobState.DEAD if dead else JobState.WAITING,
            due=now + timedelta(seconds=backoff_seconds(job.attempts)),
            finished=now if dead else None,
            error=reason[:2000],
            lease_owner=None,
            lease_until=None,
        )

    async def _renew_lease(self, job: Job, work: asyncio.Task[Job]) -> None:
        """Renew the lease regularly; cancel the work if another runner has the job."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                renewed = await self._engine.store.renew(
                    job.id, self._owner, until=self._engine.clock() + LEASE
                )
            except StoreError as error:
                log.warning("the lease of job %s was not renewed: %s", job.id, error)
                continue
            if not renewed:
                work.cancel()
                return


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


async def next_runs(engine: Engine) -> dict[str, datetime]:
    """When each job is due next."""
    runs: dict[str, datetime] = {}
    for entry in schedule_of(engine):
        last = await engine.store.cursor(_cursor(entry.name))
        runs[entry.name] = datetime.fromisoformat(last) + entry.every if last else engine.clock()
    if engine.settings.maintenance.schedule:
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
