"""Every resource there is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from mindhold.dialects.rest.shape import Resource

PARTS: tuple[str, ...] = (
    "project_memory",
    "summaries",
    "bulk",
    "projects",
    "memories",
    "knowledge",
    "conversations",
    "profile",
    "upkeep",
    "jobs",
)


@cache
def resources() -> tuple[Resource, ...]:
    """In the order of the document."""
    return tuple(row for part in PARTS for row in import_module(f"mindhold.dialects.rest.{part}").RESOURCES)


@cache
def by_name() -> Mapping[str, Resource]:
    """By the names that they have in the document, which are all different."""
    return {row.name: row for row in resources()}


@cache
def resource_for(operation: str) -> Resource:
    """The first that serves the operation. Raises KeyError."""
    for row in resources():
        if row.operation == operation:
            return row
    raise KeyError(operation)
