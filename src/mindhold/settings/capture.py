"""What can be set of silent capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindhold.settings.setting import setting

KINDS = (
    "decision",
    "error",
    "preference",
    "procedure",
    "architecture",
    "pattern",
    "gotcha",
    "progress",
    "context",
)


def listed(value: str) -> tuple[str, ...]:
    """What stands between the commas."""
    return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)


def _no_kinds(value: str) -> str:
    unknown = [name for name in listed(value) if name not in KINDS]
    return f"no list of what is captured: {unknown[0]!r} is none of {', '.join(KINDS)}" if unknown else ""


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    enabled: bool = setting(True, "Whether what Claude Code's hooks report is captured.")
    kinds: str = setting("", "What is captured, by commas; empty means everything.", doubt=_no_kinds)
    exclude: str = setting(
        "", "Folders whose conversations are never read, by commas; * and ? stand for anything in them."
    )
    subagents: bool = setting(True, "Whether the conversations of sub-agents are captured too.")
    extract_with: Literal["rules", "model"] = setting(
        "rules",
        "Who picks out what is worth keeping: rules on this machine, or the language model of llm.provider, which is "
        "then sent the conversations, without secrets.",
    )
    most_calls: int = setting(
        10, "Most calls of the model for one capture; the rest is left to rules.", least=0, most=1_000
    )
    start_tokens: int = setting(
        1_500, "Tokens of memory that a conversation begins with; 0 is none.", least=0, most=2_400
    )
    prompt_tokens: int = setting(
        400, "Tokens of memory that a prompt may bring to mind; 0 is none.", least=0, most=2_400
    )
    prompt_most: int = setting(3, "Most memories that one prompt brings to mind.", least=1, most=20)
    errors: bool = setting(True, "Whether a failure that was solved before brings its solution to mind.")
    condense_every: int = setting(10, "Captures after which what was captured is condensed.", least=1)
    condense_above: int = setting(80, "Active memories of a project above which it is.", least=1)
    condense_from: int = setting(5, "Memories of a kind from which on they are.", least=2)
    keep_dropped_days: int = setting(
        14, "Days until what condensing dropped is removed; 0 keeps it.", least=0, most=36_500
    )
    document_lines: int = setting(
        150, "Lines of memory in CLAUDE.md, where it has our markers.", least=20, most=1_000
    )
    worker_seconds: int = setting(
        600, "Most seconds that one run of the worker may take.", least=10, most=3_600
    )
