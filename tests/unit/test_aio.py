"""Tasks are cancelled until they have ended, and a caller's own cancellation is kept."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from mindhold import aio
from mindhold.aio import cancel_tasks, run_concurrently


async def stubborn(times: int) -> str:
    """Go on after so many cancellations, as a task does that loses them."""
    for _ in range(times):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()
    return "never"


async def test_a_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "CANCEL_SECONDS", 0.001)
    tasks = [asyncio.create_task(stubborn(times)) for times in (0, 1, 3)]
    await asyncio.sleep(0)
    await cancel_tasks(*tasks)
    assert all(task.cancelled() for task in tasks)


async def test_what_has_ended_keeps_its_result() -> None:
    task = asyncio.create_task(asyncio.sleep(0, "done"))
    await task
    await cancel_tasks(task)
    assert task.result() == "done"


async def test_work_beside_a_body_that_fails_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "CANCEL_SECONDS", 0.001)
    with pytest.raises(ZeroDivisionError):
        async with run_concurrently(stubborn(2)) as task:
            raise ZeroDivisionError
    assert task.cancelled()


async def test_a_caller_that_is_cancelled_meanwhile_stays_cancelled() -> None:
    task = asyncio.create_task(stubborn(1))
    await asyncio.sleep(0)
    caller = asyncio.create_task(cancel_tasks(task))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0)
    task.cancel()
