"""What runs by itself now and then. A due entry becomes a job once, whichever process looks first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect.engine.consolidate import JOB as CONSOLIDATE
from recollect.engine.core import Engine
from recollect.engine.embed import EMBED
from recollect.engine.evaluate import EVALUATE
from recollect.engine.history.vectors import EMBED_HISTORY, history_model, own_job
from recollect.jobs.handlers import ARCHIVE_HISTORY, TIDY
from recollect.model.job import Job
from recollect.ports.store import Enqueue


@dataclass(frozen=True, slots=True)
class Entry:
    """A job by name, every so often."""

    name: str
    every: timedelta


EMBED_EVERY = timedelta(hours=6)
# What is remembered is judged soon; what came in another way, as by an import, within a day.
ALWAYS: Sequence[Entry] = (
    Entry(EMBED, timedelta(hours=1)),
    Entry(EVALUATE, timedelta(days=1)),
    Entry(TIDY, timedelta(days=1)),
)


def schedule_of(engine: Engine) -> Sequence[Entry]:
    """As the engine's policy has it."""
    hours = engine.policy.life.consolidate_hours
    upkeep = (Entry(CONSOLIDATE, timedelta(hours=hours)),) if hours else ()
    return (*ALWAYS, *upkeep, *_of_history(engine))


def _of_history(engine: Engine) -> Sequence[Entry]:
    """What is embedded is queued when it is indexed; by the clock comes what was missed."""
    chosen, found = engine.policy.history, []
    if history_model(engine) is not None:
        found.append(Entry(own_job(engine, EMBED_HISTORY), EMBED_EVERY))
    if chosen.enabled and chosen.archive:
        found.append(Entry(own_job(engine, ARCHIVE_HISTORY), timedelta(hours=chosen.archive_hours)))
    return found


async def enqueue_due(
    engine: Engine, entries: Sequence[Entry] | None = None, *, besides: Collection[str] = ()
) -> list[str]:
    """Queue what is due; returns the names. Two callers at once never queue one entry twice."""
    now = engine.clock()
    queued: list[str] = []
    for entry in schedule_of(engine) if entries is None else entries:
        if entry.name in besides:
            continue
        cursor = f"schedule:{entry.name}"
        last = await engine.store.cursor(cursor)
        if last is not None and datetime.fromisoformat(last) + entry.every > now:
            continue
        if not await engine.store.swap_cursor(cursor, old=last, new=now.isoformat()):
            continue
        job = Job(id=engine.new_id(), name=entry.name, created=now, due=now, key=entry.name)
        await engine.store.apply([Enqueue(job)])
        queued.append(entry.name)
    return queued


async def next_runs(engine: Engine, entries: Sequence[Entry] | None = None) -> dict[str, datetime]:
    """When each entry is due next."""
    runs: dict[str, datetime] = {}
    for entry in schedule_of(engine) if entries is None else entries:
        last = await engine.store.cursor(f"schedule:{entry.name}")
        runs[entry.name] = datetime.fromisoformat(last) + entry.every if last else engine.clock()
    return runs
