"""Keeps the index of past conversations current."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pydantic import Field

from mindhold.engine import Engine
from mindhold.history.archive_room import archive_name
from mindhold.history.index_guard import forgotten_sessions, index_turn, run_in_own_thread
from mindhold.history.index_pass import IndexPass, PassLimits, PassProgress, UnreadableLine
from mindhold.history.preparation import IndexRules
from mindhold.history.vectors import queue_history_embedding
from mindhold.model.errors import StoreDamaged, StoreError
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.transcripts import Check, Transcripts

Progress = Callable[[str, int, int | None], None]
STEP = "index"

FRESH_BYTES, FRESH_SECONDS = 32 << 20, 2.0  # that a question may cost to read what is new
LONGEST_PAUSE = 5.0  # seconds between two looks at the disk for questions
_PAUSES = 20  # a look may take a twentieth of the time

log = logging.getLogger(__name__)
_looked: dict[Path, tuple[float, float, int]] = {}  # by home: when, how long it took, bytes left


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a pass did; `left` are bytes that it didn't read, `busy`: another process is at it, so that nothing was done."""

    files: int = 0
    conversations: int = 0
    bytes: int = 0
    passages: int = 0
    vanished: int = 0
    excluded: int = 0
    left: int = 0
    warnings: tuple[UnreadableLine, ...] = ()
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
) -> IndexReport:
    """Read what is new: of all files or of some, at most so much; `anew`: everything. With `workers` and much to read so
    many processes prepare it. What was read is archived, where that is wanted. Raises StoreError."""
    limits = PassLimits(
        most_bytes=most_bytes,
        deadline=None if most_seconds is None else monotonic() + most_seconds,
        files=None if files is None else await asyncio.to_thread(_as_listed, files, engine.transcripts),
        workers=workers,
        anew=anew,
    )
    return await _indexed(engine, limits, progress, archiving=engine.settings.history.archive)


async def _indexed(engine: Engine, limits: PassLimits, progress: Progress, *, archiving: bool) -> IndexReport:
    started = monotonic()
    if not engine.settings.history.enabled or engine.history.withheld or engine.transcripts.withheld:
        return IndexReport()
    with index_turn(engine.settings.home) as mine:
        if not mine:
            return IndexReport(busy=True)
        done = await _passed(engine, limits, progress)
        told = await _follow_up(engine, done, archiving=archiving)
        if limits.files is None:
            await _from_archive(engine, done, limits)
    return IndexReport(
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
    home, now = engine.settings.home, monotonic()
    when, took, left = _looked.get(home, (-LONGEST_PAUSE, 0.0, 0))
    if now - when < min(LONGEST_PAUSE, took * _PAUSES):
        return left
    try:
        limits = PassLimits(most_bytes=FRESH_BYTES, deadline=now + FRESH_SECONDS)
        indexed = await _indexed(engine, limits, no_progress, archiving=False)  # nobody waits for that
        if indexed.busy:
            return await _unread(engine)
    except StoreError as error:
        log.warning("history: the index is as old as it is: %s", error)
        return 0
    _looked[home] = (monotonic(), monotonic() - now if not indexed.bytes else 0.0, indexed.left)
    if indexed.left:
        engine.history_behind.set()
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
    return await run_in_own_thread(lambda check: _pass(engine, forgotten, PassLimits(), check=check).unread())


def _pass(
    engine: Engine,
    forgotten: Collection[str],
    limits: PassLimits,
    *,
    check: Check,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> IndexPass:
    return IndexPass(
        engine.history,
        engine.transcripts,
        index_rules(engine),
        forgotten=forgotten,
        limits=limits,
        tell=tell,
        check=check,
    )


async def _passed(engine: Engine, limits: PassLimits, progress: Progress) -> PassProgress:
    forgotten = await forgotten_sessions(engine)
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(progress, STEP, done, total)

    def work(check: Check) -> PassProgress:
        return _pass(engine, forgotten, limits, check=check, tell=tell).run()

    try:
        return await run_in_own_thread(work)
    except StoreDamaged as error:  # by now it is made anew
        log.warning("history: %s", error)
        return await run_in_own_thread(work)


async def _follow_up(engine: Engine, done: PassProgress, *, archiving: bool) -> str:
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
        from mindhold.history.archive import archive_history  # for those who want it

        known = await asyncio.to_thread(engine.history.conversations)
        report = await archive_history(engine, rows=[one for one in known if one.file in done.touched])
        if told := report.trouble:
            log.warning("history: %s", told)
        await asyncio.to_thread(_drop_copies, engine, done)
    if done.passages:
        await queue_history_embedding(engine)
    return told


def _drop_copies(engine: Engine, done: PassProgress) -> None:
    """Those of files that lie elsewhere by now, once there is one of where they lie."""
    moved = {one.row: archive_name(one) for one in done.moved if one.archived > 0}
    new = {one.row: archive_name(one) for one in done.touched.values() if one.row in moved}
    there = engine.archive.sizes() if new else {}
    for row, name in new.items():
        if name in there and name != moved[row]:
            engine.archive.remove(moved[row])


async def _from_archive(engine: Engine, done: PassProgress, limits: PassLimits) -> None:
    """What only the archive has is indexed, whether or not copies are still made; for a question only where the index was
    empty, and as far as its time goes."""
    from mindhold.history.archive import is_stale, reconcile

    if limits.deadline is not None and done.known:
        rules = index_rules(engine)
        if any(is_stale(one, rules) for one in await asyncio.to_thread(engine.history.conversations)):
            engine.history_behind.set()
        return
    forgotten = await forgotten_sessions(engine)
    if await reconcile(engine, forgotten=forgotten, deadline=limits.deadline):
        engine.history_behind.set()


def index_rules(engine: Engine) -> IndexRules:
    """As the settings have them."""
    chosen = engine.settings.history
    return IndexRules(
        exclude=engine.settings.history_excluded,
        subagents=chosen.subagents,
        redacting=engine.settings.intake.redact,
        agents=chosen.agent_names,
    )


MOST_WORKERS = 3  # beside the process that writes
BUSY = "Another process is indexing; what it has done so far can be searched."
DISABLED = "history.enabled is off: past conversations are neither indexed nor searched."
REREAD = "Rules or settings have changed since they were indexed: conversations are read anew."
LEFT = "There is more to read: run it again, or let a server do it in the background."


class IndexHistoryInput(Input):
    """What is new of all files, unless some are named. `all`: everything is read anew."""

    all: bool = False
    files: list[str] = []
    most_bytes: int | None = Field(default=None, ge=1)
    most_seconds: float | None = Field(default=None, gt=0, le=86_400)
    workers: int | None = Field(
        default=None, ge=0, le=16
    )  # processes that prepare; None: as the machine has cores


class MisreadView(Output):
    """A line that can't be read; line 0: the whole file."""

    file: str
    line: int
    problem: str


class IndexHistoryResult(Output):
    """What was done. `left` are bytes that weren't read; `busy`: another process is at it, so that nothing was done."""

    files: int
    conversations: int
    bytes: int
    passages: int
    vanished: int
    excluded: int
    left: int
    warnings: list[MisreadView]
    busy: bool
    seconds: float
    notice: str = ""
    archive: str = ""  # what went wrong with copies, or made room


async def _index(context: Context, request: IndexHistoryInput) -> IndexHistoryResult:
    """Read past conversations into their index: what is new since the last time."""
    indexed = await index_history(
        context.engine,
        progress=context.progress,
        most_bytes=request.most_bytes,
        most_seconds=request.most_seconds,
        files=[Path(file) for file in request.files] or None,
        workers=_cores() if request.workers is None else request.workers,
        anew=request.all,
    )
    return IndexHistoryResult(
        files=indexed.files,
        conversations=indexed.conversations,
        bytes=indexed.bytes,
        passages=indexed.passages,
        vanished=indexed.vanished,
        excluded=indexed.excluded,
        left=indexed.left,
        warnings=[
            MisreadView(file=_named(one.file), line=one.line, problem=one.problem) for one in indexed.warnings
        ],
        busy=indexed.busy,
        seconds=round(indexed.seconds, 3),
        notice=_notice(context, indexed),
        archive=indexed.archive,
    )


INDEX_HISTORY = operation("index_history", _index, writes=True, owner_only=True, changes_memories=False)


def _named(file: Path) -> str:
    """As text, whatever bytes its name has."""
    return os.fsencode(file).decode("utf-8", "replace")


def _notice(context: Context, indexed: IndexReport) -> str:
    if not context.engine.settings.history.enabled:
        return DISABLED
    told = [BUSY] if indexed.busy else [LEFT] if indexed.left else []
    if indexed.reread:
        told.append(REREAD)
    if indexed.untold:
        told.append(f"{indexed.untold} more lines can't be read.")
    return " ".join(told)


def _cores() -> int:
    return min(MOST_WORKERS, os.cpu_count() or 1)
