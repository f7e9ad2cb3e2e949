"""The command line's Recollect where it is a server elsewhere: operations go by its client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, TypeVar, cast

from recollect.client import AsyncRecollect
from recollect.interfaces.running import Told
from recollect.model.access import Caller
from recollect.model.errors import InvalidInput, RecollectError
from recollect.operations.catalogue import Input, Operation, Output, no_progress
from recollect.settings import LoadedSettings

I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
# Those that are done in the scope of the call where none is named; for others that means all scopes.
IN_SCOPE = frozenset({"remember", "remember_many", "recall", "context", "ask", "reflect"})
EXPORT = "export"
UNKNOWN_KEY = "UNAUTHORIZED"


def _nothing() -> None:
    """Nobody hears of a repeated call from here: the answer is the same."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A running Recollect on the other side of a wire. Upkeep is its own business."""

    client: AsyncRecollect
    loaded: LoadedSettings

    def warm(self, *, patient: bool = True) -> None:
        """Nothing: the server has its models."""

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        progress: Told = no_progress,
        caller: Caller | None = None,
        model: Any = None,
        conversation: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        key: str | None = None,
        on_repeat: Callable[[], None] = _nothing,
    ) -> O:
        """One operation, as whom the server takes us for. Raises RecollectError."""
        try:
            if operation.name == EXPORT:
                return cast("O", await self._exported(given))
            placed = self._placed(operation, given)
            return await self.client.operate(operation, placed, agent=agent, key=key)
        except RecollectError as error:
            if error.code == UNKNOWN_KEY:
                error.advice = "Give it as RECOLLECT_REMOTE_KEY, or by `recollect config set remote.key`."
            raise

    def _placed(self, operation: Operation[I, O], given: I) -> I:
        """In the scope that the settings name, where the call names none and is made in one. Raises InvalidInput."""
        folder = getattr(given, "path", None)
        if folder and not (PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()):
            raise InvalidInput(
                f"The folder {folder!r} would be the server's own.", advice="Give its whole path there."
            )
        named = "scope" in self.loaded.sources and operation.name in IN_SCOPE
        if not named or getattr(given, "scope", None) is not None or getattr(given, "everywhere", False):
            return given
        return given.model_copy(update={"scope": self.loaded.settings.scope})

    async def _exported(self, given: Input) -> Output:
        path, scope = getattr(given, "path", None), getattr(given, "scope", None)
        if path is None or getattr(given, "memory_mcp", False):
            raise InvalidInput(
                "A server gives its export as JSON lines alone.", advice="Leave --memory-mcp out."
            )
        return await self.client.export(path, scope=scope)


@asynccontextmanager
async def open_remote(loaded: LoadedSettings) -> AsyncIterator[Elsewhere]:
    """The server of the settings. Nothing is asked yet. Raises SettingsError."""
    chosen = loaded.settings.remote
    named = "agent" in loaded.sources
    client = AsyncRecollect(
        chosen.url,
        key=chosen.key,
        agent=loaded.settings.agent if named else "",
        timeout=chosen.wait_seconds,
        insecure=chosen.insecure,
    )
    async with client:
        yield Elsewhere(client, loaded)
