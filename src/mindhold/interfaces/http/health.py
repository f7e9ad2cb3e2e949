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
NO_CACHE = {"state": "none", "rung": "none"}  # answers are not cached: every one is the store's
UNCACHED = frozenset({"none", "hashing"})


class Health:
    """Looks once for all who ask at the same time."""

    def __init__(self, door: HttpContext, keys: CredentialLookup, metrics: Metrics) -> None:
        self._door = door
        self._keys = keys
        self._metrics = metrics
        self._looking: asyncio.Task[Any] | None = None
        self._fault: MindholdError | None = None  # of the last look that came to an end

    def routes(self) -> list[Route]:
        return [
            Route("/health", endpoint=self._health, methods=["GET"]),
            Route("/metrics", endpoint=self._told, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        """To strangers only whether it is up: what runs here, and how busy it is, is for this machine and the owner."""
        try:
            told, status = self._up(await self._status()), 200
        except MindholdError as error:
            told, status = _down(error), 503
        known = is_local_request(request.scope) or self._keys.is_owner(bearer(request.scope) or "")
        return JSONResponse(told if known else {"status": told["status"]}, status_code=status)

    async def _told(self, request: Request) -> Response:
        if not request.scope[CALLER_KEY].owner:
            return error_response(
                403,
                "The counts of the whole store are for its owner.",
                "REFUSED",
                advice="Use the owner's key.",
            )
        try:
            found = await self._status()
            self._metrics.set_store(up=True, records=found.by_status, jobs=found.jobs)
        except MindholdError:
            self._metrics.set_store(up=False, records={}, jobs={})
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _status(self) -> Any:
        """Raises MindholdError, also when the store takes too long to answer."""
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

        found = await self._door.ask(STATUS)
        settings = self._door.settings
        if settings.store.mode == "local" and not await asyncio.to_thread(settings.database.exists):
            raise StoreError("The database file is gone.", advice="Stop the server and restore a backup.")
        return found

    def _up(self, found: Any) -> dict[str, Any]:
        dead = found.jobs.get("dead", 0)
        lowered = bool(found.notice)
        away = any(one["state"] != "ok" for one in found.storage.values())
        return {
            "status": "degraded" if dead or away else "ok",  # a lower rung is no fault
            "version": __version__,
            "store": {"state": "ok", "rung": found.store["kind"], "schema": found.store["schema"]},
            "storage": {mode: {"state": one["state"]} for mode, one in found.storage.items()},
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
        """The vectors of repeated texts; only those of a real model are worth keeping."""
        chosen = self._door.settings.embedding
        kept = chosen.cache_size if found.model and chosen.provider not in UNCACHED else 0
        return {"state": "on" if kept else "off", "rung": "memory" if kept else "none", "size": kept}


def _cache(found: Any) -> dict[str, Any]:
    """One that is lost is no fault: nothing needs it."""
    told = found.beside
    if not told:
        return NO_CACHE
    return {
        "state": told["state"],
        "rung": told["kind"],
        "keywords": told["keywords"],
        "detail": told["detail"],
    }


def _down(error: MindholdError) -> dict[str, Any]:
    refused = isinstance(error, StoreDenied)
    said = "The store, or what stands beside it, refuses us." if refused else "The store does not answer."
    unknown = {"state": "unknown"}
    return {
        "status": "down",
        "version": __version__,
        "store": {"state": "down", "code": error.code, "detail": said},
        "cache": NO_CACHE,
        "model": unknown,
        "jobs": unknown,
    }
