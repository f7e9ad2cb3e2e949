"""What ends a program together with the process that waits for it, also when that is killed and can't do it itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

# It is told a program's number, and hears nothing more as long as we live. The end of its input is our end.
_GUARD = """
import os, signal, subprocess, sys
named = sys.stdin.buffer.read().split()
for number in map(int, named):
    try:
        if os.name == "nt":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(number)], creationflags=0x08000000)
        else:
            os.killpg(number, signal.SIGKILL)
    except OSError:
        pass
"""


@asynccontextmanager
async def guarded(apart: Mapping[str, Any]) -> AsyncIterator[Callable[[int], None]]:
    """Groups whose numbers are told meanwhile end with this process, however that ends; `apart` is how to start apart from it.

    A machine that has no room for a guard does without.
    """
    guard = None
    with suppress(OSError):
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _GUARD),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **apart,
        )
    try:
        yield lambda number: _tell(guard, number)
    finally:
        if guard is not None:
            with suppress(ProcessLookupError):
                guard.kill()
            await guard.wait()


def _tell(guard: asyncio.subprocess.Process | None, number: int) -> None:
    if guard is not None and guard.stdin is not None:
        guard.stdin.write(b"%d\n" % number)
