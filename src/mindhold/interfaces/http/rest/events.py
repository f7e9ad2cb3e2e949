"""Server-sent events: what happens, told as it happens, until the client leaves or the server stops."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mindhold.dialects.rest.shape import Resource
from mindhold.interfaces.http.answers import refusal
from mindhold.interfaces.http.door import VISITOR_KEY, Door
from mindhold.interfaces.http.identity import Keys, bearer
from mindhold.interfaces.http.limits import address_of
from mindhold.interfaces.http.rest.listening import Event, Listener
from mindhold.interfaces.http.rest.reading import AGENT, header, query_of
from mindhold.interfaces.running import CALLER_KEY, Running
from mindhold.model.errors import MindholdError, NotFound, Refused
from mindhold.operations.following import RecentChangesInput, RecentChangesResult

MEDIA = "text/event-stream"
LAST = "last-event-id"
LOOK_SECONDS = 2.0  # between two looks for what other processes wrote
LEAST_SECONDS = 0.05  # between two looks, however much is written here
SECONDS_EACH = 0.0005  # and for each memory that the last one read: who is far behind leaves room for others
SECONDS_OF_MANY = 0.01  # and for each who listens
ALIVE_SECONDS = 15.0
MOST_EACH = 16  # streams of one credential
MOST = 256
CROWD = "mindhold_listeners"  # where the application's state has who listens
ALIVE = b": still here\n\n"
Look = Callable[[RecentChangesInput], Awaitable[RecentChangesResult]]


async def serve(door: Door, resource: Resource, request: Request) -> Response:
    """The stream. Raises MindholdError for what can't be listened to."""
    given = resource.given(request.path_params, query_of(request))
    assert isinstance(given, RecentChangesInput)
    caller, agent = request.scope[CALLER_KEY], header(request, AGENT)
    running = await door.opening.running()

    async def look(asked: RecentChangesInput) -> RecentChangesResult:
        found: RecentChangesResult = await running.run(resource.serves, asked, caller=caller, agent=agent)
        return found

    async def may_stay() -> bool:
        secret = bearer(request.scope)
        if secret is None:  # somebody at this machine
            return True
        found = await Keys(door).whose(secret, scope=request.scope)
        return found is not None and found.caller == caller

    listener = Listener(given, last=request.headers.get(LAST))
    first = list(listener.news(await look(listener.next_look(datetime.now(UTC)))))
    if request.method == "HEAD":
        return Response(media_type=MEDIA)
    crowd = _crowd(request)
    name = request.scope.get(VISITOR_KEY) or address_of(request.scope)
    if crowd.total() >= MOST or crowd[name] >= MOST_EACH:
        return refusal(
            429,
            "Too many listen already.",
            "TOO_MANY_REQUESTS",
            advice=f"One key may have {MOST_EACH} streams open: close one.",
            headers={"Retry-After": "30"},
        )
    while not listener.is_ready:
        first = list(listener.news(await look(listener.next_look(datetime.now(UTC)))))
    telling = _Telling(running, listener, look=look, may_stay=may_stay, first=first, crowd=crowd)
    return _Stream(telling, crowd, name)


def _crowd(request: Request) -> Counter[str]:
    state = request.app.state
    if not hasattr(state, CROWD):
        setattr(state, CROWD, Counter())
    crowd: Counter[str] = getattr(state, CROWD)
    return crowd


class _Telling:
    """The bytes of a stream, one piece after the other. It reads no faster than they are taken."""

    def __init__(
        self,
        running: Running,
        listener: Listener,
        *,
        look: Look,
        may_stay: Callable[[], Awaitable[bool]],
        first: list[Event],
        crowd: Counter[str],
    ) -> None:
        self._running = running
        self._listener = listener
        self._look = look
        self._may_stay = may_stay
        self._first = first
        self._crowd = crowd
        self._seen = -1

    async def tell(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Until nothing more can be told to this one."""
        await send(b"".join(event.encoded() for event in self._first))
        checked, pause = time.monotonic(), LEAST_SECONDS
        while True:
            await asyncio.sleep(pause)
            if not self._listener.under_way:
                self._seen = await self._running.await_change(self._seen, LOOK_SECONDS)
            if time.monotonic() - checked >= ALIVE_SECONDS:
                checked = time.monotonic()
                if not await self._stays():
                    return
                await send(ALIVE)
            try:
                found = await self._look(self._listener.next_look(datetime.now(UTC)))
            except (NotFound, Refused):  # the project is gone
                return
            except MindholdError:  # a busy store: there will be another time
                pause = LOOK_SECONDS
                continue
            many = SECONDS_OF_MANY * self._crowd.total()
            pause = max(LEAST_SECONDS, many) + SECONDS_EACH * len(found.memories)
            for event in self._listener.news(found):
                await send(event.encoded())

    async def _stays(self) -> bool:
        try:
            return await self._may_stay()
        except MindholdError:
            return True  # it can't be looked up now


class _Stream(Response):
    """Counted while it is open."""

    media_type = MEDIA

    def __init__(self, telling: _Telling, crowd: Counter[str], name: str) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._telling = telling
        self._crowd = crowd
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd[self._name] += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._until_one_leaves(receive, send)
        finally:
            self._crowd[self._name] -= 1
            if not self._crowd[self._name]:
                del self._crowd[self._name]

    async def _until_one_leaves(self, receive: Receive, send: Send) -> None:
        async def piece(body: bytes) -> None:
            if body:
                await send(_body(body, more=True))

        telling = asyncio.ensure_future(self._telling.tell(piece))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
                await send(_body(b"", more=False))
        finally:
            for task in (telling, leaving):
                task.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}
