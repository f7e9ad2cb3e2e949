"""One request's way to the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindhold.interfaces.running import Running, ask
from mindhold.model.access import Caller


@dataclass(frozen=True, slots=True)
class Work:
    """An open Mindhold, as one caller may use it."""

    running: Running
    caller: Caller

    async def run(self, name: str, /, **given: Any) -> Any:
        """An operation by its name. Raises MindholdError."""
        return await ask(self.running, name, caller=self.caller, **given)
