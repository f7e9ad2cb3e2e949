"""The OpenAPI document, made from the table of resources: `python -m mindhold.dialects.rest.document` writes it out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from mindhold import __version__
from mindhold.dialects.rest.document_parts import (
    ABOUT,
    EVENTS_ANSWER,
    EXPORT_ANSWER,
    HEADERS,
    IMPORT_BODY,
    PARAMETERS,
    SECTIONS,
    SECURITY,
    SECURITY_SCHEMES,
    SERVER_PATHS,
    SERVER_SECTION,
)
from mindhold.dialects.rest.failures import FAILURES, TITLES, Failure, failures_of, usual
from mindhold.dialects.rest.schemas import Schemas
from mindhold.dialects.rest.shape import Resource
from mindhold.dialects.rest.table import resources
from mindhold.dialects.rest.words import EXAMPLES

JSON = "application/json"
ERROR = {
    "type": "object",
    "description": "What went wrong.",
    "properties": {
        "error": {"type": "string", "description": "In words, for a person."},
        "code": {
            "type": "string",
            "description": "For programs; it stays the same.",
            "pattern": "^[A-Z][A-Z_]*$",
        },
        "advice": {"type": "string", "description": "What can be done about it."},
        "details": {"type": "string", "description": "What exactly failed."},
        "project_id": {"type": "string", "description": "The project that was asked for."},
    },
    "required": ["error", "code"],
}
Json = dict[str, Any]


@cache
def document() -> Json:
    """OpenAPI 3.1. The same for every server of this version."""
    rows = resources()
    schemas = Schemas(rows)
    paths: dict[str, Json] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schemas)
    sections = list(dict.fromkeys(row.section for row in rows))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mindhold",
            "version": __version__,
            "summary": "Long-term memory for AI agents, over HTTP.",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that this document came from."}],
        "tags": [_tag(name) for name in [*sections, SERVER_SECTION]],
        "security": list(SECURITY),
        "paths": {**paths, **SERVER_PATHS},
        "components": {
            "schemas": {**schemas.components(), "Error": ERROR},
            "responses": {title: _refusal(usual(status)) for status, (title, _) in TITLES.items()},
            "parameters": dict(PARAMETERS),
            "headers": dict(HEADERS),
            "examples": {one.code: {"value": one.example()} for one in FAILURES},
            "securitySchemes": dict(SECURITY_SCHEMES),
        },
    }


def codes_of(operation: Mapping[str, Any], status: int) -> set[str]:
    """The codes that an operation of the document names for a status."""
    told = resolved(operation["responses"].get(str(status), {}))
    return set(told.get("content", {}).get(JSON, {}).get("examples", {}))


def resolved(node: Json) -> Json:
    """What a reference within the document stands for; anything else as it is."""
    if "$ref" not in node:
        return node
    found: Any = document()
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    whole: Json = found
    return whole


def _tag(name: str) -> Json:
    return {"name": name, **({"description": SECTIONS[name]} if name in SECTIONS else {})}


def _operation(row: Resource, schemas: Schemas) -> Json:
    told = row.description or row.serves.summary
    made: Json = {
        "operationId": row.name,
        "tags": [row.section],
        "summary": row.summary,
        **({"description": told} if told and told != row.summary else {}),
        "parameters": _parameters(row, schemas),
    }
    if body := _body(row, schemas):
        made["requestBody"] = body
    made["responses"] = _answers(row, schemas)
    return made


def _parameters(row: Resource, schemas: Schemas) -> list[Json]:
    made = []
    for word in (*row.in_path(), *row.in_query()):
        schema, required = schemas.parameter(row, word)
        example = (row.example or {}).get(word, EXAMPLES.get(word) if word in row.in_path() else None)
        made.append(
            {
                "name": word,
                "in": "path" if word in row.in_path() else "query",
                "required": required,
                "description": schemas.description(row, word),
                "schema": schema,
                **({"example": example} if example is not None else {}),
            }
        )
    return made + [{"$ref": f"#/components/parameters/{name}"} for name in _headers(row)]


def _headers(row: Resource) -> list[str]:
    named = ["Agent"]
    if row.writes:
        named.append("IdempotencyKey")
    if row.versioned and not row.writes:
        named.append("IfNoneMatch")
    if row.versioned and row.writes and "expected" in row.serves.takes.model_fields:
        named.append("IfMatch")
    if row.stream == "events":
        named.append("LastEventId")
    return named


def _body(row: Resource, schemas: Schemas) -> Json | None:
    if row.stream == "import":
        return dict(IMPORT_BODY)
    schema = schemas.body(row)
    if schema is None:
        return None
    said = {word: row.example[word] for word in row.in_body() if word in row.example} if row.example else {}
    return {
        "required": schemas.needs_body(row),
        "content": {JSON: {"schema": schema, **({"example": said} if said else {})}},
    }


def _answers(row: Resource, schemas: Schemas) -> Json:
    good = _good(row, schemas)
    made: Json = {str(row.status): good}
    if row.status == 201 and _may_be_there(row):
        made["200"] = {**good, "description": "It was there already, or nothing was made."}
    if row.versioned and not row.writes:
        made["304"] = {"description": "It is still the version that you have.", "headers": _named("ETag")}
    for status, group in _by_status(failures_of(row)):
        made[str(status)] = _refused(group)
    return dict(sorted(made.items()))


def _good(row: Resource, schemas: Schemas) -> Json:
    told: Json = {"description": "Made." if row.status == 201 else "Done." if row.writes else "Here it is."}
    told["headers"] = _answer_headers(row)
    if row.stream in _STREAMED:
        return told | {"content": dict(_STREAMED[row.stream])}
    content: Json = {"schema": schemas.answer(row)}
    if row.answer is not None:
        content["example"] = dict(row.answer)
    also = EXPORT_ANSWER if row.stream == "import" else {}  # how far it is, line by line
    return told | {"content": {JSON: content, **also}}


def _may_be_there(row: Resource) -> bool:
    """Whether its answer says that nothing was made."""
    told = row.serves.gives.model_fields.get("created")
    return told is not None and told.annotation is bool


def _answer_headers(row: Resource) -> Json:
    names = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]
    if row.versioned:
        names.append("ETag")
    if row.location:
        names.append("Location")
    if "cursor" in row.in_query():
        names.append("Link")
    if row.writes:
        names.append("Idempotent-Replayed")
    return _named(*names)


def _named(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _by_status(failures: Sequence[Failure]) -> list[tuple[int, list[Failure]]]:
    ordered = sorted(failures, key=lambda one: one.status)
    return [(status, list(group)) for status, group in groupby(ordered, key=lambda one: one.status)]


def _refused(group: Sequence[Failure]) -> Json:
    """The shared answer where it fits exactly, else one that names just the codes of this place."""
    status = group[0].status
    if {one.code for one in group} == {one.code for one in usual(status)}:
        return {"$ref": f"#/components/responses/{TITLES[status][0]}"}
    return _refusal(group)


def _refusal(group: Sequence[Failure]) -> Json:
    status = group[0].status
    return {
        "description": TITLES[status][1],
        **({"headers": _named(*_FURTHER[status])} if status in _FURTHER else {}),
        "content": {
            JSON: {
                "schema": {"$ref": "#/components/schemas/Error"},
                "examples": {one.code: {"$ref": f"#/components/examples/{one.code}"} for one in group},
            }
        },
    }


_STREAMED: Mapping[str | None, Json] = {"export": EXPORT_ANSWER, "events": EVENTS_ANSWER}
_FURTHER: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    429: ("Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2, ensure_ascii=False) + "\n")
