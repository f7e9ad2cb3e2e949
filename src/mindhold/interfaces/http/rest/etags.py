"""Versions of what a resource shows: told in ETag, asked about in If-None-Match, insisted on in If-Match."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request

from mindhold.dialects.rest.shape import Resource
from mindhold.interfaces.http.rest.reading import header
from mindhold.model.errors import InvalidInput
from mindhold.operations.catalogue import Output

ETAG, EXPECTED = "etag", "expected"  # fields of an answer, and of what is asked
ANY, WEAK = "*", "W/"
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')


def conditions(resource: Resource, request: Request) -> dict[str, Any]:
    """Fields that If-Match fills. Raises InvalidInput where a condition was set that nobody would heed."""
    match = header(request, "if-match")
    heeded = resource.versioned and EXPECTED in resource.serves.takes.model_fields
    changes = resource.writes and resource.method != "GET"
    if changes and "if-none-match" in request.headers:
        raise InvalidInput("If-None-Match is for reading.", advice="Leave it out.")
    if match is None or not changes:
        return {}
    if not heeded:
        raise InvalidInput("If-Match is not heeded here.", advice="Leave it out.")
    if match.strip() == ANY:
        return {EXPECTED: ANY}
    if match.lstrip().startswith(WEAK):
        raise InvalidInput(
            "If-Match takes no weak ETag.", advice="Send it as it was told; what made it weak was on the way."
        )
    found = _TAGS.findall(match)
    if len(found) != 1 or _TAGS.sub("", match, count=1).strip():
        raise InvalidInput(
            "If-Match must have one ETag.", advice='Send it as it was told, in quotes, or "*".'
        )
    return {EXPECTED: found[0]}


def etag_of(resource: Resource, output: Output) -> str | None:
    """As the header has it; None where there is no version to tell."""
    own = getattr(output, ETAG, None) if resource.versioned else None
    return f'"{own}"' if own else None


def is_known(etag: str | None, request: Request) -> bool:
    """Whether the caller has this version already. What is weak counts: it is only for reading."""
    asked = request.headers.get("if-none-match")
    if asked is None or etag is None:
        return False
    return asked.strip() == ANY or etag.strip('"') in _TAGS.findall(asked)
