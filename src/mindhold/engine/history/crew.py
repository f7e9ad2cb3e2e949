"""Who prepares what is to be indexed: this thread, or, where it is much, some processes beside it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from mindhold.engine.history.preparing import PIECE, Prepared, Preparer, Rules, Task
from mindhold.ports.transcripts import Check, Transcripts

LOT = 4 << 20  # bytes that a process reads before it hands over what it has: a bar moves by as much
AHEAD = 2  # lots for each process that are under way or wait to be written

log = logging.getLogger(__name__)
_at_work: list[Preparer] = []  # the one of this process, in a pool


def prepared_here(
    tasks: Iterable[Task], transcripts: Transcripts, rules: Rules, *, check: Check, piece: int = PIECE
) -> Iterator[Prepared]:
    """Piece by piece, of so many bytes. Raises what `check` raises."""
    preparer = Preparer(transcripts, rules, piece=piece)
    for task in tasks:
        for prepared in preparer.pieces(task, most=1 << 62):
            check()
            yield prepared


def prepared_beside(
    tasks: Iterable[Task], transcripts: Transcripts, rules: Rules, *, workers: int, check: Check
) -> Iterator[Prepared]:
    """The same from so many processes, those of a file in order. Where they can't be had, or die, it goes on here."""
    waiting = deque(_lots(tasks))
    under_way: dict[Future[list[Prepared]], list[Task]] = {}
    try:
        with _pool(transcripts, rules, workers) as pool:
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < AHEAD * workers:
                        lot = waiting.popleft()
                        under_way[pool.submit(_prepare, lot)] = lot
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        check()
                        results = future.result()
                        del under_way[future]
                        yield from results
                        waiting.extendleft([[task] for task in _unfinished(results)])
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    except (BrokenProcessPool, OSError, ImportError) as error:
        log.warning("history: no processes to prepare with (%s); it goes on in one", type(error).__name__)
        left = [task for lot in (*under_way.values(), *waiting) for task in lot]
        yield from prepared_here(left, transcripts, rules, check=check)


def _unfinished(results: Iterable[Prepared]) -> list[Task]:
    """Files that go on behind what was read of them."""
    last = {one.file.path: one for one in results}
    return [Task(one.file, one.conversation) for one in last.values() if one.more and one.conversation]


def _lots(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Small files together. A file that is longer than a lot ends one, so that the next process can go on with it."""
    lot: list[Task] = []
    size = 0
    for task in tasks:
        lot.append(task)
        size += max(0, task.file.size - task.begun.cursor.offset)
        if size >= LOT // 2:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot


def _pool(transcripts: Transcripts, rules: Rules, workers: int) -> ProcessPoolExecutor:
    # Spawned: this process has threads, and a fork would have their locks.
    return ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(transcripts, rules)
    )


def _begin(transcripts: Transcripts, rules: Rules) -> None:
    """In a process of the pool: it ends with the one that began it, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _at_work.append(Preparer(transcripts, rules))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _prepare(lot: list[Task]) -> list[Prepared]:
    found: list[Prepared] = []
    left = LOT
    for task in lot:
        for prepared in _at_work[0].pieces(task, most=max(left, 1)):
            found.append(prepared)
            left -= prepared.read
    return found
