"""Doing one thing while another is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """The work runs beside the body and is done when it ends; if the body fails, the work is given up."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)  # it begins before this thread turns to the body
    try:
        yield task
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})  # and not itself: that would swallow a cancellation of the caller
