"""An operation's result or error as an HTTP response."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from mindhold.contracts.rest.errors import BY_CODE
from mindhold.contracts.rest.resource import Resource
from mindhold.interfaces.http.context import error_response, response_to_error
from mindhold.interfaces.http.rest.requests import ETAG, UnsupportedMedia, etag_of, is_known
from mindhold.model.errors import (
    Changed,
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
        documented = BY_CODE["PROJECT_NOT_FOUND"]
        return error_response(
            404, documented.error, documented.code, advice=documented.advice, project_id=project
        )
    if isinstance(error, UnsupportedMedia):
        return error_response(415, error.message, error.code, advice=error.advice)
    if isinstance(error, Changed) and expected:
        return error_response(412, error.message, "PRECONDITION_FAILED", advice=error.advice)
    if isinstance(error, ModelError) and not isinstance(error, ModelSpent):
        log.warning("a model failed: %s", error)
        return error_response(
            500, "Failed to generate embeddings", "EMBEDDING_SERVICE_ERROR", details=error.message
        )
    if isinstance(error, StoreError) and error.code in BY_CODE:
        log.warning("the store failed: %s", error)
        documented = BY_CODE[error.code]
        return error_response(documented.status, documented.error, documented.code, advice=documented.advice)
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
