"""What every interface needs from the program that starts it, so that no interface imports the composition root."""

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
CALLER_KEY = "mindhold.caller"  # where the HTTP door leaves the caller in a request's scope
ProgressCallback = Callable[[str, int, int | None], None]  # what is being done, how much of it, of how much


class OperationRunner(Protocol):
    """Whoever answers operations: a Mindhold that is open here, or a server elsewhere."""

    @property
    def loaded(self) -> LoadedSettings:
        """The settings that it was opened with."""

    def warm(self, *, patient: bool = True) -> None:
        """Say that meaning will be needed. Unless `patient`, questions don't wait for it."""

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
        """One operation; with a key, a writing one is done once and answered alike. Raises MindholdError."""


class OpenMindhold(OperationRunner, Protocol):
    """An open Mindhold, and what keeps it in good order."""

    async def refresh_hook_caches(self) -> None:
        """Make anew what hooks hand out, if something was written since. Never raises."""

    def conversation_roots(self) -> list[Path]:
        """The folders under which past conversations lie, of those that are there. Blocks."""

    @property
    def history_behind(self) -> bool:
        """Whether more conversations wait to be indexed than a question may read."""

    async def await_history_behind(self) -> None:
        """Until that is so."""

    async def index_in_background(self) -> bool:
        """Whether a process of its own is at it now: one that was started, or was there already."""

    async def await_job(self, seconds: float) -> bool:
        """Until a job is queued, here or by another server, at most so long. Whether one was."""

    async def await_urgent_job(self, seconds: float) -> None:
        """Until somebody waits for a job that was just queued here, at most so long."""

    async def await_change(self, seen: int, seconds: float) -> int:
        """Until this process wrote more than was `seen`, at most so long. Begins at -1; give back what it answers."""


def local_caller(loaded: LoadedSettings) -> Caller:
    """The person at this machine. An agent that was configured binds; the default one may speak for others."""
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
