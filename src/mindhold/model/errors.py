"""Every error that Mindhold raises on purpose."""

from __future__ import annotations

import re


class MindholdError(Exception):
    """Base class of all errors. `advice` says what the user can do.

    The code of a class is its name in capitals (STORE_BUSY of StoreBusy), unless it sets its own.
    """

    code = "MINDHOLD_ERROR"
    exit_status = 1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in cls.__dict__:
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class InvalidInput(MindholdError):
    """A value from the caller is invalid; nothing was written."""

    exit_status = 2


class ContentTooLarge(InvalidInput):
    """The text is longer than one call may store."""


class EmptyContent(InvalidInput):
    """The text is empty."""


class NoCriteria(InvalidInput):
    """The call names no criteria, and never applies to everything by default."""


class UnknownTime(InvalidInput):
    """The phrase is not a time that can be understood."""


class MarkersWrong(InvalidInput):
    """The markers in a document don't enclose exactly one block; the document is unchanged."""


class BrokenJson(InvalidInput):
    """The text isn't JSON; `line` and `column` count from one. Nothing was written."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class WrongShape(InvalidInput):
    """The document has another value where an object or a list should be; nothing was written."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class NotFound(MindholdError):
    """Nothing with that name is visible to the caller."""

    exit_status = 3


class MemoryNotFound(NotFound):
    """No memory with that id is visible to the caller."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(
            f"There is no memory {memory_id!r}.", advice="`mindhold list` shows the ids that there are."
        )
        self.memory_id = memory_id


class MessageNotFound(NotFound):
    """No message with that id in the project is visible to the caller."""

    def __init__(self, message_id: str, *, project: str) -> None:
        super().__init__(
            f"There is no message {message_id!r} in the project {project!r}.",
            advice="Give an id as saving, listing or searching told it.",
        )


class SessionNotFound(NotFound):
    """No message of that session in the project is visible to the caller."""

    def __init__(self, session: str, *, project: str) -> None:
        super().__init__(
            f"There is no message of the session {session!r} in the project {project!r}.",
            advice="Messages tell their session_id.",
        )


class TaskNotFound(NotFound):
    """No message about that task in the project is visible to the caller."""

    def __init__(self, task: int, *, project: str) -> None:
        super().__init__(
            f"There is no message about the task {task} in the project {project!r}.",
            advice="Messages tell their task_id.",
        )


class VersionNotFound(NotFound):
    """No such version of the project's summary is visible to the caller."""

    def __init__(self, version: int, project: str) -> None:
        super().__init__(
            f"The summary of {project!r} has no version {version}.",
            advice=f"`mindhold projects summary {project!r} --versions` shows the ones that there are.",
        )
        self.version = version


class ScopeNotFound(NotFound):
    """No scope has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no scope {name!r}.",
            advice=f"`mindhold scopes create {name!r}` makes it; `mindhold scopes list` shows the ones that there are.",
        )
        self.name = name


class JobNotFound(NotFound):
    """No job has that id."""


class Conflict(MindholdError):
    """The thing already exists, or something still depends on it."""

    exit_status = 4


class Changed(Conflict):
    """The record has changed since the caller read it; nothing was written."""


class KeyReused(Conflict):
    """The idempotency key was used before with other content; nothing was written."""

    code = "IDEMPOTENCY_KEY_REUSED"


class Refused(MindholdError):
    """The request is understood but not allowed."""

    exit_status = 5


class SettingsError(MindholdError):
    """A setting's key or value is wrong; the message names key and source."""

    exit_status = 6


class StoreError(MindholdError):
    """The database failed."""

    exit_status = 7


class StoreAway(StoreError):
    """The database server can't be reached; acknowledged writes are safe there."""


class StoreDenied(StoreError):
    """The database server rejects the user, the password or the permission."""


class StoreBusy(StoreError):
    """Another process locked the database for longer than the busy timeout."""


class StoreFull(StoreError):
    """No space is left for the database; nothing was written."""


class StoreReadOnly(StoreError):
    """The database or its folder can't be written."""


class StoreDamaged(StoreError):
    """The database file is damaged."""


class SchemaTooNew(StoreError):
    """A newer Mindhold wrote this file; opening it could lose data."""


class ServerError(MindholdError):
    """A request over HTTP got no usable answer."""

    exit_status = 9


class ServerAway(ServerError):
    """The server can't be reached, took too long, or accepts no calls for now."""


class RlmError(MindholdError):
    """The server of a recursive language model failed."""


class RlmConnectionFailed(RlmError):
    """The server can't be started or doesn't answer after all retries."""


class RlmToolFailed(RlmError):
    """A tool of the server failed, timed out (`slow`), or gave an unusable answer.

    `gone`: the server ended meanwhile and lost its state.
    """

    gone = False
    slow = False


class ModelError(MindholdError):
    """A model failed.

    `unasked`: nothing was sent to it, so the call has cost nothing. `lost`: something was sent and the outcome is
    unknown, so it may have cost the maximum.
    """

    exit_status = 8
    unasked = False
    lost = False


class ModelMissing(ModelError):
    """The model was never downloaded."""


class ModelBroken(ModelError):
    """The model's files exist but can't be used."""


class ModelPullFailed(ModelError):
    """The model could not be downloaded or converted."""


class ModelAway(ModelError):
    """The service can't be reached, or accepts no more calls for now."""


class ModelDenied(ModelError):
    """The service rejects the key."""


class ModelSpent(ModelError):
    """The day's budget for language models is too small for the call, or can't be counted."""

    unasked = True


class ModelMismatch(ModelError):
    """The model or its dimension differs from that of the stored vectors."""
