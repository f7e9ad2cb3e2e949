"""Every error that Mindhold raises on purpose."""

from __future__ import annotations


class MindholdError(Exception):
    """Base class of all errors. `advice` says what the user can do."""

    code = "MINDHOLD_ERROR"
    exit_status = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class InvalidInput(MindholdError):
    """A value from the caller is invalid; nothing was written."""

    code = "INVALID_INPUT"
    exit_status = 2


class ContentTooLarge(InvalidInput):
    """The text is longer than one call may store."""

    code = "CONTENT_TOO_LARGE"


class EmptyContent(InvalidInput):
    """The text is empty."""

    code = "EMPTY_CONTENT"


class NoCriteria(InvalidInput):
    """The call names no criteria, and never applies to everything by default."""

    code = "NO_CRITERIA"


class UnknownTime(InvalidInput):
    """The phrase is not a time that can be understood."""

    code = "UNKNOWN_TIME"


class MarkersWrong(InvalidInput):
    """The markers in a document don't enclose exactly one block; the document is unchanged."""

    code = "MARKERS_WRONG"


class BrokenJson(InvalidInput):
    """The text isn't JSON; `line` and `column` count from one. Nothing was written."""

    code = "BROKEN_JSON"

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class WrongShape(InvalidInput):
    """The document has another value where an object or a list should be; nothing was written."""

    code = "WRONG_SHAPE"

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class NotFound(MindholdError):
    """Nothing with that name is visible to the caller."""

    code = "NOT_FOUND"
    exit_status = 3


class MemoryNotFound(NotFound):
    """No memory with that id is visible to the caller."""

    code = "MEMORY_NOT_FOUND"

    def __init__(self, memory_id: str) -> None:
        super().__init__(
            f"There is no memory {memory_id!r}.", advice="`mindhold list` shows the ids that there are."
        )
        self.memory_id = memory_id


class MessageNotFound(NotFound):
    """No message with that id in the project is visible to the caller."""

    code = "MESSAGE_NOT_FOUND"

    def __init__(self, message_id: str, *, project: str) -> None:
        super().__init__(
            f"There is no message {message_id!r} in the project {project!r}.",
            advice="Give an id as saving, listing or searching told it.",
        )


class SessionNotFound(NotFound):
    """No message of that session in the project is visible to the caller."""

    code = "SESSION_NOT_FOUND"

    def __init__(self, session: str, *, project: str) -> None:
        super().__init__(
            f"There is no message of the session {session!r} in the project {project!r}.",
            advice="Messages tell their session_id.",
        )


class TaskNotFound(NotFound):
    """No message about that task in the project is visible to the caller."""

    code = "TASK_NOT_FOUND"

    def __init__(self, task: int, *, project: str) -> None:
        super().__init__(
            f"There is no message about the task {task} in the project {project!r}.",
            advice="Messages tell their task_id.",
        )


class VersionNotFound(NotFound):
    """No such version of the project's summary is visible to the caller."""

    code = "VERSION_NOT_FOUND"

    def __init__(self, version: int, project: str) -> None:
        super().__init__(
            f"The summary of {project!r} has no version {version}.",
            advice=f"`mindhold projects summary {project!r} --versions` shows the ones that there are.",
        )
        self.version = version


class ScopeNotFound(NotFound):
    """No scope has that name."""

    code = "SCOPE_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no scope {name!r}.",
            advice=f"`mindhold scopes create {name!r}` makes it; `mindhold scopes list` shows the ones that there are.",
        )
        self.name = name


class JobNotFound(NotFound):
    """No job has that id."""

    code = "JOB_NOT_FOUND"


class Conflict(MindholdError):
    """The thing already exists, or something still depends on it."""

    code = "CONFLICT"
    exit_status = 4


class Changed(Conflict):
    """The record has changed since the caller read it; nothing was written."""

    code = "CHANGED"


class KeyReused(Conflict):
    """The idempotency key was used before with other content; nothing was written."""

    code = "IDEMPOTENCY_KEY_REUSED"


class Refused(MindholdError):
    """The request is understood but not allowed."""

    code = "REFUSED"
    exit_status = 5


class SettingsError(MindholdError):
    """A setting's key or value is wrong; the message names key and source."""

    code = "SETTINGS_ERROR"
    exit_status = 6


class StoreError(MindholdError):
    """The database failed."""

    code = "STORE_ERROR"
    exit_status = 7


class StoreAway(StoreError):
    """The database server can't be reached; acknowledged writes are safe there."""

    code = "STORE_AWAY"


class StoreDenied(StoreError):
    """The database server rejects the user, the password or the permission."""

    code = "STORE_DENIED"


class StoreBusy(StoreError):
    """Another process locked the database for longer than the busy timeout."""

    code = "STORE_BUSY"


class StoreFull(StoreError):
    """No space is left for the database; nothing was written."""

    code = "STORE_FULL"


class StoreReadOnly(StoreError):
    """The database or its folder can't be written."""

    code = "STORE_READ_ONLY"


class StoreDamaged(StoreError):
    """The database file is damaged."""

    code = "STORE_DAMAGED"


class SchemaTooNew(StoreError):
    """A newer Mindhold wrote this file; opening it could lose data."""

    code = "SCHEMA_TOO_NEW"


class ServerError(MindholdError):
    """A request over HTTP got no usable answer."""

    code = "SERVER_ERROR"
    exit_status = 9


class ServerAway(ServerError):
    """The server can't be reached, took too long, or accepts no calls for now."""

    code = "SERVER_AWAY"


class RlmError(MindholdError):
    """The server of a recursive language model failed."""

    code = "RLM_ERROR"


class RlmConnectionFailed(RlmError):
    """The server can't be started or doesn't answer after all retries."""

    code = "RLM_CONNECTION_FAILED"


class RlmToolFailed(RlmError):
    """A tool of the server failed, timed out (`slow`), or gave an unusable answer.

    `gone`: the server ended meanwhile and lost its state.
    """

    code = "RLM_TOOL_FAILED"
    gone = False
    slow = False


class ModelError(MindholdError):
    """A model failed.

    `unasked`: nothing was sent to it, so the call has cost nothing. `lost`: something was sent and the outcome is
    unknown, so it may have cost the maximum.
    """

    code = "MODEL_ERROR"
    exit_status = 8
    unasked = False
    lost = False


class ModelMissing(ModelError):
    """The model was never downloaded."""

    code = "MODEL_MISSING"


class ModelBroken(ModelError):
    """The model's files exist but can't be used."""

    code = "MODEL_BROKEN"


class ModelPullFailed(ModelError):
    """The model could not be downloaded or converted."""

    code = "MODEL_PULL_FAILED"


class ModelUnreachable(ModelPullFailed):
    """No server that has the model can be reached. The message says what to do, to be one line."""


class ModelAway(ModelError):
    """The service can't be reached, or accepts no more calls for now."""

    code = "MODEL_AWAY"


class ModelDenied(ModelError):
    """The service rejects the key."""

    code = "MODEL_DENIED"


class ModelSpent(ModelError):
    """The day's budget for language models is too small for the call, or can't be counted."""

    code = "MODEL_SPENT"
    unasked = True


class ModelMismatch(ModelError):
    """The model or its dimension differs from that of the stored vectors."""

    code = "MODEL_MISMATCH"
