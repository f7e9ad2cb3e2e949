"""One call of the command line: its settings, its console, the open Mindhold, and the launcher that opens it."""

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
    """One thing that a check looked at."""

    @property
    def name(self) -> str: ...
    @property
    def healthy(self) -> bool: ...
    @property
    def detail(self) -> str: ...
    @property
    def advice(self) -> str: ...


class StartObserver(Protocol):
    """Who is told how a server starts."""

    def away(self, error: MindholdError) -> None:
        """The store isn't to be had yet; what comes in meanwhile is told so."""

    async def opened(self, running: OpenMindhold) -> None:
        """The store is open."""

    def ready(self, address: str) -> None:
        """It serves there."""


CARRY_OVER = "`mindhold -o store.mode=local export FILE`, then `mindhold import FILE`, brings them over."


class LocalRecords(Protocol):
    """What the local file holds of an agent's."""

    @property
    def memories(self) -> int: ...
    @property
    def ids(self) -> tuple[str, ...]: ...


class Launcher(Protocol):
    """Opens Mindhold, or looks at a database that can't be opened."""

    def open(self, loaded: LoadedSettings) -> AbstractAsyncContextManager[OperationRunner]:
        """Open for the time of the context. Raises StoreError, SettingsError."""

    def leftover(self, loaded: LoadedSettings) -> LocalRecords:
        """What is in the local file, whatever the store is; `ids` are a few of it."""

    async def diagnose(self, loaded: LoadedSettings) -> Sequence[CheckFinding]:
        """What is wrong with a database that can't be opened."""

    async def salvage(self, loaded: LoadedSettings) -> Sequence[str]:
        """Bring what can be read into a new database, the old one kept aside. Says what it did."""

    async def restore(
        self, loaded: LoadedSettings, file: str | None, *, told: ProgressCallback
    ) -> ReplaceResult:
        """Put a backup in the place of everything that is there. Raises StoreError, Refused, NotFound."""

    async def drop_old(self, loaded: LoadedSettings, name: str | None) -> DropOldResult:
        """Remove what restores have put aside. Raises NotFound."""

    def serve_stdio(self, loaded: LoadedSettings) -> Coroutine[Any, Any, None]:
        """MCP on standard input and output."""

    def serve_http(self, loaded: LoadedSettings, *, start: StartObserver) -> Coroutine[Any, Any, None]:
        """Everything that is served over HTTP. Raises SettingsError, and StoreError for what waiting won't mend."""

    def hook(self, name: str, argv: Sequence[str], *, home: str | None) -> int:
        """What Claude Code runs, by its name. The exit status, which is 0."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """An open Mindhold, and where to print."""

    running: OperationRunner
    cli: CliSession

    @property
    def console(self) -> Console:
        return self.cli.console

    @property
    def zone(self) -> tzinfo | None:
        """The person's; None is the machine's."""
        from zoneinfo import ZoneInfo

        name = self.running.loaded.settings.time_zone
        return ZoneInfo(name) if name else None

    @property
    def server(self) -> str:
        """The address of the server that is asked; empty where it is the store on this machine."""
        return self.running.loaded.settings.remote.url

    async def run(self, operation: Operation[I, O], /, **fields: Any) -> O:
        """Run an operation; fields that are None keep the operation's default."""
        if operation.needs_vectors:
            self.running.warm()
        with self.console.progress() as progress:
            return await self.running.run(operation, build_input(operation, fields), progress=progress)

    async def instant(self, phrase: str, *, end: bool = False) -> datetime:
        """The start (or end) of what people call a time. Raises UnknownTime."""
        from mindhold.memories.timeline import INTERPRET_TIME

        exact = _exact_time(phrase, self.zone)
        if exact:
            return exact
        frame = await self.run(INTERPRET_TIME, phrase=phrase)
        moment = frame.end if end else frame.start
        if moment is None:
            raise UnknownTime(f"{phrase!r} has no {'end' if end else 'beginning'}.", advice="Name a date.")
        return moment


@dataclass
class CliSession:
    """What the global options said."""

    launcher: Launcher
    console: Console
    arguments: dict[str, Any] = field(default_factory=dict)

    def loaded(self, **overrides: Any) -> LoadedSettings:
        """Every setting, for a call in the folder that is worked in. An override of None is none. Raises SettingsError."""
        from mindhold.settings.loader import load_settings, working_folder

        changed = {key: value for key, value in overrides.items() if value is not None}
        return replace(load_settings(self.arguments | changed), folder=working_folder())

    @asynccontextmanager
    async def open(self, **overrides: Any) -> AsyncIterator[OpenSession]:
        """Mindhold, open. Settings can be overridden, dots in their names as in `-o`."""
        async with self.launcher.open(self.loaded(**overrides)) as running:
            yield OpenSession(running, self)

    def perform(self, work: Coroutine[Any, Any, T]) -> T:
        """The one event loop of the process."""
        import asyncio  # a third of the time that --help takes

        with _interrupted_at_once():
            return asyncio.run(work)


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """asyncio's own handler waits for the loop's next turn, which never comes while stdin is read."""

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
    """The operation's input. Raises InvalidInput, naming the option."""
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
        raise invalid_input(error, known=list(operation.takes.model_fields), named=_option) from error


def _option(place: list[str]) -> str:
    """What the person typed for a field: click's parameters bear the fields' names."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context and place else ():
        if parameter.name == place[0]:
            return parameter.opts[0] if isinstance(parameter, click.Option) else place[0].upper()
    return ".".join(place) or "The input"


def _exact_time(phrase: str, zone: tzinfo | None) -> datetime | None:
    """A timestamp; a bare date is left to the parser, which knows whole days."""
    try:
        moment = datetime.fromisoformat(phrase.strip())
    except ValueError:
        return None
    if moment.tzinfo:
        return moment
    if len(phrase.strip()) <= len("2024-01-01"):
        return None
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()
