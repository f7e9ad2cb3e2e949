"""An operation's answer, or its error, as HTTP has it."""

from __future__ import annotations

from starlette.responses import Response

from recollect.dialects.rest.shape import Resource
from recollect.interfaces.http.answers import failure, refusal
from recollect.model.errors import ModelError, RecollectError, ScopeNotFound
from recollect.operations.catalogue import Output

JSON = "application/json"


def answered(resource: Resource, output: Output) -> Response:
    """The output as it is."""
    return Response(output.model_dump_json(), status_code=resource.status, media_type=JSON)


def failed(resource: Resource, error: RecollectError, *, project: str | None) -> Response:
    """What went wrong, in the words of the contract."""
    if isinstance(error, ScopeNotFound) and project is not None:
        return refusal(404, "Project not found", "PROJECT_NOT_FOUND", project_id=project)
    if isinstance(error, ModelError):
        return refusal(500, "Failed to generate embeddings", "EMBEDDING_SERVICE_ERROR", details=str(error))
    return failure(error)
