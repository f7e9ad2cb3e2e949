"""What runs by itself now and then. A due entry becomes a job once, whichever process looks first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mindhold.engine.consolidate import JOB as CONSOLIDATE
from mindhold.engine.core import Engine
from mindhold.engine.embed import EMBED
from mindhold.engine.evaluate import EVALUATE
from mindhold.engine.history.vectors import EMBED_HISTORY, history_model, own_job
from mindhold.engine.maintain import JOB as MAINTAIN
from mindhold.jobs.handlers import ARCHIVE_HISTORY, TIDY
from mindhold.model.job import Job
from mindhold.model.maintenance import is_time, next_run
from mindhold.ports.store import Enqueue


@dataclass(frozen=True, slots=True)
class Entry:
    """A job by name, every so often."""

    name: str
    every: timedelta


EMBED_EVERY = timedelta(hours=6)
A_DAY = 24  # hours
# What is remembered is judged soon; what came in another way, as by an import, within a day.
ALWAYS: Sequence[Entry] = (
    Entry(EMBED, timedelta(hours=1)),
    Entry(EVALUATE, timedelta(days=1)),
    Entry(TIDY, timedelta(days=1)),
)


def schedule_of(engine: Engine) -> Sequence[Entry]:
    """As the engine's policy has it; the night's maintenance goes by the hour, and isn't among them."""
    hours, nightly = engine.policy.life.consolidate_hours, engine.policy.maintenance.schedule
    own = 0 < hours < A_DAY if nightly else hours > 0
    upkeep = (Entry(CONSOLIDATE, timedelta(hours=hours)),) if own else ()
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
        last = await engine.store.cursor(_cursor(entry.name))
        if last is not None and datetime.fromisoformat(last) + entry.every > now:
            continue
        if await _queue(engine, entry.name, last=last, now=now):
            queued.append(entry.name)
    if entries is None and MAINTAIN not in besides and await _night_is_due(engine, now=now):
        queued.append(MAINTAIN)
    return queued


async def next_runs(engine: Engine, entries: Sequence[Entry] | None = None) -> dict[str, datetime]:
    """When each entry is due next."""
    runs: dict[str, datetime] = {}
    for entry in schedule_of(engine) if entries is None else entries:
        last = await engine.store.cursor(_cursor(entry.name))
        runs[entry.name] = datetime.fromisoformat(last) + entry.every if last else engine.clock()
    if entries is None and engine.policy.maintenance.schedule:
        last = await engine.store.cursor(_cursor(MAINTAIN))
        runs[MAINTAIN] = _next_night(engine, last or engine.clock().isoformat())
    return runs


async def _night_is_due(engine: Engine, *, now: datetime) -> bool:
    """Queued once it is quiet, or late. A store that is new, or comes from before, begins with the next night."""
    policy, cursor = engine.policy.maintenance, _cursor(MAINTAIN)
    if not policy.schedule:
        return False
    quiet = engine.quiet.lasts(now, policy.idle)  # looked at from the start on
    last = await engine.store.cursor(cursor)
    if last is None:
        await engine.store.swap_cursor(cursor, old=None, new=now.isoformat())
        return False
    if not is_time(_next_night(engine, last), now, quiet=quiet):
        return False
    return await _queue(engine, MAINTAIN, last=last, now=now)


def _next_night(engine: Engine, last: str) -> datetime:
    return next_run(
        datetime.fromisoformat(last), engine.clock(), engine.zone(), engine.policy.maintenance.hour
    )


async def _queue(engine: Engine, name: str, *, last: str | None, now: datetime) -> bool:
    if not await engine.store.swap_cursor(_cursor(name), old=last, new=now.isoformat()):
        return False
    await engine.store.apply([Enqueue(Job(id=engine.new_id(), name=name, created=now, due=now, key=name))])
    return True


def _cursor(name: str) -> str:
    return f"schedule:{name}"
