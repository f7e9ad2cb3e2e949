"""The client of an RLM server (a recursive language model over MCP): its process, its session and its working folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
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

from mindhold.hooks.lease import try_lock
from mindhold.model.errors import RlmConnectionFailed, RlmToolFailed
from mindhold.providers.remote_service import plain_words

MOST = 4_096
_LAST_SECONDS = 1.0  # for its last words to arrive


class ErrorOutput:
    """`stream` is what the program is given; to be closed here once it has it."""

    def __init__(self) -> None:
        ear, mouth = os.pipe()
        self.stream = os.fdopen(mouth, "w", encoding="utf-8")
        self._said = bytearray()
        # A child of the program's may hold on to it for ever; nobody waits for that.
        self._thread = Thread(target=self._listen, args=(ear,), name="rlm-stderr", daemon=True)
        self._thread.start()

    def last_words(self) -> str:
        """The last line that says something, once the program has ended."""
        self.stream.close()
        self._thread.join(_LAST_SECONDS)
        text = bytes(self._said).decode("utf-8", errors="replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def _listen(self, ear: int) -> None:
        try:
            while heard := os.read(ear, MOST):
                self._said += heard
                del self._said[:-MOST]
        finally:
            os.close(ear)


PROBE_SECONDS = 5.0  # within which one that was too slow must say that it is there
NEEDED = "rlm_load_context"  # the tool by which such a server is known
_UNREADABLE = "Failed to parse JSONRPC message from server"


class ConnectionFailed(Exception):
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
        overheard = ErrorOutput()
        reason = "it was ended"
        try:
            async with stdio_client(self._parameters, errlog=overheard.stream) as (read, write):
                overheard.stream.close()
                async with ClientSession(_Messages(read, self), write, client_info=_client()) as session:
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
                unopened = ConnectionFailed(f"{reason}{said}")
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


class _Messages:
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

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Messages:
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


_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
LOCK = ".lock"


class WorkFolder:
    """Blocks: it is the disk. Those of processes that were killed are cleared away by the next."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._lock: int | None = None

    def open(self) -> Path:
        """The folder, made if it isn't there. Raises OSError."""
        if self._folder is None:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clear_others()
            while self._folder is None:
                folder = self._parent / secrets.token_hex(8)
                lock = os.open(_lock_of(folder), _FLAGS, 0o600)
                if try_lock(lock) and _lock_of(folder).exists():  # nobody took it for one that was left
                    self._folder, self._lock = folder, lock
                else:
                    os.close(lock)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder

    def clear(self) -> None:
        """What lies in it; the folders that the server made once stay."""
        if self._folder is None:
            return
        for path in self._folder.glob("*/*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """All of it. Idempotent."""
        folder, self._folder = self._folder, None
        lock, self._lock = self._lock, None
        if folder is None or lock is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        with suppress(OSError):
            _lock_of(folder).unlink()

    def _clear_others(self) -> None:
        for path in self._parent.glob(f"*{LOCK}"):
            with suppress(OSError):
                lock = os.open(path, _FLAGS, 0o600)
                try:
                    ended = try_lock(lock)
                    if ended:
                        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                finally:
                    os.close(lock)
                if ended:
                    path.unlink()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK)


HELD_SECONDS = 60.0  # after all tries failed, in which nobody waits for another
DATA_DIR = "RLM_DATA_DIR"  # by which such a server is told where to write
# They ask a model, or run a program; the others do nothing that takes long.
SLOW = frozenset(("rlm_sub_query", "rlm_sub_query_batch", "rlm_auto_analyze", "rlm_exec"))
QUICK_SECONDS = 20.0
HANGS = "The RLM server hangs: see whether it works by itself."
# Windows has other encodings by default, and such servers don't say which they mean.
UTF8 = {"PYTHONUTF8": "1"}
Pause = Callable[[float], Awaitable[None]]


class McpRlm:
    """Calls may come at the same time; the protocol tells their answers apart.

    `environ` is all that the server's environment has, but for where it writes: what it is given is nobody else's, so that is
    in `desk`, whatever is said there.
    """

    name = "rlm"

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        start_seconds: float = 30.0,
        call_seconds: float = 120.0,
        tries: int = 3,
        environ: Mapping[str, str] | None = None,
        desk: Path | None = None,
        advice: str = "",
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._command = tuple(command)
        self._cwd = cwd
        self._start_seconds = start_seconds
        self._call_seconds = call_seconds
        self._tries = tries
        self._environ = dict(environ or {})
        self._desk = None if desk is None else WorkFolder(desk)
        self._advice = advice or f"Ensure that this program starts it: {self._command[0]}"
        self._pause = pause
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._held: tuple[float, RlmConnectionFailed] | None = None
        self._calls = 0  # that are under way
        self._closed = False

    def doubt(self) -> str:
        if self._cwd is not None and not self._cwd.is_dir():
            return f"There is no folder {self._cwd}."
        program = self._command[0] if self._command else ""
        inside = self._cwd is not None and (self._cwd / program).is_file()
        if not program or (not inside and shutil.which(program, path=self._environ.get("PATH")) is None):
            return f"There is no program {program!r}."
        return ""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Raises RlmConnectionFailed, RlmToolFailed."""
        connection = await self._connected()
        self._calls += 1
        try:
            quick = tool not in SLOW and self._call_seconds > QUICK_SECONDS
            answer = await connection.call(
                tool,
                arguments,
                seconds=QUICK_SECONDS if quick else self._call_seconds,
                advice=HANGS if quick else "Raise rlm.timeout_seconds.",
            )
        finally:
            self._calls -= 1
        return read(tool, answer)

    async def tidy(self) -> None:
        """Raises nothing: what stays goes at the end."""
        if self._desk is not None and not self._calls:
            await asyncio.to_thread(self._desk.clear)

    async def close(self) -> None:
        """The program is ended, and waited for; what it wrote down of ours goes."""
        self._closed = True
        try:
            if self._connection is not None:
                await self._connection.close()
        finally:
            if self._desk is not None:
                self._desk.close()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._held is not None and time.monotonic() < self._held[0]:
                raise RlmConnectionFailed(self._held[1].message, advice=self._held[1].advice)
            reason = "it was closed"
            for attempt in range(self._tries):
                if attempt:
                    await self._pause(2.0 ** (attempt - 1))
                if self._connection is not None:  # never two at once
                    await self._connection.close()
                if self._closed:
                    break
                try:
                    return await self._open()
                except (ConnectionFailed, OSError) as error:
                    reason = str(error)
                    if (
                        isinstance(error, ConnectionFailed) and error.mute
                    ) or self.doubt():  # trying again won't help
                        break
            raise self._unconnected(reason, attempt + 1)

    async def _open(self) -> Connection:
        """Raises Unopened, OSError for a desk that can't be made."""
        environ = self._environ | UTF8
        if self._desk is not None:
            environ[DATA_DIR] = str(await asyncio.to_thread(self._desk.open))
        self._connection = Connection(
            StdioServerParameters(
                command=self._command[0],
                args=list(self._command[1:]),
                env=environ,
                cwd=self._cwd,
                encoding_error_handler="replace",
            ),
            start_seconds=self._start_seconds,
        )
        await self._connection.open()
        return self._connection

    def _unconnected(self, reason: str, tried: int) -> RlmConnectionFailed:
        tries = f"{tried} {'try' if tried == 1 else 'tries'}"
        error = RlmConnectionFailed(
            f"Could not connect to the RLM server in {tries}: {plain_words(reason, ())}.", advice=self._advice
        )
        self._held = (time.monotonic() + HELD_SECONDS, error)
        return error


def read(tool: str, answer: types.CallToolResult) -> Any:
    """What it says: JSON where it is that, else text. Raises RlmToolFailed for what says that it failed."""
    text = "\n".join(one.text for one in answer.content if isinstance(one, types.TextContent))
    value: Any = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    if not text and answer.structured_content is not None:
        value = answer.structured_content
    if isinstance(value, Mapping) and isinstance(value.get("error"), str):
        said = value.get("message")
        raise RlmToolFailed(_failed(tool, value["error"], said if isinstance(said, str) else ""))
    if answer.is_error:
        raise RlmToolFailed(_failed(tool, text, ""))
    return value


def _failed(tool: str, code: str, message: str) -> str:
    told = ": ".join(words for one in (code, message) if (words := plain_words(one, ())))
    return f"{tool} failed: {told or 'it says no more'}."
