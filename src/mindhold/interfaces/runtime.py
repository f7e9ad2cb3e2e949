"""Protocols of an open Mindhold for the interfaces, so that none imports the composition root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mindhold.model.scope import Caller

if TYPE_CHECKING:
    from pathlib import Path

    from mindhold.operations import Input, Operation, Output
    from mindhold.settings.loader import LoadedSettings


I = TypeVar("I", bound="Input")  # noqa: E741
O = TypeVar("O", bound="Output")  # noqa: E741
CALLER_KEY = "mindhold.caller"  # key of the caller in the scope of an HTTP request
ProgressCallback = Callable[[str, int, int | None], None]  # step, done, total


class OperationRunner(Protocol):
    """Runs operations: a Mindhold open in this process, or a remote server."""

    @property
    def loaded(self) -> LoadedSettings:
        """The settings that it was opened with."""

    def warm(self, *, wait_seconds: float | None = None) -> None:
        """Start loading the embedding model and the index of vectors.

        Questions wait for the model at most so many seconds, None: as long as it takes.
        """

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        progress: ProgressCallback = ...,
        caller: Caller | None = None,
        model: Any = None,  # a LanguageModel
        conversation: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        key: str | None = None,
        on_repeat: Callable[[], None] = ...,
    ) -> O:
        """Run an operation. A write with the same `key` runs once and repeats its answer. Raises MindholdError."""

    @property
    def history_behind(self) -> bool:
        """Whether more conversations wait for indexing than a search may read."""

    async def index_in_background(self) -> bool:
        """Start a process that indexes, unless one runs; return whether one runs now."""


class OpenMindhold(OperationRunner, Protocol):
    """An open Mindhold in this process, with the hooks for background work."""

    async def refresh_hook_caches(self) -> None:
        """Rebuild the hook caches if something was written since. Never raises."""

    def conversation_roots(self) -> list[Path]:
        """Return the existing folders of past conversations. Blocks."""

    async def await_history_behind(self) -> None:
        """Wait until `history_behind` is true."""

    async def await_job(self, seconds: float) -> bool:
        """Wait up to `seconds` until a job is queued, also by another server; return whether one was."""

    async def await_urgent_job(self, seconds: float) -> None:
        """Wait up to `seconds` until somebody waits for a job that was queued here."""

    async def await_change(self, seen: int, seconds: float) -> int:
        """Wait up to `seconds` until this process writes; pass -1 first, then the number that was returned."""


def local_caller(loaded: LoadedSettings) -> Caller:
    """Return the local user as a caller. A configured agent is fixed; the default one may act for others."""
    return Caller(agent=loaded.settings.agent, bound="agent" in loaded.sources)


async def call_operation(
    running: OpenMindhold, operation: Operation[I, O], /, *, caller: Caller | None = None, **fields: Any
) -> O:
    """Run an operation with the given input fields; without a caller, as the server itself. Raises MindholdError."""
    from pydantic import ValidationError

    from mindhold.operations import invalid_input

    try:
        request = operation.takes(**fields)
    except ValidationError as error:
        raise invalid_input(error, known=list(operation.takes.model_fields)) from error
    return await running.run(operation, request, caller=caller)
