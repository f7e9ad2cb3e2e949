"""Where projects live, as a caller has it who is bound to scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mindhold.model.errors import Refused
from mindhold.ports.houses import Houses, Places
from mindhold.ports.snapshot import House


class FencedHouses:
    """The registry as far as a caller's scopes go. The stores themselves are not theirs."""

    def __init__(self, houses: Houses, scopes: Iterable[str]) -> None:
        self._houses = houses
        self._scopes = frozenset(scopes)

    @property
    def home(self) -> str:
        return self._houses.home

    @property
    def modes(self) -> tuple[str, ...]:
        return self._houses.modes

    async def house(self, mode: str) -> House:
        raise whole_store()

    async def places(self, *, fresh: bool = False) -> Places:
        found = await self._houses.places(fresh=fresh)
        return {name: place for name, place in found.items() if name in self._scopes}

    async def settle(self, change: Callable[[Places], Places]) -> Places:
        raise whole_store()

    async def close(self) -> None:
        """Others use it still."""


def whole_store() -> Refused:
    """For what a fence never lets through."""
    return Refused("This concerns the whole store, and this key is for some scopes.", advice="Ask the owner.")
