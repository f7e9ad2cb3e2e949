"""The results of extraction: items worth storing, and the candidates that rules select them from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mindhold.model.memory import Kind, Memory

if TYPE_CHECKING:
    from mindhold.memories.model_budget import LedgerEntry

SIGNS = "mindhold.signs"  # in the metadata of an error: its signs, in the form of model.error_signs
REVIEWED = "mindhold.reviewed"  # in the metadata of a captured memory: when the user kept it
CAPTURED = "capture"  # Provenance.source of captured memories
LEAST_SHOWN = 0.5  # confidence of a captured memory that is shown unasked, at least


# How memories of commands are worded, by what the command is for.
COMMAND_WORDINGS = {
    "tests": "Run the tests with {}.",
    "integration tests": "Run the integration tests with {}.",
    "type check": "Check the types with {}.",
    "linter": "Run the linter with {}.",
    "formatter": "Format the code with {}.",
    "build": "Build with {}.",
    "migrations": "Run the migrations with {}.",
    "deployment": "Deploy or release with {}.",
    "generated code": "Generate code with {}.",
    "development server": "Start the development server with {}.",
}


def is_only_captured(memory: Memory) -> bool:
    """Whether no person asked for the memory or kept it."""
    return memory.provenance.source == CAPTURED and not (memory.anchor or REVIEWED in memory.metadata)


def is_doubtful(memory: Memory) -> bool:
    """Whether it is uncertain that a captured memory is worth having: it is found by a search and not told unasked."""
    return memory.confidence < LEAST_SHOWN and is_only_captured(memory)


def signs_metadata(signs: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of an error with these signs; empty without any."""
    return {SIGNS: list(signs)} if signs else {}


@dataclass(frozen=True, slots=True)
class CapturedItem:
    """An extracted item. `line` is its line in the transcript, `said` its time; `supersedes` the text that it replaces.

    `withdrawn`: what the content says no longer holds, and nothing takes its place. A memory of the same conversation that
    says it is archived.
    """

    kind: Kind
    content: str
    line: int
    tags: tuple[str, ...] = ()
    supersedes: str = ""
    confidence: float = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    said: datetime | None = None
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class ExtractedItems:
    """Extracted items, and the state for the next call of the same conversation: plain JSON, at most a few kB.

    `calls` are the calls of a model, each with the indexes of its items.
    """

    items: tuple[CapturedItem, ...]
    carried: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[tuple[LedgerEntry, tuple[int, ...]], ...] = ()


LONGEST = 300  # characters of a memory


@dataclass(frozen=True, slots=True)
class RuleCandidate:
    """A candidate of a rule. `weight` is how sure the rule is: of two that say the same the heavier one stays.

    `confidence` is that of the memory, where the judge knows it.
    """

    kind: Kind
    content: str
    line: int
    weight: float = 0.7
    tags: tuple[str, ...] = ()
    supersedes: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False  # a choice of the assistant, which the user may still object to
    confidence: float | None = None
