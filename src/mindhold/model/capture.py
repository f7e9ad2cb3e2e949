"""The knobs of silent capture."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.model.memory import Kind

CAPTURED_KINDS = frozenset(
    {
        Kind.DECISION,
        Kind.ERROR,
        Kind.PREFERENCE,
        Kind.PROCEDURE,
        Kind.ARCHITECTURE,
        Kind.PATTERN,
        Kind.GOTCHA,
        Kind.PROGRESS,
        Kind.CONTEXT,
    }
)


@dataclass(frozen=True, slots=True)
class Capture:
    """App fills them from the settings, which say what each is for."""

    enabled: bool = True
    kinds: frozenset[Kind] = CAPTURED_KINDS
    exclude: tuple[str, ...] = ()
    subagents: bool = True
    by_model: bool = False
    most_calls: int = 10
    start_tokens: int = 1_500
    prompt_tokens: int = 400
    prompt_most: int = 3
    errors: bool = True
    condense_every: int = 10
    condense_above: int = 80
    condense_from: int = 5
    keep_dropped_days: int = 14
    document_lines: int = 150
