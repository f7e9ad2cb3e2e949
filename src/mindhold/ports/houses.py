"""Where projects live: the stores by their storage mode, and the registry that says which project is in which."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from mindhold.model.storage import LOCAL as LOCAL
from mindhold.model.storage import MODES as MODES
from mindhold.model.storage import MONGODB as MONGODB
from mindhold.model.storage import POSTGRES as POSTGRES
from mindhold.ports.snapshot import House

LEASE = timedelta(seconds=10)  # how long a hold lasts that isn't renewed
SKEW = 2 * LEASE  # by how much clocks may differ


@dataclass(frozen=True, slots=True)
class Move:
    """A project on its way. Who moves it holds it until then; `frozen` means that writers wait."""

    to: str
    by: str
    until: datetime
    frozen: bool = False


class Watch:
    """Tells whether a mover is gone. Clocks of two machines differ: that it doesn't renew its hold is seen by looking."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[Move, float]] = {}

    def gone(self, move: Move, *, now: datetime) -> bool:
        """Whether it ended long ago, or stood still for a lease's time since this was first asked."""
        if move.until + SKEW <= now:
            return True
        looked = self._seconds()
        seen, since = self._seen.get(move.by, (None, looked))
        if seen != move:
            self._seen[move.by] = move, looked
            return False
        return looked - since >= LEASE.total_seconds()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a project lives. `copies` are where else its records are, hidden: half copied, or left behind.

    `moves` counts, so that one who looks twice can tell that it went and came back.
    """

    mode: str
    moves: int = 0
    copies: tuple[str, ...] = ()
    move: Move | None = None
    renaming: str | None = None  # begun, and finished by whoever finds it

    def modes(self) -> tuple[str, ...]:
        """Every store that has something of it, the one that it lives in first."""
        return tuple(dict.fromkeys((self.mode, *self.copies)))


Places = Mapping[str, Place]  # by the scope's name; what isn't named lives at home


class Houses(Protocol):
    """The stores by mode. The registry is in the home store, where all processes see the same."""

    @property
    def home(self) -> str:
        """The mode of the store that has everything that no other has: scopes, jobs, cursors, entries."""

    @property
    def modes(self) -> tuple[str, ...]:
        """Those that the settings allow, home first."""

    async def house(self, mode: str) -> House:
        """Open. Raises SettingsError when it isn't configured, and the errors of Store.open()."""

    async def places(self, *, fresh: bool = False) -> Places:
        """The registry; unless `fresh`, as it was a second ago at most."""

    async def settle(self, change: Callable[[Places], Places]) -> Places:
        """Change the registry in one step, whoever else does; `change` may be asked again. Returns it as it is then."""

    async def close(self) -> None:
        """Idempotent."""
