"""Saves many messages at once; a broken import can be repeated."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from mindhold.conversations.message_log import MessageType, plain_model
from mindhold.conversations.messages import ProjectId, StorageBackend, free_position, message_request
from mindhold.conversations.recap_queue import recap_jobs
from mindhold.engine import Engine
from mindhold.memories.idempotency import check_key
from mindhold.memories.prepare import LARGEST_NUMBER
from mindhold.memories.write import RememberInput, Verbatim, WriteOutcome, WriteResult, write_many
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.placement import mode_of, open_project
from mindhold.text.redaction import redact

ALL = "system"  # a place may be taken by anybody


class Positions:
    """The positions of new messages in their conversations: looked up once for each conversation, then counted."""

    def __init__(self, engine: Engine, scope: str) -> None:
        self._engine = engine
        self._scope = scope
        self._next: dict[str, int] = {}

    async def __call__(self, memories: Sequence[Memory]) -> list[int]:
        named = [memory.provenance.conversation or "" for memory in memories]
        new = [name for name in dict.fromkeys(named) if name not in self._next]
        self._next |= dict(zip(new, await asyncio.gather(*map(self._free, new)), strict=True))
        places: list[int] = []
        for name in named:
            places.append(self._next[name])
            self._next[name] = min(places[-1] + 1, LARGEST_NUMBER)
        return places

    async def _free(self, conversation: str) -> int:
        """Most conversations of an import are new."""
        begun = Filter(
            viewer=ALL,
            scopes=(self._scope,),
            statuses=ANY_STATUS,
            conversation=conversation,
            positions=(0, 0),
        )
        if not await self._engine.store.count(begun, most=1):
            return 0
        return await free_position(self._engine, conversation, scope=self._scope)


def _hashed(key: str) -> str:
    """The key as the names of an import's messages have it: nobody reads it back. Raises InvalidInput."""
    check_key(key)
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


MOST_AT_ONCE = 1_000
MOST_TOLD = 100
IMPORTED_ID = "imported_id"  # metadata: the id that a message had elsewhere
MOST_LINES = 2**53  # what every reader of JSON can count to


class MessageLine(Input):
    """One message of many. It may come as another server listed it: `id` is kept in the metadata, as `imported_id`."""

    message_type: MessageType = Field(description="Who said it.")
    content: str = Field(description="The text.")
    task_id: int | None = Field(
        default=None, ge=0, le=LARGEST_NUMBER, description="The task that it belongs to."
    )
    session_id: str | None = Field(default=None, description="The session that it was said in.")
    timestamp: datetime | None = Field(default=None, description="When it was said.")
    metadata: dict[str, Any] | None = Field(default=None, description="Free metadata, stored unchanged.")
    id: str | None = Field(default=None, description="Its id.")


class SaveMessagesInput(Input):
    """Many turns of conversations; no project means the scope that the call is made in. A null keeps a place free.

    `first` is the number of the first of them. With an `idempotency_key` each is stored once under that key and its number.
    Without `embed` a job makes them findable by meaning later.
    """

    project: ProjectId = None
    messages: list[MessageLine | None] = Field(
        max_length=MOST_AT_ONCE,
        description="Messages.",
        examples=[
            [
                {
                    "message_type": "user",
                    "content": "How do I implement authentication?",
                    "task_id": 42,
                    "session_id": "abc-123",
                    "timestamp": "2025-11-27T10:30:00Z",
                }
            ]
        ],
    )
    first: int = Field(default=1, ge=1, le=MOST_LINES, description="Number of the first line.")
    idempotency_key: str | None = None
    embed: bool = Field(default=True, description="Embed at once; otherwise a job does it later.")
    create_project: bool = True


class LineError(Output):
    """What was wrong with one of them."""

    line: int = Field(description="Line number.")
    error: str
    code: str
    advice: str = Field(default="", description="What to do about it.")


class SaveMessagesResult(Output):
    """How many were new, were there already under their key, or could not be stored; and the first errors, by number.

    `message_ids` has one a message, null for what wasn't stored; none where too many came to name them.
    """

    status: str = Field(default="saved", description="Its status.", examples=["saved"])
    imported: int = Field(description="How many new messages were stored.", examples=[1])
    repeated: int = Field(description="How many existed already under the same key.", examples=[0])
    failed: int = Field(description="How many failed.", examples=[0])
    indexed: int = Field(description="How many messages have vectors already.", examples=[1])
    quarantined: int = Field(
        description="How many were quarantined because they read like instructions.", examples=[0]
    )
    redacted: int = Field(
        default=0, description="How many texts had secrets or personal data replaced.", examples=[0]
    )
    errors: list[LineError] = Field(description="Errors by line.", examples=[[]])
    message_ids: list[str | None] = Field(default=[], examples=[["01k8zj5v6n7q4x2m9c3d8e1f0g"]])
    embedding_model: str | None = Field(
        default=None, description="The embedding model; null if there is none.", examples=["all-MiniLM-L6-v2"]
    )
    storage_backend: StorageBackend
    project: str = Field(description="The project's name.", examples=["proj_123"])
    seconds: float = Field(description="How many seconds it took.", examples=[0.012])


async def _save(context: Context, request: SaveMessagesInput) -> SaveMessagesResult:
    """Add many messages to a project's log."""
    began, engine = time.monotonic(), context.engine
    project = (await open_project(engine, request.project, create=request.create_project, writing=True)).name
    key = None if request.idempotency_key is None else _hashed(request.idempotency_key)
    results: dict[int, WriteResult] = {}  # by number
    messages: dict[int, RememberInput] = {}
    for number, line in enumerate(request.messages, request.first):
        if line is None:
            continue
        try:
            messages[number] = _message(engine, line, project=project)
        except InvalidInput as error:
            results[number] = WriteResult(WriteOutcome.FAILED, error=error)
    policy = Verbatim(
        names=() if key is None else [f"import {key} {number}" for number in messages],
        positions=Positions(engine, project),
        embed=request.embed,
        along=recap_jobs(engine),
    )
    stored = await write_many(engine, list(messages.values()), agent=context.agent, verbatim=policy)
    results |= dict(zip(messages, stored, strict=True))
    new = [result for result in results.values() if result.outcome is WriteOutcome.STORED]
    failed = {number: result.error for number, result in sorted(results.items()) if result.error is not None}
    indexed = sum(result.embedded for result in new)
    return SaveMessagesResult(
        imported=len(new),
        repeated=len(results) - len(new) - len(failed),
        failed=len(failed),
        indexed=indexed,
        quarantined=sum(bool(result.suspicious) for result in new),
        redacted=sum(bool(result.redacted) for result in new),
        errors=[
            line_error(number, error.message, error.code, advice=error.advice)
            for number, error in list(failed.items())[:MOST_TOLD]
        ],
        message_ids=[
            result.memory.id if (result := results.get(number)) and result.memory else None
            for number in range(request.first, request.first + len(request.messages))
        ],
        embedding_model=plain_model(engine.vector_source.model) if indexed else None,
        storage_backend=await mode_of(engine, project),
        project=project,
        seconds=round(time.monotonic() - began, 3),
    )


SAVE_MESSAGES = operation("save_messages", _save, writes=True)


def _message(engine: Engine, line: MessageLine, *, project: str) -> RememberInput:
    metadata = dict(line.metadata or {})
    if line.id is not None:
        metadata.setdefault(IMPORTED_ID, line.id)
    return message_request(
        engine,
        line.message_type,
        line.content,
        project=project,
        conversation=(line.session_id or "").strip() or None,
        task=line.task_id,
        metadata=metadata,
        occurred=line.timestamp,
    )


def line_error(number: int, error: str, code: str, *, advice: str = "") -> LineError:
    """Errors repeat what was sent, and are kept by those who read them: secrets are taken out."""
    return LineError(line=number, error=redact(error).text, code=code, advice=advice)
