"""Saving many messages of a project at once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pydantic import Field

from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.engine.housing import mode_of
from mindhold.engine.message_import import save_messages
from mindhold.engine.messages import Message
from mindhold.engine.projects import open_project
from mindhold.engine.text.redact import redact
from mindhold.engine.verbatim import Kept
from mindhold.model.errors import MindholdError
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.messages import MessageType
from mindhold.operations.project_views import plain_model

MOST_AT_ONCE = 1_000
MOST_TOLD = 100
IMPORTED_ID = "imported_id"  # metadata: the id that a message had elsewhere
MOST_LINES = 2**53  # what every reader of JSON can count to


class MessageLine(Input):
    """One message of many. It may come as another server listed it: `id` is kept in the metadata, as `imported_id`."""

    message_type: MessageType
    content: str
    task_id: int | None = Field(default=None, ge=0, le=LARGEST_NUMBER)
    session_id: str | None = None
    timestamp: datetime | None = None
    metadata: dict[str, Any] | None = None
    id: str | None = None


class SaveMessagesInput(Input):
    """Many turns of conversations; no project means the scope that the call is made in. A null keeps a place free.

    `first` is the number of the first of them. With an `idempotency_key` each is stored once under that key and its number.
    Without `embed` a job makes them findable by meaning later.
    """

    project: str | None = None
    messages: list[MessageLine | None] = Field(max_length=MOST_AT_ONCE)
    first: int = Field(default=1, ge=1, le=MOST_LINES)
    idempotency_key: str | None = None
    embed: bool = True
    create_project: bool = True


class LineError(Output):
    """What was wrong with one of them."""

    line: int
    error: str
    code: str
    advice: str = ""


class SaveMessagesResult(Output):
    """How many were new, were there already under their key, or could not be stored; and the first errors, by number.

    `message_ids` has one a message, null for what wasn't stored; none where too many came to name them.
    """

    status: str = "saved"
    imported: int
    repeated: int
    failed: int
    indexed: int  # of those that were imported: found by meaning already
    quarantined: int  # of those: kept, but never given to anybody
    redacted: int = 0  # of those: with secrets or personal data that were replaced
    errors: list[LineError]
    message_ids: list[str | None] = []
    embedding_model: str | None = None
    storage_backend: str
    project: str
    seconds: float


async def _save(call: Call, given: SaveMessagesInput) -> SaveMessagesResult:
    began = time.monotonic()
    project = (await open_project(call.engine, given.project, create=given.create_project, writing=True)).name
    numbered = [
        (number, _message(line))
        for number, line in enumerate(given.messages, given.first)
        if line is not None
    ]
    answers = await save_messages(
        call.engine,
        project,
        numbered,
        agent=call.agent,
        key=given.idempotency_key,
        embed=given.embed,
    )
    by_number = dict(zip((number for number, _ in numbered), answers, strict=True))
    new = [kept for kept in answers if isinstance(kept, Kept) and not kept.repeated]
    indexed = sum(kept.embedded for kept in new)
    return SaveMessagesResult(
        imported=len(new),
        repeated=sum(isinstance(kept, Kept) and kept.repeated for kept in answers),
        failed=sum(isinstance(kept, MindholdError) for kept in answers),
        indexed=indexed,
        quarantined=sum(bool(kept.suspicious) for kept in new),
        redacted=sum(bool(kept.redacted) for kept in new),
        errors=_errors(by_number.items()),
        message_ids=[
            kept.memory.id if isinstance(kept := by_number.get(number), Kept) else None
            for number in range(given.first, given.first + len(given.messages))
        ],
        embedding_model=plain_model(call.engine.meaning.model) if indexed else None,
        storage_backend=await mode_of(call.engine, project),
        project=project,
        seconds=round(time.monotonic() - began, 3),
    )


def _message(line: MessageLine) -> Message:
    metadata = dict(line.metadata or {})
    if line.id is not None:
        metadata.setdefault(IMPORTED_ID, line.id)
    return Message(
        role=line.message_type,
        content=line.content,
        task=line.task_id,
        conversation=(line.session_id or "").strip() or None,
        metadata=metadata,
        occurred=line.timestamp,
    )


def _errors(answers: Iterable[tuple[int, Kept | MindholdError]]) -> list[LineError]:
    wrong = [(number, error) for number, error in answers if isinstance(error, MindholdError)]
    return [
        line_error(number, error.message, error.code, advice=error.advice)
        for number, error in wrong[:MOST_TOLD]
    ]


def line_error(number: int, error: str, code: str, *, advice: str = "") -> LineError:
    """Errors repeat what was sent, and are kept by those who read them: secrets are taken out."""
    return LineError(line=number, error=redact(error).text, code=code, advice=advice)


SAVE_MESSAGES = Operation(
    "save_messages",
    "Add many messages to a project's log.",
    SaveMessagesInput,
    SaveMessagesResult,
    _save,
    Effect.WRITES,
)
