"""Short work that one process does while the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from mindhold.engine.claims import claim
from mindhold.engine.core import Engine

HELD, RENEWED = timedelta(seconds=5), 1.0  # by one that died; seconds between signs of life
PATIENCE, PAUSE = 80, 0.1  # looks whether another is done, seconds between them


async def _pause() -> None:
    await asyncio.sleep(RENEWED)


@asynccontextmanager
async def alone(engine: Engine, work: str) -> AsyncIterator[bool]:
    """Whether the work is this caller's, after a while at the latest. Raises the store's errors."""
    for _ in range(PATIENCE):
        async with claim(engine, work, pause=_pause, held=HELD) as mine:
            if mine:
                yield True
                return
        await asyncio.sleep(PAUSE)
    yield False
