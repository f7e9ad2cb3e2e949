"""The index kept current: as much of it as is asked for, by one process at a time."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from mindhold.engine.core import Engine
from mindhold.engine.history.apart import apart
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.forgotten import forgotten_sessions
from mindhold.engine.history.passing import Done, Limits, Misread, Pass
from mindhold.engine.history.preparing import Rules
from mindhold.engine.history.turn import turn
from mindhold.engine.history.vectors import queue_history_embedding
from mindhold.model.errors import StoreDamaged, StoreError
from mindhold.ports.transcripts import Check, Transcripts

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
    untold: int = 0  # warnings beyond those
    reread: int = 0  # conversations that were read by other rules before
    seconds: float = 0.0
    archive: str = ""  # what went wrong with copies, or made room


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
        files=None if files is None else await asyncio.to_thread(_as_listed, files, engine.transcripts),
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
        told = await _follow_up(engine, done, archiving=archiving)
        if limits.files is None:
            await _from_archive(engine, done, limits)
    return Indexed(
        files=len(done.files),
        conversations=sum(not one.silent for one in done.touched.values()),
        bytes=done.bytes,
        passages=done.passages,
        vanished=done.vanished,
        excluded=done.excluded,
        left=done.left,
        warnings=tuple(done.warnings),
        untold=done.untold,
        reread=done.reread,
        seconds=monotonic() - started,
        archive=told,
    )


async def refresh(engine: Engine) -> int:
    """What is new, before a question is answered: a little, and not at every question. Bytes that are left to read, also
    while another process is reading them.

    Never raises: what is there is searched.
    """
    home, now = engine.policy.home, monotonic()
    when, took, left = _looked.get(home, (-LONGEST_PAUSE, 0.0, 0))
    if now - when < min(LONGEST_PAUSE, took * _PAUSES):
        return left
    try:
        limits = Limits(most_bytes=FRESH_BYTES, deadline=now + FRESH_SECONDS)
        indexed = await _indexed(engine, limits, no_progress, archiving=False)  # nobody waits for that
        if indexed.busy:
            return await _unread(engine)
    except StoreError as error:
        log.warning("history: the index is as old as it is: %s", error)
        return 0
    _looked[home] = (monotonic(), monotonic() - now if not indexed.bytes else 0.0, indexed.left)
    if indexed.left:
        engine.behind.set()
    return indexed.left


def _as_listed(files: Iterable[Path], transcripts: Transcripts) -> frozenset[Path]:
    """By the paths that the transcripts give them: others may name them through links, or past them."""
    roots = transcripts.roots()
    real = {root: os.path.realpath(root) for root in roots}

    def listed(file: Path) -> Path:
        if any(file.is_relative_to(root) for root in roots):
            return file
        lies = Path(os.path.realpath(file))
        return next(
            (root / lies.relative_to(at) for root, at in real.items() if lies.is_relative_to(at)), file
        )

    return frozenset(map(listed, files))


async def _unread(engine: Engine) -> int:
    forgotten = await forgotten_sessions(engine)
    return await apart(lambda check: _pass(engine, forgotten, Limits(), check=check).unread())


def _pass(
    engine: Engine,
    forgotten: Collection[str],
    limits: Limits,
    *,
    check: Check,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Pass:
    return Pass(
        engine.history,
        engine.transcripts,
        rules_of(engine),
        forgotten=forgotten,
        limits=limits,
        tell=tell,
        check=check,
    )


async def _passed(engine: Engine, limits: Limits, progress: Progress) -> Done:
    forgotten = await forgotten_sessions(engine)
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(progress, STEP, done, total)

    def work(check: Check) -> Done:
        return _pass(engine, forgotten, limits, check=check, tell=tell).run()

    try:
        return await apart(work)
    except StoreDamaged as error:  # by now it is made anew
        log.warning("history: %s", error)
        return await apart(work)


async def _follow_up(engine: Engine, done: Done, *, archiving: bool) -> str:
    """What was forgotten meanwhile goes; what is new is archived, and embedded in time. What somebody should know of that."""
    if not done.touched:
        return ""
    told = ""
    forgotten = await forgotten_sessions(engine)
    loud = [
        one for one in done.touched.values() if not one.silent
    ]  # silent ones are known not to be read again
    gone = [one.row for one in loud if {one.session_id, one.part_of} & forgotten]
    if gone:
        await asyncio.to_thread(engine.history.remove, gone)
    if archiving:
        from mindhold.engine.history.archiving import archive_history  # for those who want it

        known = await asyncio.to_thread(engine.history.conversations)
        report = await archive_history(engine, rows=[one for one in known if one.file in done.touched])
        if told := report.trouble:
            log.warning("history: %s", told)
        await asyncio.to_thread(_drop_copies, engine, done)
    if done.passages:
        await queue_history_embedding(engine)
    return told


def _drop_copies(engine: Engine, done: Done) -> None:
    """Those of files that lie elsewhere by now, once there is one of where they lie."""
    moved = {one.row: archive_name(one) for one in done.moved if one.archived > 0}
    new = {one.row: archive_name(one) for one in done.touched.values() if one.row in moved}
    there = engine.archive.sizes() if new else {}
    for row, name in new.items():
        if name in there and name != moved[row]:
            engine.archive.remove(moved[row])


async def _from_archive(engine: Engine, done: Done, limits: Limits) -> None:
    """What only the archive has is indexed, whether or not copies are still made; for a question only where the index was
    empty, and as far as its time goes."""
    from mindhold.engine.history.recovering import is_stale, reconcile

    if limits.deadline is not None and done.known:
        rules = rules_of(engine)
        if any(is_stale(one, rules) for one in await asyncio.to_thread(engine.history.conversations)):
            engine.behind.set()
        return
    forgotten = await forgotten_sessions(engine)
    if await reconcile(engine, forgotten=forgotten, deadline=limits.deadline):
        engine.behind.set()


def rules_of(engine: Engine) -> Rules:
    """As the settings have them."""
    chosen = engine.policy.history
    return Rules(
        exclude=chosen.exclude,
        subagents=chosen.subagents,
        redacting=engine.policy.redact,
        agents=chosen.agents,
    )
