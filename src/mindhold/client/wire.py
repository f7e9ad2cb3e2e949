"""What is said to a server and how its answers are understood: all of a client but the sending.

A conversation with a server is a generator: it yields what to do next (ask, or pause), is sent what was heard, and returns
the answer. Whoever drives it, with or without an event loop, does nothing but that.
"""

from __future__ import annotations

import json
import math
import random
import secrets
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode

from mindhold.client.errors import told_by
from mindhold.model.errors import InvalidInput, MindholdError, ServerAway, ServerError

if TYPE_CHECKING:
    from mindhold.client.address import Place
    from mindhold.dialects.rest.shape import Resource, Sent
    from mindhold.operations.catalogue import Input, Operation, Output

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


class Sink(Protocol):
    """Where a long answer goes."""

    def write(self, piece: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. `lines` are a body that is sent as it comes; `sink` takes a good answer as it comes."""

    method: str
    target: str  # path and query
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes | None = None
    lines: Iterable[Message] | AsyncIterable[Message] | None = None
    sink: Sink | None = None

    @property
    def is_long(self) -> bool:
        """Whether it takes as long as it takes."""
        return self.lines is not None or self.sink is not None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, whatever it says."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer; `slow` where it took too long."""

    why: str
    slow: bool = False


Step = Ask | Pause
Heard = Reply | Lost | None
Talk = Generator[Step, Heard, T]


@dataclass(frozen=True, slots=True)
class Wire:
    """How one server is talked to."""

    place: Place
    agent: str = ""
    tries: int = 4
    pause: float = 0.25  # seconds before the second try; each further one waits twice as long
    chance: Callable[[], float] = random.random

    def run(self, name: str, fields: Mapping[str, Any]) -> Talk[Any]:
        """An operation by its name or its resource's, in the fields or words of either. Raises MindholdError."""
        from mindhold.dialects.rest.shape import is_list
        from mindhold.dialects.rest.table import by_name, resource_for

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
        from mindhold.dialects.rest.table import by_name

        row = by_name()[name]
        given = {field: value for field, value in fields.items() if value is not None}
        return target_of(row.sent(_built(row, given)))

    def operate(
        self, operation: Operation[I, O], given: I, *, agent: str | None = None, key: str | None = None
    ) -> Talk[O]:
        """One operation, for that agent; under that key, if it writes. Raises MindholdError."""
        return self._said(_rows(operation.name), given, agent=agent, key=key)

    def exchange(self, ask: Ask, *, again: bool = True) -> Talk[Reply]:
        """A good answer. Passing troubles are waited for, if it does no harm to ask `again`. Raises MindholdError."""
        for turn in range(1, self.tries + 1):
            heard = yield ask
            assert heard is not None
            if isinstance(heard, Reply) and heard.is_good:
                return heard
            error = self.trouble(heard)
            wait = self.wait(heard, error, turn)
            if wait is None or not again or turn == self.tries:
                raise error
            yield Pause(wait)
        raise AssertionError("the last turn returns or raises")

    def trouble(self, heard: Reply | Lost) -> MindholdError:
        """What is wrong with it, in words."""
        where = f"The server at {self.place.url}"
        if isinstance(heard, Lost):
            told = "didn't answer in time" if heard.slow else "can't be reached"
            why = f": {heard.why}" if heard.why else ""
            return ServerAway(f"{where} {told}{why}.", advice="Is `mindhold serve` running there?")
        if 300 <= heard.status < 400:
            return ServerError(
                f"{where} sends callers elsewhere (HTTP {heard.status}), where nothing is sent.",
                advice="Give the address that it answers at itself.",
            )
        return told_by(heard.status, heard.content, where=where, key=self.place.key)

    def wait(self, heard: Reply | Lost, error: MindholdError, turn: int) -> float | None:
        """How long until it is worth another try; None if it isn't, or nobody would wait so long."""
        if isinstance(heard, Lost):
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
        ask = Ask(sent.method, target_of(sent), self.headers(agent=agent, **more), body)
        return self._understood(row.serves.gives, ask)

    def _understood(self, gives: type[O], ask: Ask) -> Talk[O]:
        reply = yield from self.exchange(ask)
        return self.understood(gives, reply)

    def understood(self, gives: type[O], reply: Reply, *, ended: bool = False) -> O:
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


def target_of(sent: Sent) -> str:
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
    from mindhold.dialects.rest.table import resources

    return tuple(row for row in resources() if row.operation == operation and row.stream is None)


def _built(row: Resource, values: Mapping[str, Any]) -> Input:
    from pydantic import ValidationError

    from mindhold.dialects.rest.shape import WrongField
    from mindhold.operations.wording import invalid

    takes: type[Input] = row.serves.takes
    try:
        return takes.model_validate(values)
    except ValidationError as error:
        place = error.errors(include_url=False, include_input=False)[0]["loc"]
        if place and (wrong := row.wrong.get(str(place[0]))):  # as the server would tell it
            raise WrongField(wrong) from error
        raise invalid(error, known=list(takes.model_fields)) from error


def _request(rows: tuple[Resource, ...], given: Input) -> tuple[Resource, Sent]:
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
