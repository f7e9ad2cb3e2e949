"""What an MCP request works with: its caller and conversation, the engine, progress, the client's model, and protocol errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mindhold.interfaces.runtime import CALLER_KEY, I, O, OpenMindhold, ProgressCallback, call_operation
from mindhold.model.errors import ModelError
from mindhold.model.scope import Caller
from mindhold.settings.sections import LlmSettings

if TYPE_CHECKING:
    from mindhold.operations import Operation


Context = ServerRequestContext[Any, Any]


def caller_of(ctx: Context, *, local: Caller) -> Caller:
    """Whom the HTTP door found; over stdio the person at this machine."""
    scope = getattr(ctx.request, "scope", None)
    found = scope.get(CALLER_KEY) if scope is not None else None
    return found if isinstance(found, Caller) else local


def connection_of(ctx: Context) -> Connection:
    """The client's connection. The SDK keeps it private on the session, and offers no other way to its end."""
    return ctx.session._connection


def is_stateless(ctx: Context) -> bool:
    """Whether this request is all that there is of its connection."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


log = logging.getLogger("mindhold.mcp")


@dataclass(slots=True)
class McpConversation:
    """One client's, from its first request to its leaving."""

    id: str
    caller: Caller
    session: ServerSession | None  # None where the protocol has no line back to the client
    agents: set[str] = field(default_factory=set)  # for whom something was written
    session_id: str | None = None  # where it may come back
    log_level: str = "notice"
    told: set[str] = field(default_factory=set)  # of our own notices, so that none is repeated


def new_name() -> str:
    """For a conversation that came without one."""
    return uuid4().hex


Ended = Callable[[McpConversation], Awaitable[None]]


class OpenConversations:
    """Those that are open. Keyed by connection, since an id may come back on another one."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._open: dict[int, McpConversation] = {}
        self._lone: McpConversation | None = None

    def __len__(self) -> int:
        return len(self._open) + (self._lone is not None)

    def __iter__(self) -> Iterator[McpConversation]:
        return iter([*self._open.values(), *([self._lone] if self._lone else [])])

    def lone(self, caller: Caller) -> McpConversation:
        """The one conversation of a process whose client speaks without sessions."""
        if self._lone is None:
            self._lone = McpConversation(new_name(), caller, None)
        return self._lone

    def of(self, connection: Connection) -> McpConversation | None:
        """The conversation on that connection, if one began."""
        return self._open.get(id(connection))

    def begin(self, connection: Connection, conversation: McpConversation) -> McpConversation:
        """Follow a connection until it closes."""
        self._open[id(connection)] = conversation
        connection.exit_stack.push_async_callback(self._end, connection)
        return conversation

    async def end_all(self) -> None:
        """End every one of them now."""
        for key in list(self._open):
            await self._ended(self._open.pop(key))
        if self._lone is not None:
            lone, self._lone = self._lone, None
            await self._ended(lone)

    async def _end(self, connection: Connection) -> None:
        conversation = self._open.pop(id(connection), None)
        if conversation is not None:
            await self._ended(conversation)


@dataclass(frozen=True, slots=True)
class CallContext:
    """An open Mindhold, as one caller may use it."""

    running: OpenMindhold
    caller: Caller

    async def run(self, operation: Operation[I, O], /, **fields: Any) -> O:
        """Run an operation for this caller. Raises MindholdError."""
        return await call_operation(self.running, operation, caller=self.caller, **fields)


class LazyEngine:
    """Opens Mindhold once, on the first call or when told to begin; after a failure the next call tries again."""

    def __init__(self, opener: Callable[[], AbstractAsyncContextManager[OpenMindhold]]) -> None:
        self._opener = opener
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[OpenMindhold] | None = None

    def begin(self) -> None:
        """Open in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._open())
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def running(self) -> OpenMindhold:
        """Mindhold, open. Raises what opening raised."""
        if (
            self._task is not None
            and self._task.done()
            and (self._task.cancelled() or self._task.exception())
        ):
            self._task = None
        self.begin()
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def opened(self) -> OpenMindhold | None:
        """Mindhold, if it is open by now."""
        task = self._task
        return (
            task.result() if task and task.done() and not task.cancelled() and not task.exception() else None
        )

    async def close(self) -> None:
        """Close what was opened; waits for an opening under way, so that nothing is left half open."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._stack.aclose()

    async def _open(self) -> OpenMindhold:
        running = await self._stack.enter_async_context(self._opener())
        running.warm(patient=False)
        return running


MOST_WAITING = 64


@asynccontextmanager
async def progress_reporter(ctx: Context) -> AsyncIterator[ProgressCallback]:
    """A function to tell progress to; what it was told reaches the client in order, and always grows."""
    if progress_token_from_params(ctx.params) is None:
        yield lambda _step, _done, _total: None
        return
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, float | None, str]] = asyncio.Queue(MOST_WAITING)
    base, last, step_now = 0.0, 0.0, ""

    def note(step: str, done: int, total: int | None) -> None:
        nonlocal base, last, step_now
        if step != step_now or base + done < last:
            base, step_now = last, step
        value = base + done
        if value <= last and last:
            return
        last = value
        words = f"{step}: {done} of {total}" if total is not None else f"{step}: {done}"
        if not waiting.full():
            waiting.put_nowait((value, None if total is None else base + total, words))

    async def pass_on() -> None:
        while True:
            await ctx.session.report_progress(*await waiting.get())
            waiting.task_done()

    def tell(step: str, done: int, total: int | None) -> None:
        loop.call_soon_threadsafe(note, step, done, total)

    task = asyncio.create_task(pass_on())
    try:
        yield tell
        await asyncio.sleep(0)  # what was told last is noted now
        emptied = asyncio.create_task(waiting.join())
        await asyncio.wait({emptied, task}, return_when=asyncio.FIRST_COMPLETED)
        emptied.cancel()
    finally:
        task.cancel()
        await asyncio.wait({task})


class ModelCallObserver(Protocol):
    """Told of every call of a language model."""

    def __call__(self, model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None: ...


def ignore_model_call(model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None:
    """For doors that keep no counts."""


class ClientModel:
    """Asks the client to complete. The client shows its person what is asked."""

    def __init__(
        self,
        session: ServerSession,
        *,
        request_id: types.RequestId | None,
        wait_seconds: float,
        spent: ModelCallObserver,
    ) -> None:
        self._session = session
        self._request_id = request_id
        self._wait_seconds = wait_seconds
        self._spent = spent

    @property
    def name(self) -> str:
        """Whose model it is."""
        client = self._session.client_params
        return f"{client.client_info.name}'s model" if client else "the client's model"

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The text of the answer. Raises ModelError."""
        from mindhold.model.tokens import count_tokens

        asked = count_tokens(system) + count_tokens(prompt)
        try:
            text = await self._answer(prompt, system=system, most_tokens=most_tokens)
        except ModelError:
            self._spent("sampling", outcome="failed", tokens_in=asked, tokens_out=0)
            raise
        self._spent("sampling", outcome="ok", tokens_in=asked, tokens_out=count_tokens(text))
        return text

    async def _answer(self, prompt: str, *, system: str, most_tokens: int) -> str:
        request = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(
                messages=[
                    types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
                ],
                max_tokens=most_tokens,
                system_prompt=system,
                temperature=0.0,
            )
        )
        related = ServerMessageMetadata(related_request_id=self._request_id)
        try:
            async with asyncio.timeout(self._wait_seconds):
                answer = await self._session.send_request(
                    request, types.CreateMessageResult, metadata=related
                )
        except TimeoutError as error:
            raise ModelError("The client's model did not answer in time.") from error
        except (MCPError, NoBackChannelError) as error:
            raise ModelError(f"The client's model refused: {error}.") from error
        content = answer.content
        if not isinstance(content, types.TextContent) or not content.text.strip():
            raise ModelError("The client's model answered with something else than text.")
        return content.text


def offered_model(ctx: Context, settings: LlmSettings, *, spent: ModelCallObserver) -> ClientModel | None:
    """The client's model, if it offers one and may be asked. The stateless protocol has no way to ask."""
    session = ctx.session
    capabilities = session.client_capabilities
    if not settings.sampling or is_stateless(ctx) or capabilities is None or capabilities.sampling is None:
        return None
    return ClientModel(session, request_id=ctx.request_id, wait_seconds=settings.wait_seconds, spent=spent)


NO_JSON = "That is no JSON that can be read."
NO_UNICODE = "That holds text that is no valid Unicode."
TOO_DEEP = "That is nested too deeply."
NO_MESSAGE = "That is no JSON-RPC message."
NO_BATCHES = "Several messages at once are not taken: send each by itself."


def unreadable_message_error(error: ValidationError) -> types.JSONRPCError:
    """The answer to what the SDK could not read."""
    given = _given(error)
    raw = isinstance(given, str | bytes | bytearray)
    try:
        message = json.loads(given) if raw else given
    except (ValueError, RecursionError):
        return _refused(types.PARSE_ERROR, NO_JSON, None)
    if raw:  # Python reads it, the SDK does not: half a character, or too many levels
        halved = any(0xD800 <= ord(sign) <= 0xDFFF for sign in json.dumps(message, ensure_ascii=False))
        return _refused(types.PARSE_ERROR, NO_UNICODE if halved else TOO_DEEP, _id_of(message))
    words = NO_BATCHES if isinstance(message, list) else NO_MESSAGE
    return _refused(types.INVALID_REQUEST, words, _id_of(message))


def _refused(code: int, words: str, request: types.RequestId | None) -> types.JSONRPCError:
    told = types.ErrorData(code=code, message=words, data={"code": "INVALID_INPUT"})
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=told)


def _given(error: ValidationError) -> Any:
    inputs = [one["input"] for one in error.errors(include_url=False)]
    return next((one for one in inputs if isinstance(one, dict) and "jsonrpc" in one), inputs[0])


def _id_of(message: Any) -> types.RequestId | None:
    """Whom to answer, where that can be told: a client waits for its own id."""
    found = message.get("id") if isinstance(message, dict) else None
    usable = isinstance(found, int | str) and not isinstance(found, bool) and str(found).isprintable()
    return found if usable else None
