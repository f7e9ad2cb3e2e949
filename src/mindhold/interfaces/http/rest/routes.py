"""The table of resources as one route: reads a request, calls the operation, answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from mindhold.contracts.rest.resource import Resource, Stream, resources
from mindhold.interfaces.http.context import HttpContext, error_response
from mindhold.interfaces.http.rest.paths import ROOT, PathMatch, Paths, is_within
from mindhold.interfaces.http.rest.requests import AGENT, EXPECTED, KEY, body_of, conditions, header, query_of
from mindhold.interfaces.http.rest.responses import resource_error_response, resource_response
from mindhold.interfaces.runtime import CALLER_KEY
from mindhold.model.errors import MindholdError
from mindhold.operations import Output

T = TypeVar("T")
PROJECT, ASKED_PROJECT = "project_id", "project"  # in a path, in a query
SOON = 1.0  # seconds: what takes longer is given up when nobody waits for it
STREAMS: dict[Stream, str] = {
    "import": "transfer:serve_import",
    "export": "transfer:serve_export",
    "events": "events:serve",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a request's scope calls its route: the pattern, whatever names were in it."""

    path: str


class Rest:
    """The routes of a server."""

    def __init__(self, door: HttpContext) -> None:
        self._door = door

    def routes(self) -> list[BaseRoute]:
        return [ResourceRoute(self._door, Paths(resources()))]


class ResourceRoute(BaseRoute):
    """All that is under one word: what nobody serves is told there as well."""

    path = f"/{ROOT}"

    def __init__(self, door: HttpContext, paths: Paths) -> None:
        self._door = door
        self._paths = paths

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        within = scope["type"] == "http" and is_within(scope)
        return (Match.FULL if within else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            found = self._paths.find(scope)
        except MindholdError as error:
            answer = resource_error_response(error, project=None, expected=False)
        else:
            answer = _nothing() if found is None else await self._chosen(found, request)
        await answer(scope, receive, send)

    async def _chosen(self, found: PathMatch, request: Request) -> Response:
        allow = {"Allow": found.allowed}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        row = found.rows.get("GET" if request.method == "HEAD" else request.method)
        if row is None:
            told = f"Here are: {found.allowed}."
            return error_response(
                405, "This can't be done here.", "METHOD_NOT_ALLOWED", advice=told, headers=allow
            )
        request.scope["route"] = Pattern(row.path)
        request.scope["path_params"] = found.named(row)
        expected = False
        try:
            fields = conditions(row, request)
            expected = EXPECTED in fields
            if row.stream is not None:
                return await _streaming(row.stream)(self._door, row, request)
            return await self._serve(row, request, fields)
        except MindholdError as error:
            project = request.path_params.get(PROJECT) or request.query_params.get(ASKED_PROJECT)
            return resource_error_response(error, project=project, expected=expected)

    async def _serve(self, row: Resource, request: Request, fields: dict[str, Any]) -> Response:
        query = query_of(request)
        given = row.given(request.path_params, query, await body_of(row, request), **fields)
        agent, key = header(request, AGENT), header(request, KEY) if row.writes else None
        running = await self._door.opening.running()
        repeats: list[bool] = []
        work: Awaitable[Output] = running.run(
            row.serves,
            given,
            caller=request.scope[CALLER_KEY],
            agent=agent,
            key=key,
            on_repeat=lambda: repeats.append(True),
        )
        output = await (work if row.writes else while_waited_for(request, work))
        return resource_response(row, output, request, query=query, repeated=bool(repeats))


async def while_waited_for(request: Request, work: Awaitable[T], *, soon: float = SOON) -> T:
    """What is only read for somebody who has left is given up. Raises ClientDisconnect."""
    task = asyncio.ensure_future(work)
    left: asyncio.Future[None] | None = None
    try:
        await asyncio.wait({task}, timeout=soon)
        if not task.done():
            left = asyncio.ensure_future(_leaving(request))
            await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for one in (task, left):
            if one is not None and not one.done():
                one.cancel()
                await asyncio.wait({one})
                if not one.cancelled():
                    one.exception()  # nobody is left to tell


async def _leaving(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _streaming(name: Stream) -> Callable[[HttpContext, Resource, Request], Awaitable[Response]]:
    module, function = STREAMS[name].split(":")
    serve: Callable[[HttpContext, Resource, Request], Awaitable[Response]] = getattr(
        import_module(f"mindhold.interfaces.http.rest.{module}"), function
    )
    return serve


def _nothing() -> Response:
    return error_response(404, "There is nothing here.", "NOT_FOUND", advice="/openapi.json has all paths.")
