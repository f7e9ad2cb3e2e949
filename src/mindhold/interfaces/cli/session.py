"""The state of one CLI call: its settings, its console, the launcher, and the open Mindhold."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from mindhold.interfaces.cli.output import Console
from mindhold.interfaces.runtime import I, O, OpenMindhold, OperationRunner
from mindhold.model.errors import MindholdError, UnknownTime

if TYPE_CHECKING:
    from mindhold.backup.restore import DropOldResult, ReplaceResult
    from mindhold.interfaces.runtime import ProgressCallback
    from mindhold.operations import Operation
    from mindhold.settings.loader import LoadedSettings


class CheckFinding(Protocol):
    """The result of one health check."""

    @property
    def name(self) -> str: ...
    @property
    def healthy(self) -> bool: ...
    @property
    def detail(self) -> str: ...
    @property
    def advice(self) -> str: ...


class StartObserver(Protocol):
    """Receives the events of a starting server."""

    def away(self, error: MindholdError) -> None:
        """The store can't be opened yet; requests are refused until it can."""

    async def opened(self, running: OpenMindhold) -> None:
        """The store is open."""

    def ready(self, address: str) -> None:
        """The server accepts requests at that address."""


CARRY_OVER = "`mindhold -o store.mode=local export FILE`, then `mindhold import FILE`, brings them over."


class LocalRecords(Protocol):
    """The memories of an agent in the local database file."""

    @property
    def memories(self) -> int: ...
    @property
    def ids(self) -> tuple[str, ...]: ...


class Launcher(Protocol):
    """Opens Mindhold, or looks at a database that can't be opened."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[OperationRunner]:
        """Open for the time of the context. Raises StoreError, SettingsError."""

    def leftover(self, loaded: LoadedSettings) -> LocalRecords:
        """Return what the local file holds, whichever store is in use; `ids` are a sample."""

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[CheckFinding]:
        """Check a database that can't be opened."""

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """Copy what can be read into a new database and keep the old one. Returns a report in lines."""

    async def restore(
        self, loaded: LoadedSettings, file: str | None, *, told: ProgressCallback
    ) -> ReplaceResult:
        """Replace everything with a backup. Raises StoreError, Refused, NotFound."""

    async def drop_old(self, loaded: LoadedSettings, name: str | None) -> DropOldResult:
        """Remove the databases that restores have replaced. Raises NotFound."""

    def serve_stdio(self, loaded: LoadedSettings) -> Coroutine[Any, Any, None]:
        """Serve MCP on standard input and output."""

    def serve_http(self, loaded: LoadedSettings, *, start: StartObserver) -> Coroutine[Any, Any, None]:
        """Serve MCP, REST and the web page over HTTP. Raises SettingsError, and StoreError if waiting won't help."""

    def hook(self, name: str, argv: Sequence[str], *, home: str | None) -> int:
        """Run the hook or status line of Claude Code with that name. Returns the exit status, which is 0."""


T = TypeVar("T")


@dataclass
class CliSession:
    """One call of the CLI with its global options."""

    launcher: Launcher
    console: Console
    arguments: dict[str, Any] = field(default_factory=dict)

    def loaded(self, **overrides: Any) -> LoadedSettings:
        """Load the settings for the current folder; an override of None is ignored. Raises SettingsError."""
        from mindhold.settings.loader import load_settings, working_folder

        changed = {key: value for key, value in overrides.items() if value is not None}
        return replace(load_settings(self.arguments | changed), folder=working_folder())

    @asynccontextmanager
    async def open(self, **overrides: Any) -> AsyncIterator[OpenSession]:
        """Open Mindhold. `overrides` are settings by their dotted names, as in `-o`."""
        async with self.launcher.open(self.loaded(**overrides)) as running:
            yield OpenSession(running, self)

    def perform(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the only event loop of the process."""
        import asyncio  # slow to import; --help doesn't need it

        with _interrupt_at_once():
            return asyncio.run(work)


@dataclass(frozen=True, slots=True)
class OpenSession:
    """An open Mindhold and the console to print on."""

    running: OperationRunner
    cli: CliSession

    @property
    def console(self) -> Console:
        return self.cli.console

    @property
    def zone(self) -> tzinfo | None:
        """The user's time zone; None means the machine's."""
        from zoneinfo import ZoneInfo

        name = self.running.loaded.settings.time_zone
        return ZoneInfo(name) if name else None

    @property
    def server(self) -> str:
        """The URL of the remote server; empty for the store on this machine."""
        return self.running.loaded.settings.remote.url

    async def run(self, operation: Operation[I, O], /, **fields: Any) -> O:
        """Run an operation; fields that are None keep the operation's default."""
        if operation.needs_vectors:
            self.running.warm()
        with self.console.progress() as progress:
            return await self.running.run(operation, build_input(operation, fields), progress=progress)

    async def instant(self, phrase: str, *, end: bool = False) -> datetime:
        """Return the start (or end) of a time in words. Raises UnknownTime."""
        from mindhold.memories.timeline import INTERPRET_TIME

        exact = _parse_timestamp(phrase, self.zone)
        if exact:
            return exact
        frame = await self.run(INTERPRET_TIME, phrase=phrase)
        moment = frame.end if end else frame.start
        if moment is None:
            raise UnknownTime(f"{phrase!r} has no {'end' if end else 'beginning'}.", advice="Name a date.")
        return moment


@contextmanager
def _interrupt_at_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at once: asyncio's handler waits for the loop, which stands still while stdin is read."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def build_input(operation: Operation[I, Any], fields: Mapping[str, Any]) -> I:
    """Build the operation's input. Raises InvalidInput that names the option."""
    from pydantic import ValidationError

    from mindhold.operations import invalid_input

    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value is not None and value != ()
    }
    try:
        return operation.takes(**values)
    except ValidationError as error:
        raise invalid_input(error, known=list(operation.takes.model_fields), named=_option_name) from error


def _option_name(place: list[str]) -> str:
    """Return the option or argument of a field; click's parameters have the names of the fields."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context and place else ():
        if parameter.name == place[0]:
            return parameter.opts[0] if isinstance(parameter, click.Option) else place[0].upper()
    return ".".join(place) or "The input"


def _parse_timestamp(phrase: str, zone: tzinfo | None) -> datetime | None:
    """Parse a timestamp. A bare date is left to the time parser, which reads it as a whole day."""
    try:
        moment = datetime.fromisoformat(phrase.strip())
    except ValueError:
        return None
    if moment.tzinfo:
        return moment
    if len(phrase.strip()) <= len("2024-01-01"):
        return None
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()
