"""Routes of the REST API, one for each path of the table of resources; results and errors as HTTP responses."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mindhold.contracts.rest.errors import BY_CODE
from mindhold.contracts.rest.resource import Resource, Stream
from mindhold.interfaces.http.context import (
    HttpContext,
    disconnected,
    documented_response,
    error_response,
    response_to_error,
)
from mindhold.interfaces.http.rest.requests import (
    AGENT,
    ETAG,
    EXPECTED,
    KEY,
    UnsupportedMedia,
    body_of,
    conditions,
    etag_of,
    header,
    is_api_path,
    is_known,
    path_names,
    path_of,
    query_of,
)
from mindhold.interfaces.runtime import CALLER_KEY
from mindhold.model.errors import (
    Changed,
    InvalidInput,
    MindholdError,
    ModelError,
    ModelSpent,
    NotFound,
    ScopeNotFound,
    StoreError,
)
from mindhold.operations import Output

JSON = "application/json"
REPLAYED = "Idempotent-Replayed"
CURSOR = "cursor"
_FIELD = re.compile(r"{(\w+)}")
log = logging.getLogger(__name__)


def resource_response(
    resource: Resource,
    output: Output,
    request: Request,
    *,
    query: Sequence[tuple[str, str]] = (),
    repeated: bool = False,
) -> Response:
    """The response for an output, with headers for its location, its version and the next page."""
    headers: dict[str, str] = {}
    if (etag := etag_of(resource, output)) is not None:
        headers["ETag"] = etag
        headers["Cache-Control"] = "private, no-cache"
        if not resource.writes and is_known(etag, request):
            return Response(status_code=304, headers=headers)
    if (place := _location(resource, output)) is not None:
        headers["Location"] = place
    if (following := _following(resource, output, request, query)) is not None:
        headers["Link"] = following
    if repeated:
        headers[REPLAYED] = "true"
    status = resource.status
    if status == 201 and getattr(output, "created", None) is False:
        status = 200  # it existed already, or nothing was created
    body = output.model_dump_json(exclude={ETAG} if resource.versioned else None)
    return Response(body, status_code=status, media_type=JSON, headers=headers)


def resource_error_response(error: MindholdError, *, project: str | None, expected: bool) -> Response:
    """The response for an error in the words of the contract, without details of this machine's files and servers."""
    if isinstance(error, ScopeNotFound) and project is not None and error.name == project.strip():
        return documented_response("PROJECT_NOT_FOUND", project_id=project)
    if isinstance(error, UnsupportedMedia):
        return error_response(415, error.message, error.code, advice=error.advice)
    if isinstance(error, Changed) and expected:
        return error_response(412, error.message, "PRECONDITION_FAILED", advice=error.advice)
    if isinstance(error, ModelError) and not isinstance(error, ModelSpent):
        log.warning("a model failed: %s", error)
        return documented_response("EMBEDDING_SERVICE_ERROR", details=error.message)
    if isinstance(error, StoreError) and error.code in BY_CODE:
        log.warning("the store failed: %s", error)
        return documented_response(error.code)
    if isinstance(error, NotFound) and error.code in BY_CODE:  # its own advice may be about the command line
        advice = BY_CODE[error.code].advice or error.advice
        return error_response(404, error.message, error.code, advice=advice)
    return response_to_error(error)


def _location(resource: Resource, output: Output) -> str | None:
    if not resource.location:
        return None
    names = _FIELD.findall(resource.location)
    values = {name: getattr(output, name, None) for name in names}
    if any(value is None for value in values.values()):
        return None
    return _FIELD.sub(lambda found: quote(str(values[found[1]]), safe=""), resource.location)


def _following(
    resource: Resource, output: Output, request: Request, query: Sequence[tuple[str, str]]
) -> str | None:
    cursor = getattr(output, "next", None)
    if not isinstance(cursor, str) or CURSOR not in resource.in_query():
        return None
    parameters = [pair for pair in query if pair[0] not in (CURSOR, "after")]
    path = (request.scope.get("raw_path") or quote(request.url.path).encode()).decode("latin-1")
    return f'<{path}?{urlencode([*parameters, (CURSOR, cursor)])}>; rel="next"'


T = TypeVar("T")
PROJECT, ASKED_PROJECT = "project_id", "project"  # name in a path, name in a query
SOON = 1.0  # seconds after which a read is cancelled if its client left


class ApiPaths:
    """Middleware that routes API paths as they were sent, so that a name may contain any character."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_api_path(scope):
            try:
                scope["path"] = path_of(scope)
            except InvalidInput as error:
                response = resource_error_response(error, project=None, expected=False)
                return await response(scope, receive, send)
        return await self._app(scope, receive, send)


def rest_routes(context: HttpContext, rows: Iterable[Resource]) -> list[Route]:
    """A route for each path. Fixed segments come before names: `recent` before `{message_id}`."""
    by_path: dict[str, dict[str, Resource]] = {}
    for row in rows:
        by_path.setdefault(row.path, {})[row.method] = row
    paths = sorted(by_path, key=lambda path: [part.startswith("{") for part in path.split("/")])
    return [Route(path, ResourceEndpoint(context, by_path[path])) for path in paths]


class ResourceEndpoint:
    """The resources at one path by method. Reads the request, runs the operation and responds."""

    def __init__(self, context: HttpContext, rows: Mapping[str, Resource]) -> None:
        self._context = context
        self._rows = rows
        self.allowed = ", ".join(sorted({*rows, *(["HEAD"] if "GET" in rows else []), "OPTIONS"}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path_params"] = path_names(scope)
        response = await self._respond(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        allow = {"Allow": self.allowed}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        row = self._rows.get("GET" if request.method == "HEAD" else request.method)
        if row is None:
            advice = f"Here are: {self.allowed}."
            return documented_response("METHOD_NOT_ALLOWED", advice=advice, headers=allow)
        expected = False
        try:
            fields = conditions(row, request)
            expected = EXPECTED in fields
            if row.stream is not None:
                return await _streaming(row.stream)(self._context, row, request)
            return await self._serve(row, request, fields)
        except MindholdError as error:
            project = request.path_params.get(PROJECT) or request.query_params.get(ASKED_PROJECT)
            return resource_error_response(error, project=project, expected=expected)

    async def _serve(self, row: Resource, request: Request, fields: dict[str, Any]) -> Response:
        query = query_of(request)
        request_input = row.given(request.path_params, query, await body_of(row, request), **fields)
        agent, key = header(request, AGENT), header(request, KEY) if row.writes else None
        running = await self._context.opening.running()
        repeats: list[bool] = []
        work: Awaitable[Output] = running.run(
            row.serves,
            request_input,
            caller=request.scope[CALLER_KEY],
            agent=agent,
            key=key,
            on_repeat=lambda: repeats.append(True),
        )
        output = await (work if row.writes else while_waited_for(request, work))
        return resource_response(row, output, request, query=query, repeated=bool(repeats))


async def while_waited_for(request: Request, work: Awaitable[T], *, soon: float = SOON) -> T:
    """The result of a read, which is cancelled if the client leaves. Raises ClientDisconnect."""
    task = asyncio.ensure_future(work)
    departure: asyncio.Future[None] | None = None
    try:
        await asyncio.wait({task}, timeout=soon)
        if not task.done():
            departure = asyncio.ensure_future(disconnected(request.receive))
            await asyncio.wait({task, departure}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for future in (task, departure):
            if future is not None and not future.done():
                future.cancel()
                await asyncio.wait({future})
                if not future.cancelled():
                    future.exception()  # retrieved so that asyncio doesn't log it


def _streaming(name: Stream) -> Callable[[HttpContext, Resource, Request], Awaitable[Response]]:
    from mindhold.interfaces.http.rest import events, transfer

    match name:
        case "import":
            return transfer.serve_import
        case "export":
            return transfer.serve_export
        case "events":
            return events.serve
