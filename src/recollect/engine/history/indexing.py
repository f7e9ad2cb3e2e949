"""The index kept current: as much of it as is asked for, by one process at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from recollect.engine.core import Engine
from recollect.engine.history.apart import apart
from recollect.engine.history.forgotten import forgotten_sessions
from recollect.engine.history.passing import Done, Limits, Misread, Pass
from recollect.engine.history.preparing import Rules
from recollect.engine.history.turn import turn
from recollect.engine.history.vectors import queue_history_embedding
from recollect.model.errors import StoreDamaged, StoreError
from recollect.ports.transcripts import Check

Progress = Callable[[str, int, int | None], None]
STEP = "index"

FRESH_BYTES, FRESH_SECONDS = 32 << 20, 2.0  # that a question may cost to read what is new
LONGEST_PAUSE = 5.0  # seconds between two looks at the disk for questions
_PAUSES = 20  # a look may take a twentieth of the time

log = logging.getLogger(__name__)
_looked: dict[Path, tuple[float, float, int]] = {}  # by home: when, how long it took, bytes left


@dataclass(frozen=True, slots=True)
class Indexed:
    """What a pass did; `left` are bytes that it didn't read, `busy`: another process is at it, so that nothing was done."""

    files: int = 0
    conversations: int = 0
    bytes: int = 0
    passages: int = 0
    vanished: int = 0
    excluded: int = 0
    left: int = 0
    warnings: tuple[Misread, ...] = ()
    busy: bool = False
    seconds: float = 0.0


def no_progress(_step: str, _done: int, _total: int | None) -> None:
    """For callers that show none."""


async def index_history(
    engine: Engine,
    *,
    progress: Progress = no_progress,
    most_bytes: int | None = None,
    most_seconds: float | None = None,
    files: Collection[Path] | None = None,
    workers: int = 0,
    anew: bool = False,
) -> Indexed:
    """Read what is new: of all files or of some, at most so much; `anew`: everything. With `workers` and much to read so
    many processes prepare it. What was read is archived, where that is wanted. Raises StoreError."""
    limits = Limits(
        most_bytes=most_bytes,
        deadline=None if most_seconds is None else monotonic() + most_seconds,
        files=None if files is None else frozenset(files),
        workers=workers,
        anew=anew,
    )
    return await _indexed(engine, limits, progress, archiving=engine.policy.history.archive)


async def _indexed(engine: Engine, limits: Limits, progress: Progress, *, archiving: bool) -> Indexed:
    started = monotonic()
    if not engine.policy.history.enabled or engine.history.withheld or engine.transcripts.withheld:
        return Indexed()
    with turn(engine.policy.home) as mine:
        if not mine:
            return Indexed(busy=True)
        done = await _passed(engine, limits, progress)
        await _follow_up(engine, done, archiving=archiving)
    return Indexed(
        files=len(done.files),
        conversations=sum(not one.silent for one in done.touched.values()),
        bytes=done.bytes,
        passages=done.passages,
        vanished=done.vanished,
        excluded=done.excluded,
        left=done.left,
        warnings=tuple(done.warnings),
        seconds=monotonic() - started,
    )


async def refresh(engine: Engine) -> int:
    """What is new, before a question is answered: a little, and not at every question. Bytes that are left to read.

    Never raises: what is there is searched.
    """
    home, now = engine.policy.home, monotonic()
    when, took, left = _looked.get(home, (-LONGEST_PAUSE, 0.0, 0))
    if now - when < min(LONGEST_PAUSE, took * _PAUSES):
        return left
    try:
        limits = Limits(most_bytes=FRESH_BYTES, deadline=now + FRESH_SECONDS)
        indexed = await _indexed(engine, limits, no_progress, archiving=False)  # nobody waits for that
    except StoreError as error:
        log.warning("history: the index is as old as it is: %s", error)
        return 0
    if indexed.busy:
        return left
    _looked[home] = (monotonic(), monotonic() - now if not indexed.bytes else 0.0, indexed.left)
    if indexed.left:
        engine.behind.set()
    return indexed.left


async def _passed(engine: Engine, limits: Limits, progress: Progress) -> Done:
    forgotten = await forgotten_sessions(engine)
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(progress, STEP, done, total)

    def work(check: Check) -> Done:
        return Pass(
            engine.history,
            engine.transcripts,
            rules_of(engine),
            forgotten=forgotten,
            limits=limits,
            tell=tell,
            check=check,
        ).run()

    try:
        return await apart(work)
    except StoreDamaged as error:  # by now it is made anew
        log.warning("history: %s", error)
        return await apart(work)


async def _follow_up(engine: Engine, done: Done, *, archiving: bool) -> None:
    """What was forgotten meanwhile goes; what is new is archived, and embedded in time."""
    if not done.touched:
        return
    forgotten = await forgotten_sessions(engine)
    gone = [one.row for one in done.touched.values() if {one.session_id, one.part_of} & forgotten]
    if gone:
        await asyncio.to_thread(engine.history.remove, gone)
    if archiving:
        from recollect.engine.history.archiving import archive_history  # for those who want it

        known = await asyncio.to_thread(engine.history.conversations)
        await archive_history(engine, rows=[one for one in known if one.file in done.touched])
    if done.passages:
        await queue_history_embedding(engine)


def rules_of(engine: Engine) -> Rules:
    """As the settings have them."""
    chosen = engine.policy.history
    return Rules(exclude=chosen.exclude, subagents=chosen.subagents, redacting=engine.policy.redact)
