"""What the command line needs of the program that starts it: so that it never imports the composition root."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from recollect.interfaces.running import Running

if TYPE_CHECKING:
    from recollect.settings import LoadedSettings


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


class Launcher(Protocol):
    """Opens Recollect, or looks at a database that can't be opened."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[Running]:
        """Open for the time of the context. Raises StoreError, SettingsError."""

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[Finding]:
        """What is wrong with a database that can't be opened."""

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """Bring what can be read into a new database, the old one kept aside. Says what it did."""

    def serve_stdio(self, loaded: LoadedSettings) -> Coroutine[Any, Any, None]:
        """MCP on standard input and output."""

    def serve_http(
        self, loaded: LoadedSettings, *, ready: Callable[[str], None]
    ) -> Coroutine[Any, Any, None]:
        """Everything that is served over HTTP; `ready` is told the address. Raises SettingsError."""
