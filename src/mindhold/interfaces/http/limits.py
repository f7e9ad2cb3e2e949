"""Rate limits, and limits on the size and duration of request bodies."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold.interfaces.http.context import CREDENTIAL_KEY, documented_response, error_response

MOST_REMEMBERED = 10_000
LINGER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BucketState:
    """The state of a bucket: whether a request is allowed, and when the next one will be."""

    allowed: bool
    limit: int
    remaining: int
    full_in: int  # seconds
    retry_in: int  # seconds


class TokenBuckets:
    """A token bucket for each name. A minute's worth of requests may come at once; the least recent names are forgotten."""

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_REMEMBERED
    ) -> None:
        self._limit = per_minute
        self._clock = clock
        self._most = most
        # name -> tokens left, time of the last request
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str) -> BucketState:
        """Take a token if there is one."""
        return self._draw(name, 1.0)

    def look(self, name: str) -> BucketState:
        """The result that `take` would have, without taking a token."""
        return self._draw(name, 0.0)

    def _draw(self, name: str, wanted: float) -> BucketState:
        now = self._clock()
        rate = self._limit / 60
        tokens, when = self._levels.pop(name, (float(self._limit), now))
        tokens = min(float(self._limit), tokens + (now - when) * rate)
        allowed = tokens >= 1.0
        if allowed:
            tokens -= wanted
        self._levels[name] = (tokens, now)
        while len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return BucketState(
            allowed=allowed,
            limit=self._limit,
            remaining=int(tokens),
            full_in=math.ceil((self._limit - tokens) / rate),
            retry_in=max(1, math.ceil((1.0 - tokens) / rate)),
        )


def address_of(scope: Scope) -> str:
    """The name that requests are counted by: the client's address, or its network for IPv6."""
    client = scope.get("client")
    return address_group(client[0] if client else "")


def address_group(host: str) -> str:
    """The name of an address in counts: the address, or its /64 network for IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return "address:unknown"
    group = str(address) if address.version == 4 else str(ip_network((address, 64), strict=False))
    return f"address:{group}"


def too_many(left: BucketState, error: str = "Too many requests.") -> Response:
    """The response 429, with the time of the next attempt."""
    answer = error_response(429, error, "TOO_MANY_REQUESTS", advice=f"Try again in {left.retry_in} seconds.")
    answer.headers["Retry-After"] = str(left.retry_in)
    add_limit_headers(answer.headers, left)
    return answer


def add_limit_headers(headers: MutableHeaders, left: BucketState) -> None:
    """Add the limit to the headers of the draft standard (seconds from now) and the older ones (Unix time)."""
    values = {"Limit": left.limit, "Remaining": left.remaining}
    for name, value in values.items():
        headers[f"RateLimit-{name}"] = headers[f"X-RateLimit-{name}"] = str(value)
    headers["RateLimit-Reset"] = str(left.full_in)
    headers["X-RateLimit-Reset"] = str(int(time.time()) + left.full_in)


class RateLimit:
    """Middleware that limits requests per minute of each credential, or of each address without one."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self._app = app
        self._buckets = TokenBuckets(per_minute) if per_minute else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._buckets is None or scope["type"] != "http":
            return await self._app(scope, receive, send)
        bucket = self._buckets.take(scope.get(CREDENTIAL_KEY) or address_of(scope))
        if not bucket.allowed:
            return await too_many(bucket)(scope, receive, send)

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                add_limit_headers(MutableHeaders(raw=message["headers"]), bucket)
            await send(message)

        return await self._app(scope, receive, telling)


class BodyLimit:
    """Middleware that limits the size of bodies and the time that they take to arrive.

    A `streamed` body, which no route holds as a whole, may have any size; the time limit applies to each piece of it.
    """

    def __init__(
        self, app: ASGIApp, largest: int, seconds: float, *, streamed: Callable[[Scope], bool]
    ) -> None:
        self._app = app
        self._largest = largest
        self._seconds = seconds
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        largest = None if self._streamed(scope) else self._largest
        declared = Headers(scope=scope).get("content-length", "")
        body = _Body(scope, receive, send, largest=largest, seconds=self._seconds)
        if largest is not None and declared.isdecimal() and int(declared) > largest:
            return await _too_large(largest)(scope, receive, body.send)
        with suppress(ClientDisconnect):  # the client left, or its body was refused
            await self._app(scope, body.receive, body.send)
        return None


class _Body:
    """A body while it is read. When it is refused, the route sees a disconnected client and its response is dropped."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, largest: int | None, seconds: float
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._largest = largest
        self._seconds = seconds
        self._deadline = _now() + seconds
        self._size = 0
        self._complete = False
        self._started = False
        self._refused = False

    async def receive(self) -> Message:
        if self._refused:
            return {"type": "http.disconnect"}
        if self._complete:  # now the route only waits for a disconnect
            return await self._receive()
        deadline = self._deadline if self._largest is not None else _now() + self._seconds
        try:
            async with asyncio.timeout_at(deadline):
                message = await self._receive()
        except TimeoutError:
            return await self._refuse(documented_response("TOO_SLOW", headers={"Connection": "close"}))
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._largest is not None and self._size > self._largest:
            return await self._refuse(_too_large(self._largest))
        return message

    async def send(self, message: Message) -> None:
        if not self._refused:
            self._started = True
            await self._pass_on(message)

    async def _refuse(self, answer: Response) -> Message:
        self._refused = True
        if not self._started:
            await answer(self._scope, self._receive, self._pass_on)
        return {"type": "http.disconnect"}

    async def _pass_on(self, message: Message) -> None:
        """Send a message. Before ending an early response, read on for a while: else the client may be cut off before reading it."""
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not ends or self._complete or not self._is_coming():
            return await self._send(message)
        await self._send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await self._receive()).get("more_body", False):
                    pass
        return await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _is_coming(self) -> bool:
        headers = Headers(scope=self._scope)
        if "expect" in headers:  # the client waits for an answer before it sends the body
            return False
        return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _now() -> float:
    return asyncio.get_running_loop().time()


def _too_large(largest: int) -> Response:
    return documented_response("BODY_TOO_LARGE", advice=f"At most {largest} bytes are taken.")
