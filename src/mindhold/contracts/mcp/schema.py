"""A tool's arguments and answer as compact JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from mindhold.contracts.mcp.tools import Tool

_SILENT = frozenset({"title", "$defs"})


def input_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's arguments; no others are allowed."""
    return _of(tool.takes, "validation")


def output_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's answer."""
    return _of(tool.gives, "serialization")


@cache
def _of(model: type[BaseModel], mode: Any) -> dict[str, Any]:
    whole = model.model_json_schema(mode=mode)
    shared = {name: _unsaid(model_schema) for name, model_schema in whole.get("$defs", {}).items()}
    compact: dict[str, Any] = _compact(_unsaid(whole), shared, defaults=mode == "validation")
    return compact


def _unsaid(model: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without the class docstring: the descriptions are on the properties."""
    return {key: value for key, value in model.items() if key != "description"}


def _compact(node: Any, shared: Mapping[str, Any], *, defaults: bool) -> Any:
    """The schema without titles, references and unions with null; an optional value is just not required."""
    if isinstance(node, list):
        return [_compact(part, shared, defaults=defaults) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _compact({**shared[node["$ref"].rpartition("/")[2]], **rest}, shared, defaults=defaults)
    if "anyOf" in node:
        options = [part for part in node["anyOf"] if part.get("type") != "null"]
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        if len(options) == 1:
            return _compact({**options[0], **rest}, shared, defaults=defaults)
    compact: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            compact[key] = {name: _compact(part, shared, defaults=defaults) for name, part in value.items()}
        elif key == "default":
            if defaults and value is not None:
                compact[key] = value
        elif key not in _SILENT:
            compact[key] = _compact(value, shared, defaults=defaults)
    return compact
