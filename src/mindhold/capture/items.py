"""What extraction gives: items worth keeping, and the candidates that rules choose them from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mindhold.model.memory import Kind

SIGNS = "mindhold.signs"  # in the metadata of an error: how it shows, in the form of model.error_signs
CAPTURED = "capture"  # Provenance.source of what was captured


@dataclass(frozen=True, slots=True)
class CapturedItem:
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
class ExtractedItems:
    """What was picked out, and what those who go on with the conversation must know: plain JSON, at most a few kB."""

    items: tuple[CapturedItem, ...]
    carried: Mapping[str, Any] = field(default_factory=dict)


LONGEST = 300  # characters of a memory


@dataclass(frozen=True, slots=True)
class RuleCandidate:
    """`weight` says how sure the rule is: of two that say the same the heavier stays, and the light ones are looked at again."""

    kind: Kind
    content: str
    line: int
    weight: float = 0.7
    tags: tuple[str, ...] = ()
    supersedes: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False  # a choice of the assistant's, that the person may yet object to
