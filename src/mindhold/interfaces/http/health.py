"""Health endpoints and Prometheus metrics for monitoring, and one log line for every request; no secrets, no memory text."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold import __version__
from mindhold.interfaces.http.auth import CredentialLookup, bearer
from mindhold.interfaces.http.context import CREDENTIAL_KEY, HttpContext, error_response, is_local_request
from mindhold.interfaces.runtime import CALLER_KEY
from mindhold.model.errors import MindholdError, StoreDenied, StoreError
from mindhold.model.job import JobState
from mindhold.model.memory import Status

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_WORDS = 100
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class LabelValues:
    """Bounds the number of values of a label: the first ones keep their names, later ones share one."""

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, word: str) -> str:
        if word not in self._known:
            if (
                len(self._known) >= self._most
                or len(word) > 64
                or not word.isascii()
                or not word.isprintable()
            ):
                return OTHER
            self._known.add(word)
        return word


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._tools, self._outcomes, self._models = LabelValues(), LabelValues(), LabelValues(20)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry, buckets=SECONDS)
        self._requests = counter(
            "mindhold_http_requests", "Requests answered.", ["route", "method", "status"]
        )
        self._seconds = histogram(
            "mindhold_http_request_seconds",
            "Time to answer a request; streams are not in it.",
            ["route", "method"],
        )
        self._calls = counter("mindhold_tool_calls", "Calls of tools.", ["tool", "outcome"])
        self._call_seconds = histogram("mindhold_tool_call_seconds", "Time of a tool's call.", ["tool"])
        self._sessions = gauge("mindhold_sessions", "Conversations that are open.")
        self._up = gauge("mindhold_store_up", "1 while the store answers.")
        self._records = gauge("mindhold_memories", "Memories kept.", ["status"])
        self._jobs = gauge("mindhold_jobs", "Jobs in the queue.", ["state"])
        self._model_calls = counter("mindhold_model_calls", "Calls of language models.", ["model", "outcome"])
        self._model_tokens = counter(
            "mindhold_model_tokens", "Tokens of language models.", ["model", "direction"]
        )

    def observe_tool(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a tool call."""
        name = self._tools(tool)
        self._calls.labels(name, self._outcomes(outcome)).inc()
        self._call_seconds.labels(name).observe(seconds)

    def observe_request(self, *, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count a request; `seconds` is None for a stream. `route` is the pattern of a route, not the requested path."""
        verb = method if method in METHODS else OTHER
        self._requests.labels(route, verb, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, verb).observe(seconds)

    def observe_model(
        self, model: str, *, outcome: str = "ok", tokens_in: int = 0, tokens_out: int = 0
    ) -> None:
        """Count a call of a language model, also of a client's own model."""
        name = self._models(model)
        self._model_calls.labels(name, self._outcomes(outcome)).inc()
        self._model_tokens.labels(name, "in").inc(tokens_in)
        self._model_tokens.labels(name, "out").inc(tokens_out)

    def count_sessions(self, count: Callable[[], int]) -> None:
        """Set the function that the gauge of sessions calls."""
        self._sessions.set_function(lambda: float(count()))

    def set_store(self, *, up: bool, records: Mapping[str, int], jobs: Mapping[str, int]) -> None:
        """Set the gauges of the store."""
        self._up.set(1.0 if up else 0.0)
        if up:  # if the store doesn't answer, the last values stay
            for status in Status:
                self._records.labels(status).set(records.get(status, 0))
            for state in JobState:
                self._jobs.labels(state).set(jobs.get(state, 0))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


log = logging.getLogger("mindhold.http")
CLIENT_LEFT = 499  # the client disconnected before the response


class RequestObserver:
    """The outermost middleware: logs and counts requests, and adds the headers that every response has."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Callable[[], Sequence[BaseRoute]]) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began = time.perf_counter()
        status, streams = CLIENT_LEFT, False

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
                "credential": scope.get(CREDENTIAL_KEY, ""),
            },
        )

    def _route(self, scope: Scope) -> str:
        """The pattern of the route, because paths contain names and ids; unknown paths share one value."""
        match = scope.get("route") or next(
            (route for route in self._routes() if route.matches(scope)[0] is not Match.NONE), None
        )
        return str(getattr(match, "path", OTHER))


LONGEST_SECONDS = 2.0
NO_CACHE = {"state": "none", "rung": "none"}  # there is no cache
UNCACHED = frozenset({"none", "hashing"})


class Health:
    """The health and metrics routes. Concurrent requests share one look at the store."""

    def __init__(self, door: HttpContext, keys: CredentialLookup, metrics: Metrics) -> None:
        self._door = door
        self._keys = keys
        self._metrics = metrics
        self._looking: asyncio.Task[Any] | None = None
        self._fault: MindholdError | None = None  # error of the last completed look

    def routes(self) -> list[Route]:
        return [
            Route("/health", endpoint=self._health, methods=["GET"]),
            Route("/metrics", endpoint=self._report, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        """The state of the server. Strangers see only whether it is up; details are for this machine and the owner."""
        try:
            report, status = self._up(await self._status()), 200
        except MindholdError as error:
            report, status = _down(error), 503
        detailed = is_local_request(request.scope) or self._keys.is_owner(bearer(request.scope) or "")
        return JSONResponse(report if detailed else {"status": report["status"]}, status_code=status)

    async def _report(self, request: Request) -> Response:
        if not request.scope[CALLER_KEY].owner:
            return error_response(
                403,
                "The counts of the whole store are for its owner.",
                "REFUSED",
                advice="Use the owner's key.",
            )
        try:
            status = await self._status()
            self._metrics.set_store(up=True, records=status.by_status, jobs=status.jobs)
        except MindholdError:
            self._metrics.set_store(up=False, records={}, jobs={})
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _status(self) -> Any:
        """The status of the store. Raises MindholdError, also if the store takes too long to answer."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._note)
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                return await asyncio.shield(self._looking)
        except TimeoutError as error:
            raise self._fault or StoreError(
                "The store does not answer.", advice="`mindhold doctor` looks closer."
            ) from error

    def _note(self, looked: asyncio.Task[Any]) -> None:
        fault = None if looked.cancelled() else looked.exception()
        self._fault = fault if isinstance(fault, MindholdError) else None

    async def _look(self) -> Any:
        from mindhold.lifecycle.status import STATUS

        status = await self._door.ask(STATUS)
        settings = self._door.settings
        if settings.store.mode == "local" and not await asyncio.to_thread(settings.database.exists):
            raise StoreError("The database file is gone.", advice="Stop the server and restore a backup.")
        return status

    def _up(self, status: Any) -> dict[str, Any]:
        dead = status.jobs.get("dead", 0)
        lowered = bool(status.notice)
        away = any(store["state"] != "ok" for store in status.storage.values())
        return {
            "status": "degraded" if dead or away else "ok",  # a fallback model is no fault
            "version": __version__,
            "store": {"state": "ok", "rung": status.store["kind"], "schema": status.store["schema"]},
            "storage": {mode: {"state": store["state"]} for mode, store in status.storage.items()},
            "cache": {**_cache(status), "embeddings": self._embeddings(status)},
            "model": {
                "state": "lower rung" if lowered else "ok",
                "rung": status.rung,
                "model": status.model,
                "detail": status.notice,
            },
            "jobs": {"state": "degraded" if dead else "ok", "rung": "in process", **status.jobs},
        }

    def _embeddings(self, status: Any) -> dict[str, Any]:
        """The state of the embedding cache, which keeps only vectors of a real model."""
        settings = self._door.settings.embedding
        size = settings.cache_size if status.model and settings.provider not in UNCACHED else 0
        return {"state": "on" if size else "off", "rung": "memory" if size else "none", "size": size}


def _cache(status: Any) -> dict[str, Any]:
    """The state of the sidecar. A lost one is no fault, since nothing depends on it."""
    sidecar = status.beside
    if not sidecar:
        return NO_CACHE
    return {
        "state": sidecar["state"],
        "rung": sidecar["kind"],
        "keywords": sidecar["keywords"],
        "detail": sidecar["detail"],
    }


def _down(error: MindholdError) -> dict[str, Any]:
    refused = isinstance(error, StoreDenied)
    detail = "The store, or what stands beside it, refuses us." if refused else "The store does not answer."
    unknown = {"state": "unknown"}
    return {
        "status": "down",
        "version": __version__,
        "store": {"state": "down", "code": error.code, "detail": detail},
        "cache": NO_CACHE,
        "model": unknown,
        "jobs": unknown,
    }
