"""Memories as resources."""

from __future__ import annotations

from recollect.dialects.rest.shape import Resource

RESOURCES = (
    Resource(
        method="POST",
        path="/api/memories/search",
        operation="recall",
        section="Memories",
        summary="Find the right few.",
        example={"query": "which port does staging use?"},
    ),
    Resource(
        method="GET", path="/api/memories/{id}", operation="show", section="Memories", summary="One memory."
    ),
)
