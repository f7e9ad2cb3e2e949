"""A recursive language model's server, started by a command and asked over MCP: once for the process, and again when it has
ended."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.stdio import StdioServerParameters

from mindhold.model.errors import RlmConnectionFailed, RlmToolFailed
from mindhold.providers.remote.line import plain_words
from mindhold.providers.rlm.connection import Connection, Unopened
from mindhold.providers.rlm.desk import Desk

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
        self._desk = None if desk is None else Desk(desk)
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
                except (Unopened, OSError) as error:
                    reason = str(error)
                    if (
                        isinstance(error, Unopened) and error.mute
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
