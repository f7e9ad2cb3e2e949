"""Memories, scopes and project summaries as resources, for clients that show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types

from mindhold.interfaces.mcp.work import Work
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.neutral import NOTICE, harmless, neutral

SCHEME = "memory"
JSON = "application/json"
MOST_LISTED = 200
MOST_OF_A_SCOPE = 50
SUMMARY_TOPIC = "project summary"
_SCOPE, _SUMMARY = "scope", "project"

TEMPLATES = [
    types.ResourceTemplate(
        uri_template="memory://{id}",
        name="memory",
        title="A memory",
        description="One memory with its links and earlier versions.",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        uri_template="memory://scope/{name}",
        name="scope",
        title="A scope",
        description="A scope with its newest memories.",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        uri_template="memory://project/{name}/summary",
        name="project-summary",
        title="A project's summary",
        description="What is known of a project, condensed.",
        mime_type=JSON,
    ),
]


@dataclass(frozen=True, slots=True)
class Address:
    """What a memory:// address names."""

    kind: str
    name: str


def parsed(uri: str) -> Address:
    """Raises InvalidInput for an address that is none of ours."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    path = [unquote(part) for part in parts.path.split("/") if part]
    host = unquote(parts.netloc)
    if parts.scheme == SCHEME and host == _SCOPE and len(path) == 1:
        return Address("scope", path[0])
    if parts.scheme == SCHEME and host == _SUMMARY and len(path) == 2 and path[1] == "summary":
        return Address("summary", path[0])
    if parts.scheme == SCHEME and host and not path:
        return Address("memory", host.lower())  # clients fold what stands in a host's place
    raise InvalidInput(
        f"{uri[:120]!r} names no resource.",
        advice="There are memory://{id}, memory://scope/{name} and memory://project/{name}/summary.",
    )


async def listed(work: Work) -> list[types.Resource]:
    """Every scope, and each project's summary."""
    scopes = (await work.run("list_scopes")).scopes[:MOST_LISTED]
    resources = [_scope_resource(scope) for scope in scopes]
    told = (await work.run("list", topic=SUMMARY_TOPIC, kinds=["context"], limit=MOST_LISTED)).memories
    summed = {memory.scope for memory in told}
    for scope in scopes:
        if scope.name in summed:
            resources.append(
                types.Resource(
                    uri=f"memory://project/{quote(scope.name, safe='')}/summary",
                    name=neutral(f"{scope.name}: summary"),
                    title=neutral(f"Summary of {scope.name}"),
                    mime_type=JSON,
                )
            )
    return resources


async def read(work: Work, uri: str) -> types.ReadResourceResult:
    """Its content as JSON. Raises InvalidInput, NotFound."""
    address = parsed(uri)
    if address.kind == "scope":
        found = await _scope(work, address.name)
    elif address.kind == "summary":
        found = (await work.run("project_summary", project=address.name)).model_dump(mode="json")
    else:
        found = await _memory(work, address.name)
    text = json.dumps({"notice": NOTICE, **harmless(found)}, ensure_ascii=False, indent=1)
    contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
    return types.ReadResourceResult(contents=[contents])


def _scope_resource(scope: Any) -> types.Resource:
    return types.Resource(
        uri=f"memory://scope/{quote(scope.name, safe='')}",
        name=neutral(scope.name),
        title=neutral(f"{scope.name} ({'?' if scope.memories is None else scope.memories} memories)"),
        description=neutral(scope.description) or None,
        mime_type=JSON,
    )


async def _scope(work: Work, name: str) -> dict[str, Any]:
    scope = await work.run("show_scope", name=name)
    from mindhold.operations.reading import LEAST_TRUST

    page = await work.run("list", scope=name, limit=MOST_OF_A_SCOPE, minimum_trust=LEAST_TRUST)
    return {
        "scope": scope.model_dump(mode="json"),
        "total": page.total,
        "memories": [_short(memory) for memory in page.memories],
    }


async def _memory(work: Work, memory_id: str) -> dict[str, Any]:
    from mindhold.operations.reading import LEAST_TRUST

    shown = await work.run("show", id=memory_id)
    if shown.memory.status in ("forgotten", "quarantined") or shown.memory.trust < LEAST_TRUST:
        raise MemoryNotFound(memory_id)
    found: dict[str, Any] = shown.model_dump(mode="json", exclude_none=True)
    return found


def _short(memory: Any) -> dict[str, Any]:
    names = ("id", "content", "kind", "topic", "tags", "importance", "occurred")
    found: dict[str, Any] = memory.model_dump(mode="json", include=set(names))
    return found
