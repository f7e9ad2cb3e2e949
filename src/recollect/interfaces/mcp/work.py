"""One request's way to the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recollect.interfaces.running import Running, ask
from recollect.model.access import Caller


@dataclass(frozen=True, slots=True)
class Work:
    """An open Recollect, as one caller may use it."""

    running: Running
    caller: Caller

    async def run(self, name: str, /, **given: Any) -> Any:
        """An operation by its name. Raises RecollectError."""
        return await ask(self.running, name, caller=self.caller, **given)
