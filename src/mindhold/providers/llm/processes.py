"""Running a program: what it says is bounded, and it never outlives whoever waits for it, nor do its children."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.providers.llm.guard import guarded

MOST_OUTPUT = 4 * 1024 * 1024
_LAST_SECONDS = 2.0  # for what it said last to arrive
_IN, _OUT, _ERR = 0, 1, 2

if sys.platform == "win32":
    _APART: dict[str, Any] = {
        "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    }
else:
    _APART: dict[str, Any] = {"start_new_session": True}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program said."""

    status: int
    out: str
    err: str


class Endless(Exception):
    """It said more than anybody reads."""


async def run(command: Sequence[str], *, said: str, folder: Path, environ: Mapping[str, str]) -> Ran:
    """Without a shell; `said` goes to its standard input. Raises OSError, Endless.

    It has answered when it ends; what it left running is ended, and doesn't keep anybody waiting.
    """
    async with guarded(_APART) as guard:
        transport, heard = await asyncio.get_running_loop().subprocess_exec(
            _Heard, *command, cwd=folder, env=dict(environ), **_APART
        )
        guard(transport.get_pid())
        return await _heard(transport, heard, said)


async def _heard(transport: asyncio.SubprocessTransport, heard: _Heard, said: str) -> Ran:
    try:
        _say(transport, said)
        await asyncio.wait((heard.exited, heard.endless), return_when=asyncio.FIRST_COMPLETED)
        await _end(transport, heard)
        await asyncio.wait((heard.silent,), timeout=_LAST_SECONDS)
        if heard.endless.done():
            raise Endless
        return Ran(transport.get_returncode() or 0, heard.text(_OUT), heard.text(_ERR))
    finally:
        await _end(transport, heard)
        transport.close()


class _Heard(asyncio.SubprocessProtocol):
    """What a program has said so far, and whether it goes on."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()  # nobody holds its outputs any more
        self.endless: asyncio.Future[None] = loop.create_future()
        self._said = {_OUT: bytearray(), _ERR: bytearray()}
        self._open = {_OUT, _ERR}

    def text(self, output: int) -> str:
        return self._said[output].decode("utf-8", errors="replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if len(self._said[fd]) + len(data) <= MOST_OUTPUT:
            self._said[fd] += data
        else:
            _tell(self.endless)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _tell(self.silent)

    def process_exited(self) -> None:
        _tell(self.exited)


def _tell(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _say(transport: asyncio.SubprocessTransport, said: str) -> None:
    """All of it, as it listens; nothing where it doesn't care to."""
    pipe = transport.get_pipe_transport(_IN)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(said.encode())
        pipe.close()


if sys.platform == "win32":

    async def _end(transport: asyncio.SubprocessTransport, heard: _Heard) -> None:
        """It and all that it started; what is left of one that ended by itself can't be found by its number."""
        if heard.exited.done():
            return
        killer = await asyncio.create_subprocess_exec(
            *("taskkill", "/F", "/T", "/PID", str(transport.get_pid())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=subprocess.CREATE_NO_WINDOW,
        )
        await asyncio.wait((asyncio.create_task(killer.wait()),), timeout=_LAST_SECONDS)
        with suppress(ProcessLookupError):
            transport.kill()
        await asyncio.wait((heard.exited,))

else:

    async def _end(transport: asyncio.SubprocessTransport, heard: _Heard) -> None:
        """It and all that it started, also where it has ended before them: the group bears its number on."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        await asyncio.wait((heard.exited,))
