"""How two memories relate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Relation(StrEnum):
    """Read as: origin *relation* target."""

    RELATED = "related"
    CAUSED_BY = "caused_by"
    RESOLVED_BY = "resolved_by"
    PART_OF = "part_of"
    CONTRADICTS = "contradicts"
    SUPERSEDED_BY = "superseded_by"


DEFAULT_FOLLOWED = (Relation.CAUSED_BY, Relation.RESOLVED_BY, Relation.RELATED)


@dataclass(frozen=True, slots=True)
class Link:
    """An edge from one memory to another; at most one of each relation between two memories."""

    origin: str
    target: str
    relation: Relation
    created: datetime
    weight: float = 1.0
    automatic: bool = False
