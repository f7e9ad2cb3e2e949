"""Blanks the hook caches at once when memories are removed, and checks that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from mindhold.engine import Engine
from mindhold.hooks import hook_cache_writer
from mindhold.hooks.files import HOOKS
from mindhold.hooks.hook_cache import CACHE_FOLDER
from mindhold.hooks.lease import try_lock
from mindhold.ports.store import Receipt

CACHE_LOCK = "leaflets.lock"
TURN_SECONDS = 0.02
MAX_TURNS = 500  # waits for another process that makes or blanks caches


def hooks_in_use(home: Path) -> bool:
    """Whether hooks are used in this home."""
    return (home / HOOKS / CACHE_FOLDER).is_dir()


async def blank_hook_caches(engine: Engine) -> int:
    """Blank all hook caches now; they are made again later. Return how many there were."""
    home = engine.settings.home
    if not engine.tells_hooks or not hooks_in_use(home):
        return 0
    with suppress(OSError):  # a home that can't be written: a later check sees what is left
        async with cache_turn(home):
            return await asyncio.to_thread(hook_cache_writer.blank_caches, str(home))
    return 0


async def erase_from_hook_caches(engine: Engine, receipt: Receipt) -> Receipt:
    """Add to the receipt of an erasure what the hook caches lost, and what they still hold."""
    if not (engine.settings.home / HOOKS).is_dir():
        return receipt
    ids = {memory_id.encode() for memory_id in receipt.ids}
    folder = engine.settings.home / HOOKS / CACHE_FOLDER
    before = await asyncio.to_thread(_count_holding, folder, ids)
    await blank_hook_caches(engine)
    left = await asyncio.to_thread(_count_holding, folder, ids)
    return replace(
        receipt,
        removed={**receipt.removed, "leaflets": before - left},
        remaining={**receipt.remaining, "leaflets": left},
    )


async def scrub_hook_caches(engine: Engine, receipt: Receipt, phrases: Sequence[str]) -> Receipt:
    """Blank the hook caches, search all files of the hooks for the phrases, and add both to the receipt."""
    home = engine.settings.home
    if not (home / HOOKS).is_dir():
        return receipt
    blanked = await blank_hook_caches(engine)
    forms = {form.encode() for phrase in phrases for form in (phrase, json.dumps(phrase)[1:-1]) if form}
    left = await asyncio.to_thread(_count_holding, home / HOOKS, forms)
    return replace(
        receipt,
        removed={**receipt.removed, "leaflets": blanked},
        remaining={**receipt.remaining, "hooks": left},
    )


def _count_holding(folder: Path, forms: Collection[bytes]) -> int:
    """Count the files in the folder, and below it, that hold one of the forms."""
    count = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # other processes add and remove files
            if path.is_file():
                content = path.read_bytes()
                count += any(form in content for form in forms)
    return count


@asynccontextmanager
async def cache_turn(home: Path) -> AsyncIterator[None]:
    """Serialise, across processes, reading the store and writing hook caches, so that the last write is the newest.

    A process that waits very long goes on, because the holder hangs.
    """
    folder = home / HOOKS
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / CACHE_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(MAX_TURNS):
            if try_lock(descriptor):
                break
            await asyncio.sleep(TURN_SECONDS)
        yield
    finally:
        os.close(descriptor)
