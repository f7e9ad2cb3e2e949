"""Writing the index beside those who keep it current: after them, not across them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mindhold.engine.core import Engine
from mindhold.engine.history.turn import turn
from mindhold.model.errors import StoreBusy, StoreReadOnly

PATIENCE, PAUSE = 300, 0.1  # looks whether another is done, seconds between them


@asynccontextmanager
async def in_turn(engine: Engine) -> AsyncIterator[None]:
    """Raises StoreBusy where another process indexes for very long, StoreReadOnly."""
    for _ in range(PATIENCE):
        held = turn(engine.policy.home)
        try:
            mine = held.__enter__()
        except OSError as error:
            raise StoreReadOnly(f"The index can't be locked: {error.strerror}.") from error
        try:
            if mine:
                yield
                return
        finally:
            held.__exit__(None, None, None)
        await asyncio.sleep(PAUSE)
    raise StoreBusy("Another process is indexing past conversations.", advice="Try again when it is done.")
