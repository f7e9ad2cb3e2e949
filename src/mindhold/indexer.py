"""The composition root of what indexes conversations in the background: words, then vectors, and it goes.

One holds the lease of a home, at low priority and for a bounded time. What it didn't come to, the next one does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING

from mindhold.bare.detached import LAST_SECONDS, end_at, step_back
from mindhold.bare.lease import indexer_file, lease

if TYPE_CHECKING:
    from mindhold.settings import LoadedSettings

log = logging.getLogger("mindhold.indexer")
LONGEST_SECONDS = 1_800.0
BUSY_SECONDS = 30.0  # that it waits for another one who indexes
LOOK_SECONDS = 0.5
MOST_PROCESSES = 2
PASSAGES = 256


def run(home: str, handed: int | None = None) -> int:
    """Index all that isn't yet, unless another is at it. `handed` is a descriptor that holds the lease already."""
    begun = time.monotonic()
    try:
        with lease(home, handed, path=indexer_file(home)) as mine:
            if mine:
                end_at(begun + LONGEST_SECONDS)
                step_back()
                _run(home, until=begun + LONGEST_SECONDS - LAST_SECONDS)
    except OSError:  # a home that can't be written: there is nobody to tell
        pass
    return 0


def _run(home: str, *, until: float) -> None:
    from mindhold.interfaces.logs import logging_to
    from mindhold.model.errors import MindholdError
    from mindhold.settings import load_settings

    try:
        loaded = load_settings({"home": home})
        with logging_to(loaded.settings):
            asyncio.run(_work(loaded, until=until))
    except MindholdError as error:  # of a store that is away, busy or full, or of the settings
        log.warning("conversations wait: %s", error.code)
    except Exception:  # the outermost handler: nobody is there to tell
        log.exception("the indexer failed")


async def _work(loaded: LoadedSettings, *, until: float) -> None:
    from mindhold.app import open_app
    from mindhold.interfaces.running import ask

    def left() -> float:
        return until - time.monotonic()

    async with open_app(loaded) as running:
        patience = time.monotonic() + BUSY_SECONDS
        while left() > 0:
            done = await ask(running, "index_history", most_seconds=left(), workers=_processes())
            if done.busy and time.monotonic() < patience:
                await asyncio.sleep(LOOK_SECONDS)
            elif done.busy or not done.left or not done.bytes:
                break
        while left() > 0 and (await ask(running, "embed_history", most=PASSAGES, seconds=left())).embedded:
            continue


def _processes() -> int:
    """One is left to whoever sits at the machine."""
    return max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 1))
