"""What was written or changed lately, as far as one caller sees it: for those who listen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.progress import Progress, all_progress, progress_of
from mindhold.engine.projects import open_project
from mindhold.engine.reindex import Stage, may_see, stage_of
from mindhold.engine.storage import as_far_as_it_goes
from mindhold.model.errors import JobNotFound
from mindhold.model.job import SCOPE, Job, JobState
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot

MOST_JOBS = 100
NEWEST = 50  # among which those are looked for that have ended
UNDER_WAY = (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job as it is told."""

    job: Job
    stage: Stage
    progress: Progress | None

    @property
    def scope(self) -> str | None:
        """The one that it is about, if it is about one alone."""
        found = self.job.payload.get(SCOPE)
        return found if isinstance(found, str) else None


async def changed_memories(
    engine: Engine,
    project: str | None,
    *,
    agent: str,
    since: datetime,
    limit: int,
    before: Spot | None = None,
) -> list[Memory]:
    """Those that were written or updated since then and are recalled, the latest `limit` of them first; or of those before.

    Those of all scopes unless a project is named. Raises ScopeNotFound, and the store's errors.
    """
    named = () if project is None else ((await open_project(engine, project)).name,)

    async def ask(scopes: tuple[str, ...]) -> list[Memory]:
        where = Filter(viewer=agent, scopes=named or scopes, changed=since, minimum_trust=LEAST_TRUST)
        return await engine.store.find(where, order=Order.CHANGED, limit=limit, after=before)

    return await ask(named) if named else (await as_far_as_it_goes(engine, ask))[0]


async def jobs_now(
    engine: Engine,
    project: str | None,
    *,
    agent: str,
    owner: bool,
    since: datetime,
    known: Collection[str] = (),
) -> list[JobNow]:
    """Those that the caller may know of: under way, `known`, or of the newest that have ended since then.

    Raises ScopeNotFound, and the store's errors.
    """
    scope = None if project is None else (await open_project(engine, project)).name
    under_way = await engine.store.jobs(states=UNDER_WAY, limit=MOST_JOBS)
    ended = [job for job in await engine.store.jobs(limit=NEWEST) if job.finished and job.finished >= since]
    found: dict[str, Job] = {job.id: job for job in (*under_way, *ended)}
    for job_id in known:
        if job_id not in found:
            with suppress(JobNotFound):
                found[job_id] = await engine.store.job(job_id)
    seen = [job for job in found.values() if may_see(job, scope=scope, agent=agent, owner=owner)]
    return await _told(engine, sorted(seen, key=lambda job: (job.created, job.id)))


async def _told(engine: Engine, jobs: Sequence[Job]) -> list[JobNow]:
    progress = await _progress(engine, jobs)
    return [
        JobNow(job, await stage_of(engine, job, progress.get(job.id)), progress.get(job.id)) for job in jobs
    ]


async def _progress(engine: Engine, jobs: Sequence[Job]) -> dict[str, Progress]:
    if len(jobs) > 1:
        return await all_progress(engine)
    return {job.id: told for job in jobs if (told := await progress_of(engine, job.id)) is not None}
