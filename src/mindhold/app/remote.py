"""The application as a client of a server: operations are called over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, cast

from mindhold.client.api import AsyncMindhold
from mindhold.client.wire import server_address
from mindhold.interfaces.runtime import I, O
from mindhold.model.errors import InvalidInput, MemoryNotFound, MindholdError, ScopeNotFound, SettingsError
from mindhold.operations import Input, Operation, Output
from mindhold.settings.loader import LoadedSettings, value_in_file

EXPORT, JSON_LINES = "export", "jsonl"
UNKNOWN_KEY = "UNAUTHORIZED"
NO_PROJECT = "PROJECT_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class RemoteApp:
    """A Mindhold server that is called over HTTP."""

    client: AsyncMindhold
    loaded: LoadedSettings
    withheld: bool = False  # True: the configured key belongs to another server and isn't sent

    def warm(self, *, wait_seconds: float | None = None) -> None:
        """Do nothing: the server loads its own models."""

    @property
    def history_behind(self) -> bool:
        """False: the server indexes its own conversations."""
        return False

    async def index_in_background(self) -> bool:
        """Do nothing: the server indexes its own conversations."""
        return False

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        agent: str | None = None,
        key: str | None = None,
        **_local: Any,
    ) -> O:
        """Run one operation on the server, as the agent that the key belongs to. Raises MindholdError.

        What else a local run takes, such as the caller, is the server's own affair.
        """
        try:
            if operation.name == EXPORT:
                return cast("O", await self._exported(given))
            placed = self._placed(operation, given)
            return await self.client.operate(operation, placed, agent=agent, key=key)
        except MindholdError as error:
            if error.code == UNKNOWN_KEY:
                error.advice = self._advice(error.advice)
            raise _as_here(error, given) from None

    def _advice(self, server_advice: str) -> str:
        """How to give the key here; after a key that was sent, also what the server advised."""
        if self.loaded.settings.remote.key and not self.withheld:
            return f"It is remote.key, as {self.loaded.sources['remote.key']} has it. {server_advice}".strip()
        if not self.withheld:
            return (
                "Give it as MINDHOLD_REMOTE_KEY, or by `mindhold config set`, remote.url beside remote.key."
            )
        return (
            "The key of the settings file is for the address that stands there as remote.url, and wasn't sent to this one. "
            "Give this server's as MINDHOLD_REMOTE_KEY."
        )

    def _placed(self, operation: Operation[I, O], given: I) -> I:
        """The input with the scope of the settings, if the operation works in one and none was named. Raises InvalidInput."""
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
    """A client of the configured server; nothing is sent yet. Raises SettingsError."""
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
    """The error with the command line's wording, where the HTTP API has its own."""
    if isinstance(error, MemoryNotFound):
        error.advice = MemoryNotFound("").advice
    if isinstance(error, ScopeNotFound):
        names = (error.name, getattr(given, "scope", None), getattr(given, "name", None))
        for own in (ScopeNotFound(name) for name in names if name):
            if own.message == error.message or error.code == NO_PROJECT:
                return own
    return error


def _withheld(loaded: LoadedSettings) -> bool:
    """Whether the key belongs to another server: a key in the settings file is for the remote.url in that file.

    A key from the call or the environment is for whichever server is called.
    """
    chosen, file = loaded.settings.remote, str(loaded.settings.config_file)
    if not chosen.key or loaded.sources["remote.key"] != file or loaded.sources["remote.url"] == file:
        return False
    asked = server_address(chosen.url)
    try:
        return server_address(value_in_file(loaded, "remote.url")) != asked
    except SettingsError:  # the file names no server
        return True
