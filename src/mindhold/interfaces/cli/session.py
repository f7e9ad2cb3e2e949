"""One call of the command line: its settings, its console, and the open Mindhold that it talks to."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mindhold.interfaces.cli.launcher import Launcher
from mindhold.interfaces.cli.output import Console
from mindhold.interfaces.running import Answering
from mindhold.model.errors import UnknownTime

if TYPE_CHECKING:
    from mindhold.operations.catalogue import Input, Operation
    from mindhold.operations.reading import TimeframeView
    from mindhold.settings import LoadedSettings

T = TypeVar("T")
NEED_MEANING = frozenset({"recall", "remember", "remember_many", "store"})


@dataclass
class Session:
    """What the global options said."""

    launcher: Launcher
    console: Console
    arguments: dict[str, Any] = field(default_factory=dict)

    def loaded(self, **overrides: Any) -> LoadedSettings:
        """Every setting, for a call in the folder that is worked in. Raises SettingsError."""
        from mindhold.settings import here, load_settings

        return replace(load_settings({**self.arguments, **overrides}), folder=here())

    @asynccontextmanager
    async def open(self, **overrides: Any) -> AsyncIterator[Desk]:
        """Mindhold, open. Settings can be overridden, dots in their names as in `-o`."""
        async with self.launcher.open(self.loaded(**overrides)) as running:
            yield Desk(running, self)

    def perform(self, work: Coroutine[Any, Any, T]) -> T:
        """The one event loop of the process."""
        import asyncio  # a third of the time that --help takes

        with _interrupted_at_once():
            return asyncio.run(work)


@dataclass(frozen=True, slots=True)
class Desk:
    """An open Mindhold, and where to print."""

    running: Answering
    session: Session

    @property
    def console(self) -> Console:
        return self.session.console

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

    async def run(self, name: str, /, **given: Any) -> Any:
        """An operation of the catalogue, by its name; what wasn't given keeps the operation's default."""
        if name in NEED_MEANING:
            self.running.warm()
        from mindhold.operations.index import operation as find

        operation = find(name)
        with self.console.progress() as told:
            return await self.running.run(operation, build(operation, given), progress=told)

    async def instant(self, phrase: str, *, end: bool = False) -> datetime:
        """The start (or end) of what people call a time. Raises UnknownTime."""
        exact = _exact_time(phrase, self.zone)
        if exact:
            return exact
        frame: TimeframeView = await self.run("interpret_time", phrase=phrase)
        moment = frame.end if end else frame.start
        if moment is None:
            raise UnknownTime(f"{phrase!r} has no {'end' if end else 'beginning'}.", advice="Name a date.")
        return moment


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


def build(operation: Operation[Any, Any], given: Mapping[str, Any]) -> Input:
    """The operation's input. Raises InvalidInput, naming the option."""
    from pydantic import ValidationError

    from mindhold.operations.wording import invalid

    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value != ()
    }
    try:
        made: Input = operation.takes(**values)
    except ValidationError as error:
        raise invalid(error, known=list(operation.takes.model_fields), named=_option) from error
    return made


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
