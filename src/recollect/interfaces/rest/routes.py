"""The table of resources as routes: read a request, ask the operation, answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from recollect.dialects.rest.shape import Resource
from recollect.dialects.rest.table import resources
from recollect.interfaces.http.door import Door
from recollect.interfaces.rest.answering import answered, failed
from recollect.interfaces.running import CALLER_KEY
from recollect.model.errors import InvalidInput, RecollectError

AGENT = "x-recollect-agent"
PROJECT = "project_id"


class Rest:
    """The routes of a server."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def routes(self) -> list[BaseRoute]:
        """One for each path, so that a wrong method is told all the right ones; fixed words before free ones."""
        paths: dict[str, dict[str, Resource]] = defaultdict(dict)
        for row in resources():
            paths[row.path][row.method] = row
        ordered = sorted(paths, key=lambda path: [part.startswith("{") for part in path.split("/")])
        return [self._route(path, paths[path]) for path in ordered]

    def _route(self, path: str, methods: Mapping[str, Resource]) -> BaseRoute:
        async def serve(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await self._serve(methods[method], request)

        return Route(path, serve, methods=list(methods))

    async def _serve(self, resource: Resource, request: Request) -> Response:
        try:
            body = await _body(resource, request)
            given = resource.given(request.path_params, request.query_params.multi_items(), body)
            running = await self._door.opening.running()
            output = await running.run(
                resource.serves,
                given,
                caller=request.scope[CALLER_KEY],
                agent=request.headers.get(AGENT),
            )
        except RecollectError as error:
            return failed(resource, error, project=request.path_params.get(PROJECT))
        return answered(resource, output)


async def _body(resource: Resource, request: Request) -> Mapping[str, Any] | None:
    if not resource.in_body():
        return None
    raw = await request.body()
    if not raw.strip():
        return {}
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise InvalidInput(f"The body is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InvalidInput("The body must be a JSON object.")
    return found
