"""Requests and answers of the HTTP client without the sending: address, requests, errors, paging."""

from __future__ import annotations

import functools
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
from functools import cache
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import urlencode, urlsplit

from mindhold.model import errors
from mindhold.model.errors import InvalidInput, MindholdError, ServerAway, ServerError, SettingsError
from mindhold.model.host import is_loopback

if TYPE_CHECKING:
    from mindhold.contracts.rest.resource import ClientRequest as ResourceClientRequest
    from mindhold.contracts.rest.resource import Resource
    from mindhold.operations import Input, Operation, Output


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address without a slash at its end, and the key that opens it."""

    url: str
    host: str
    key: str = field(default="", repr=False)

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""
        return is_loopback(self.host)

    @property
    def is_private(self) -> bool:
        """Whether nobody can read on the way."""
        return self.url.startswith("https:")


def server_address(url: str, *, key: str = "", insecure: bool = False) -> ServerAddress:
    """Raises SettingsError, also for a key that others could read on its way, unless `insecure`."""
    given = url.strip()
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise _wrong("is none") from error
    if parts.scheme not in ("http", "https") or not host or " " in given or not given.isprintable():
        raise _wrong("is none")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _wrong("holds more than a place", advice="Give the address alone; the key is given apart.")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SettingsError("The key holds characters that no key has.", advice="Copy it anew.")
    if key and parts.scheme == "http" and not is_loopback(host) and not insecure:
        raise SettingsError(
            f"The key would go to {host} by plain http, where others can read it.",
            advice="Use https://; for a network that you trust say `insecure` (`-o remote.insecure=true`).",
        )
    return ServerAddress(f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}", host, key)


def _wrong(what: str, *, advice: str = "Give one such as http://localhost:3333.") -> SettingsError:
    return SettingsError(f"The server's address {what}.", advice=advice)


# Codes that the HTTP door alone has; the others are the tree's own.
_OF_THE_DOOR: Mapping[str, type[MindholdError]] = {
    "PROJECT_NOT_FOUND": errors.ScopeNotFound,
    "EMBEDDING_SERVICE_ERROR": errors.ModelError,
    "PRECONDITION_FAILED": errors.Changed,
    "TOO_LARGE": errors.ContentTooLarge,
}
# What another code is, by the status that it came with.
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
# What some have besides words, and the word of an answer that says it.
_DETAILS: Mapping[type[MindholdError], Mapping[str, str]] = {
    errors.MemoryNotFound: {"memory_id": "memory_id"},
    errors.ScopeNotFound: {"name": "project_id"},
    errors.BrokenJson: {"line": "line", "column": "column"},
    errors.WrongShape: {"line": "line", "column": "column"},
}
_NOTHING = "There is nothing here."  # of a path that no Mindhold serves
_SAME_PLACE = "Give the address that `mindhold serve` tells, such as http://localhost:3333, without /mcp or /api behind it."
HIDDEN = "(hidden)"
_LONGEST_WORDS = 2_000


@cache
def by_code() -> Mapping[str, type[MindholdError]]:
    """Every error of the tree; of two with one code, the more general."""
    found: dict[str, type[MindholdError]] = {}
    waiting: list[type[MindholdError]] = [MindholdError]
    while waiting:
        kind = waiting.pop(0)
        found.setdefault(kind.code, kind)
        waiting += [one for one in kind.__subclasses__() if one.__module__ == errors.__name__]
    return {**found, **_OF_THE_DOOR}


def error_from(status: int, content: bytes, *, where: str, key: str = "") -> MindholdError:
    """The error in an answer; the key isn't repeated, whoever repeats it."""
    document = _document(content)
    code, words = document.get("code"), document.get("error")
    if not isinstance(code, str) or not isinstance(words, str):
        unclear = ServerAway if _BY_STATUS.get(status) is ServerAway else ServerError
        return unclear(f"{where} answers with HTTP {status}, and not as Mindhold does.", advice=_SAME_PLACE)
    if code == errors.NotFound.code and words == _NOTHING:
        return ServerError(f"{where} has nothing where this was asked.", advice=_SAME_PLACE)
    details, advice = document.get("details"), document.get("advice")
    told = f"{words}: {details}" if isinstance(details, str) else words
    kind = by_code().get(code) or _BY_STATUS.get(status) or ServerError
    return _made(
        kind, code, _plain_error(told, key), advice=_plain_error(str(advice or ""), key), details=document
    )


def _made(
    kind: type[MindholdError], code: str, message: str, *, advice: str, details: Mapping[str, Any]
) -> MindholdError:
    """Without the error's own way of wording: it was worded there."""
    error = kind.__new__(kind, message)
    MindholdError.__init__(error, message, advice=advice)
    error.code = code
    for name, word in _DETAILS.get(kind, {}).items():
        setattr(error, name, details.get(word, ""))
    return error


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain_error(text: str, key: str) -> str:
    return (text.replace(key, HIDDEN) if key else text)[:_LONGEST_WORDS]


T = TypeVar("T")
I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741
Message = Mapping[str, Any]
JSON, LINES = "application/json", "application/x-ndjson"
LONGEST_PAUSE = 30.0  # seconds; who asks for more is asked again by a person
_PASSING = frozenset({429, 502, 503, 504})
_LASTING = frozenset(
    {"SETTINGS_ERROR", "STORE_DENIED", "STORE_FULL", "STORE_READ_ONLY", "STORE_DAMAGED", "SCHEMA_TOO_NEW"}
)


# What a header says, in the words of who called.
_SAYS = {
    "X-Mindhold-Agent": "The agent's name",
    "Idempotency-Key": "The key that it is done once under",
    "If-Match": "`expected`",
    "Last-Event-ID": "`after`",
}


class DownloadSink(Protocol):
    """Where a long answer goes."""

    def write(self, piece: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request. `lines` are a body that is sent as it comes; `sink` takes a good answer as it comes."""

    method: str
    target: str  # path and query
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes | None = None
    lines: Iterable[Message] | AsyncIterable[Message] | None = None
    sink: DownloadSink | None = None

    @property
    def is_long(self) -> bool:
        """Whether it takes as long as it takes."""
        return self.lines is not None or self.sink is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """An answer, whatever it says."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class LostRequest:
    """No answer; `slow` where it took too long."""

    why: str
    slow: bool = False


Step = ClientRequest | Pause
Heard = ServerAnswer | LostRequest | None
Talk = Generator[Step, Heard, T]


@dataclass(frozen=True, slots=True)
class Wire:
    """How one server is talked to."""

    place: ServerAddress
    agent: str = ""
    tries: int = 4
    pause: float = 0.25  # seconds before the second try; each further one waits twice as long
    chance: Callable[[], float] = random.random

    def run(self, name: str, fields: Mapping[str, Any]) -> Talk[Any]:
        """An operation by its name or its resource's, in the fields or words of either. Raises MindholdError."""
        from mindhold.contracts.rest.resource import by_name, is_list, resource_for

        try:
            row = by_name().get(name) or resource_for(name)
        except KeyError:
            raise InvalidInput(f"{name} can't be asked of a server.") from None
        words = row.fields()
        said = {word: value for word, value in fields.items() if value is not None}
        for word in row.in_path():  # which names one, also of those that take several
            if isinstance(said.get(word), str) and is_list(row.info(word)):
                said[word] = [said[word]]
        given = _built(row, {words.get(word, word): value for word, value in said.items()})
        rows = (row,) if row.id else _rows(row.operation)
        return self._said(rows, given)

    def target(self, name: str, fields: Mapping[str, Any]) -> str:
        """Path and query of a resource whose body or answer is a stream. Raises InvalidInput."""
        from mindhold.contracts.rest.resource import by_name

        row = by_name()[name]
        given = {field: value for field, value in fields.items() if value is not None}
        return target_of(row.sent(_built(row, given)))

    def operate(
        self, operation: Operation[I, O], given: I, *, agent: str | None = None, key: str | None = None
    ) -> Talk[O]:
        """One operation, for that agent; under that key, if it writes. Raises MindholdError."""
        return self._said(_rows(operation.name), given, agent=agent, key=key)

    def exchange(self, ask: ClientRequest, *, again: bool = True) -> Talk[ServerAnswer]:
        """A good answer. Passing troubles are waited for, if it does no harm to ask `again`. Raises MindholdError."""
        for turn in range(1, self.tries + 1):
            heard = yield ask
            assert heard is not None
            if isinstance(heard, ServerAnswer) and heard.is_good:
                return heard
            error = self.trouble(heard)
            wait = self.wait(heard, error, turn)
            if wait is None or not again or turn == self.tries:
                raise error
            yield Pause(wait)
        raise AssertionError("the last turn returns or raises")

    def trouble(self, heard: ServerAnswer | LostRequest) -> MindholdError:
        """What is wrong with it, in words."""
        where = f"The server at {self.place.url}"
        if isinstance(heard, LostRequest):
            told = "didn't answer in time" if heard.slow else "can't be reached"
            why = f": {heard.why}" if heard.why else ""
            return ServerAway(f"{where} {told}{why}.", advice="Is `mindhold serve` running there?")
        if 300 <= heard.status < 400:
            return ServerError(
                f"{where} sends callers elsewhere (HTTP {heard.status}), where nothing is sent.",
                advice="Give the address that it answers at itself.",
            )
        return error_from(heard.status, heard.content, where=where, key=self.place.key)

    def wait(self, heard: ServerAnswer | LostRequest, error: MindholdError, turn: int) -> float | None:
        """How long until it is worth another try; None if it isn't, or nobody would wait so long."""
        if isinstance(heard, LostRequest):
            passing = not heard.slow
            asked = 0.0
        else:
            passing = heard.status in _PASSING and error.code not in _LASTING
            asked = _seconds(heard.headers.get("retry-after", ""))
        own = self.pause * 2.0 ** (turn - 1) * (1 + self.chance())
        seconds = max(own, asked)
        return seconds if passing and seconds <= LONGEST_PAUSE else None

    def headers(self, *, agent: str | None = None, **more: str) -> dict[bytes, bytes]:
        """Of every request; the key among them. Raises InvalidInput for what no header can say."""
        whom = self.agent if agent is None else agent
        said = {
            "Accept": JSON,
            **({"Authorization": f"Bearer {self.place.key}"} if self.place.key else {}),
            **({"X-Mindhold-Agent": whom} if whom else {}),
            **more,
        }
        return {name.encode(): _header(name, value) for name, value in said.items()}

    def _said(
        self, rows: tuple[Resource, ...], given: Input, *, agent: str | None = None, key: str | None = None
    ) -> Talk[Any]:
        row, sent = _request(rows, given)
        more: dict[str, str] = {}
        if row.writes:
            own = getattr(given, "idempotency_key", None)
            more["Idempotency-Key"] = key or own or secrets.token_urlsafe(18)
        if row.versioned and (expected := getattr(given, "expected", None)):
            more["If-Match"] = expected if expected == "*" else f'"{expected}"'
        body = None
        if sent.body is not None:
            more["Content-Type"] = JSON
            body = json.dumps(sent.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        ask = ClientRequest(sent.method, target_of(sent), self.headers(agent=agent, **more), body)
        return self._understood(row.serves.gives, ask)

    def _understood(self, gives: type[O], ask: ClientRequest) -> Talk[O]:
        reply = yield from self.exchange(ask)
        return self.understood(gives, reply)

    def understood(self, gives: type[O], reply: ServerAnswer, *, ended: bool = False) -> O:
        """The answer as the operation gave it, or, at the `end` of a stream, its error. Raises MindholdError."""
        try:
            document = json.loads(reply.content)
            if ended and "code" in document:
                raise self.trouble(replace(reply, status=500))
            if "etag" in gives.model_fields and (tag := reply.headers.get("etag")):
                document["etag"] = tag.removeprefix("W/").strip('"')
            return gives.model_validate(document)
        except (ValueError, TypeError, RecursionError) as error:  # pydantic's are ValueErrors
            raise ServerError(
                f"The server at {self.place.url} answers what this version does not understand.",
                advice="Have the same version of Mindhold on both sides.",
            ) from error


def target_of(sent: ResourceClientRequest) -> str:
    """Path and query. Raises InvalidInput for a name that would make another path of it."""
    if any(part in ("", ".", "..") for part in sent.path.split("/")[1:]):
        raise InvalidInput("A name is empty, or nothing but dots.", advice="Give another.")
    return f"{sent.path}?{urlencode(sent.query)}" if sent.query else sent.path


def _header(name: str, value: str) -> bytes:
    """As the server reads it: UTF-8, on one line. Raises InvalidInput."""
    what = _SAYS.get(name, name)
    if value != value.strip(" ") or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise InvalidInput(
            f"{what} can't be sent: it has blanks at an end, or a line break or the like.",
            advice="Leave them out.",
        )
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} can't be sent: it is no Unicode text.") from error


def line_of(message: Message) -> bytes:
    """One line of a body that is sent as it comes."""
    return json.dumps(message, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass") + b"\n"


def _plain(value: object) -> str:
    """Of times, and what else has an ISO form."""
    iso = getattr(value, "isoformat", None)
    if iso is None:
        raise TypeError(f"{type(value).__name__} can't be sent as JSON")
    return str(iso())


def _rows(operation: str) -> tuple[Resource, ...]:
    from mindhold.contracts.rest.resource import resources

    return tuple(row for row in resources() if row.operation == operation and row.stream is None)


def _built(row: Resource, values: Mapping[str, Any]) -> Input:
    from pydantic import ValidationError

    from mindhold.contracts.rest.resource import InvalidField
    from mindhold.operations import invalid_input

    takes: type[Input] = row.serves.takes
    try:
        return takes.model_validate(values)
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False)[0]["loc"]
        if place and (wrong := row.wrong.get(str(place[0]))):  # as the server would tell it
            raise InvalidField(wrong) from error
        raise invalid_input(error, known=list(takes.model_fields)) from error


def _request(rows: tuple[Resource, ...], given: Input) -> tuple[Resource, ResourceClientRequest]:
    """By the first that can say it, those before others that do what the operation does by itself."""
    said = given.model_fields_set

    def departs(row: Resource) -> bool:
        return any(getattr(given, name) != value for name, value in row.fixed.items())

    refusal = InvalidInput("This can't be asked of a server.", advice="Run it on the server's own machine.")
    for row in sorted(rows, key=departs):
        fields = row.fields()
        if not all(isinstance(getattr(given, fields[word]), str | int | list) for word in row.in_path()):
            continue
        if any(fields[word] not in said for word in row.in_path()):
            continue
        try:
            return row, row.sent(given)
        except InvalidInput as error:
            refusal = error
    raise refusal


def _seconds(given: str) -> float:
    """Of a Retry-After that counts; dates are left to those who have clocks that agree."""
    try:
        seconds = float(given)
    except ValueError:
        return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """Some of many, and where the next begin."""

    items: list[T]
    next: str | None


Turn = Callable[[str | None], Talk[ResultPage[T]]]


class ClientMethods:
    """Has a wire to talk over."""

    wire: Wire


class SyncCaller(Protocol):
    """A client whose calls return when they are done."""

    def talk(self, talk: Talk[T], /) -> T: ...
    def turn(self, turn: Turn[T], /) -> Iterator[T]: ...


class AsyncCaller(Protocol):
    """A client whose calls are awaited."""

    def talk(self, talk: Talk[T], /) -> Awaitable[T]: ...
    def turn(self, turn: Turn[T], /) -> AsyncIterator[T]: ...


class Method(Generic[P, T]):
    """One call, one answer."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Talk[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, kind: type, /) -> Method[P, T]: ...
    @overload
    def __get__(self, client: SyncCaller, kind: type | None = None, /) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncCaller, kind: type | None = None, /) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        if client is None:
            return self

        @functools.wraps(self._plan)
        def called(*args: P.args, **given: P.kwargs) -> Any:
            return client.talk(self._plan(client, *args, **given))

        return called


class PagedMethod(Generic[P, T]):
    """Everything of a list, page by page."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Turn[T]]) -> None:
        self._plan = plan
        functools.update_wrapper(self, plan)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, kind: type, /) -> PagedMethod[P, T]: ...
    @overload
    def __get__(self, client: SyncCaller, kind: type | None = None, /) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncCaller, kind: type | None = None, /) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, kind: type | None = None, /) -> Any:
        if client is None:
            return self

        @functools.wraps(self._plan)
        def called(*args: P.args, **given: P.kwargs) -> Any:
            return client.turn(self._plan(client, *args, **given))

        return called
