"""How it is, for those who watch: short, without secrets, without anything remembered."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from recollect import __version__
from recollect.interfaces.http.door import Door
from recollect.interfaces.http.metrics import CONTENT_TYPE, Metrics
from recollect.model.errors import RecollectError, StoreError

LONGEST_SECONDS = 2.0


class Health:
    """Looks once for all who ask at the same time."""

    def __init__(self, door: Door, metrics: Metrics) -> None:
        self._door = door
        self._metrics = metrics
        self._looking: asyncio.Task[Any] | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/health", endpoint=self._health, methods=["GET"]),
            Route("/metrics", endpoint=self._told, methods=["GET"]),
        ]

    async def _health(self, _request: Request) -> Response:
        try:
            found = await self._status()
        except RecollectError as error:
            return JSONResponse(_down(error), status_code=503)
        return JSONResponse(_up(found))

    async def _told(self, _request: Request) -> Response:
        try:
            found = await self._status()
            self._metrics.set_store(up=True, records=found.by_status, jobs=found.jobs)
        except RecollectError:
            self._metrics.set_store(up=False, records={}, jobs={})
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _status(self) -> Any:
        """Raises RecollectError, also when the store takes too long to answer."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                return await asyncio.shield(self._looking)
        except TimeoutError as error:
            raise StoreError(
                "The store does not answer.", advice="`recollect doctor` looks closer."
            ) from error

    async def _look(self) -> Any:
        found = await self._door.ask("status")
        path = self._door.settings.database
        if not await asyncio.to_thread(path.exists):
            raise StoreError("The database file is gone.", advice="Stop the server and restore a backup.")
        return found


def _up(found: Any) -> dict[str, Any]:
    dead = found.jobs.get("dead", 0)
    lowered = bool(found.notice)
    return {
        "status": "degraded" if dead else "ok",  # a lower rung is no fault
        "version": __version__,
        "store": {"state": "ok", "rung": found.store["kind"], "schema": found.store["schema"]},
        "cache": {"state": "ok", "rung": "memory"},
        "model": {
            "state": "lower rung" if lowered else "ok",
            "rung": found.rung,
            "model": found.model,
            "detail": found.notice,
        },
        "jobs": {"state": "degraded" if dead else "ok", "rung": "in process", **found.jobs},
    }


def _down(error: RecollectError) -> dict[str, Any]:
    unknown = {"state": "unknown"}
    return {
        "status": "down",
        "version": __version__,
        "store": {"state": "down", "code": error.code, "detail": "The store does not answer."},
        "cache": {"state": "ok", "rung": "memory"},
        "model": unknown,
        "jobs": unknown,
    }
