"""One request's way to the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from recollect.interfaces.running import Running
from recollect.model.access import Caller


@dataclass(frozen=True, slots=True)
class Work:
    """An open Recollect, as one caller may use it."""

    running: Running
    caller: Caller
    conversation: str | None = None

    async def run(self, name: str, /, **given: Any) -> Any:
        """An operation by its name. Raises RecollectError."""
        from recollect.operations.index import operation
        from recollect.operations.wording import invalid

        chosen = operation(name)
        try:
            taken = chosen.takes(**given)
        except ValidationError as error:
            raise invalid(error, known=list(chosen.takes.model_fields)) from error
        return await self.running.run(chosen, taken, caller=self.caller, conversation=self.conversation)
