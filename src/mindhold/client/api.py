"""The two clients, Mindhold and AsyncMindhold, their HTTP connections, and the events that they listen to."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import httpx2

from mindhold.client.methods import MemoryMethods, ProjectMethods
from mindhold.client.wire import (
    ClientRequest,
    Exchange,
    LostRequest,
    PageReader,
    Pause,
    Reply,
    ServerAddress,
    ServerAnswer,
    Step,
    Wire,
    line_of,
    server_address,
)
from mindhold.model.errors import InvalidInput, ServerError, SettingsError

if TYPE_CHECKING:
    from mindhold.operations import Input, Operation, Output


C = TypeVar("C")
CONNECT_SECONDS = 5.0
QUIET_SECONDS = 60.0  # longest silence of a stream; the server sends a sign of life every 15 seconds
# No limit of the whole, only of the time between two pieces.
NO_LIMIT = httpx2.Timeout(QUIET_SECONDS, connect=CONNECT_SECONDS)
LARGEST_ANSWER = 256 * 2**20  # bytes; streams may be longer


def open_client(kind: Callable[..., C], address: ServerAddress, *, timeout: float) -> C:
    """Create an HTTP client for one server, not connected yet. Raises SettingsError.

    Redirects are not followed, because the key is for this server. Certificates are loaded only if needed.
    """
    try:
        return kind(
            base_url=address.url,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            follow_redirects=False,
            verify=address.is_private,
            # A proxy of the environment doesn't apply to this machine.
            trust_env=not address.is_here,
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        # The error's text is left out: a proxy's URL may hold a password.
        raise SettingsError(
            "The server can't be asked with the proxy or the certificates that the environment names.",
            advice="Correct ALL_PROXY, HTTPS_PROXY, SSL_CERT_FILE or SSL_CERT_DIR, or unset them.",
        ) from error


class Body:
    """Collects the body of an answer within limits of time and size."""

    def __init__(self, *, seconds: float | None, most: int = LARGEST_ANSWER) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def take(self, piece: bytes, /) -> None:
        """Add the next piece. Raises ReadTimeout, ServerError."""
        if self._end is not None and time.monotonic() > self._end:
            raise httpx2.ReadTimeout("")
        self._size += len(piece)
        if self._size > self._most:
            raise ServerError(
                f"The server answers with more than {self._most >> 20} MiB.",
                advice="Ask for less at once.",
            )
        self._pieces.append(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)


def lost_request_of(error: httpx2.TransportError) -> LostRequest:
    """Describe a request that got no answer. Raises InvalidInput for one that can't be sent."""
    if isinstance(error, httpx2.TimeoutException):
        return LostRequest("", slow=True)
    reason = " ".join(str(error).split())[:200].rstrip(".")
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        raise InvalidInput(f"This can't be sent: {reason}.") from error
    return LostRequest(reason)


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event of the server; pass its `id` as `after` to continue from here."""

    kind: str
    data: Mapping[str, Any]
    id: str


class EventStream:
    """The position of a listener in the stream of events, across connections."""

    def __init__(
        self, wire: Wire, *, project: str | None, topics: tuple[str, ...], last: str | None = None
    ) -> None:
        self._wire = wire
        self.target = wire.target("events", {"project": project, "topics": list(topics) or None})
        self._last = last
        self._failures = 0

    def headers(self) -> dict[bytes, bytes]:
        """Return the headers of the next connection. Raises InvalidInput."""
        resume_headers = {"Last-Event-ID": self._last} if self._last else {}
        return self._wire.headers(Accept="text/event-stream", **resume_headers)

    def heard(self, kind: str, data: str, event_id: str) -> ServerEvent | None:
        """Parse an event; None if it can't be parsed. Resets the count of failures."""
        self._failures = 0
        self._last = event_id or self._last
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return ServerEvent(kind, document, event_id) if isinstance(document, dict) else None

    def ended(self) -> float:
        """Return the seconds until the next connection, after the server closed one."""
        return self.failed(LostRequest(""))

    def failed(self, answer: ServerAnswer | LostRequest) -> float:
        """Return the seconds until the next connection. Raises MindholdError for lasting or too many failures."""
        self._failures += 1
        error = self._wire.error_of(answer)
        # A timeout counts as a broken connection, which is retried.
        retried = LostRequest(answer.why) if isinstance(answer, LostRequest) else answer
        wait = self._wire.wait(retried, error, self._failures)
        if wait is None or self._failures >= self._wire.tries:
            raise error
        return wait


class BaseClient(MemoryMethods, ProjectMethods, ABC, Generic[C]):
    """The common part of both clients."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:3333",
        *,
        key: str = "",
        agent: str = "",
        timeout: float = 60.0,
        tries: int = 4,
        pause: float = 0.25,
        insecure: bool = False,
    ) -> None:
        address = server_address(url, key=key, insecure=insecure)
        self.wire = Wire(address, agent=agent, tries=tries, pause=pause)
        self._timeout = timeout
        self._client = open_client(self._kind(), address, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire.address.url!r})"

    @staticmethod
    @abstractmethod
    def _kind() -> Callable[..., C]: ...


T = TypeVar("T")


class Mindhold(BaseClient[httpx2.Client]):
    """A client of a Mindhold server. Safe to use from several threads.

    `key` is the API key, if the server needs one; `agent` is the agent that calls are made for. `timeout` in seconds
    limits one request with its answer (twice as long if the answer begins in time); imports, exports and events have no
    limit. A request that fails for a passing reason is repeated, up to `tries` times, with growing pauses that begin at
    `pause` seconds. Writes carry an idempotency key, so that none is done twice. Raises SettingsError for an invalid
    address, and for one over which others could read the key, unless `insecure`.
    """

    @staticmethod
    def _kind() -> type[httpx2.Client]:
        return httpx2.Client

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def perform(self, exchange: Exchange[T], /) -> T:
        """Perform the steps of an exchange and return its result. Raises MindholdError."""
        reply: Reply = None
        try:
            while True:
                reply = self._do_step(exchange.send(reply))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            exchange.close()

    def iterate(self, read_page: PageReader[T], /) -> Iterator[T]:
        """Iterate over the items of all pages, each fetched when needed."""
        cursor: str | None = None
        while True:
            page = self.perform(read_page(cursor))
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> Generator[ServerEvent]:
        """Iterate over the server's events until you close it: `ready` first, then `memory` for a new or changed memory,
        and `job` for the progress of a job. `topics` are memories, jobs, or both.

        A broken connection is opened again, and no event is lost that the server still has. `after` is the id of an
        earlier event.
        """
        stream = EventStream(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                with self._client.stream(
                    "GET", stream.target, headers=stream.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        for message in httpx2.EventSource(response):
                            if event := stream.heard(message.event, message.data, message.id):
                                yield event
                        pause = stream.ended()
                    else:
                        pause = stream.failed(
                            ServerAnswer(response.status_code, response.headers, response.read())
                        )
            except httpx2.TransportError as error:
                pause = stream.failed(lost_request_of(error))
            time.sleep(pause)

    def _do_step(self, step: Step) -> Reply:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        long: Any = {"timeout": NO_LIMIT} if step.is_long else {}
        body = Body(seconds=None if long else self._timeout)
        try:
            with self._client.stream(
                step.method, step.target, headers=dict(step.headers), content=_sync_content(step), **long
            ) as response:
                if step.sink is not None and response.status_code == 200:
                    for piece in response.iter_bytes():
                        step.sink.write(piece)
                    return ServerAnswer(response.status_code, response.headers)
                for piece in response.iter_bytes():
                    body.take(piece)
                return ServerAnswer(response.status_code, response.headers, body.whole())
        except httpx2.TransportError as error:
            return lost_request_of(error)


def _sync_content(request: ClientRequest) -> bytes | Iterator[bytes] | None:
    if request.lines is None:
        return request.body
    if isinstance(request.lines, AsyncIterable):
        raise TypeError("messages that come asynchronously need AsyncMindhold")
    return (line_of(message) for message in request.lines)


I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741


class AsyncMindhold(BaseClient[httpx2.AsyncClient]):
    """The asynchronous client, with the arguments and methods of Mindhold."""

    @staticmethod
    def _kind() -> type[httpx2.AsyncClient]:
        return httpx2.AsyncClient

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def operate(
        self, operation: Operation[I, O], request: I, *, agent: str | None = None, key: str | None = None
    ) -> O:
        """Run an operation for an agent; a write with the same key is done once. Raises MindholdError."""
        return await self.perform(self.wire.operate(operation, request, agent=agent, key=key))

    async def perform(self, exchange: Exchange[T], /) -> T:
        """Perform the steps of an exchange and return its result. Raises MindholdError."""
        reply: Reply = None
        try:
            while True:
                reply = await self._do_step(exchange.send(reply))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            exchange.close()

    async def iterate(self, read_page: PageReader[T], /) -> AsyncIterator[T]:
        """Iterate over the items of all pages, each fetched when needed."""
        cursor: str | None = None
        while True:
            page = await self.perform(read_page(cursor))
            for item in page.items:
                yield item
            if page.next is None:
                return
            cursor = page.next

    async def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> AsyncGenerator[ServerEvent]:
        """Iterate over the server's events: see Mindhold.events."""
        stream = EventStream(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                async with self._client.stream(
                    "GET", stream.target, headers=stream.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        async for message in httpx2.EventSource(response):
                            if event := stream.heard(message.event, message.data, message.id):
                                yield event
                        pause = stream.ended()
                    else:
                        pause = stream.failed(
                            ServerAnswer(response.status_code, response.headers, await response.aread())
                        )
            except httpx2.TransportError as error:
                pause = stream.failed(lost_request_of(error))
            await asyncio.sleep(pause)

    async def _do_step(self, step: Step) -> Reply:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        long: Any = {"timeout": NO_LIMIT} if step.is_long else {}
        body = Body(seconds=None)
        limit = asyncio.timeout(None if long else self._timeout)
        try:
            async with (
                limit,
                self._client.stream(
                    step.method, step.target, headers=dict(step.headers), content=_async_content(step), **long
                ) as response,
            ):
                if step.sink is not None and response.status_code == 200:
                    async for piece in response.aiter_bytes():
                        step.sink.write(piece)
                    return ServerAnswer(response.status_code, response.headers)
                async for piece in response.aiter_bytes():
                    body.take(piece)
                return ServerAnswer(response.status_code, response.headers, body.whole())
        except TimeoutError:
            if not limit.expired():  # the timeout of the caller's own iterator
                raise
            return LostRequest("", slow=True)
        except httpx2.TransportError as error:
            return lost_request_of(error)


def _async_content(request: ClientRequest) -> bytes | AsyncIterator[bytes] | None:
    return request.body if request.lines is None else _lines(request)


async def _lines(request: ClientRequest) -> AsyncIterator[bytes]:
    assert request.lines is not None
    if isinstance(request.lines, AsyncIterable):
        async for message in request.lines:
            yield line_of(message)
        return
    for message in request.lines:
        yield line_of(message)
