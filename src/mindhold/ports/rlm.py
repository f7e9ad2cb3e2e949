"""A server with the tools of a recursive language model: it holds long texts, and has a model read them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class RlmServer(Protocol):
    """Started at the first call, kept, and started again when it is gone."""

    @property
    def name(self) -> str:
        """What the answer says it was read by."""

    def doubt(self) -> str:
        """Why it can't be started, as far as a look at the disk tells; empty when nothing speaks against it. Starts nothing."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool answers, read from JSON where it is that. Raises RlmConnectionFailed, RlmToolFailed."""

    async def tidy(self) -> None:
        """What it was given isn't needed any more: where it is ours to remove, nothing of it stays on the disk."""

    async def close(self) -> None:
        """End it. Idempotent."""
