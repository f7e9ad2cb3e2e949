"""Every status and error code of the REST API, with an example of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.contracts.rest.resource import Resource, resources


@dataclass(frozen=True, slots=True)
class Failure:
    """An error code with its status, text and advice."""

    status: int
    code: str
    error: str
    advice: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def example(self) -> dict[str, Any]:
        """An example of the response body."""
        body = {"error": self.error, "code": self.code, **self.more}
        return body | ({"advice": self.advice} if self.advice else {})


TITLES: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "Something in the request can't be used; nothing was changed."),
    401: ("Unauthorized", "A key or a token is needed, or this one does not hold."),
    403: ("Forbidden", "Understood, but not allowed to you."),
    404: ("NotFound", "Nothing of that name is there for you."),
    405: ("MethodNotAllowed", "The path is right, the method is not: `Allow` names those that are."),
    408: ("RequestTimeout", "The body took too long to arrive."),
    409: ("Conflict", "It exists already, is in use, or was changed meanwhile."),
    412: ("PreconditionFailed", "It is another version than `If-Match` names; nothing was changed."),
    413: ("ContentTooLarge", "The body is larger than the server takes."),
    415: ("UnsupportedMediaType", "The body is of a kind that isn't read here."),
    421: ("MisdirectedRequest", "The request names another server."),
    429: ("TooManyRequests", "Too many requests: `Retry-After` says when to come again."),
    500: ("InternalError", "Something failed on the server."),
    503: ("Unavailable", "The store does not answer for now, or the server stops; try again."),
}

_STORE = (
    ("STORE_ERROR", "The store does not answer."),
    ("STORE_AWAY", "The database's server can't be reached."),
    ("STORE_DENIED", "The database's server refuses the name or the password."),
    ("STORE_BUSY", "Another process holds the database for too long."),
    ("STORE_FULL", "No room is left for the database."),
    ("STORE_READ_ONLY", "The database can't be written."),
    ("STORE_DAMAGED", "The database file is not what it should be."),
    ("SCHEMA_TOO_NEW", "A newer Mindhold wrote this database."),
)
FAILURES: tuple[Failure, ...] = (
    Failure(400, "INVALID_INPUT", "limit must be at most 200; it was '500'."),
    Failure(400, "INVALID_JSON", "The body is no JSON.", "Send an object, as UTF-8."),
    Failure(400, "CONTENT_TOO_LARGE", "The text is beyond what one call may store.", "Send it in parts."),
    Failure(400, "UNKNOWN_TIME", "Nobody understands 'the twelfth of never'.", "Say it as a date."),
    Failure(400, "INVALID_MESSAGE_TYPE", "Invalid message type. Must be one of: user, assistant, system"),
    Failure(400, "EMPTY_CONTENT", "There is nothing in the text."),
    Failure(400, "NO_CRITERIA", "No deletion criteria provided", "Say which messages are meant."),
    Failure(401, "UNAUTHORIZED", "This needs a valid key.", "Send it as `Authorization: Bearer <key>`."),
    Failure(403, "REFUSED", "This key may read but not write.", "Use a key that may write."),
    Failure(
        403,
        "WRONG_ORIGIN",
        "Pages of this origin may not call.",
        "Name the origin in serve.allowed_origins if it may.",
    ),
    Failure(404, "NOT_FOUND", "There is nothing here."),
    Failure(
        404,
        "PROJECT_NOT_FOUND",
        "Project not found",
        "POST /api/projects makes one.",
        more={"project_id": "proj_123"},
    ),
    Failure(
        404, "MEMORY_NOT_FOUND", "There is no memory '01k2'.", "List them to see the ids that there are."
    ),
    Failure(404, "SCOPE_NOT_FOUND", "There is no scope 'work'.", "Make it first."),
    Failure(
        404, "JOB_NOT_FOUND", "There is no job '01k2'.", "Give its id as the answer that began it told it."
    ),
    Failure(
        404,
        "MESSAGE_NOT_FOUND",
        "There is no message 'msg_042' in this project.",
        "Give an id as saving, listing or searching told it.",
    ),
    Failure(
        404,
        "SESSION_NOT_FOUND",
        "There is no session 'abc-123' in this project.",
        "Messages tell their session_id.",
    ),
    Failure(404, "TASK_NOT_FOUND", "There is no task 42 in this project.", "Messages tell their task_id."),
    Failure(
        404,
        "VERSION_NOT_FOUND",
        "There is no version 7 of this summary.",
        "List them to see the versions that there are.",
    ),
    Failure(405, "METHOD_NOT_ALLOWED", "This can't be done here."),
    Failure(408, "TOO_SLOW", "The request took too long to arrive.", "Send it at once."),
    Failure(409, "CONFLICT", "It exists already.", "Choose another name."),
    Failure(409, "CHANGED", "Somebody else changed it meanwhile.", "Read it again and repeat."),
    Failure(
        409, "IDEMPOTENCY_KEY_REUSED", "The key was given with another call before.", "Choose a new key."
    ),
    Failure(412, "PRECONDITION_FAILED", "It was changed meanwhile.", "Read it again and repeat."),
    Failure(413, "BODY_TOO_LARGE", "The request is too large.", "At most 4194304 bytes are taken."),
    Failure(
        415, "UNSUPPORTED_MEDIA_TYPE", "The body must be JSON.", "Send `Content-Type: application/json`."
    ),
    Failure(421, "WRONG_HOST", "This is not the server that the request names."),
    Failure(429, "TOO_MANY_REQUESTS", "Too many requests.", "Try again in 3 seconds."),
    Failure(500, "INTERNAL", "Something went wrong inside Mindhold.", "`mindhold doctor` may help."),
    Failure(
        500,
        "EMBEDDING_SERVICE_ERROR",
        "Failed to generate embeddings",
        more={"details": "Voyage AI API timeout after 30 seconds"},
    ),
    Failure(503, "SETTINGS_ERROR", "No PostgreSQL is configured.", "Set postgres.url on the server."),
    Failure(
        503,
        "STOPPING",
        "The server stops: what came is stored, and it may not be all.",
        "Send it all again under the same Idempotency-Key when it is back.",
    ),
    *(Failure(503, code, error, "Try again in a while.") for code, error in _STORE),
)
BY_CODE: Mapping[str, Failure] = {failure.code: failure for failure in FAILURES}

EVERYWHERE = "INVALID_INPUT UNAUTHORIZED REFUSED WRONG_ORIGIN WRONG_HOST TOO_MANY_REQUESTS INTERNAL".split()
OF_BODIES = (
    "INVALID_JSON CONTENT_TOO_LARGE EMPTY_CONTENT TOO_SLOW BODY_TOO_LARGE UNSUPPORTED_MEDIA_TYPE".split()
)
OF_WRITES = ("CONFLICT", "CHANGED", "IDEMPOTENCY_KEY_REUSED")
OF_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("project_id", "project"), "PROJECT_NOT_FOUND"),
    **dict.fromkeys(("id", "ids", "origin", "target", "start", "linked_to", "after"), "MEMORY_NOT_FOUND"),
    **dict.fromkeys(("scope", "parent"), "SCOPE_NOT_FOUND"),
    "job_id": "JOB_NOT_FOUND",
    "message_id": "MESSAGE_NOT_FOUND",
    "when": "UNKNOWN_TIME",
}


def failures_of(row: Resource) -> list[Failure]:
    """All failures of a resource, by status."""
    return sorted((BY_CODE[code] for code in dict.fromkeys(_codes(row))), key=lambda failure: failure.status)


def _hides(fixed: str, free: str) -> bool:
    """Whether a name in the second path could match a fixed segment of the first."""
    pairs = list(zip(fixed.split("/"), free.split("/"), strict=False))
    alike = len(fixed.split("/")) == len(free.split("/")) and fixed != free
    return alike and all(left == right or right.startswith("{") for left, right in pairs)


def usual_failures(status: int) -> list[Failure]:
    """The failures with that status that most resources have."""
    common = {*EVERYWHERE, *OF_BODIES, *OF_WRITES, *(code for code, _ in _STORE), "NOT_FOUND"}
    failures = [failure for failure in FAILURES if failure.status == status]
    return [failure for failure in failures if failure.code in common] or failures


def _codes(row: Resource) -> Iterator[str]:
    yield from EVERYWHERE
    yield from (code for code, _ in _STORE)
    yield from (OF_WORDS[word] for word in row.fields() if word in OF_WORDS)
    if row.stream in ("import", "export"):
        yield "STOPPING"
    if row.in_path():
        yield "NOT_FOUND"
    if any(_hides(other.path, row.path) for other in resources()):
        yield "METHOD_NOT_ALLOWED"
    yield from (problem.code for problem in row.wrong.values())
    if row.method != "GET":
        yield from OF_BODIES
    if row.writes:
        yield from OF_WRITES
        if row.versioned:
            yield "PRECONDITION_FAILED"
    yield from row.codes
