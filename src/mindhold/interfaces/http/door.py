"""What every part of the HTTP door shares: the engine behind it, its settings, its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from mindhold.interfaces.http.place import Place
from mindhold.interfaces.running import Running, ask
from mindhold.model.access import Caller
from mindhold.settings import LoadedSettings
from mindhold.settings.declared import Settings

VISITOR_KEY = "mindhold.visitor"  # where a request's scope has the name of its credential
OWN = Caller(agent="system")  # the door's own questions, not a client's


class Opens(Protocol):
    """The engine, which may still be opening."""

    @property
    def opened(self) -> Running | None:
        """It, if it is open by now."""

    async def running(self) -> Running:
        """It, open. Raises what opening raised."""


@dataclass(frozen=True, slots=True)
class Door:
    """One for a server."""

    opening: Opens
    loaded: LoadedSettings
    place: Place

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    async def ask(self, name: str, /, **given: Any) -> Any:
        """An operation for the door itself. Raises MindholdError."""
        return await ask(await self.opening.running(), name, caller=OWN, **given)
