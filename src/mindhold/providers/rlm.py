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
from mindhold.providers.remote_service import one_line

MOST_ERROR_OUTPUT = 4_096
_LAST_OUTPUT_SECONDS = 1.0  # for the last output to arrive


class ErrorOutput:
    """Collects the last output of a program on stderr. `stream` goes to the program; close it here after the start."""

    def __init__(self) -> None:
        read_end, write_end = os.pipe()
        self.stream = os.fdopen(write_end, "w", encoding="utf-8")
        self._output = bytearray()
        # A child of the program may keep the pipe open for ever; nobody waits for it.
        self._thread = Thread(target=self._collect, args=(read_end,), name="rlm-stderr", daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """Return the last line that isn't blank, once the program has ended."""
        self.stream.close()
        self._thread.join(_LAST_OUTPUT_SECONDS)
        text = bytes(self._output).decode("utf-8", errors="replace")
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def _collect(self, read_end: int) -> None:
        try:
            while chunk := os.read(read_end, MOST_ERROR_OUTPUT):
                self._output += chunk
                del self._output[:-MOST_ERROR_OUTPUT]
        finally:
            os.close(read_end)


PROBE_SECONDS = 5.0  # within which a server whose call timed out must answer a ping
REQUIRED_TOOL = "rlm_load_context"  # the tool that identifies an RLM server
_UNREADABLE = "Failed to parse JSONRPC message from server"


class ConnectionFailed(Exception):
    """The server can't be used; the text says why. `mute`: it doesn't answer at all, so a retry won't help."""

    mute = False


class Connection:
    """One connection to a server process. It can be opened once."""

    def __init__(self, parameters: StdioServerParameters, *, start_seconds: float) -> None:
        self._parameters = parameters
        self._start_seconds = start_seconds
        self._mute = False
        self._scope = anyio.CancelScope()
        self._ended = False
        self._session: ClientSession | None = None
        self._ready: asyncio.Future[ClientSession] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._session is not None and not self._ended

    async def open(self) -> None:
        """Start the server and greet it. Raises ConnectionFailed after the process has ended.

        A caller that is cancelled meanwhile doesn't wait for the end of the process.
        """
        logging.getLogger("mcp.client.stdio").addFilter(_is_loggable)
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run_session(self._ready), name="rlm-server")
        try:
            await asyncio.shield(self._ready)
        except asyncio.CancelledError:
            self._ready.add_done_callback(_consume_exception)
            self.end()
            raise

    def end(self) -> None:
        """End the process without waiting for it."""
        self._ended = True
        self._scope.cancel()

    def lost(self) -> None:
        """Note that the server closed its output; during the greeting, the greeting fails by itself."""
        self._ended = True
        if self._session is not None:
            self._scope.cancel()

    async def close(self) -> None:
        """End the process and wait for it, also when cancelled meanwhile. Idempotent."""
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
        """Call a tool. Raises RlmToolFailed; `advice` is for a call that takes longer than `seconds`."""
        if self._session is None:
            raise _ended_error(tool)
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            with anyio.fail_after(seconds):
                return await self._session.send_request(
                    types.CallToolRequest(params=params), types.CallToolResult
                )
        except TimeoutError as error:
            await self._probe(self._session, min(PROBE_SECONDS, seconds))
            raise _timeout_error(tool, seconds, advice) from error
        except MCPError as error:
            if self._ended:
                raise _ended_error(tool) from error
            raise RlmToolFailed(f"{tool} failed: {one_line(error.message)}.") from error
        except ValidationError as error:
            raise RlmToolFailed(f"{tool} answered what is no tool's answer.") from error

    async def _probe(self, session: ClientSession, seconds: float) -> None:
        """Ping the server; one that doesn't answer hangs and is ended, so that the next call starts another."""
        with anyio.move_on_after(seconds):
            try:
                await session.send_request(types.PingRequest(), types.EmptyResult)
                return
            except (MCPError, ValidationError):
                pass
        self.end()

    async def _run_session(self, ready: asyncio.Future[ClientSession]) -> None:
        from mindhold import __version__

        client = types.Implementation(name="mindhold", version=__version__)
        errors = ErrorOutput()
        reason = "it was ended"
        try:
            async with stdio_client(self._parameters, errlog=errors.stream) as (read, write):
                errors.stream.close()
                async with ClientSession(_Messages(read, self), write, client_info=client) as session:
                    with self._scope:
                        reason = await self._greet(session)
                        if not reason:
                            self._session = session
                            ready.set_result(session)
                            await anyio.sleep_forever()
        except (OSError, ValueError) as error:
            reason = one_line(_describe_error(error))
        except BaseExceptionGroup as group:
            if group.split(Exception)[1] is not None:
                raise
            reason = one_line(str(group.exceptions[0]))
        finally:
            self._ended = True
            final_line = await asyncio.shield(asyncio.to_thread(errors.last_line))
            if not ready.done():
                detail = f"; it said: {one_line(final_line)}" if final_line else ""
                failure = ConnectionFailed(f"{reason}{detail}")
                failure.mute = self._mute
                ready.set_exception(failure)

    async def _greet(self, session: ClientSession) -> str:
        """Greet the server; return why it can't be used, or an empty string."""
        try:
            with anyio.fail_after(self._start_seconds):
                await session.initialize()
                reason = await _check_tools(session)
            return "it ended at once" if self._ended else reason
        except TimeoutError:
            self._mute = True
            return f"it didn't answer within {self._start_seconds:g} seconds"
        except MCPError as error:
            return "it ended at once" if self._ended else one_line(error.message)
        except (RuntimeError, ValidationError) as error:
            return f"it speaks no MCP that is known here: {one_line(str(error))}"


class _Messages:
    """The server's messages; their end is the end of the connection."""

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


async def _check_tools(session: ClientSession) -> str:
    try:
        tool_list = await session.list_tools()
    except MCPError:  # the server doesn't list its tools
        return ""
    names = {tool.name for tool in tool_list.tools}
    is_rlm = REQUIRED_TOOL in names or tool_list.next_cursor is not None
    return "" if is_rlm else f"it is no RLM server: it has no tool {REQUIRED_TOOL}"


def _describe_error(error: OSError | ValueError) -> str:
    """Describe the error; str() of an OSError would show `[Errno 2] … PosixPath('…')`."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _timeout_error(tool: str, seconds: float, advice: str) -> RlmToolFailed:
    error = RlmToolFailed(f"{tool} took longer than {seconds:g} seconds.", advice=advice)
    error.slow = True
    return error


def _ended_error(tool: str) -> RlmToolFailed:
    error = RlmToolFailed(f"The RLM server ended while {tool} was under way.")
    error.gone = True
    return error


def _is_loggable(record: logging.LogRecord) -> bool:
    """Whether the record may be logged: a warning about an unreadable line would quote the conversation."""
    return record.msg != _UNREADABLE


def _consume_exception(future: asyncio.Future[ClientSession]) -> None:
    if not future.cancelled():
        future.exception()


_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
LOCK_SUFFIX = ".lock"


class WorkFolder:
    """The folder that the server writes to, with a lock beside it. Methods block.

    The next process removes the folders of processes that were killed.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None
        self._lock: int | None = None

    def open(self) -> Path:
        """Create the folder if needed and return it. Raises OSError."""
        if self._folder is None:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clear_others()
            while self._folder is None:
                folder = self._parent / secrets.token_hex(8)
                lock = os.open(_lock_path(folder), _FLAGS, 0o600)
                # Another process may have just removed it as abandoned.
                if try_lock(lock) and _lock_path(folder).exists():
                    self._folder, self._lock = folder, lock
                else:
                    os.close(lock)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder

    def clear(self) -> None:
        """Delete the contents; the folders that the server made at its start stay."""
        if self._folder is None:
            return
        for path in self._folder.glob("*/*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """Delete the folder and its lock. Idempotent."""
        folder, self._folder = self._folder, None
        lock, self._lock = self._lock, None
        if folder is None or lock is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        with suppress(OSError):
            _lock_path(folder).unlink()

    def _clear_others(self) -> None:
        for path in self._parent.glob(f"*{LOCK_SUFFIX}"):
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


def _lock_path(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK_SUFFIX)


HOLD_SECONDS = 60.0  # after all attempts failed, calls fail at once for this long
DATA_DIR_VARIABLE = "RLM_DATA_DIR"  # the variable that tells the server where to write
# These tools call a model or run a program; the others are quick.
SLOW_TOOLS = frozenset(("rlm_sub_query", "rlm_sub_query_batch", "rlm_auto_analyze", "rlm_exec"))
QUICK_SECONDS = 20.0
HANGS_ADVICE = "The RLM server hangs: see whether it works by itself."
# Windows has another default encoding, and RLM servers don't set one.
UTF8_ENVIRON = {"PYTHONUTF8": "1"}
Pause = Callable[[float], Awaitable[None]]


class McpRlm:
    """An RlmServer that is a child process speaking MCP over stdio. Calls may overlap.

    `environ` is the server's whole environment, except for the folder that it writes to: that is always inside `work_dir`.
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
        work_dir: Path | None = None,
        advice: str = "",
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._command = tuple(command)
        self._cwd = cwd
        self._start_seconds = start_seconds
        self._call_seconds = call_seconds
        self._tries = tries
        self._environ = dict(environ or {})
        self._work_folder = None if work_dir is None else WorkFolder(work_dir)
        self._advice = advice or f"Ensure that this program starts it: {self._command[0]}"
        self._pause = pause
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._failure: tuple[float, RlmConnectionFailed] | None = None
        self._calls = 0  # calls that are running
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
        connection = await self._connect()
        self._calls += 1
        try:
            quick = tool not in SLOW_TOOLS and self._call_seconds > QUICK_SECONDS
            answer = await connection.call(
                tool,
                arguments,
                seconds=QUICK_SECONDS if quick else self._call_seconds,
                advice=HANGS_ADVICE if quick else "Raise rlm.timeout_seconds.",
            )
        finally:
            self._calls -= 1
        return parse_answer(tool, answer)

    async def tidy(self) -> None:
        """Delete what the server wrote, unless a call is running. Raises nothing."""
        if self._work_folder is not None and not self._calls:
            await asyncio.to_thread(self._work_folder.clear)

    async def close(self) -> None:
        """End the program, wait for it, and delete what it wrote."""
        self._closed = True
        try:
            if self._connection is not None:
                await self._connection.close()
        finally:
            if self._work_folder is not None:
                self._work_folder.close()

    async def _connect(self) -> Connection:
        async with self._connecting:
            if self._connection is not None and self._connection.alive:
                return self._connection
            if self._failure is not None and time.monotonic() < self._failure[0]:
                raise RlmConnectionFailed(self._failure[1].message, advice=self._failure[1].advice)
            reason = "it was closed"
            for attempt in range(self._tries):
                if attempt:
                    await self._pause(2.0 ** (attempt - 1))
                if self._connection is not None:  # never two servers at once
                    await self._connection.close()
                if self._closed:
                    break
                try:
                    return await self._open()
                except (ConnectionFailed, OSError) as error:
                    reason = str(error)
                    hopeless = isinstance(error, ConnectionFailed) and error.mute
                    if hopeless or self.doubt():
                        break
            raise self._connection_error(reason, attempt + 1)

    async def _open(self) -> Connection:
        """Start a server and connect. Raises ConnectionFailed, or OSError for a work folder that can't be made."""
        environ = self._environ | UTF8_ENVIRON
        if self._work_folder is not None:
            environ[DATA_DIR_VARIABLE] = str(await asyncio.to_thread(self._work_folder.open))
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

    def _connection_error(self, reason: str, attempts: int) -> RlmConnectionFailed:
        tries = f"{attempts} {'try' if attempts == 1 else 'tries'}"
        error = RlmConnectionFailed(
            f"Could not connect to the RLM server in {tries}: {one_line(reason)}.", advice=self._advice
        )
        self._failure = (time.monotonic() + HOLD_SECONDS, error)
        return error


def parse_answer(tool: str, answer: types.CallToolResult) -> Any:
    """Return the tool's answer, parsed where it is JSON. Raises RlmToolFailed for an answer that reports a failure."""
    text = "\n".join(item.text for item in answer.content if isinstance(item, types.TextContent))
    value: Any = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    if not text and answer.structured_content is not None:
        value = answer.structured_content
    if isinstance(value, Mapping) and isinstance(value.get("error"), str):
        message = value.get("message")
        raise RlmToolFailed(_failure_text(tool, value["error"], message if isinstance(message, str) else ""))
    if answer.is_error:
        raise RlmToolFailed(_failure_text(tool, text, ""))
    return value


def _failure_text(tool: str, code: str, message: str) -> str:
    details = ": ".join(line for part in (code, message) if (line := one_line(part)))
    return f"{tool} failed: {details or 'it says no more'}."
