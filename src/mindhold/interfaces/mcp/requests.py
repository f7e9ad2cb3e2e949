"""Helpers of MCP requests: caller, conversation, engine, progress, the client's model, protocol errors."""

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
    """Return the caller that the HTTP server authenticated; over stdio the local user."""
    scope = getattr(ctx.request, "scope", None)
    caller = scope.get(CALLER_KEY) if scope is not None else None
    return caller if isinstance(caller, Caller) else local


def connection_of(ctx: Context) -> Connection:
    """Return the client's connection, which the SDK keeps private. Its exit stack tells when it ends."""
    return ctx.session._connection


def is_stateless(ctx: Context) -> bool:
    """Whether the protocol version has no sessions."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


log = logging.getLogger("mindhold.mcp")


@dataclass(slots=True)
class McpConversation:
    """The conversation of one client, from its first request until it disconnects."""

    id: str
    caller: Caller
    session: ServerSession | None  # None if the server can't send to the client
    agents: set[str] = field(default_factory=set)  # agents that stored something
    session_id: str | None = None  # set if it may resume
    log_level: str = "notice"
    sent_notices: set[str] = field(default_factory=set)


def new_name() -> str:
    """Return a new id for a conversation."""
    return uuid4().hex


Ended = Callable[[McpConversation], Awaitable[None]]


class OpenConversations:
    """The open conversations, by connection: an id may come back on another connection."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._open: dict[int, McpConversation] = {}
        self._lone: McpConversation | None = None

    def __len__(self) -> int:
        return len(self._open) + (self._lone is not None)

    def __iter__(self) -> Iterator[McpConversation]:
        return iter([*self._open.values(), *([self._lone] if self._lone else [])])

    def lone(self, caller: Caller) -> McpConversation:
        """Return the only conversation of a process whose client has no sessions."""
        if self._lone is None:
            self._lone = McpConversation(new_name(), caller, None)
        return self._lone

    def of(self, connection: Connection) -> McpConversation | None:
        """Return the conversation of a connection, if it began."""
        return self._open.get(id(connection))

    def begin(self, connection: Connection, conversation: McpConversation) -> McpConversation:
        """Follow a connection until it closes."""
        self._open[id(connection)] = conversation
        connection.exit_stack.push_async_callback(self._end, connection)
        return conversation

    async def end_all(self) -> None:
        """End all conversations now."""
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
    """An open Mindhold with the rights of one caller."""

    running: OpenMindhold
    caller: Caller

    async def run(self, operation: Operation[I, O], /, **fields: Any) -> O:
        """Run an operation for this caller. Raises MindholdError."""
        return await call_operation(self.running, operation, caller=self.caller, **fields)


MODEL_WAIT_SECONDS = 2.0  # from the first question on; then words alone answer until the model is loaded


class LazyEngine:
    """Opens Mindhold once, on `begin` or the first call; after a failure the next call tries again."""

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
        """Return the open Mindhold. Raises what opening raised."""
        if (
            self._task is not None
            and self._task.done()
            and (self._task.cancelled() or self._task.exception())
        ):
            self._task = None
        self.begin()
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def settled(self) -> None:
        """Wait until a begun opening has ended, well or badly."""
        if self._task is not None:
            await asyncio.wait({self._task})

    @property
    def opened(self) -> OpenMindhold | None:
        """Return Mindhold if it is open already."""
        task = self._task
        return (
            task.result() if task and task.done() and not task.cancelled() and not task.exception() else None
        )

    async def close(self) -> None:
        """Close Mindhold; waits until a started opening has ended."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._stack.aclose()

    async def _open(self) -> OpenMindhold:
        running = await self._stack.enter_async_context(self._opener())
        running.warm(wait_seconds=MODEL_WAIT_SECONDS)
        return running


MOST_WAITING = 64


@asynccontextmanager
async def progress_reporter(ctx: Context) -> AsyncIterator[ProgressCallback]:
    """Yield a progress callback. The client gets the reports in order, with growing numbers."""
    if progress_token_from_params(ctx.params) is None:
        yield lambda _step, _done, _total: None
        return
    loop = asyncio.get_running_loop()
    reports: asyncio.Queue[tuple[float, float | None, str]] = asyncio.Queue(MOST_WAITING)
    base, last, step_now = 0.0, 0.0, ""

    def update(step: str, done: int, total: int | None) -> None:
        nonlocal base, last, step_now
        if step != step_now or base + done < last:
            base, step_now = last, step
        value = base + done
        if value <= last and last:
            return
        last = value
        text = f"{step}: {done} of {total}" if total is not None else f"{step}: {done}"
        if not reports.full():
            reports.put_nowait((value, None if total is None else base + total, text))

    async def send_reports() -> None:
        while True:
            await ctx.session.report_progress(*await reports.get())
            reports.task_done()

    def report(step: str, done: int, total: int | None) -> None:
        loop.call_soon_threadsafe(update, step, done, total)

    task = asyncio.create_task(send_reports())
    try:
        yield report
        await asyncio.sleep(0)  # the last report is queued now
        emptied = asyncio.create_task(reports.join())
        await asyncio.wait({emptied, task}, return_when=asyncio.FIRST_COMPLETED)
        emptied.cancel()
    finally:
        task.cancel()
        await asyncio.wait({task})


class ModelCallObserver(Protocol):
    """Is called after every call of a language model."""

    def __call__(self, model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None: ...


def ignore_model_call(model: str, *, outcome: str, tokens_in: int, tokens_out: int) -> None:
    """Ignore a model call, for transports without metrics."""


class ClientModel:
    """The client's language model. The client shows its user the prompt."""

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
        """The name of the model, after the client."""
        client = self._session.client_params
        return f"{client.client_info.name}'s model" if client else "the client's model"

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """Return the text of the answer. Raises ModelError."""
        from mindhold.model.tokens import count_tokens

        prompt_tokens = count_tokens(system) + count_tokens(prompt)
        try:
            text = await self._answer(prompt, system=system, most_tokens=most_tokens)
        except ModelError:
            self._spent("sampling", outcome="failed", tokens_in=prompt_tokens, tokens_out=0)
            raise
        self._spent("sampling", outcome="ok", tokens_in=prompt_tokens, tokens_out=count_tokens(text))
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
    """Return the client's model if it offers one and the settings allow it. The stateless protocol has none."""
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
    """Build the answer to a message that the SDK could not read."""
    value = _invalid_value(error)
    is_raw = isinstance(value, str | bytes | bytearray)
    try:
        message = json.loads(value) if is_raw else value
    except (ValueError, RecursionError):
        return _protocol_error(types.PARSE_ERROR, NO_JSON, None)
    if is_raw:  # Python reads it, the SDK doesn't: lone surrogates, or nested too deeply
        has_surrogates = any(
            0xD800 <= ord(sign) <= 0xDFFF for sign in json.dumps(message, ensure_ascii=False)
        )
        return _protocol_error(types.PARSE_ERROR, NO_UNICODE if has_surrogates else TOO_DEEP, _id_of(message))
    text = NO_BATCHES if isinstance(message, list) else NO_MESSAGE
    return _protocol_error(types.INVALID_REQUEST, text, _id_of(message))


def _protocol_error(code: int, text: str, request: types.RequestId | None) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=text, data={"code": "INVALID_INPUT"})
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _invalid_value(error: ValidationError) -> Any:
    inputs = [value["input"] for value in error.errors(include_url=False)]
    return next((value for value in inputs if isinstance(value, dict) and "jsonrpc" in value), inputs[0])


def _id_of(message: Any) -> types.RequestId | None:
    """Return the id of the request to answer, if it has a usable one."""
    message_id = message.get("id") if isinstance(message, dict) else None
    is_usable = (
        isinstance(message_id, int | str)
        and not isinstance(message_id, bool)
        and str(message_id).isprintable()
    )
    return message_id if is_usable else None
