"""Running a program: what it says is bounded, and it never outlives whoever waits for it, nor do its children."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_OUTPUT = 4 * 1024 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program said."""

    status: int
    out: str
    err: str


class Endless(Exception):
    """It said more than anybody reads."""


async def run(command: Sequence[str], *, said: str, folder: Path, environ: Mapping[str, str]) -> Ran:
    """Without a shell; `said` goes to its standard input. Raises OSError, Endless."""
    apart = {"creationflags": 0x200 | 0x08000000} if sys.platform == "win32" else {"start_new_session": True}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=dict(environ),
        **apart,
    )
    work = [
        asyncio.create_task(one)
        for one in (_read(process.stdout), _read(process.stderr), _write(process.stdin, said))
    ]
    try:
        out, err, _ = await asyncio.gather(*work)
        status = await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)
        for one in work:
            one.cancel()
    return Ran(status, str(out), str(err))


async def _write(pipe: asyncio.StreamWriter | None, said: str) -> str:
    if pipe is not None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it doesn't care to listen
            pipe.write(said.encode())
            await pipe.drain()
        pipe.close()
    return ""


async def _read(pipe: asyncio.StreamReader | None) -> str:
    content = bytearray()
    while pipe is not None and (piece := await pipe.read(_PIECE)):
        content += piece
        if len(content) > MOST_OUTPUT:
            raise Endless
    return content.decode("utf-8", errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """It and all that it started."""
    if sys.platform == "win32":
        killer = await asyncio.create_subprocess_exec(
            "taskkill", "/F", "/T", "/PID", str(process.pid), stdout=asyncio.subprocess.DEVNULL
        )
        await killer.wait()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
