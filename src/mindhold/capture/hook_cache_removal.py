"""Blanks the hook caches at once when memories are removed, and checks that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from mindhold.engine import Engine
from mindhold.hooks import hook_cache_writer as sheets
from mindhold.hooks.files import HOOKS
from mindhold.hooks.hook_cache import CACHE_FOLDER
from mindhold.hooks.lease import try_lock
from mindhold.ports.store import Receipt

LOCK = "leaflets.lock"
TURN_SECONDS = 0.02
MOST_TURNS = 500  # that one waits for another who makes or blanks leaflets


def hooks_in_use(home: Path) -> bool:
    """Whether hooks are used in this home."""
    return (home / HOOKS / CACHE_FOLDER).is_dir()


async def blank_hook_caches(engine: Engine) -> int:
    """Take everything off them, now; they stay to be made anew. How many there were."""
    home = engine.settings.home
    if not engine.tells_hooks or not hooks_in_use(home):
        return 0
    with suppress(OSError):  # a home that can't be written: whoever looks again sees what is left
        async with cache_turn(home):
            return await asyncio.to_thread(sheets.blank_caches, str(home))
    return 0


async def erase_from_hook_caches(engine: Engine, receipt: Receipt) -> Receipt:
    """The receipt of an erasure, after the leaflets lost what was erased: what was on them and what still is."""
    if not (engine.settings.home / HOOKS).is_dir():
        return receipt
    before = await asyncio.to_thread(_naming, engine.settings.home, receipt.ids)
    await blank_hook_caches(engine)
    left = await asyncio.to_thread(_naming, engine.settings.home, receipt.ids)
    return replace(
        receipt,
        removed={**receipt.removed, "leaflets": before - left},
        remaining={**receipt.remaining, "leaflets": left},
    )


async def scrub_hook_caches(engine: Engine, receipt: Receipt, phrases: Sequence[str]) -> Receipt:
    """The receipt of a scrubbing, after the leaflets were blanked and what hooks left was looked through as well."""
    home = engine.settings.home
    if not (home / HOOKS).is_dir():
        return receipt
    blanked = await blank_hook_caches(engine)
    left = await asyncio.to_thread(_holding, home, phrases)
    return replace(
        receipt,
        removed={**receipt.removed, "leaflets": blanked},
        remaining={**receipt.remaining, "hooks": left},
    )


def _naming(home: Path, ids: Sequence[str]) -> int:
    """How many leaflets name one of them."""
    wanted = [memory_id.encode() for memory_id in ids]
    return sum(any(one in content for one in wanted) for content in _contents(_files(home)))


def _holding(home: Path, phrases: Sequence[str]) -> int:
    """In how many files of the hooks one of the phrases stands, as it is or as JSON has it."""
    forms = {form.encode() for phrase in phrases for form in (phrase, json.dumps(phrase)[1:-1]) if form}
    paths = [path for path in (home / HOOKS).rglob("*") if path.is_file()]
    return sum(any(form in content for form in forms) for content in _contents(paths))


def _files(home: Path) -> list[Path]:
    folder = home / HOOKS / CACHE_FOLDER
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def _contents(paths: Iterable[Path]) -> Iterable[bytes]:
    for path in paths:
        with suppress(FileNotFoundError):  # others come and go
            yield path.read_bytes()


@asynccontextmanager
async def cache_turn(home: Path) -> AsyncIterator[None]:
    """One at a time, in whatever processes, reads the store and writes leaflets: the last that is written is the newest.

    One who waits for very long goes on: whoever is at it hangs.
    """
    folder = home / HOOKS
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(MOST_TURNS):
            if try_lock(descriptor):
                break
            await asyncio.sleep(TURN_SECONDS)
        yield
    finally:
        os.close(descriptor)
