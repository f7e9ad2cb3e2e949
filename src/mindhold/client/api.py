"""The two clients, Mindhold and AsyncMindhold, and the events that they listen to."""

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
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from mindhold.client.methods import MemoryMethods, ProjectMethods
from mindhold.client.wire import (
    ClientRequest,
    Heard,
    LostRequest,
    Pause,
    ServerAnswer,
    Step,
    Talk,
    Turn,
    Wire,
    line_of,
    server_address,
)

if TYPE_CHECKING:
    import httpx2

    from mindhold.operations import Input, Operation, Output


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """Something that happened; `id` is for who wants to listen on from here."""

    kind: str
    data: Mapping[str, Any]
    id: str


class EventStream:
    """Where a listener is in the stream of events, through however many connections."""

    def __init__(
        self, wire: Wire, *, project: str | None, topics: tuple[str, ...], last: str | None = None
    ) -> None:
        self._wire = wire
        self.target = wire.target("events", {"project": project, "topics": list(topics) or None})
        self._last = last
        self._failures = 0

    def headers(self) -> dict[bytes, bytes]:
        """Of the next connection. Raises InvalidInput."""
        resumed = {"Last-Event-ID": self._last} if self._last else {}
        return self._wire.headers(Accept="text/event-stream", **resumed)

    def heard(self, kind: str, data: str, event_id: str) -> ServerEvent | None:
        """What was said; nothing where it can't be understood. Connections are as good as new from here."""
        self._failures = 0
        self._last = event_id or self._last
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return ServerEvent(kind, document, event_id) if isinstance(document, dict) else None

    def ended(self) -> float:
        """Seconds until the next connection, after one that the server ended."""
        return self.failed(LostRequest(""))

    def failed(self, heard: ServerAnswer | LostRequest) -> float:
        """Seconds until the next connection. Raises MindholdError for what won't pass, or has failed too often."""
        self._failures += 1
        error = self._wire.trouble(heard)
        patient = (
            LostRequest(heard.why) if isinstance(heard, LostRequest) else heard
        )  # silence is a connection that broke
        wait = self._wire.wait(patient, error, self._failures)
        if wait is None or self._failures >= self._wire.tries:
            raise error
        return wait


C = TypeVar("C")


class BaseClient(MemoryMethods, ProjectMethods, ABC, Generic[C]):
    """A client over connections of one kind."""

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
        from mindhold.client.connection import open_client

        place = server_address(url, key=key, insecure=insecure)
        self.wire = Wire(place, agent=agent, tries=tries, pause=pause)
        self._timeout = timeout
        self._client = open_client(self._kind(), place, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire.place.url!r})"

    @staticmethod
    @abstractmethod
    def _kind() -> Callable[..., C]:
        """What makes the connections. Imported when it is needed."""


T = TypeVar("T")


class Mindhold(BaseClient["httpx2.Client"]):
    """A Mindhold server. Safe to use from several threads.

    `key` opens it, where it wants one; `agent` is for whom calls are made. `timeout` is in seconds, of one request and its
    answer, but for imports, exports and events, which may take as long as they go on; up to twice as long where the answer
    only begins in time. One that fails for a passing reason is made again, up to `tries` times, `pause` seconds and then longer
    apart: writes carry a key of their own, so that none is done twice. Raises SettingsError for an address that can't be, or over which others
    could read the key, unless `insecure`.
    """

    @staticmethod
    def _kind() -> type[httpx2.Client]:
        import httpx2

        return httpx2.Client

    def close(self) -> None:
        """Idempotent."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def talk(self, talk: Talk[T], /) -> T:
        """Do as it says, until it has its answer. Raises MindholdError."""
        heard: Heard = None
        try:
            while True:
                heard = self._done(talk.send(heard))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()

    def turn(self, turn: Turn[T], /) -> Iterator[T]:
        """Page after page, each when it is needed."""
        cursor: str | None = None
        while True:
            page = self.talk(turn(cursor))
            yield from page.items
            if page.next is None:
                return
            cursor = page.next

    def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> Generator[ServerEvent]:
        """What happens, as it happens, until you close it: `ready` first, then `memory` for one that is new or changed, and
        `job` for one that got further. `topics` are memories, jobs, or both.

        A connection that breaks is made anew, and nothing is missed that the server still knows. `after` is the id of
        an event that was heard before.
        """
        import httpx2

        from mindhold.client.connection import NO_LIMIT, lost_request_of

        listening = EventStream(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                with self._client.stream(
                    "GET", listening.target, headers=listening.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        for told in httpx2.EventSource(response):
                            if event := listening.heard(told.event, told.data, told.id):
                                yield event
                        pause = listening.ended()
                    else:
                        pause = listening.failed(
                            ServerAnswer(response.status_code, response.headers, response.read())
                        )
            except httpx2.TransportError as error:
                pause = listening.failed(lost_request_of(error))
            time.sleep(pause)

    def _done(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        import httpx2

        from mindhold.client.connection import NO_LIMIT, Body, lost_request_of

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


def _sync_content(ask: ClientRequest) -> bytes | Iterator[bytes] | None:
    if ask.lines is None:
        return ask.body
    if isinstance(ask.lines, AsyncIterable):
        raise TypeError("messages that come asynchronously need AsyncMindhold")
    return (line_of(message) for message in ask.lines)


I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741


class AsyncMindhold(BaseClient["httpx2.AsyncClient"]):
    """A Mindhold server, asked from an event loop. Arguments and methods are those of Mindhold."""

    @staticmethod
    def _kind() -> type[httpx2.AsyncClient]:
        import httpx2

        return httpx2.AsyncClient

    async def close(self) -> None:
        """Idempotent."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def operate(
        self, operation: Operation[I, O], given: I, *, agent: str | None = None, key: str | None = None
    ) -> O:
        """An operation of the catalogue, for that agent; a write with the same key is done once. Raises MindholdError."""
        return await self.talk(self.wire.operate(operation, given, agent=agent, key=key))

    async def talk(self, talk: Talk[T], /) -> T:
        """Do as it says, until it has its answer. Raises MindholdError."""
        heard: Heard = None
        try:
            while True:
                heard = await self._done(talk.send(heard))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()

    async def turn(self, turn: Turn[T], /) -> AsyncIterator[T]:
        """Page after page, each when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.talk(turn(cursor))
            for item in page.items:
                yield item
            if page.next is None:
                return
            cursor = page.next

    async def events(
        self, *, project: str | None = None, topics: tuple[str, ...] = (), after: str | None = None
    ) -> AsyncGenerator[ServerEvent]:
        """What happens, as it happens, until you close it: see Mindhold.events."""
        import httpx2

        from mindhold.client.connection import NO_LIMIT, lost_request_of

        listening = EventStream(self.wire, project=project, topics=topics, last=after)
        while True:
            try:
                async with self._client.stream(
                    "GET", listening.target, headers=listening.headers(), timeout=NO_LIMIT
                ) as response:
                    if response.status_code == 200:
                        async for told in httpx2.EventSource(response):
                            if event := listening.heard(told.event, told.data, told.id):
                                yield event
                        pause = listening.ended()
                    else:
                        pause = listening.failed(
                            ServerAnswer(response.status_code, response.headers, await response.aread())
                        )
            except httpx2.TransportError as error:
                pause = listening.failed(lost_request_of(error))
            await asyncio.sleep(pause)

    async def _done(self, step: Step) -> Heard:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        import httpx2

        from mindhold.client.connection import NO_LIMIT, Body, lost_request_of

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
            if not limit.expired():  # it is that of who gives the messages
                raise
            return LostRequest("", slow=True)
        except httpx2.TransportError as error:
            return lost_request_of(error)


def _async_content(ask: ClientRequest) -> bytes | AsyncIterator[bytes] | None:
    return ask.body if ask.lines is None else _lines(ask)


async def _lines(ask: ClientRequest) -> AsyncIterator[bytes]:
    assert ask.lines is not None
    if isinstance(ask.lines, AsyncIterable):
        async for message in ask.lines:
            yield line_of(message)
        return
    for message in ask.lines:
        yield line_of(message)
