"""The HTTP door as one application: every route behind the same chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute

from mindhold.interfaces.http.answers import on_any_error, on_http_error, on_our_error
from mindhold.interfaces.http.consent import ConsentPage
from mindhold.interfaces.http.door import Door, Opens
from mindhold.interfaces.http.guard import Cors, Guard
from mindhold.interfaces.http.health import Health
from mindhold.interfaces.http.identity import Identity, Keys
from mindhold.interfaces.http.limits import Bodies, RateLimit
from mindhold.interfaces.http.metrics import Metrics
from mindhold.interfaces.http.oauth import OAuth
from mindhold.interfaces.http.observing import Observer
from mindhold.interfaces.http.place import Place
from mindhold.interfaces.http.rest import documents
from mindhold.interfaces.http.rest.exporting import sweep_always
from mindhold.interfaces.http.rest.importing import is_import
from mindhold.interfaces.http.rest.routes import Rest
from mindhold.interfaces.http.stopping import EndStreams, Stopping
from mindhold.model.errors import MindholdError
from mindhold.settings import LoadedSettings

WORTH_COMPRESSING = 1_024
COMPRESSION = 6


def http_app(
    opening: Opens,
    *,
    loaded: LoadedSettings,
    mcp_routes: Sequence[BaseRoute],
    mcp_lifespan: Callable[[], AbstractAsyncContextManager[None]],
    metrics: Metrics,
    stopping: Stopping,
) -> Starlette:
    """Raises SettingsError for settings under which strangers could come in."""
    serve = loaded.settings.serve
    door = Door(opening, loaded, Place.of(loaded.settings))
    keys = Keys(door)
    routes: list[BaseRoute] = [
        *mcp_routes,
        *Health(door, keys, metrics).routes(),
        *OAuth(door).routes(),
        *ConsentPage(door, keys).routes(),
        *Rest(door).routes(),
        *documents.routes(),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        with suppress(MindholdError):  # requests are told, and try again
            await opening.running()
        sweeping = asyncio.create_task(sweep_always(loaded.settings.export_dir))
        try:
            async with mcp_lifespan():
                yield
        finally:
            sweeping.cancel()

    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(Observer, metrics, lambda: routes),
            Middleware(Guard, door.place),
            Middleware(Cors, door.place),
            Middleware(Bodies, serve.largest_body, serve.slow_client_seconds, streamed=is_import),
            Middleware(Identity, door, keys),
            Middleware(RateLimit, serve.requests_per_minute),
            Middleware(AuthContextMiddleware),
            Middleware(EndStreams, stopping),
            Middleware(GZipMiddleware, minimum_size=WORTH_COMPRESSING, compresslevel=COMPRESSION),
        ],
        exception_handlers={
            HTTPException: on_http_error,
            MindholdError: on_our_error,
            Exception: on_any_error,
        },
    )
