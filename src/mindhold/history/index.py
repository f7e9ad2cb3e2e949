"""Keeps the index of past conversations up to date."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic

from pydantic import Field

from mindhold.engine import Engine
from mindhold.history.archive_space import archive_name
from mindhold.history.index_guard import forgotten_sessions, index_turn, run_in_own_thread
from mindhold.history.index_pass import IndexPass, MisreadView, PassLimits, PassProgress, index_rules
from mindhold.history.passages import queue_history_embedding
from mindhold.model.errors import StoreDamaged, StoreError
from mindhold.operations import Context, Input, Output, no_progress, operation
from mindhold.ports.transcripts import Check, Transcripts

Progress = Callable[[str, int, int | None], None]
STEP = "index"

FRESH_BYTES, FRESH_SECONDS = 32 << 20, 2.0  # what a question may spend on reading what is new
LONGEST_PAUSE = 5.0  # seconds between two looks at the disk for questions
_PAUSES = 20  # a look may take a twentieth of the time

log = logging.getLogger(__name__)
_looked: dict[Path, tuple[float, float, int]] = {}  # by home: time of the check, its duration, bytes left


MOST_WORKERS = 3  # besides the process that writes
BUSY = "Another process is indexing; what it has done so far can be searched."
DISABLED = "history.enabled is off: past conversations are neither indexed nor searched."
REREAD = "Rules or settings have changed since they were indexed: conversations are read anew."
LEFT = "There is more to read: run it again, or let a server do it in the background."


class IndexHistoryInput(Input):
    """Which files to index: all that changed, or the given ones. `all` reads everything again."""

    all: bool = False
    files: list[str] = []
    most_bytes: int | None = Field(default=None, ge=1)
    most_seconds: float | None = Field(default=None, gt=0, le=86_400)
    workers: int | None = Field(default=None, ge=0, le=16)  # worker processes; None: by the number of cores


class IndexHistoryResult(Output):
    """What an index pass did. `left` counts unread bytes; `busy`: another process indexes and nothing was done."""

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
    archive: str = ""  # what went wrong while archiving, or was evicted


async def index_history(
    engine: Engine, request: IndexHistoryInput, *, progress: Progress = no_progress
) -> IndexHistoryResult:
    """Index what is new in all files, or in some, within the given limits.

    Worker processes prepare large amounts. If archiving is enabled, what was read is archived. Raises StoreError.
    """
    cores = min(MOST_WORKERS, os.cpu_count() or 1)
    paths = [Path(file) for file in request.files]
    limits = PassLimits(
        most_bytes=request.most_bytes,
        deadline=None if request.most_seconds is None else monotonic() + request.most_seconds,
        files=await asyncio.to_thread(_as_listed, paths, engine.transcripts) if paths else None,
        workers=cores if request.workers is None else request.workers,
        anew=request.all,
    )
    return await _indexed(engine, limits, progress, archiving=engine.settings.history.archive)


async def _indexed(
    engine: Engine, limits: PassLimits, progress: Progress, *, archiving: bool
) -> IndexHistoryResult:
    started = monotonic()
    if not engine.settings.history.enabled or engine.history.withheld or engine.transcripts.withheld:
        return _result(engine, PassProgress())
    with index_turn(engine.settings.home) as is_ours:
        if not is_ours:
            return _result(engine, PassProgress(), busy=True)
        result = await _passed(engine, limits, progress)
        archive_trouble = await _follow_up(engine, result, archiving=archiving)
        if limits.files is None:
            await _from_archive(engine, result, limits)
    return _result(engine, result, seconds=monotonic() - started, archive=archive_trouble)


def _result(
    engine: Engine, done: PassProgress, *, busy: bool = False, seconds: float = 0.0, archive: str = ""
) -> IndexHistoryResult:
    notices = [BUSY] if busy else [LEFT] if done.left else []
    if done.reread:
        notices.append(REREAD)
    if done.untold:
        notices.append(f"{done.untold} more lines can't be read.")
    return IndexHistoryResult(
        files=len(done.files),
        conversations=sum(not conversation.silent for conversation in done.touched.values()),
        bytes=done.bytes,
        passages=done.passages,
        vanished=done.vanished,
        excluded=done.excluded,
        left=done.left,
        warnings=done.warnings,
        busy=busy,
        seconds=round(seconds, 3),
        notice=" ".join(notices) if engine.settings.history.enabled else DISABLED,
        archive=archive,
    )


async def refresh(engine: Engine) -> int:
    """Index what is new before a question is answered: a little, and not at every question.

    Returns the bytes that are left to read, also while another process is indexing. Never raises: the index
    is then searched as it is.
    """
    home, now = engine.settings.home, monotonic()
    when, duration, unread_bytes = _looked.get(home, (-LONGEST_PAUSE, 0.0, 0))
    if now - when < min(LONGEST_PAUSE, duration * _PAUSES):
        return unread_bytes
    try:
        limits = PassLimits(most_bytes=FRESH_BYTES, deadline=now + FRESH_SECONDS)
        report = await _indexed(engine, limits, no_progress, archiving=False)  # archiving can wait
        if report.busy:
            return await _unread(engine)
    except StoreError as error:
        log.warning("history: the index is as old as it is: %s", error)
        return 0
    _looked[home] = (monotonic(), monotonic() - now if not report.bytes else 0.0, report.left)
    if report.left:
        engine.history_behind.set()
    return report.left


def _as_listed(files: Iterable[Path], transcripts: Transcripts) -> frozenset[Path]:
    """Translate paths to the form in which the transcripts list them: callers may name files through links."""
    roots = transcripts.roots()
    real = {root: os.path.realpath(root) for root in roots}

    def listed(file: Path) -> Path:
        if any(file.is_relative_to(root) for root in roots):
            return file
        real_path = Path(os.path.realpath(file))
        return next(
            (root / real_path.relative_to(at) for root, at in real.items() if real_path.is_relative_to(at)),
            file,
        )

    return frozenset(map(listed, files))


async def _unread(engine: Engine) -> int:
    forgotten = await forgotten_sessions(engine)
    return await run_in_own_thread(
        lambda check: IndexPass(engine, forgotten=forgotten, limits=PassLimits(), check=check).unread()
    )


async def _passed(engine: Engine, limits: PassLimits, progress: Progress) -> PassProgress:
    forgotten = await forgotten_sessions(engine)
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(progress, STEP, done, total)

    def work(check: Check) -> PassProgress:
        return IndexPass(engine, forgotten=forgotten, limits=limits, check=check, tell=tell).run()

    try:
        return await run_in_own_thread(work)
    except StoreDamaged as error:  # the file has been recreated by now
        log.warning("history: %s", error)
        return await run_in_own_thread(work)


async def _follow_up(engine: Engine, done: PassProgress, *, archiving: bool) -> str:
    """Remove what was forgotten meanwhile, archive what is new and queue its embedding; returns archive problems."""
    if not done.touched:
        return ""
    trouble = ""
    forgotten = await forgotten_sessions(engine)
    # Silent rows only mark files that are not read again.
    visible = [conversation for conversation in done.touched.values() if not conversation.silent]
    forgotten_rows = [
        conversation.row
        for conversation in visible
        if {conversation.session_id, conversation.part_of} & forgotten
    ]
    if forgotten_rows:
        await asyncio.to_thread(engine.history.remove, forgotten_rows)
    if archiving:
        from mindhold.history.archive import archive_history  # loaded only if archiving is enabled

        conversations = await asyncio.to_thread(engine.history.conversations)
        report = await archive_history(
            engine, rows=[conversation for conversation in conversations if conversation.file in done.touched]
        )
        if trouble := report.trouble:
            log.warning("history: %s", trouble)
        await asyncio.to_thread(_drop_copies, engine, done)
    if done.passages:
        await queue_history_embedding(engine)
    return trouble


def _drop_copies(engine: Engine, done: PassProgress) -> None:
    """Remove the copies of moved files that have a copy under their new path."""
    moved = {
        conversation.row: archive_name(conversation)
        for conversation in done.moved
        if conversation.archived > 0
    }
    new = {
        conversation.row: archive_name(conversation)
        for conversation in done.touched.values()
        if conversation.row in moved
    }
    copy_sizes = engine.archive.sizes() if new else {}
    for row, name in new.items():
        if name in copy_sizes and name != moved[row]:
            engine.archive.remove(moved[row])


async def _from_archive(engine: Engine, done: PassProgress, limits: PassLimits) -> None:
    """Index what only the archive has, even if archiving is disabled by now.

    For a question this is only done if the index was empty, and within its deadline.
    """
    from mindhold.history.archive import is_stale, reconcile

    if limits.deadline is not None and done.known:
        rules = index_rules(engine)
        if any(
            is_stale(conversation, rules)
            for conversation in await asyncio.to_thread(engine.history.conversations)
        ):
            engine.history_behind.set()
        return
    forgotten = await forgotten_sessions(engine)
    if await reconcile(engine, forgotten=forgotten, deadline=limits.deadline):
        engine.history_behind.set()


async def _index(context: Context, request: IndexHistoryInput) -> IndexHistoryResult:
    """Read past conversations into their index: what is new since the last time."""
    return await index_history(context.engine, request, progress=context.progress)


INDEX_HISTORY = operation("index_history", _index, writes=True, owner_only=True, changes_memories=False)
