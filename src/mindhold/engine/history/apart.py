"""Long work on transcripts in a thread of its own: the event loop and what else uses threads don't wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import TypeVar

from mindhold.ports.transcripts import Check

T = TypeVar("T")


async def apart(work: Callable[[Check], T]) -> T:
    """One such work at a time; when the caller is cancelled `work` ends at its next check, and the caller after that."""
    ended = Event()

    def check() -> None:
        if ended.is_set():
            raise CancelledError

    submitted = _thread().submit(work, check)
    future = asyncio.wrap_future(submitted)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        ended.set()
        if not submitted.cancel():
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # nobody is left to tell
        raise


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")
