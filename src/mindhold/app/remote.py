"""The application as a client of a server: operations are called over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, TypeVar, cast

from mindhold.client.api import AsyncMindhold
from mindhold.client.wire import server_address
from mindhold.interfaces.runtime import ProgressCallback
from mindhold.model.errors import InvalidInput, MemoryNotFound, MindholdError, ScopeNotFound, SettingsError
from mindhold.model.scope import Caller
from mindhold.operations import Input, Operation, Output, no_progress
from mindhold.settings.loader import LoadedSettings, value_in_file

I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
# Those that are done in the scope of the call where none is named; for others that means all scopes.
EXPORT, JSON_LINES = "export", "jsonl"
UNKNOWN_KEY = "UNAUTHORIZED"
NO_PROJECT = "PROJECT_NOT_FOUND"


def _nothing() -> None:
    """Nobody hears of a repeated call from here: the answer is the same."""


@dataclass(frozen=True, slots=True)
class RemoteApp:
    """A running Mindhold on the other side of a wire. Upkeep is its own business."""

    client: AsyncMindhold
    loaded: LoadedSettings
    withheld: bool = False  # the key: it is another server's

    def warm(self, *, patient: bool = True) -> None:
        """Nothing: the server has its models."""

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        progress: ProgressCallback = no_progress,
        caller: Caller | None = None,
        model: Any = None,
        conversation: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        key: str | None = None,
        on_repeat: Callable[[], None] = _nothing,
    ) -> O:
        """One operation, as whom the server takes us for. Raises MindholdError."""
        try:
            if operation.name == EXPORT:
                return cast("O", await self._exported(given))
            placed = self._placed(operation, given)
            return await self.client.operate(operation, placed, agent=agent, key=key)
        except MindholdError as error:
            if error.code == UNKNOWN_KEY:
                error.advice = self._advice(error.advice)
            raise _as_here(error, given) from None

    def _advice(self, told: str) -> str:
        """In words for who gives the key here; of one that was sent, as the server told."""
        if self.loaded.settings.remote.key and not self.withheld:
            return f"It is remote.key, as {self.loaded.sources['remote.key']} has it. {told}".strip()
        if not self.withheld:
            return (
                "Give it as MINDHOLD_REMOTE_KEY, or by `mindhold config set`, remote.url beside remote.key."
            )
        return (
            "The key of the settings file is for the address that stands there as remote.url, and wasn't sent to this one. "
            "Give this server's as MINDHOLD_REMOTE_KEY."
        )

    def _placed(self, operation: Operation[I, O], given: I) -> I:
        """In the scope that the settings name, where the call names none and is made in one. Raises InvalidInput."""
        folder = getattr(given, "path", None)
        if folder and not (PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()):
            raise InvalidInput(
                f"The folder {folder!r} would be the server's own.", advice="Give its whole path there."
            )
        named = "scope" in self.loaded.sources and operation.default_scope
        if not named or getattr(given, "scope", None) is not None or getattr(given, "everywhere", False):
            return given
        return given.model_copy(update={"scope": self.loaded.settings.scope})

    async def _exported(self, given: Input) -> Output:
        path, scope = getattr(given, "path", None), getattr(given, "scope", None)
        lines = getattr(given, "format", JSON_LINES) == JSON_LINES
        if path is None or not lines or getattr(given, "memory_mcp", False):
            raise InvalidInput(
                "A server gives its export as JSON lines alone.",
                advice="Leave --memory-mcp and --format out.",
            )
        return await self.client.export(path, scope=scope)


@asynccontextmanager
async def open_remote(loaded: LoadedSettings) -> AsyncIterator[RemoteApp]:
    """The server of the settings. Nothing is asked yet. Raises SettingsError."""
    chosen = loaded.settings.remote
    named = "agent" in loaded.sources
    withheld = _withheld(loaded)
    client = AsyncMindhold(
        chosen.url,
        key="" if withheld else chosen.key,
        agent=loaded.settings.agent if named else "",
        timeout=chosen.wait_seconds,
        insecure=chosen.insecure,
    )
    async with client:
        yield RemoteApp(client, loaded, withheld)


def _as_here(error: MindholdError, given: Input) -> MindholdError:
    """In the command line's own words, where the server has others for who calls it over HTTP."""
    if isinstance(error, MemoryNotFound):
        error.advice = MemoryNotFound("").advice
    if isinstance(error, ScopeNotFound):
        names = (error.name, getattr(given, "scope", None), getattr(given, "name", None))
        for own in (ScopeNotFound(name) for name in names if name):
            if own.message == error.message or error.code == NO_PROJECT:
                return own
    return error


def _withheld(loaded: LoadedSettings) -> bool:
    """Whether the key is for another server than the one that is asked: the settings file's is for the address beside it.

    One that the call or the environment gives is for whichever server is asked.
    """
    chosen, file = loaded.settings.remote, str(loaded.settings.config_file)
    if not chosen.key or loaded.sources["remote.key"] != file or loaded.sources["remote.url"] == file:
        return False
    asked = server_address(chosen.url)
    try:
        return server_address(value_in_file(loaded, "remote.url")) != asked
    except SettingsError:  # it names none
        return True
