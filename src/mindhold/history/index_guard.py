"""Guards of the index: one writer at a time, long work in its own thread, and no forgotten conversation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from threading import Event
from typing import TypeVar

from mindhold.engine import Engine
from mindhold.hooks.lease import try_lock
from mindhold.model.errors import StoreBusy, StoreReadOnly
from mindhold.model.job import Entry
from mindhold.ports.history import IndexedConversation
from mindhold.ports.transcripts import Check

LOCK = "history.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def index_turn(home: Path, *, lock: str = LOCK) -> Iterator[bool]:
    """Try to become the only indexer of this home; yields whether that succeeded and never waits.

    `lock` names another lock for other work. Raises StoreReadOnly.
    """
    folder = home / "data"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / lock, _FLAGS, 0o600)
    except OSError as error:
        raise StoreReadOnly(
            f"The index of past conversations in {folder} can't be written: {error}."
        ) from error
    try:
        try:
            is_ours = try_lock(descriptor)
        except OSError as error:
            raise StoreReadOnly(f"The index can't be locked: {error.strerror}.") from error
        yield is_ours
    finally:
        os.close(descriptor)


PATIENCE, PAUSE = 300, 0.1  # attempts to get the turn, and seconds between them


@asynccontextmanager
async def wait_for_index_turn(engine: Engine) -> AsyncIterator[None]:
    """Wait for the index turn. Raises StoreBusy if another process indexes for too long, StoreReadOnly."""
    for _ in range(PATIENCE):
        with index_turn(engine.settings.home) as is_ours:
            if is_ours:
                yield
                return
        await asyncio.sleep(PAUSE)
    raise StoreBusy("Another process is indexing past conversations.", advice="Try again when it is done.")


T = TypeVar("T")


async def run_in_own_thread(work: Callable[[Check], T]) -> T:
    """Run `work` in the transcripts' thread, one at a time; after a cancellation it ends at its next check."""
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
                future.exception()  # the caller is gone; mark the exception as retrieved
        raise


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")


FORGOTTEN_NAMESPACE = "history:forgotten"  # entries by session id
PART_OF = "part_of"  # in an entry: the session that the sub-agent worked for
FILES = "files"  # in an entry: names of files that captures may have read
MOST = 1_000_000
SUFFIXES = (".jsonl", ".json")  # of transcripts


async def forgotten_sessions(engine: Engine) -> set[str]:
    """The ids of forgotten sessions. Raises the store's errors."""
    return {
        entry.key for entry in await engine.store.entries(FORGOTTEN_NAMESPACE, now=engine.clock(), limit=MOST)
    }


async def note_forgotten(engine: Engine, session_id: str, *, files: Iterable[str] = ()) -> None:
    """Mark a session as forgotten for good; the time of the first mark stays. Raises the store's errors."""
    entry = await engine.store.entry(FORGOTTEN_NAMESPACE, session_id, now=engine.clock())
    before = entry.value.get(FILES, ()) if entry else ()
    names = list(dict.fromkeys([*before, *files]))
    value = {FILES: names} if names else {}
    since = entry.created if entry else engine.clock()
    await engine.store.put_entry(Entry(FORGOTTEN_NAMESPACE, session_id, value, since))


async def is_forgotten(engine: Engine, session_id: str) -> bool:
    """Whether the session is forgotten."""
    return await engine.store.entry(FORGOTTEN_NAMESPACE, session_id, now=engine.clock()) is not None


def forgotten_named(given: str, names: Collection[str]) -> list[str]:
    """The names that the text means: an exact id or file name, else those that contain it."""
    folded = given.strip().casefold()
    stem = Path(folded).stem if folded.endswith(SUFFIXES) else folded
    exactly = [
        name
        for name in names
        if name.casefold() in (folded, stem) or (stem != folded and stem.endswith(f"-{name.casefold()}"))
    ]
    return exactly or [name for name in names if folded and folded in name.casefold()]


def is_known_by_name(conversation: IndexedConversation, forgotten: Collection[str]) -> bool:
    """Whether its file name or parent session shows that it is forgotten; other programs' names don't."""
    return conversation.file.stem in forgotten or conversation.part_of in forgotten
