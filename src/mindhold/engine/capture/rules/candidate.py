"""What may become a memory, before it is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.model.memory import Kind

LONGEST = 300  # characters of a memory


@dataclass(frozen=True, slots=True)
class Candidate:
    """`weight` says how sure the rule is: of two that say the same the heavier stays, and the light ones are looked at again."""

    kind: Kind
    content: str
    line: int
    weight: float = 0.7
    tags: tuple[str, ...] = ()
    supersedes: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False  # a choice of the assistant's, that the person may yet object to
