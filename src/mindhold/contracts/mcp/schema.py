"""A tool's arguments and answer as compact JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from mindhold.contracts.mcp.tools import Tool

_SILENT = frozenset({"title", "$defs"})


def input_schema(tool: Tool) -> dict[str, Any]:
    """What the tool takes; nothing beside it."""
    return _of(tool.takes, "validation")


def output_schema(tool: Tool) -> dict[str, Any]:
    """What the tool gives."""
    return _of(tool.gives, "serialization")


@cache
def _of(model: type[BaseModel], mode: Any) -> dict[str, Any]:
    whole = model.model_json_schema(mode=mode)
    shared = {name: _unsaid(one) for name, one in whole.get("$defs", {}).items()}
    compact: dict[str, Any] = _compact(_unsaid(whole), shared, defaults=mode == "validation")
    return compact


def _unsaid(model: Mapping[str, Any]) -> dict[str, Any]:
    """Without the docstring: what a reader needs stands with the properties."""
    return {key: value for key, value in model.items() if key != "description"}


def _compact(node: Any, shared: Mapping[str, Any], *, defaults: bool) -> Any:
    """No titles, references or unions with null; a value that may be left out is just not required."""
    if isinstance(node, list):
        return [_compact(one, shared, defaults=defaults) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _compact({**shared[node["$ref"].rpartition("/")[2]], **rest}, shared, defaults=defaults)
    if "anyOf" in node:
        given = [one for one in node["anyOf"] if one.get("type") != "null"]
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        if len(given) == 1:
            return _compact({**given[0], **rest}, shared, defaults=defaults)
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: _compact(one, shared, defaults=defaults) for name, one in value.items()}
        elif key == "default":
            if defaults and value is not None:
                made[key] = value
        elif key not in _SILENT:
            made[key] = _compact(value, shared, defaults=defaults)
    return made
