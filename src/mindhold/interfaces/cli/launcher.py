"""What the command line needs of the program that starts it: so that it never imports the composition root."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from mindhold.interfaces.running import Answering, Running
from mindhold.model.errors import MindholdError

if TYPE_CHECKING:
    from mindhold.interfaces.running import Told
    from mindhold.operations.replacing import DropOldResult, ReplaceResult
    from mindhold.settings import LoadedSettings


class Finding(Protocol):
    """One thing that a check looked at."""

    @property
    def name(self) -> str: ...
    @property
    def healthy(self) -> bool: ...
    @property
    def detail(self) -> str: ...
    @property
    def advice(self) -> str: ...


class Start(Protocol):
    """Who is told how a server starts."""

    def away(self, error: MindholdError) -> None:
        """The store isn't to be had yet; what comes in meanwhile is told so."""

    async def opened(self, running: Running) -> None:
        """The store is open."""

    def ready(self, address: str) -> None:
        """It serves there."""


CARRY_OVER = "`mindhold -o store.mode=local export FILE`, then `mindhold import FILE`, brings them over."


class Leftover(Protocol):
    """What the local file holds of an agent's."""

    @property
    def memories(self) -> int: ...
    @property
    def ids(self) -> tuple[str, ...]: ...


class Launcher(Protocol):
    """Opens Mindhold, or looks at a database that can't be opened."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[Answering]:
        """Open for the time of the context. Raises StoreError, SettingsError."""

    def leftover(self, loaded: LoadedSettings) -> Leftover:
        """What is in the local file, whatever the store is; `ids` are a few of it."""

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[Finding]:
        """What is wrong with a database that can't be opened."""

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """Bring what can be read into a new database, the old one kept aside. Says what it did."""

    async def restore(self, loaded: LoadedSettings, file: str | None, *, told: Told) -> ReplaceResult:
        """Put a backup in the place of everything that is there. Raises StoreError, Refused, NotFound."""

    async def drop_old(self, loaded: LoadedSettings, name: str | None) -> DropOldResult:
        """Remove what restores have put aside. Raises NotFound."""

    def serve_stdio(self, loaded: LoadedSettings) -> Coroutine[Any, Any, None]:
        """MCP on standard input and output."""

    def serve_http(self, loaded: LoadedSettings, *, start: Start) -> Coroutine[Any, Any, None]:
        """Everything that is served over HTTP. Raises SettingsError, and StoreError for what waiting won't mend."""

    def hook(self, name: str, argv: Sequence[str], *, home: str | None) -> int:
        """What Claude Code runs, by its name. The exit status, which is 0."""
