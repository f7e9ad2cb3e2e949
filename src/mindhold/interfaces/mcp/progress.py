"""Progress from an operation, which tells it synchronously and from any thread, to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.shared.jsonrpc_dispatcher import progress_token_from_params

from mindhold.interfaces.mcp.callers import Context
from mindhold.interfaces.running import Told

MOST_WAITING = 64


@asynccontextmanager
async def telling(ctx: Context) -> AsyncIterator[Told]:
    """A function to tell progress to; what it was told reaches the client in order, and always grows."""
    if progress_token_from_params(ctx.params) is None:
        yield lambda _step, _done, _total: None
        return
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, float | None, str]] = asyncio.Queue(MOST_WAITING)
    base, last, step_now = 0.0, 0.0, ""

    def note(step: str, done: int, total: int | None) -> None:
        nonlocal base, last, step_now
        if step != step_now or base + done < last:
            base, step_now = last, step
        value = base + done
        if value <= last and last:
            return
        last = value
        words = f"{step}: {done} of {total}" if total is not None else f"{step}: {done}"
        if not waiting.full():
            waiting.put_nowait((value, None if total is None else base + total, words))

    async def pass_on() -> None:
        while True:
            await ctx.session.report_progress(*await waiting.get())
            waiting.task_done()

    def tell(step: str, done: int, total: int | None) -> None:
        loop.call_soon_threadsafe(note, step, done, total)

    task = asyncio.create_task(pass_on())
    try:
        yield tell
        await asyncio.sleep(0)  # what was told last is noted now
        emptied = asyncio.create_task(waiting.join())
        await asyncio.wait({emptied, task}, return_when=asyncio.FIRST_COMPLETED)
        emptied.cancel()
    finally:
        task.cancel()
        await asyncio.wait({task})
