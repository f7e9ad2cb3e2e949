"""What the command line needs of the program that starts it: so that it never imports the composition root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from recollect.operations.catalogue import Input, Operation, Output
    from recollect.settings import LoadedSettings

I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741
Told = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much


class Running(Protocol):
    """An open Recollect."""

    @property
    def loaded(self) -> LoadedSettings:
        """The settings that it was opened with."""

    def warm(self) -> None:
        """Say that meaning will be needed."""

    async def run(self, operation: Operation[I, O], given: I, *, progress: Told) -> O:
        """One operation. Raises RecollectError."""


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
