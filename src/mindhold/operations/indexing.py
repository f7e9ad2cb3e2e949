"""The operation that keeps the index of past conversations current."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from mindhold.engine.history.indexing import Indexed, index_history
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

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


async def _index(call: Call, given: IndexHistoryInput) -> IndexHistoryResult:
    indexed = await index_history(
        call.engine,
        progress=call.progress,
        most_bytes=given.most_bytes,
        most_seconds=given.most_seconds,
        files=[Path(file) for file in given.files] or None,
        workers=_cores() if given.workers is None else given.workers,
        anew=given.all,
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
        notice=_notice(call, indexed),
        archive=indexed.archive,
    )


def _named(file: Path) -> str:
    """As text, whatever bytes its name has."""
    return os.fsencode(file).decode("utf-8", "replace")


def _notice(call: Call, indexed: Indexed) -> str:
    if not call.engine.policy.history.enabled:
        return DISABLED
    told = [BUSY] if indexed.busy else [LEFT] if indexed.left else []
    if indexed.reread:
        told.append(REREAD)
    if indexed.untold:
        told.append(f"{indexed.untold} more lines can't be read.")
    return " ".join(told)


def _cores() -> int:
    return min(MOST_WORKERS, os.cpu_count() or 1)


INDEX_HISTORY = Operation(
    "index_history",
    "Read past conversations into their index: what is new since the last time.",
    IndexHistoryInput,
    IndexHistoryResult,
    _index,
    Effect.WRITES,
    owner_only=True,
)
