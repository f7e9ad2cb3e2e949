"""The knobs of history: which past conversations are indexed, kept and read, and how."""

from __future__ import annotations

from dataclasses import dataclass

ROOM = 2_000 << 20  # bytes of archive


@dataclass(frozen=True, slots=True)
class History:
    """App fills them from the settings, which say what each is for."""

    enabled: bool = True
    agents: tuple[str, ...] | None = None  # None: any
    exclude: tuple[str, ...] = ()
    subagents: bool = True
    vectors: bool = True
    archive: bool = False
    archive_hours: int = 24
    archive_room: int = ROOM
    by_model: bool = True
    most_calls: int = 12


@dataclass(frozen=True, slots=True)
class Rlm:
    """How a recursive language model is asked about conversations."""

    provider: str = "claude-sdk"
    model: str = "claude-haiku-4-5"
    concurrency: int = 4
    most_conversations: int = 10
    relevance: float = 0.5
    chunk_lines: int = 100
    most_characters: int = 400_000
    seconds: float = 90.0
