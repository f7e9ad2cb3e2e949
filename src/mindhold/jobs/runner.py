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
    """A turn of a job that takes several. The next one is due after a while, or at once behind everything that is due already."""

    result: Mapping[str, Any]
    after: timedelta = timedelta(0)


Handler = Callable[[Engine, Job], Awaitable[Mapping[str, Any] | Unfinished]]

LEASE = timedelta(seconds=60)
RENEW_EVERY = 20.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job that was run, as it stands now."""

    job: Job
    kept: bool  # False when the lease was lost and somebody else has it


class Runner:
    """Takes due jobs one at a time. Several runners, in any processes, never run one job at once."""

    def __init__(self, engine: Engine, handlers: Mapping[str, Handler], *, owner: str) -> None:
        self._engine = engine
        self._handlers = handlers
        self._owner = owner

    async def run_next(self, *, names: Sequence[str] = ()) -> JobRun | None:
        """Run the most overdue job; None when nothing is due."""
        job = await self._engine.store.lease(
            self._owner, now=self._engine.clock(), duration=LEASE, names=names or tuple(self._handlers)
        )
        if job is None:
            return None
        work = asyncio.create_task(self._outcome(job))
        renewal = asyncio.create_task(self._keep_lease(job, work))
        try:
            outcome = await work
        except asyncio.CancelledError:
            if not renewal.done():
                raise
            return JobRun(job, kept=False)
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})  # and not itself: that would swallow a cancellation of the caller
        return JobRun(outcome, await self._engine.store.finish(outcome, self._owner))

    async def run_all(
        self,
        *,
        most: int = 10_000,
        names: Sequence[str] = (),
        told: Callable[[int], None] = lambda _: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> list[JobRun]:
        """Until nothing is due, `most` have run, or one has and it is `enough`; tells how many after each."""
        done: list[JobRun] = []
        while (
            len(done) < most
            and not (done and enough())
            and (ran := await self.run_next(names=names)) is not None
        ):
            done.append(ran)
            told(len(done))
        return done

    async def _outcome(self, job: Job) -> Job:
        try:
            result = await self._handlers[job.name](self._engine, job)
        except MindholdError as error:
            return self._failed(job, f"{error.code}: {error}")
        except Exception as error:  # a job may fail in any way; the queue goes on
            log.exception("job %s (%s) failed", job.id, job.name)
            return self._failed(job, f"{type(error).__name__}: {error}")
        ended = replace(job, error=None, lease_owner=None, lease_until=None)
        now = self._engine.clock()
        if isinstance(result, Unfinished):  # it got further: that was no failed attempt
            return replace(
                ended, state=JobState.WAITING, due=now + result.after, attempts=0, result=result.result
            )
        return replace(ended, state=JobState.DONE, finished=now, result=result)

    def _failed(self, job: Job, reason: str) -> Job:
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

    async def _keep_lease(self, job: Job, work: asyncio.Task[Job]) -> None:
        """Renew now and then; give the work up when somebody else has the job."""
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                held = await self._engine.store.renew(job.id, self._owner, until=self._engine.clock() + LEASE)
            except StoreError as error:
                log.warning("the lease of job %s was not renewed: %s", job.id, error)
                continue
            if not held:
                work.cancel()
                return
