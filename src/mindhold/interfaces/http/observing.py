"""One line in the log and one count for every request, whatever became of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from starlette.datastructures import MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold.interfaces.http.door import VISITOR_KEY
from mindhold.interfaces.http.metrics import OTHER, Metrics

log = logging.getLogger("mindhold.http")
LEFT = 499  # the client went before it was answered


class Observer:
    """The outermost. It also gives every answer the headers that no answer should lack."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Callable[[], Sequence[BaseRoute]]) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began = time.perf_counter()
        status, streams = LEFT, False

        async def noting(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", [])
                headers = MutableHeaders(raw=message["headers"])
                streams = headers.get("content-type", "").startswith("text/event-stream")
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            return await self._app(scope, receive, noting)
        except Exception:
            status = 500
            raise
        finally:
            self._note(scope, status, time.perf_counter() - began, streams=streams)

    def _note(self, scope: Scope, status: int, seconds: float, *, streams: bool) -> None:
        route = self._route(scope)
        self._metrics.observe_request(
            route=route,
            method=scope["method"],
            status=status,
            seconds=None if streams else seconds,
        )
        log.info(
            "%s %s %d",
            scope["method"],
            route,
            status,
            extra={
                "method": scope["method"],
                "path": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
                "credential": scope.get(VISITOR_KEY, ""),
            },
        )

    def _route(self, scope: Scope) -> str:
        """The route's own pattern: names and ids in a path are callers' words, and what they made up is all one."""
        found = scope.get("route") or next(
            (route for route in self._routes() if route.matches(scope)[0] is not Match.NONE), None
        )
        return str(getattr(found, "path", OTHER))
