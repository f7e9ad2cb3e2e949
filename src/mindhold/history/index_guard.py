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
    """Whether we are the indexer of this home until it is left; never waits. Other work has its own lock.

    Raises StoreReadOnly.
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
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)


PATIENCE, PAUSE = 300, 0.1  # looks whether another is done, seconds between them


@asynccontextmanager
async def wait_for_index_turn(engine: Engine) -> AsyncIterator[None]:
    """Raises StoreBusy where another process indexes for very long, StoreReadOnly."""
    for _ in range(PATIENCE):
        held = index_turn(engine.settings.home)
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


T = TypeVar("T")


async def run_in_own_thread(work: Callable[[Check], T]) -> T:
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


FORGOTTEN_NAMESPACE = "history:forgotten"  # by the session's id
PART_OF = "part_of"  # in a note: the session that the sub-agent worked for
FILES = "files"  # in a note: names of files that captures may have read
MOST = 1_000_000
SUFFIXES = (".jsonl", ".json")  # of transcripts


async def forgotten_sessions(engine: Engine) -> set[str]:
    """Their ids. Raises the store's errors."""
    return {
        entry.key for entry in await engine.store.entries(FORGOTTEN_NAMESPACE, now=engine.clock(), limit=MOST)
    }


async def note_forgotten(engine: Engine, session_id: str, *, files: Iterable[str] = ()) -> None:
    """For good; since when stays as it was first noted. Raises the store's errors."""
    known = await engine.store.entry(FORGOTTEN_NAMESPACE, session_id, now=engine.clock())
    before = known.value.get(FILES, ()) if known else ()
    names = list(dict.fromkeys([*before, *files]))
    value = {FILES: names} if names else {}
    since = known.created if known else engine.clock()
    await engine.store.put_entry(Entry(FORGOTTEN_NAMESPACE, session_id, value, since))


async def is_forgotten(engine: Engine, session_id: str) -> bool:
    """Whether this one is among them."""
    return await engine.store.entry(FORGOTTEN_NAMESPACE, session_id, now=engine.clock()) is not None


def forgotten_named(given: str, names: Collection[str]) -> list[str]:
    """Which of them somebody means: by the id, or the file; else those that it is a part of."""
    wanted = given.strip().casefold()
    stem = Path(wanted).stem if wanted.endswith(SUFFIXES) else wanted
    exactly = [
        one
        for one in names
        if one.casefold() in (wanted, stem) or (stem != wanted and stem.endswith(f"-{one.casefold()}"))
    ]
    return exactly or [one for one in names if wanted and wanted in one.casefold()]


def is_known_by_name(conversation: IndexedConversation, forgotten: Collection[str]) -> bool:
    """Whether it is told to be among them without its file being read: other programs' files have names of their own."""
    return conversation.file.stem in forgotten or conversation.part_of in forgotten
