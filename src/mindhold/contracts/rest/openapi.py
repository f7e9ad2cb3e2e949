"""The OpenAPI document, generated from the table of resources: `python -m mindhold.contracts.rest.openapi` prints it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from pydantic.json_schema import models_json_schema

from mindhold import __version__
from mindhold.contracts.rest.errors import FAILURES, TITLES, Failure, failures_of, usual_failures
from mindhold.contracts.rest.resource import Resource, resources

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
Json = dict[str, Any]

ABOUT = """\
What agents said and learned, kept per project and found again by its meaning.

**Access.** On your own machine nothing is needed. Where the server has an access key, send it, a key made by
`mindhold keys create`, or an OAuth token as `Authorization: Bearer …`. One place decides for this API and for MCP.

**Errors** are JSON: `error` in words, `code` for programs, and mostly `advice`. A word that isn't known is an error,
so typing mistakes are told.

**Lists** answer `next`; give it as `cursor` to go on. It holds while others write and delete.

**Versions.** What has an `ETag` can be asked for with `If-None-Match` (304 when it is the same) and changed with
`If-Match` (412 when somebody was faster).

**Repeating.** A write with an `Idempotency-Key` can be sent again: it is done once, and the first answer comes back
with `Idempotent-Replayed: true`.

Times are ISO 8601, in UTC. Names in a path are percent-encoded: `work/api` is `work%2Fapi`.
"""
SERVER_SECTION = "Server"
SECTIONS: Mapping[str, str] = {
    "Project memory": "The log of what was said in a project: save, find, delete, index.",
    "Summaries": "What is known about a project, in one text with versions.",
    "Project summary": "What is known about a project, in one text with versions.",
    "Projects": "Projects, and where each one's memory is kept.",
    "Memories": "Single pieces of knowledge, in any scope.",
    "Knowledge": "What the memories say together: context, answers, reflection.",
    "Profile": "What is known of the person: name, preferences, facts, contacts, notes.",
    "Scopes": "The parts that memory is divided into.",
    "History": "Past conversations, made findable.",
    "Conversations": "What was saved message by message, and the summaries that stand for it.",
    "Captures": "What was captured from conversations, and the person's verdicts on it.",
    "Upkeep": "How it is, and what keeps it in order.",
    "Jobs": "Work that goes on behind.",
    "Events": "What happens, as it happens.",
    "In bulk": "Much at once: messages in, everything out.",
    SERVER_SECTION: "Whether it is up, and what it offers.",
}

SECURITY: tuple[Json, ...] = ({"key": []}, {"oauth": ["memory:read"]}, {})
SECURITY_SCHEMES: Mapping[str, Json] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "The access key, or one made by `mindhold keys create`. Not needed on the server's own machine while it has none.",
    },
    "oauth": {
        "type": "oauth2",
        "description": "With PKCE; offered over https and on this machine. Clients register at `/register`.",
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "/authorize",
                "tokenUrl": "/token",
                "refreshUrl": "/token",
                "scopes": {
                    "memory:read": "Read what is remembered.",
                    "memory:write": "Change what is remembered.",
                    "memory:admin": "Manage all of it.",
                },
            }
        },
    },
}


def _parameter(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


PARAMETERS: Mapping[str, Json] = {
    "Agent": _parameter(
        "X-Mindhold-Agent", "The agent that the call is made for, where the key may speak for several."
    ),
    "IdempotencyKey": _parameter(
        "Idempotency-Key",
        "A key of your own making, of up to 200 characters: the same call again within a day is not done again, and gets the first answer.",
    ),
    "IfMatch": _parameter(
        "If-Match", "Only if it is still the version with this `ETag`; `*`: only if there is one."
    ),
    "IfNoneMatch": _parameter(
        "If-None-Match", "The `ETag` of the version that you have: 304 if it is still that."
    ),
    "LastEventId": _parameter(
        "Last-Event-ID", "The id of the last event that you have: the stream goes on from there."
    ),
}


def _header(description: str, kind: str = "string") -> Json:
    return {"description": description, "schema": {"type": kind}}


HEADERS: Mapping[str, Json] = {
    "ETag": _header("The version, in quotes."),
    "Location": _header("Where what was made is found."),
    "Link": _header('Where the next page is: `rel="next"`.'),
    "Idempotent-Replayed": _header("`true` where this is the first answer once more."),
    "RateLimit-Limit": _header("Requests in a minute.", "integer"),
    "RateLimit-Remaining": _header("How many are left now.", "integer"),
    "RateLimit-Reset": _header("Seconds until all of them are there again.", "integer"),
    "Retry-After": _header("Seconds to wait.", "integer"),
    "WWW-Authenticate": _header("How to come in."),
}

IMPORT_BODY: Json = {
    "required": True,
    "description": "One message a line, as JSON with the fields of `MessageLine`. A line that can't be read is told by its number, and the rest goes on.",
    "content": {
        NDJSON: {
            "schema": {"type": "string", "contentMediaType": NDJSON},
            "example": '{"message_type": "user", "content": "How do we cache?"}\n'
            '{"message_type": "assistant", "content": "With Redis.", "task_id": 42}\n',
        }
    },
}
EXPORT_ANSWER: Json = {
    NDJSON: {
        "schema": {"type": "string", "contentMediaType": NDJSON, "description": "One record a line, as JSON."}
    }
}
EVENTS_ANSWER: Json = {
    EVENTS: {
        "schema": {
            "type": "string",
            "contentMediaType": EVENTS,
            "description": "Server-sent events; their `data` is JSON. A comment comes now and then so that the line stays open.",
        },
        "example": "id: 1794855011251786\nevent: ready\n"
        'data: {"now": "2026-11-16T18:50:11.251786+00:00"}\n\n'
        "id: 1794855013604121\nevent: memory\n"
        'data: {"id": "01k2v9c3m4q8r7t6w5x1y0z2ab", "kind": "fact", "scope": "proj_123", "topic": "",'
        ' "content": "Staging listens on 8443.", "truncated": false,'
        ' "created": "2026-11-16T18:50:13.604121Z", "updated": "2026-11-16T18:50:13.604121Z"}\n\n',
    }
}

_HEALTH: Json = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ok", "degraded", "down"]},
        "version": {"type": "string"},
        **{part: {"type": "object"} for part in ("store", "storage", "cache", "model", "jobs")},
    },
    "required": ["status"],
}
_REFUSED = {"$ref": "#/components/responses/Forbidden"}
_UNKNOWN = {"$ref": "#/components/responses/Unauthorized"}
_COMMON: Mapping[str, Json] = {
    "421": {"$ref": "#/components/responses/MisdirectedRequest"},
    "429": {"$ref": "#/components/responses/TooManyRequests"},
}


def _own(name: str, summary: str, responses: Mapping[str, Json], *, public: bool = True) -> Json:
    description: Json = {"operationId": name, "tags": [SERVER_SECTION], "summary": summary}
    if public:
        description["security"] = [{}]
    return {"get": {**description, "responses": {**responses, "403": _REFUSED, **_COMMON}}}


def _health(description: str, status: str) -> Json:
    content = {"schema": _HEALTH, "example": {"status": status}}
    return {"description": description, "content": {"application/json": content}}


SERVER_PATHS: Mapping[str, Json] = {
    "/health": _own(
        "health",
        "Whether it is up; more of it to this machine and to the owner.",
        {
            "200": _health("It is up.", "ok"),
            "503": _health("It is up, and its store is not.", "down"),
        },
    ),
    "/metrics": _own(
        "metrics",
        "Counts and times for Prometheus; for the owner.",
        {
            "200": {
                "description": "As Prometheus reads it.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            "401": _UNKNOWN,
        },
        public=False,
    ),
    "/openapi.json": _own(
        "openapi",
        "This document.",
        {
            "200": {
                "description": "OpenAPI 3.1.",
                "headers": {"ETag": {"$ref": "#/components/headers/ETag"}},
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            "304": {"description": "It is still the one that you have."},
        },
    ),
}

PLACE = "#/components/schemas/"
Schema = dict[str, Any]
_OMITTED_KEYS = frozenset({"title", "examples"})
_IN_HEADERS = frozenset({"etag"})  # fields of an answer that are sent as headers


class Schemas:
    """The JSON schemas of a table of resources."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        self._rows = tuple(rows)
        models = [(row.serves.takes, "validation") for row in self._rows]
        models += [(row.serves.gives, "serialization") for row in self._rows]
        places, whole = models_json_schema(
            list(dict.fromkeys(models)),  # type: ignore[arg-type]
            ref_template=f"{PLACE}{{model}}",
        )
        self._places = {(model, mode): place["$ref"] for (model, mode), place in places.items()}
        self._versioned = {
            self._places[row.serves.gives, "serialization"].removeprefix(PLACE)
            for row in self._rows
            if row.versioned
        }
        self._known: dict[str, Schema] = {
            name: _pruned(schema) for name, schema in whole.get("$defs", {}).items()
        }
        self._bodies = {row.name: body for row in self._rows if (body := self._body_of(row))}

    def answer(self, row: Resource) -> Schema:
        """The schema of a response."""
        return {"$ref": self._places[row.serves.gives, "serialization"]}

    def body(self, row: Resource) -> Schema | None:
        """The schema of a request body; None without a body."""
        return {"$ref": f"{PLACE}{request_name(row)}"} if row.name in self._bodies else None

    def needs_body(self, row: Resource) -> bool:
        """Whether the body has required fields."""
        return bool(self._bodies.get(row.name, {}).get("required"))

    def parameter(self, row: Resource, word: str) -> tuple[Schema, bool]:
        """The schema of a path or query parameter, and whether it is required. Parameters are never null."""
        input_schema = self._taken(row)
        name = row.fields()[word]
        schema = _without_null(input_schema["properties"][name])
        if word in row.in_path() and schema.get("type") == "array":  # becomes a list of one
            schema = schema["items"]
        return schema, word in row.in_path() or name in input_schema.get("required", ())

    def description(self, row: Resource, word: str) -> str:
        """The description of a parameter or field."""
        schema = self._taken(row)["properties"][row.fields()[word]]
        return row.descriptions.get(word) or str(schema.get("description", ""))

    def components(self) -> dict[str, Schema]:
        """Every schema that the others refer to, by name."""
        bodies = {request_name(row): self._bodies[row.name] for row in self._rows if row.name in self._bodies}
        answers = [self.answer(row) for row in self._rows if row.stream not in ("export", "events")]
        referenced: dict[str, Schema] = {}
        parameters = [
            self.parameter(row, word)[0] for row in self._rows for word in (*row.in_path(), *row.in_query())
        ]
        waiting = [*bodies.values(), *answers, *parameters]
        while waiting:
            for name in _named_in(waiting.pop()):
                if name not in referenced and name in self._known:
                    referenced[name] = _without_fields(
                        self._known[name], omitted=_IN_HEADERS if name in self._versioned else frozenset()
                    )
                    waiting.append(referenced[name])
        return dict(sorted({**referenced, **bodies}.items()))

    def _taken(self, row: Resource) -> Schema:
        place = self._places[row.serves.takes, "validation"]
        return self._known[place.removeprefix(PLACE)]

    def _body_of(self, row: Resource) -> Schema | None:
        """The operation's input without the fields that come otherwise, with the request's names."""
        words = row.in_body()
        if not words or row.stream == "import":
            return None
        input_schema, fields = self._taken(row), row.fields()
        properties = {word: dict(input_schema["properties"][fields[word]]) for word in words}
        for word in words:
            if description := self.description(row, word):
                properties[word]["description"] = description
            if fields[word] in row.preset:
                properties[word]["default"] = row.preset[fields[word]]
        required = [word for word in words if fields[word] in input_schema.get("required", ())]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


def request_name(row: Resource) -> str:
    """The name of a body's schema among the components."""
    return "".join(part.capitalize() for part in re.split(r"[_\W]+", row.name)) + "Request"


def _without_fields(schema: Schema, *, omitted: frozenset[str]) -> Schema:
    """A schema without the fields that are sent as headers."""
    if "properties" not in schema:
        return schema
    properties = {
        name: property_schema for name, property_schema in schema["properties"].items() if name not in omitted
    }
    required = [name for name in schema.get("required", ()) if name in properties]
    rest = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    return {**rest, "properties": properties, **({"required": required} if required else {})}


def _pruned(node: Any) -> Any:
    """The schema without titles, which repeat the names, and without defaults of null, which mean the same as omission."""
    if isinstance(node, list):
        return [_pruned(part) for part in node]
    if not isinstance(node, dict):
        return node
    pruned: Schema = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            pruned[key] = {name: _pruned(part) for name, part in value.items()}
        elif key in ("enum", "const", "default"):
            if not (key == "default" and value is None):
                pruned[key] = value
        elif key not in _OMITTED_KEYS:
            pruned[key] = _pruned(value)
    return pruned


def _without_null(schema: Mapping[str, Any]) -> Schema:
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "description")}
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if not options:
        return rest
    return {**options[0], **rest} if len(options) == 1 else {"anyOf": options, **rest}


def _named_in(node: Any) -> list[str]:
    """The components that a schema refers to."""
    if isinstance(node, list):
        return [name for item in node for name in _named_in(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"].removeprefix(PLACE)] if isinstance(node.get("$ref"), str) else []
    return own + [name for value in node.values() for name in _named_in(value)]


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


@cache
def openapi_document() -> Json:
    """The OpenAPI 3.1 document; the same for every server of this version."""
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
        "tags": [{"name": name, "description": SECTIONS[name]} for name in [*sections, SERVER_SECTION]],
        "security": list(SECURITY),
        "paths": {**paths, **SERVER_PATHS},
        "components": {
            "schemas": {**schemas.components(), "Error": ERROR},
            "responses": {title: _refusal(usual_failures(status)) for status, (title, _) in TITLES.items()},
            "parameters": dict(PARAMETERS),
            "headers": dict(HEADERS),
            "examples": {failure.code: {"value": failure.example()} for failure in FAILURES},
            "securitySchemes": dict(SECURITY_SCHEMES),
        },
    }


def codes_of(operation: Mapping[str, Any], status: int) -> set[str]:
    """The error codes that the document lists for an operation and status."""
    response = resolve_reference(operation["responses"].get(str(status), {}))
    return set(response.get("content", {}).get(JSON, {}).get("examples", {}))


def resolve_reference(node: Json) -> Json:
    """The target of a reference within the document; any other node unchanged."""
    target = node
    if "$ref" in node:
        target = openapi_document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
    return target


def _operation(row: Resource, schemas: Schemas) -> Json:
    description = row.description or row.serves.summary
    operation: Json = {
        "operationId": row.name,
        "tags": [row.section],
        "summary": row.summary,
        **({"description": description} if description and description != row.summary else {}),
        "parameters": _parameters(row, schemas),
    }
    if body := _body(row, schemas):
        operation["requestBody"] = body
    operation["responses"] = _answers(row, schemas)
    return operation


def _parameters(row: Resource, schemas: Schemas) -> list[Json]:
    parameters = []
    for word in (*row.in_path(), *row.in_query()):
        schema, required = schemas.parameter(row, word)
        example = (row.example or {}).get(word)
        parameters.append(
            {
                "name": word,
                "in": "path" if word in row.in_path() else "query",
                "required": required,
                "description": schemas.description(row, word),
                "schema": schema,
                **({"example": example} if example is not None else {}),
            }
        )
    return parameters + [{"$ref": f"#/components/parameters/{name}"} for name in _headers(row)]


def _headers(row: Resource) -> list[str]:
    names = ["Agent"]
    if row.writes:
        names.append("IdempotencyKey")
    if row.versioned and not row.writes:
        names.append("IfNoneMatch")
    if row.versioned and row.writes and "expected" in row.serves.takes.model_fields:
        names.append("IfMatch")
    if row.stream == "events":
        names.append("LastEventId")
    return names


def _body(row: Resource, schemas: Schemas) -> Json | None:
    if row.stream == "import":
        return dict(IMPORT_BODY)
    schema = schemas.body(row)
    if schema is None:
        return None
    examples = row.example or {}
    example = {word: examples[word] for word in row.in_body() if word in examples}
    return {
        "required": schemas.needs_body(row),
        "content": {JSON: {"schema": schema, **({"example": example} if example else {})}},
    }


def _answers(row: Resource, schemas: Schemas) -> Json:
    good = _good(row, schemas)
    responses: Json = {str(row.status): good}
    if row.status == 201 and _may_be_there(row):
        responses["200"] = {**good, "description": "It was there already, or nothing was made."}
    if row.versioned and not row.writes:
        responses["304"] = {
            "description": "It is still the version that you have.",
            "headers": _named("ETag"),
        }
    for status, group in groupby(failures_of(row), key=lambda failure: failure.status):
        responses[str(status)] = _refused(list(group))
    return dict(sorted(responses.items()))


def _good(row: Resource, schemas: Schemas) -> Json:
    description = "Made." if row.status == 201 else "Done." if row.writes else "Here it is."
    response: Json = {"description": description, "headers": _answer_headers(row)}
    if row.stream in _STREAMED:
        return response | {"content": dict(_STREAMED[row.stream])}
    content: Json = {"schema": schemas.answer(row)}
    if row.answer is not None:
        content["example"] = dict(row.answer)
    also = EXPORT_ANSWER if row.stream == "import" else {}  # progress lines
    return response | {"content": {JSON: content, **also}}


def _may_be_there(row: Resource) -> bool:
    """Whether the answer can say that nothing was created."""
    created = row.serves.gives.model_fields.get("created")
    return created is not None and created.annotation is bool


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


def _refused(group: Sequence[Failure]) -> Json:
    """The shared response if it has exactly these codes, else one that lists them."""
    status = group[0].status
    if {failure.code for failure in group} == {failure.code for failure in usual_failures(status)}:
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
                "examples": {
                    failure.code: {"$ref": f"#/components/examples/{failure.code}"} for failure in group
                },
            }
        },
    }


_STREAMED: Mapping[str | None, Json] = {"export": EXPORT_ANSWER, "events": EVENTS_ANSWER}
_FURTHER: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    429: ("Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(openapi_document(), indent=2, ensure_ascii=False) + "\n")
