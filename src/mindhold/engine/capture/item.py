"""One thing that a conversation left which is worth keeping, before it is a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mindhold.model.memory import Kind

SIGNS = "mindhold.signs"  # in the metadata of an error: how it shows, in the form of model.error_signs
CAPTURED = "capture"  # Provenance.source of what was captured


@dataclass(frozen=True, slots=True)
class Item:
    """`line` is where in the conversation's file it was said, `said` when; `supersedes` what it takes the place of, in words."""

    kind: Kind
    content: str
    line: int
    tags: tuple[str, ...] = ()
    supersedes: str = ""
    confidence: float = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    said: datetime | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What was picked out, and what those who go on with the conversation must know: plain JSON, at most a few kB."""

    items: tuple[Item, ...]
    carried: Mapping[str, Any] = field(default_factory=dict)
