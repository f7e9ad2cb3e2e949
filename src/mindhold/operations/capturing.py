"""The operation behind silent capture: what a conversation left becomes memories, and the project's documents follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from mindhold.engine.capture.bounds import is_excluded
from mindhold.engine.capture.condense import condense, due
from mindhold.engine.capture.document import write_documents
from mindhold.engine.capture.flow import Captured, Heard, Outcome, capture
from mindhold.engine.capture.in_time import in_time
from mindhold.model.errors import InvalidInput
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.condensing import WrittenView
from mindhold.ports.transcripts import Cursor

MANUAL = "manual"
LONGEST = 1_000_000
HEAD = 1 << 20  # bytes of a file that says where it was held


class CaptureInput(Input):
    """A conversation's file, where it is held, and what happened. `conversation` is the file's name unless given, and
    `folder` the one that the file says.

    `last_message` is what the assistant said last, or what that is known by: while the file hasn't that yet, the answer is
    that it lags, and to be asked again in a moment; without it what is there is taken. `subagent` is whose file it is, if
    not the main one. `exclude` has patterns of folders that are left out besides those of the
    settings. `model_seconds` is how long language models may take in all; then rules do without.
    """

    file: str = Field(min_length=1)
    folder: str = ""
    event: str = Field(default=MANUAL, max_length=100)
    conversation: str = ""
    last_message: str = Field(default="", max_length=LONGEST)
    subagent: str = ""
    # Whether what was captured is condensed when it is time, and the documents are written.
    documents: bool = True
    exclude: list[str] = []
    model_seconds: float | None = Field(default=None, ge=0)


class CaptureResult(Output):
    """What came of it. Memories by their ids: `stored` are new, `superseded` are those that they took the place of."""

    outcome: Outcome
    scope: str | None = None
    lags: bool = False
    lines: int = 0  # of the file that had something in them
    found: int = 0
    stored: list[str] = []
    superseded: list[str] = []
    duplicates: int = 0
    rung: str = ""  # who picked out: rules, or a model's name
    condensed: str = ""  # why, if it was
    documents: list[WrittenView] = []
    notice: str = ""


async def _capture(call: Call, given: CaptureInput) -> CaptureResult:
    folder = given.folder or await _held_in(call, given.file)
    if is_excluded(folder, given.exclude):
        return CaptureResult(outcome=Outcome.EXCLUDED)
    heard = Heard(
        conversation=given.conversation or Path(given.file).stem,
        file=given.file,
        event=given.event,
        folder=folder,
        last_message=given.last_message,
        subagent=given.subagent,
    )
    call = _hurried(call, given.model_seconds)
    done = await capture(call.engine, heard, agent=call.agent)
    why, notice = "", done.notice
    documents: list[WrittenView] = []
    if given.documents and done.scope is not None and done.outcome in _FOLLOWED:
        why, condensed = await _condense(call, done, scope=done.scope, event=given.event)
        notice = notice or condensed
        written = await write_documents(call.engine, done.scope, folder, agent=call.agent)
        documents = [WrittenView.of(one) for one in written]
    return CaptureResult(
        outcome=done.outcome,
        scope=done.scope,
        lags=done.lags,
        lines=done.lines,
        found=done.found,
        stored=list(done.stored),
        superseded=list(done.superseded),
        duplicates=done.duplicates,
        rung=done.rung,
        condensed=why,
        documents=documents,
        notice=notice,
    )


def _hurried(call: Call, seconds: float | None) -> Call:
    model = call.engine.llm
    if seconds is None or model is None:
        return call
    return replace(call, engine=replace(call.engine, llm=in_time(model, seconds)))


async def _held_in(call: Call, file: str) -> str:
    head = await asyncio.to_thread(call.engine.transcripts.follow, Path(file), Cursor(), most_bytes=HEAD)
    if head is None:
        raise InvalidInput(
            f"There is no file {file}.", advice="Give the path of a conversation's transcript."
        )
    if not head.cwd:
        raise InvalidInput(f"{file} doesn't say where it was held.", advice="Name the project's folder.")
    return head.cwd


# Where nothing is new, a run that was killed may have left the rest undone.
_FOLLOWED = frozenset({Outcome.CAPTURED, Outcome.NOTHING})


async def _condense(call: Call, done: Captured, *, scope: str, event: str) -> tuple[str, str]:
    """Why it was done, if it was, and what is to be said of it."""
    why = await due(call.engine, scope, event=event, captures=done.captures)
    if not why:
        return "", ""
    return why, (await condense(call.engine, scope, agent=call.agent)).notice


CAPTURE = Operation(
    "capture",
    "Keep what a conversation left that is worth keeping.",
    CaptureInput,
    CaptureResult,
    _capture,
    Effect.WRITES,
    owner_only=True,
)
