"""Runs queued jobs under a lease: retried with backoff, dead after too many attempts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mindhold.engine import Engine
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.job import Job, JobState, backoff_seconds


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One turn of a job that takes several. The next one is due `after` a while, behind all that is due already."""

    result: Mapping[str, Any]
    after: timedelta = timedelta(0)


Handler = Callable[[Engine, Job], Awaitable[Mapping[str, Any] | Unfinished]]

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
            if not renewal.done():
                raise
            return JobRun(job, kept=False)
        finally:
            renewal.cancel()
            # Not awaited itself, which would swallow a cancellation of the caller.
            await asyncio.wait({renewal})
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
