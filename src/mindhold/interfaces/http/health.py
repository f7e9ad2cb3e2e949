"""Health endpoints for monitoring, without secrets or memory text."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mindhold import __version__
from mindhold.interfaces.http.auth import CredentialLookup, bearer
from mindhold.interfaces.http.context import HttpContext, error_response, is_local_request
from mindhold.interfaces.http.metrics import CONTENT_TYPE, Metrics
from mindhold.interfaces.runtime import CALLER_KEY
from mindhold.model.errors import MindholdError, StoreDenied, StoreError

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
            Route("/metrics", endpoint=self._told, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        """The state of the server. Strangers see only whether it is up; details are for this machine and the owner."""
        try:
            report, status = self._up(await self._status()), 200
        except MindholdError as error:
            report, status = _down(error), 503
        detailed = is_local_request(request.scope) or self._keys.is_owner(bearer(request.scope) or "")
        return JSONResponse(report if detailed else {"status": report["status"]}, status_code=status)

    async def _told(self, request: Request) -> Response:
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

    def _up(self, found: Any) -> dict[str, Any]:
        dead = found.jobs.get("dead", 0)
        lowered = bool(found.notice)
        away = any(store["state"] != "ok" for store in found.storage.values())
        return {
            "status": "degraded" if dead or away else "ok",  # a fallback model is no fault
            "version": __version__,
            "store": {"state": "ok", "rung": found.store["kind"], "schema": found.store["schema"]},
            "storage": {mode: {"state": store["state"]} for mode, store in found.storage.items()},
            "cache": {**_cache(found), "embeddings": self._embeddings(found)},
            "model": {
                "state": "lower rung" if lowered else "ok",
                "rung": found.rung,
                "model": found.model,
                "detail": found.notice,
            },
            "jobs": {"state": "degraded" if dead else "ok", "rung": "in process", **found.jobs},
        }

    def _embeddings(self, found: Any) -> dict[str, Any]:
        """The state of the embedding cache, which keeps only vectors of a real model."""
        settings = self._door.settings.embedding
        size = settings.cache_size if found.model and settings.provider not in UNCACHED else 0
        return {"state": "on" if size else "off", "rung": "memory" if size else "none", "size": size}


def _cache(found: Any) -> dict[str, Any]:
    """The state of the sidecar. A lost one is no fault, since nothing depends on it."""
    sidecar = found.beside
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
