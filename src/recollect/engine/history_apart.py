"""Long work on transcripts in a thread of its own: the event loop and what else uses threads don't wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import TypeVar

from recollect.ports.transcripts import Check

T = TypeVar("T")


async def apart(work: Callable[[Check], T]) -> T:
    """One such work at a time; `work` ends at its next check when the caller is cancelled."""
    ended = Event()

    def check() -> None:
        if ended.is_set():
            raise CancelledError

    try:
        return await asyncio.get_running_loop().run_in_executor(_thread(), work, check)
    finally:
        ended.set()


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")
