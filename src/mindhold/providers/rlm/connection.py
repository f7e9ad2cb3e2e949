"""One running server and the session with it.

The library's contexts must be entered and left in one task. So a task owns them, from the start of the program to its end;
who calls uses the session from outside, and may give up at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mindhold.model.errors import RlmToolFailed
from mindhold.providers.remote.line import plain_words
from mindhold.providers.rlm.overheard import Overheard

PROBE_SECONDS = 5.0  # within which one that was too slow must say that it is there
NEEDED = "rlm_load_context"  # the tool by which such a server is known
_UNREADABLE = "Failed to parse JSONRPC message from server"


class Unopened(Exception):
    """It can't be talked to; says why. `mute`: it says nothing, and wouldn't the next time."""

    mute = False


class Connection:
    """Opened once, and not again."""

    def __init__(self, parameters: StdioServerParameters, *, start_seconds: float) -> None:
        self._parameters = parameters
        self._start_seconds = start_seconds
        self._mute = False
        self._scope = anyio.CancelScope()
        self._over = False
        self._session: ClientSession | None = None
        self._ready: asyncio.Future[ClientSession] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._session is not None and not self._over

    async def open(self) -> None:
        """Raises Unopened, once nothing of it is left. Who is cancelled meanwhile leaves it ending."""
        logging.getLogger("mcp.client.stdio").addFilter(_is_news)
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(self._ready), name="rlm-server")
        try:
            await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            self._ready.add_done_callback(_seen)
            self.end()
            raise

    def end(self) -> None:
        """Let it end, without waiting for that."""
        self._over = True
        self._scope.cancel()

    def lost(self) -> None:
        """It says nothing any more; while it is being greeted, the greeting fails by itself."""
        self._over = True
        if self._session is not None:
            self._scope.cancel()

    async def close(self) -> None:
        """End it, and wait until the program has, also when cancelled meanwhile. Idempotent."""
        self.end()
        if self._task is None:
            return
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            await asyncio.wait([self._task])
            raise

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, seconds: float, advice: str = ""
    ) -> types.CallToolResult:
        """Raises RlmToolFailed; the advice is for whoever finds the seconds too few."""
        if self._session is None:
            raise _gone(tool)
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            with anyio.fail_after(seconds):
                return await self._session.send_request(
                    types.CallToolRequest(params=params), types.CallToolResult
                )
        except TimeoutError as error:
            await self._probe(self._session, min(PROBE_SECONDS, seconds))
            raise _late(tool, seconds, advice) from error
        except MCPError as error:
            if self._over:
                raise _gone(tool) from error
            raise RlmToolFailed(f"{tool} failed: {plain_words(error.message, ())}.") from error
        except ValidationError as error:
            raise RlmToolFailed(f"{tool} answered what is no tool's answer.") from error

    async def _probe(self, session: ClientSession, seconds: float) -> None:
        """Who doesn't answer this either hangs, and is ended: the next call starts another."""
        with anyio.move_on_after(seconds):
            try:
                await session.send_request(types.PingRequest(), types.EmptyResult)
                return
            except (MCPError, ValidationError):
                pass
        self.end()

    async def _own(self, ready: asyncio.Future[ClientSession]) -> None:
        overheard = Overheard()
        reason = "it was ended"
        try:
            async with stdio_client(self._parameters, errlog=overheard.stream) as (read, write):
                overheard.stream.close()
                async with ClientSession(_Heard(read, self), write, client_info=_client()) as session:
                    with self._scope:
                        reason = await self._greeted(session)
                        if not reason:
                            self._session = session
                            ready.set_result(session)
                            await anyio.sleep_forever()
        except (OSError, ValueError) as error:
            reason = plain_words(_told(error), ())
        except BaseExceptionGroup as group:
            if group.split(Exception)[1] is not None:
                raise
            reason = plain_words(str(group.exceptions[0]), ())
        finally:
            self._over = True
            last = await asyncio.shield(asyncio.to_thread(overheard.last_words))
            if not ready.done():
                said = f"; it said: {plain_words(last, ())}" if last else ""
                unopened = Unopened(f"{reason}{said}")
                unopened.mute = self._mute
                ready.set_exception(unopened)

    async def _greeted(self, session: ClientSession) -> str:
        """Why it isn't one to work with; empty when it is."""
        try:
            with anyio.fail_after(self._start_seconds):
                await session.initialize()
                reason = await _lacking(session)
            return "it ended at once" if self._over else reason
        except TimeoutError:
            self._mute = True
            return f"it didn't answer within {self._start_seconds:g} seconds"
        except MCPError as error:
            return "it ended at once" if self._over else plain_words(error.message, ())
        except (RuntimeError, ValidationError) as error:
            return f"it speaks no MCP that is known here: {plain_words(str(error), ())}"


class _Heard:
    """What the server says; the end of it is the end of the connection."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], connection: Connection) -> None:
        self._stream = stream
        self._connection = connection

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._connection.lost()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Heard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _lacking(session: ClientSession) -> str:
    try:
        listed = await session.list_tools()
    except MCPError:  # it doesn't say
        return ""
    names = {tool.name for tool in listed.tools}
    known = NEEDED in names or listed.next_cursor is not None
    return "" if known else f"it is no RLM server: it has no tool {NEEDED}"


def _client() -> types.Implementation:
    from mindhold import __version__

    return types.Implementation(name="mindhold", version=__version__)


def _told(error: OSError | ValueError) -> str:
    """An OSError says `[Errno 2] … PosixPath('…')` of a path."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _late(tool: str, seconds: float, advice: str) -> RlmToolFailed:
    error = RlmToolFailed(f"{tool} took longer than {seconds:g} seconds.", advice=advice)
    error.slow = True
    return error


def _gone(tool: str) -> RlmToolFailed:
    error = RlmToolFailed(f"The RLM server ended while {tool} was under way.")
    error.gone = True
    return error


def _is_news(record: logging.LogRecord) -> bool:
    """Lines that are no messages are passed over, and quoting them would put what was said into the log."""
    return record.msg != _UNREADABLE


def _seen(future: asyncio.Future[ClientSession]) -> None:
    if not future.cancelled():
        future.exception()
