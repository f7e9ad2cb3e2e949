"""What stands in the document beside the table of resources: how to come in, the headers, the server's own paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

PARAMETERS: Mapping[str, Json] = {
    "Agent": {
        "name": "X-Mindhold-Agent",
        "in": "header",
        "description": "The agent that the call is made for, where the key may speak for several.",
        "schema": {"type": "string"},
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A key of your own making, of up to 200 characters: the same call again within a day is not done again, and gets the first answer.",
        "schema": {"type": "string"},
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "description": "Only if it is still the version with this `ETag`; `*`: only if there is one.",
        "schema": {"type": "string"},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "The `ETag` of the version that you have: 304 if it is still that.",
        "schema": {"type": "string"},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event that you have: the stream goes on from there.",
        "schema": {"type": "string"},
    },
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
        "store": {"type": "object"},
        "storage": {"type": "object"},
        "cache": {"type": "object"},
        "model": {"type": "object"},
        "jobs": {"type": "object"},
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
    told: Json = {"operationId": name, "tags": [SERVER_SECTION], "summary": summary}
    if public:
        told["security"] = [{}]
    return {"get": {**told, "responses": {**responses, "403": _REFUSED, **_COMMON}}}


SERVER_PATHS: Mapping[str, Json] = {
    "/health": _own(
        "health",
        "Whether it is up; more of it to this machine and to the owner.",
        {
            "200": {
                "description": "It is up.",
                "content": {"application/json": {"schema": _HEALTH, "example": {"status": "ok"}}},
            },
            "503": {
                "description": "It is up, and its store is not.",
                "content": {"application/json": {"schema": _HEALTH, "example": {"status": "down"}}},
            },
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
