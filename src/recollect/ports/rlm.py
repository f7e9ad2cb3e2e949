"""A server with the tools of a recursive language model: it holds long texts, and has a model read them piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class RlmServer(Protocol):
    """Started at the first call, kept, and started again when it is gone."""

    @property
    def name(self) -> str:
        """What the answer says it was read by."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool answers, read from JSON where it is that. Raises RlmConnectionFailed, RlmToolFailed."""

    async def close(self) -> None:
        """End it. Idempotent."""
