"""Every error that Mindhold raises on purpose."""

from __future__ import annotations


class MindholdError(Exception):
    """Base of the tree. `advice` says what the person can do about it."""

    code = "MINDHOLD_ERROR"
    exit_status = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".strip()


class InvalidInput(MindholdError):
    """The caller's value can't be used; nothing was written."""

    code = "INVALID_INPUT"
    exit_status = 2


class ContentTooLarge(InvalidInput):
    """The text is beyond what one call may store."""

    code = "CONTENT_TOO_LARGE"


class EmptyContent(InvalidInput):
    """There is nothing in the text."""

    code = "EMPTY_CONTENT"


class NoCriteria(InvalidInput):
    """Nothing says which are meant, and all of them is never the answer."""

    code = "NO_CRITERIA"


class UnknownTime(InvalidInput):
    """The phrase names no time that could be understood."""

    code = "UNKNOWN_TIME"


class MarkersWrong(InvalidInput):
    """The markers in a document don't enclose one place; the document was left as it is."""

    code = "MARKERS_WRONG"


class BrokenJson(InvalidInput):
    """The text is no JSON; `line` and `column` count from one. Nothing was written."""

    code = "BROKEN_JSON"

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class WrongShape(InvalidInput):
    """The document has something else where an object or a list should be; nothing was written."""

    code = "WRONG_SHAPE"

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}.", advice="Correct it, and try again.")
        self.line, self.column = line, column


class NotFound(MindholdError):
    """Nothing of that name is visible to the caller."""

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
    """No message with that id is in the project, as far as the caller sees."""

    code = "MESSAGE_NOT_FOUND"

    def __init__(self, message_id: str, *, project: str) -> None:
        super().__init__(
            f"There is no message {message_id!r} in the project {project!r}.",
            advice="Give an id as saving, listing or searching told it.",
        )


class SessionNotFound(NotFound):
    """Nothing was said in that session of the project, as far as the caller sees."""

    code = "SESSION_NOT_FOUND"

    def __init__(self, session: str, *, project: str) -> None:
        super().__init__(
            f"There is no message of the session {session!r} in the project {project!r}.",
            advice="Messages tell their session_id.",
        )


class TaskNotFound(NotFound):
    """Nothing was said about that task of the project, as far as the caller sees."""

    code = "TASK_NOT_FOUND"

    def __init__(self, task: int, *, project: str) -> None:
        super().__init__(
            f"There is no message about the task {task} in the project {project!r}.",
            advice="Messages tell their task_id.",
        )


class VersionNotFound(NotFound):
    """The project's summary has no such version, as far as the caller sees."""

    code = "VERSION_NOT_FOUND"

    def __init__(self, version: int, project: str) -> None:
        super().__init__(
            f"The summary of {project!r} has no version {version}.",
            advice=f"`mindhold projects summary {project!r} --versions` shows the ones that there are.",
        )
        self.version = version


class ScopeNotFound(NotFound):
    """No scope of that name."""

    code = "SCOPE_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no scope {name!r}.",
            advice=f"`mindhold scopes create {name!r}` makes it; `mindhold scopes list` shows the ones that there are.",
        )
        self.name = name


class JobNotFound(NotFound):
    """No job with that id."""

    code = "JOB_NOT_FOUND"


class Conflict(MindholdError):
    """The thing exists already, or something still depends on it."""

    code = "CONFLICT"
    exit_status = 4


class Changed(Conflict):
    """The record is another one than the caller had read; nothing was written."""

    code = "CHANGED"


class KeyReused(Conflict):
    """The idempotency key was given with other content before; nothing was written."""

    code = "IDEMPOTENCY_KEY_REUSED"


class Refused(MindholdError):
    """Understood, but not allowed as asked."""

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
    """The database's server can't be reached; what was acknowledged before is safe there."""

    code = "STORE_AWAY"


class StoreDenied(StoreError):
    """The database's server refuses the name, the password or the right."""

    code = "STORE_DENIED"


class StoreBusy(StoreError):
    """Another process held the database for longer than the busy timeout."""

    code = "STORE_BUSY"


class StoreFull(StoreError):
    """No room is left for the database; nothing was written."""

    code = "STORE_FULL"


class StoreReadOnly(StoreError):
    """The database or its folder can't be written."""

    code = "STORE_READ_ONLY"


class StoreDamaged(StoreError):
    """The database file is not what it should be."""

    code = "STORE_DAMAGED"


class SchemaTooNew(StoreError):
    """A newer Mindhold wrote this file; opening it could lose what it knows."""

    code = "SCHEMA_TOO_NEW"


class ServerError(MindholdError):
    """What was asked over HTTP gave no answer that could be understood."""

    code = "SERVER_ERROR"
    exit_status = 9


class ServerAway(ServerError):
    """The server can't be reached, took too long, or takes no calls for now."""

    code = "SERVER_AWAY"


class RlmError(MindholdError):
    """The server of a recursive language model."""

    code = "RLM_ERROR"


class RlmConnectionFailed(RlmError):
    """It can't be started or doesn't answer, however often it was tried."""

    code = "RLM_CONNECTION_FAILED"


class RlmToolFailed(RlmError):
    """One of its tools failed, took too long (`slow`), or answered what can't be used. `gone`: the server ended meanwhile, and
    with it what it held."""

    code = "RLM_TOOL_FAILED"
    gone = False
    slow = False


class ModelError(MindholdError):
    """A model failed. `unasked`: it was never sent anything, so the call has cost nothing. `lost`: it was, and nobody knows what
    came of it, so that it may have cost all that it could."""

    code = "MODEL_ERROR"
    exit_status = 8
    unasked = False
    lost = False


class ModelMissing(ModelError):
    """The model was never pulled."""

    code = "MODEL_MISSING"


class ModelBroken(ModelError):
    """The model's files are there but can't be used."""

    code = "MODEL_BROKEN"


class ModelPullFailed(ModelError):
    """The model could not be fetched or turned into what we run."""

    code = "MODEL_PULL_FAILED"


class ModelAway(ModelError):
    """The service can't be reached, or takes no more calls for now."""

    code = "MODEL_AWAY"


class ModelDenied(ModelError):
    """The service refuses the key."""

    code = "MODEL_DENIED"


class ModelSpent(ModelError):
    """The day's tokens or dollars for language models don't suffice for the call, or can't be counted."""

    code = "MODEL_SPENT"
    unasked = True


class ModelMismatch(ModelError):
    """The model or its dimension is another one than that of the stored vectors."""

    code = "MODEL_MISMATCH"
