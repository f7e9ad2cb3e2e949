"""Captures the project's past conversations, which Claude Code keeps on this machine, and previews what that would do.

They are read in the order in which they were said, each once: a run that is broken off goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from mindhold.capture.capture import (
    CAPTURE,
    CURSOR_PREFIX,
    PIECE_BYTES,
    SUBAGENTS,
    CaptureInput,
    CaptureOutcome,
    CaptureResult,
    cursor_key,
)
from mindhold.capture.conversation_text import is_excluded, is_own_call, redact_steps, without_skipped_turns
from mindhold.capture.extracted_items import CapturedItem
from mindhold.capture.extraction import Extractor
from mindhold.capture.project_folder import scope_of_folder
from mindhold.capture.rejections import rejected_items
from mindhold.capture.status import MANUAL
from mindhold.capture.storage import is_open_end
from mindhold.conversations.sessions import clean_conversation_name
from mindhold.engine import Engine
from mindhold.history.index_guard import forgotten_sessions
from mindhold.hooks.project_identity import project_identity, worktrees
from mindhold.model.errors import MindholdError, NotFound, Refused, StoreError
from mindhold.model.memory import Status
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.transcripts import ConversationFile, TranscriptCursor, TranscriptRead

CLAUDE = "claude"  # the source of Claude Code's transcripts
USUAL_LIMIT = 20
MOST_CONVERSATIONS = 10_000
HEAD_BYTES = 64 << 10  # bytes of a file that name its folder and its first time
SAMPLE_BYTES = 1 << 20  # bytes of the newest conversation that are read as a sample
MOST_SAMPLED = 8
LONGEST_FOLDER_NAME = 200  # characters; Claude Code shortens a longer name
MODEL_CALL_SECONDS = 10.0  # of one call of a language model, about
BYTES_PER_CALL = 20_000  # of a transcript, about
_NO_NAME = re.compile(r"[^A-Za-z0-9]")  # as Claude Code makes a folder name from a path
STEP = "conversations"  # the step whose progress is reported


class CapturePastInput(Input):
    """The project's folder, and how many of its conversations at most, the newest."""

    folder: str = Field(min_length=1)
    limit: int = Field(default=USUAL_LIMIT, ge=1, le=MOST_CONVERSATIONS)


class SampledMemory(Output):
    """What would be kept of a conversation."""

    kind: str
    content: str
    said: datetime | None


class PreviewPastResult(Output):
    """What reading the past conversations would mean.

    `found` counts the project's conversations, `conversations` those among the newest that are not captured yet, begun
    between `first` and `last`, with so many `bytes`. `seconds` is how long it will take, about; `calls` how often a
    language model is asked at most. `sample` is what would be kept of the newest, as rules pick it out.
    """

    found: int
    conversations: int
    first: datetime | None = None
    last: datetime | None = None
    bytes: int = 0
    seconds: float = 0.0
    calls: int = 0
    sample: list[SampledMemory] = []


class CapturePastResult(Output):
    """What was captured: conversations that were read, memories by kind, and what went wrong by file.

    What a later conversation superseded is not counted among the memories.
    """

    scope: str | None = None
    conversations: int
    memories: int
    kinds: dict[str, int]
    superseded: int = 0
    problems: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _PastConversation:
    """A conversation of the project. `cursor` is how far it is captured; `is_waiting` whether something follows."""

    file: ConversationFile
    folder: str
    begun: datetime
    cursor: TranscriptCursor
    is_waiting: bool


async def past_conversations(engine: Engine, folder: str) -> list[_PastConversation]:
    """Return the project's conversations on this machine, the oldest first, without excluded and forgotten ones.

    Raises NotFound, Refused if past conversations are switched off or not the caller's, and the store's errors.
    """
    settings = engine.settings
    if engine.transcripts.withheld:
        raise Refused("The conversations on this machine are the owner's.", advice="Use the owner's key.")
    if not (settings.capture.enabled and settings.history.enabled):
        switch = "history.enabled" if settings.capture.enabled else "capture.enabled"
        raise Refused(
            f"Past conversations are not read: {switch} is off.",
            advice=f"`mindhold config set {switch} true` switches it on.",
        )
    if not Path(folder).is_dir():
        raise NotFound(f"There is no folder {folder}.", advice="Give the project's folder.")
    candidates = await asyncio.to_thread(_candidates, engine, folder)
    forgotten = await forgotten_sessions(engine)
    membership = _ProjectMembership(engine, folder, await scope_of_folder(engine, folder, create=False))
    conversations: list[_PastConversation] = []
    for file in candidates:
        head = await _follow(engine, file, TranscriptCursor(), most_bytes=HEAD_BYTES)
        if head is None or file.path.stem in forgotten or not await membership.includes(head.cwd):
            continue
        if is_excluded(head.cwd, settings.history_excluded) or is_own_call(head.steps):
            continue
        cursor = await _cursor(engine, file)
        begun = next((step.timestamp for step in head.steps if step.timestamp is not None), None)
        conversations.append(
            _PastConversation(
                file,
                head.cwd,
                begun or datetime.fromtimestamp(file.modified / 1e9, UTC),
                cursor,
                is_waiting=await _is_waiting(engine, file, cursor),
            )
        )
    return sorted(conversations, key=lambda each: (each.begun, str(each.file.path)))


async def _follow(
    engine: Engine, file: ConversationFile, cursor: TranscriptCursor, *, most_bytes: int
) -> TranscriptRead | None:
    return await asyncio.to_thread(engine.transcripts.follow, file.path, cursor, most_bytes=most_bytes)


def _candidates(engine: Engine, folder: str) -> list[ConversationFile]:
    """List the conversations that may be the project's, by the names that Claude Code gives to folders.

    A sub-agent's work is told in the conversation that it worked for.
    """
    real = os.path.realpath(folder)
    identity = project_identity(folder)
    tops = {folder, real, *worktrees(identity)}
    if identity != real:
        tops.add(str(Path(identity).parent))
    names = tuple(_NO_NAME.sub("-", top)[:LONGEST_FOLDER_NAME] for top in tops)
    return [
        file
        for file in engine.transcripts.files()
        if file.source == CLAUDE
        and not file.part_of
        and not file.path.name.startswith(SUBAGENTS)
        and file.folder.startswith(names)
    ]


class _ProjectMembership:
    """Tells which folders belong to the project: its own, those in it, and its other worktrees."""

    def __init__(self, engine: Engine, folder: str, scope: str | None) -> None:
        self._engine = engine
        self._scope = scope
        self._identity = project_identity(folder)
        self._top = Path(os.path.realpath(folder))
        self._known: dict[str, bool] = {}

    async def includes(self, cwd: str) -> bool:
        """Whether the folder belongs to it; one that is gone does if it lay in it."""
        if cwd not in self._known:
            self._known[cwd] = bool(cwd) and await self._look(cwd)
        return self._known[cwd]

    async def _look(self, cwd: str) -> bool:
        if project_identity(cwd) == self._identity:
            return True
        if not Path(cwd).is_dir():
            return Path(cwd).is_relative_to(self._top)
        return (
            self._scope is not None and await scope_of_folder(self._engine, cwd, create=False) == self._scope
        )


async def _cursor(engine: Engine, file: ConversationFile) -> TranscriptCursor:
    """Return how far a conversation is captured, as capture itself notes it; the beginning if that can't be read."""
    name = clean_conversation_name(engine, file.path.stem)
    raw = await engine.store.cursor(CURSOR_PREFIX + cursor_key(name, str(file.path)))
    try:
        value = json.loads(raw) if raw else {}
        return TranscriptCursor(int(value["offset"]), int(value["line"]), str(value["mark"]))
    except (ValueError, KeyError, TypeError):
        return TranscriptCursor()


async def _is_waiting(engine: Engine, file: ConversationFile, cursor: TranscriptCursor) -> bool:
    """Whether something was said behind the cursor."""
    if cursor.offset >= file.size:
        return False
    while True:
        piece = await _follow(engine, file, cursor, most_bytes=PIECE_BYTES)
        if piece is None or piece.lines:
            return piece is not None
        if not piece.more:
            return False
        cursor = piece.cursor


def _waiting(conversations: Sequence[_PastConversation], *, limit: int) -> list[_PastConversation]:
    """Return those of the newest `limit` conversations that are not captured yet, the oldest first."""
    return [each for each in conversations[-limit:] if each.is_waiting]


async def _preview_past(context: Context, request: CapturePastInput) -> PreviewPastResult:
    """What reading the project's past conversations would mean: how many, how long, and what would be kept."""
    engine = context.engine
    conversations = await past_conversations(engine, request.folder)
    waiting = _waiting(conversations, limit=request.limit)
    if not waiting:
        return PreviewPastResult(found=len(conversations), conversations=0)
    size = sum(each.file.size - each.cursor.offset for each in waiting)
    begun = time.monotonic()
    sample, sampled_bytes = await _sample(engine, waiting[-1], request.folder, agent=context.agent)
    seconds = (time.monotonic() - begun) * size / max(1, sampled_bytes)
    calls = 0
    if engine.settings.capture.by_model and engine.llm is not None:
        sizes = (each.file.size - each.cursor.offset for each in waiting)
        calls = sum(
            min(engine.settings.capture.most_calls, 1 + remaining // BYTES_PER_CALL) for remaining in sizes
        )
    return PreviewPastResult(
        found=len(conversations),
        conversations=len(waiting),
        first=waiting[0].begun,
        last=waiting[-1].begun,
        bytes=size,
        seconds=round(seconds + calls * MODEL_CALL_SECONDS, 1),
        calls=calls,
        sample=[SampledMemory(kind=item.kind, content=item.content, said=item.said) for item in sample],
    )


PREVIEW_PAST = operation("preview_past", _preview_past, reads=True, owner_only=True)


async def _sample(
    engine: Engine, conversation: _PastConversation, folder: str, *, agent: str
) -> tuple[list[CapturedItem], int]:
    """Return what rules would keep of a conversation's first new megabyte, and how many bytes that were. Stores nothing."""
    piece = await _follow(engine, conversation.file, conversation.cursor, most_bytes=SAMPLE_BYTES)
    if piece is None:
        return [], 0
    steps, _ = without_skipped_turns(piece.steps, skipping=False)
    steps = await asyncio.to_thread(redact_steps, [step for step in steps if not step.aside])
    scope = await scope_of_folder(engine, folder, create=False)
    extractor = Extractor(replace(engine, llm=None), folder, agent)
    items = (await extractor.pick(steps, {}, scope=scope)).items
    times = {step.line: step.timestamp for step in reversed(piece.steps)}
    rejected = await rejected_items(engine, items, scope=scope, agent=agent) if scope else frozenset()
    shown = [
        replace(item, said=times.get(item.line) or conversation.begun)
        for index, item in enumerate(items)
        if index not in rejected
    ]
    shown.sort(key=is_open_end)  # what lasts comes first
    return shown[:MOST_SAMPLED], piece.cursor.offset - conversation.cursor.offset


async def _capture_past(context: Context, request: CapturePastInput) -> CapturePastResult:
    """Capture the project's past conversations, in the order in which they were said."""
    conversations = await past_conversations(context.engine, request.folder)
    waiting = _waiting(conversations, limit=request.limit)
    results: list[CaptureResult] = []
    problems: dict[str, str] = {}
    context.progress(STEP, 0, len(waiting))
    for number, conversation in enumerate(waiting, 1):
        call = CaptureInput(
            file=str(conversation.file.path),
            folder=request.folder,
            event=MANUAL,
            documents=number == len(waiting),
            past=conversation is not conversations[-1],
        )
        try:
            results.append(await CAPTURE.run(context, call))
        except StoreError:
            raise
        except MindholdError as error:  # the others don't wait for this one
            problems[call.file] = str(error)
        context.progress(STEP, number, len(waiting))
    stored = [memory_id for result in results for memory_id in result.stored]
    memories = await context.engine.store.get_many(stored, viewer=context.agent) if stored else {}
    kinds = Counter(memory.kind.value for memory in memories.values() if memory.status is Status.ACTIVE)
    return CapturePastResult(
        scope=next((result.scope for result in results if result.scope), None),
        conversations=sum(result.outcome is CaptureOutcome.CAPTURED for result in results),
        memories=kinds.total(),
        kinds=dict(kinds.most_common()),
        superseded=len({memory_id for result in results for memory_id in result.superseded}),
        problems=problems,
    )


CAPTURE_PAST = operation("capture_past", _capture_past, writes=True, owner_only=True)
