"""Requests and answers of the HTTP client, without sending: address, requests, retries, errors, paging."""

from __future__ import annotations

import json
import math
import random
import secrets
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field, replace
from functools import cache, update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import urlencode, urlsplit

from mindhold.model import errors
from mindhold.model.errors import InvalidInput, MindholdError, ServerAway, ServerError, SettingsError
from mindhold.model.host import is_loopback

if TYPE_CHECKING:
    from mindhold.contracts.rest.resource import Resource, ResourceRequest
    from mindhold.operations import Input, Operation, Output


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address, without a trailing slash, and its API key."""

    url: str
    host: str
    key: str = field(default="", repr=False)

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""
        return is_loopback(self.host)

    @property
    def is_private(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.startswith("https:")


def server_address(url: str, *, key: str = "", insecure: bool = False) -> ServerAddress:
    """Parse an address. Raises SettingsError, also for a key over plain http, unless `insecure`."""
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _address_error("is none") from error
    if parts.scheme not in ("http", "https") or not host or " " in text or not text.isprintable():
        raise _address_error("is none")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _address_error(
            "holds more than a place", advice="Give the address alone; the key is given apart."
        )
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError("The key holds characters that no key has.", advice="Copy it anew.")
    if key and parts.scheme == "http" and not is_loopback(host) and not insecure:
        raise SettingsError(
            f"The key would go to {host} by plain http, where others can read it.",
            advice="Use https://; for a network that you trust say `insecure` (`-o remote.insecure=true`).",
        )
    return ServerAddress(f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}", host, key)


def _address_error(what: str, *, advice: str = "Give one such as http://localhost:3333.") -> SettingsError:
    return SettingsError(f"The server's address {what}.", advice=advice)


# Codes that only the HTTP interface has; the others are those of the errors themselves.
_HTTP_CODES: Mapping[str, type[MindholdError]] = {
    "PROJECT_NOT_FOUND": errors.ScopeNotFound,
    "EMBEDDING_SERVICE_ERROR": errors.ModelError,
    "PRECONDITION_FAILED": errors.Changed,
    "TOO_LARGE": errors.ContentTooLarge,
}
# The error for an unknown code, by HTTP status.
_BY_STATUS: Mapping[int, type[MindholdError]] = {
    400: errors.InvalidInput,
    401: errors.Refused,
    403: errors.Refused,
    404: errors.NotFound,
    405: errors.InvalidInput,
    408: ServerAway,
    409: errors.Conflict,
    412: errors.Changed,
    413: errors.ContentTooLarge,
    415: errors.InvalidInput,
    421: errors.Refused,
    422: errors.InvalidInput,
    428: errors.Refused,
    429: ServerAway,
    502: ServerAway,
    503: ServerAway,
    504: ServerAway,
}
# Fields of some errors, and the names of these fields in an answer.
_DETAILS: Mapping[type[MindholdError], Mapping[str, str]] = {
    errors.MemoryNotFound: {"memory_id": "memory_id"},
    errors.ScopeNotFound: {"name": "project_id"},
    errors.BrokenJson: {"line": "line", "column": "column"},
    errors.WrongShape: {"line": "line", "column": "column"},
}
_NOTHING = "There is nothing here."  # the answer to an unknown path
_ADDRESS_ADVICE = "Give the address that `mindhold serve` tells, such as http://localhost:3333, without /mcp or /api behind it."
HIDDEN = "(hidden)"
_LONGEST_TEXT = 2_000


@cache
def errors_by_code() -> Mapping[str, type[MindholdError]]:
    """Return the errors by code; of two with one code, the more general."""
    kinds: dict[str, type[MindholdError]] = {}
    queue: list[type[MindholdError]] = [MindholdError]
    while queue:
        kind = queue.pop(0)
        kinds.setdefault(kind.code, kind)
        queue += [subclass for subclass in kind.__subclasses__() if subclass.__module__ == errors.__name__]
    return {**kinds, **_HTTP_CODES}


def error_from(status: int, content: bytes, *, where: str, key: str = "") -> MindholdError:
    """Build the error of an answer, without the key if the answer repeats it."""
    document = _parse_object(content)
    code, text = document.get("code"), document.get("error")
    if not isinstance(code, str) or not isinstance(text, str):
        unclear = ServerAway if _BY_STATUS.get(status) is ServerAway else ServerError
        return unclear(
            f"{where} answers with HTTP {status}, and not as Mindhold does.", advice=_ADDRESS_ADVICE
        )
    if code == errors.NotFound.code and text == _NOTHING:
        return ServerError(f"{where} has nothing where this was asked.", advice=_ADDRESS_ADVICE)
    details, advice = document.get("details"), document.get("advice")
    message = f"{text}: {details}" if isinstance(details, str) else text
    kind = errors_by_code().get(code) or _BY_STATUS.get(status) or ServerError
    return _build_error(
        kind, code, _hide_key(message, key), advice=_hide_key(str(advice or ""), key), details=document
    )


def _build_error(
    kind: type[MindholdError], code: str, message: str, *, advice: str, details: Mapping[str, Any]
) -> MindholdError:
    """Build an error with the server's own message, bypassing the constructor of its class."""
    error = kind.__new__(kind, message)
    MindholdError.__init__(error, message, advice=advice)
    error.code = code
    for name, word in _DETAILS.get(kind, {}).items():
        setattr(error, name, details.get(word, ""))
    return error


def _parse_object(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _hide_key(text: str, key: str) -> str:
    return (text.replace(key, HIDDEN) if key else text)[:_LONGEST_TEXT]


T = TypeVar("T")
I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741
Message = Mapping[str, Any]
JSON, LINES = "application/json", "application/x-ndjson"
LONGEST_PAUSE = 30.0  # seconds; a longer wait is left to the user
_PASSING = frozenset({429, 502, 503, 504})
_LASTING = frozenset(
    {"SETTINGS_ERROR", "STORE_DENIED", "STORE_FULL", "STORE_READ_ONLY", "STORE_DAMAGED", "SCHEMA_TOO_NEW"}
)


# Headers in the caller's terms, for messages.
_HEADER_LABELS = {
    "X-Mindhold-Agent": "The agent's name",
    "Idempotency-Key": "The key that it is done once under",
    "If-Match": "`expected`",
    "Last-Event-ID": "`after`",
}


class DownloadSink(Protocol):
    """Receives a long answer."""

    def write(self, piece: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request. `lines` is a body that is streamed; `sink` receives a successful answer as a stream."""

    method: str
    target: str  # path and query
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes | None = None
    lines: Iterable[Message] | AsyncIterable[Message] | None = None
    sink: DownloadSink | None = None

    @property
    def is_long(self) -> bool:
        """Whether it has no time limit."""
        return self.lines is not None or self.sink is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """A step that waits."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """An answer of any status."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class LostRequest:
    """A request without an answer; `slow` if it timed out."""

    why: str
    slow: bool = False


Step = ClientRequest | Pause
Reply = ServerAnswer | LostRequest | None
Exchange = Generator[Step, Reply, T]


@dataclass(frozen=True, slots=True)
class Wire:
    """Builds requests to one server and interprets its answers."""

    address: ServerAddress
    agent: str = ""
    tries: int = 4
    pause: float = 0.25  # seconds before the second try; doubles with each further one
    chance: Callable[[], float] = random.random

    def run(self, name: str, fields: Mapping[str, Any]) -> Exchange[Any]:
        """Run an operation by its own or its resource's name, with the field names of either. Raises MindholdError."""
        from mindhold.contracts.rest.resource import by_name, is_list, resource_for

        try:
            row = by_name().get(name) or resource_for(name)
        except KeyError:
            raise InvalidInput(f"{name} can't be asked of a server.") from None
        words = row.fields()
        values = {word: value for word, value in fields.items() if value is not None}
        for word in row.in_path():  # a path holds one value, also of a list field
            if isinstance(values.get(word), str) and is_list(row.info(word)):
                values[word] = [values[word]]
        request = _build_input(row, {words.get(word, word): value for word, value in values.items()})
        rows = (row,) if row.id else _rows(row.operation)
        return self._send(rows, request)

    def target(self, name: str, fields: Mapping[str, Any]) -> str:
        """Return path and query of a streamed resource. Raises InvalidInput."""
        from mindhold.contracts.rest.resource import by_name

        row = by_name()[name]
        values = {field: value for field, value in fields.items() if value is not None}
        return target_of(row.sent(_build_input(row, values)))

    def operate(
        self, operation: Operation[I, O], request: I, *, agent: str | None = None, key: str | None = None
    ) -> Exchange[O]:
        """Run an operation for an agent; a write carries the key. Raises MindholdError."""
        return self._send(_rows(operation.name), request, agent=agent, key=key)

    def exchange(self, request: ClientRequest, *, again: bool = True) -> Exchange[ServerAnswer]:
        """Send until the answer is good; passing failures are retried unless `again` is False. Raises MindholdError."""
        for attempt in range(1, self.tries + 1):
            reply = yield request
            assert reply is not None
            if isinstance(reply, ServerAnswer) and reply.is_good:
                return reply
            error = self.error_of(reply)
            wait = self.wait(reply, error, attempt)
            if wait is None or not again or attempt == self.tries:
                raise error
            yield Pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def error_of(self, reply: ServerAnswer | LostRequest) -> MindholdError:
        """Build the error of a failed request."""
        where = f"The server at {self.address.url}"
        if isinstance(reply, LostRequest):
            problem = "didn't answer in time" if reply.slow else "can't be reached"
            why = f": {reply.why}" if reply.why else ""
            return ServerAway(f"{where} {problem}{why}.", advice="Is `mindhold serve` running there?")
        if 300 <= reply.status < 400:
            return ServerError(
                f"{where} sends callers elsewhere (HTTP {reply.status}), where nothing is sent.",
                advice="Give the address that it answers at itself.",
            )
        return error_from(reply.status, reply.content, where=where, key=self.address.key)

    def wait(self, reply: ServerAnswer | LostRequest, error: MindholdError, attempt: int) -> float | None:
        """Return the seconds until the next try; None for lasting failures and too long waits."""
        if isinstance(reply, LostRequest):
            is_passing = not reply.slow
            server_wait = 0.0
        else:
            is_passing = reply.status in _PASSING and error.code not in _LASTING
            server_wait = _seconds(reply.headers.get("retry-after", ""))
        own_wait = self.pause * 2.0 ** (attempt - 1) * (1 + self.chance())
        seconds = max(own_wait, server_wait)
        return seconds if is_passing and seconds <= LONGEST_PAUSE else None

    def headers(self, *, agent: str | None = None, **more: str) -> dict[bytes, bytes]:
        """Return the headers of a request, with the key. Raises InvalidInput for an invalid value."""
        agent_name = self.agent if agent is None else agent
        values = {
            "Accept": JSON,
            **({"Authorization": f"Bearer {self.address.key}"} if self.address.key else {}),
            **({"X-Mindhold-Agent": agent_name} if agent_name else {}),
            **more,
        }
        return {name.encode(): _header(name, value) for name, value in values.items()}

    def _send(
        self, rows: tuple[Resource, ...], request: Input, *, agent: str | None = None, key: str | None = None
    ) -> Exchange[Any]:
        row, sent = _request(rows, request)
        more: dict[str, str] = {}
        if row.writes:
            own_key = getattr(request, "idempotency_key", None)
            more["Idempotency-Key"] = key or own_key or secrets.token_urlsafe(18)
        if row.versioned and (expected := getattr(request, "expected", None)):
            more["If-Match"] = expected if expected == "*" else f'"{expected}"'
        body = None
        if sent.body is not None:
            more["Content-Type"] = JSON
            body = json.dumps(sent.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        headers = self.headers(agent=agent, **more)
        reply = yield from self.exchange(ClientRequest(sent.method, target_of(sent), headers, body))
        return self.parse_answer(row.serves.gives, reply)

    def parse_answer(self, gives: type[O], reply: ServerAnswer, *, ended: bool = False) -> O:
        """Parse the answer into the operation's output. A stream that `ended` may hold an error. Raises MindholdError."""
        try:
            document = json.loads(reply.content)
            if ended and "code" in document:
                raise self.error_of(replace(reply, status=500))
            if "etag" in gives.model_fields and (tag := reply.headers.get("etag")):
                document["etag"] = tag.removeprefix("W/").strip('"')
            return gives.model_validate(document)
        except (ValueError, TypeError, RecursionError) as error:  # pydantic raises ValueErrors
            raise ServerError(
                f"The server at {self.address.url} answers what this version does not understand.",
                advice="Have the same version of Mindhold on both sides.",
            ) from error


def target_of(sent: ResourceRequest) -> str:
    """Return path and query. Raises InvalidInput for a name that would change the path."""
    if any(part in ("", ".", "..") for part in sent.path.split("/")[1:]):
        raise InvalidInput("A name is empty, or nothing but dots.", advice="Give another.")
    return f"{sent.path}?{urlencode(sent.query)}" if sent.query else sent.path


def _header(name: str, value: str) -> bytes:
    """Encode a header as UTF-8 on one line. Raises InvalidInput."""
    label = _HEADER_LABELS.get(name, name)
    if value != value.strip(" ") or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InvalidInput(
            f"{label} can't be sent: it has blanks at an end, or a line break or the like.",
            advice="Leave them out.",
        )
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{label} can't be sent: it is no Unicode text.") from error


def line_of(message: Message) -> bytes:
    """Encode a message as one line of a streamed body."""
    return json.dumps(message, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass") + b"\n"


def _plain(value: object) -> str:
    """Convert times and other values with an ISO form."""
    iso = getattr(value, "isoformat", None)
    if iso is None:
        raise TypeError(f"{type(value).__name__} can't be sent as JSON")
    return str(iso())


def _rows(operation: str) -> tuple[Resource, ...]:
    from mindhold.contracts.rest.resource import resources

    return tuple(row for row in resources() if row.operation == operation and row.stream is None)


def _build_input(row: Resource, values: Mapping[str, Any]) -> Input:
    from pydantic import ValidationError

    from mindhold.operations import invalid_input

    takes: type[Input] = row.serves.takes
    try:
        return takes.model_validate(values)
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False)[0]["loc"]
        if place and (wrong := row.wrong.get(str(place[0]))):  # with the server's message
            raise wrong.as_error() from error
        raise invalid_input(error, known=list(takes.model_fields)) from error


def _request(rows: tuple[Resource, ...], request: Input) -> tuple[Resource, ResourceRequest]:
    """Choose the first resource that can express the request; those without deviating fixed fields come first."""
    fields_set = request.model_fields_set

    def departs(row: Resource) -> bool:
        return any(getattr(request, name) != value for name, value in row.fixed.items())

    refusal = InvalidInput("This can't be asked of a server.", advice="Run it on the server's own machine.")
    for row in sorted(rows, key=departs):
        fields = row.fields()
        if not all(isinstance(getattr(request, fields[word]), str | int | list) for word in row.in_path()):
            continue
        if any(fields[word] not in fields_set for word in row.in_path()):
            continue
        try:
            return row, row.sent(request)
        except InvalidInput as error:
            refusal = error
    raise refusal


def _seconds(text: str) -> float:
    """Parse a Retry-After in seconds; dates are ignored, because clocks may differ."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """A page of results and the cursor of the next."""

    items: list[T]
    next: str | None


PageReader = Callable[[str | None], Exchange[ResultPage[T]]]


class ClientMethods:
    """Base of the classes with client methods."""

    wire: Wire


class SyncCaller(Protocol):
    """A synchronous client."""

    def perform(self, exchange: Exchange[T], /) -> T: ...
    def iterate(self, read_page: PageReader[T], /) -> Iterator[T]: ...


class AsyncCaller(Protocol):
    """An asynchronous client."""

    def perform(self, exchange: Exchange[T], /) -> Awaitable[T]: ...
    def iterate(self, read_page: PageReader[T], /) -> AsyncIterator[T]: ...


class _PlannedMethod(Generic[P, R]):
    """A client method written once for both clients: a plan of what to send."""

    def __init__(self, plan: Callable[Concatenate[Any, P], R]) -> None:
        self._plan = plan
        update_wrapper(self, plan)  # type: ignore[arg-type]

    def _bound(self, client: Any, carry_out: Callable[[R], Any]) -> Callable[P, Any]:
        @wraps(self._plan)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carry_out(self._plan(client, *args, **kwargs))

        return call


class Method(_PlannedMethod[P, Exchange[T]]):
    """A client method with one answer."""

    @overload
    def __get__(self, client: None, kind: type, /) -> Method[P, T]: ...
    @overload
    def __get__(self, client: SyncCaller, kind: type | None = None, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncCaller, kind: type | None = None, /) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        return self if client is None else self._bound(client, client.perform)


class PagedMethod(_PlannedMethod[P, PageReader[T]]):
    """A client method that iterates over pages."""

    @overload
    def __get__(self, client: None, kind: type, /) -> PagedMethod[P, T]: ...
    @overload
    def __get__(self, client: SyncCaller, kind: type | None = None, /) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncCaller, kind: type | None = None, /) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        return self if client is None else self._bound(client, client.iterate)
