"""Keeps the history index current: a background process that indexes and exits, and a watcher while a server runs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.hooks.lease import Lease, indexer_lock_path
from mindhold.hooks.worker_process import LAST_SECONDS, lower_priority, set_deadline
from mindhold.interfaces.runtime import OpenMindhold, call_operation
from mindhold.model.errors import MindholdError

if TYPE_CHECKING:
    from mindhold.settings.loader import LoadedSettings


indexer_log = logging.getLogger("mindhold.indexer")
LONGEST_SECONDS = 1_800.0
INDEXER_BUSY_SECONDS = 30.0  # that it waits for another one who indexes
INDEXER_LOOK_SECONDS = 0.5
MOST_PROCESSES = 2
PASSAGES = 256


def run_indexer(home: str, handed: int | None = None) -> int:
    """Index all that isn't yet, unless another is at it. `handed` is a descriptor that holds the lease already."""
    begun = time.monotonic()
    try:
        with Lease(home, handed, path=indexer_lock_path(home)) as mine:
            if mine:
                set_deadline(begun + LONGEST_SECONDS)
                lower_priority()
                _run_indexer(home, until=begun + LONGEST_SECONDS - LAST_SECONDS)
    except OSError:  # a home that can't be written: there is nobody to tell
        pass
    return 0


def _run_indexer(home: str, *, until: float) -> None:
    from mindhold.interfaces.logs import logging_to
    from mindhold.model.errors import MindholdError
    from mindhold.settings.loader import load_settings

    try:
        loaded = load_settings({"home": home})
        with logging_to(loaded.settings):
            asyncio.run(_index(loaded, until=until))
    except MindholdError as error:  # of a store that is away, busy or full, or of the settings
        indexer_log.warning("conversations wait: %s", error.code)
    except Exception:  # noqa: BLE001 - the outermost handler: nobody is there to tell
        indexer_log.exception("the indexer failed")


async def _index(loaded: LoadedSettings, *, until: float) -> None:
    from mindhold.app.application import open_app
    from mindhold.history.index import INDEX_HISTORY
    from mindhold.history.vectors import EMBED_HISTORY
    from mindhold.interfaces.runtime import call_operation

    def left() -> float:
        return until - time.monotonic()

    async with open_app(loaded) as running:
        patience = time.monotonic() + INDEXER_BUSY_SECONDS
        while left() > 0:
            done = await call_operation(running, INDEX_HISTORY, most_seconds=left(), workers=_processes())
            if done.busy and time.monotonic() < patience:
                await asyncio.sleep(INDEXER_LOOK_SECONDS)
            elif done.busy or not done.left or not done.bytes:
                break
        while (
            left() > 0
            and (await call_operation(running, EMBED_HISTORY, most=PASSAGES, seconds=left())).embedded
        ):
            continue


def _processes() -> int:
    """One is left to whoever sits at the machine."""
    return max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 1))


watcher_log = logging.getLogger("mindhold.watching")
TURN = 8 << 20  # bytes of transcripts that the server reads at once, beside its clients
TURN_SECONDS = 2.0
BIG = 32 << 20  # bytes that are left: too many to read here
REST = 1.0  # seconds between two turns, and never less
BUSY_SECONDS = 2.0  # while another process indexes
ROOTS_SECONDS = 3.0  # between two looks at which folders there are
LOOK_SECONDS = 10.0  # between two looks at all, where the system tells nothing
WHOLE_SECONDS = 300.0  # between two looks at all, whatever the system told
STEP = 400  # milliseconds of silence after which what changed is told
LONGEST = 3_000  # milliseconds that it is gathered at most
NEWS = ".jsonl"  # what else changes, such as notes beside them, has all looked at
GONE = ""  # stands for what was deleted
ChangedFiles = Callable[[Collection[str]], None]


async def keep_current(running: OpenMindhold) -> None:
    """For as long as it isn't cancelled; what goes wrong with the index is logged, and tried again."""
    keeper = _Keeper(running)
    try:
        while True:
            await keeper.go_on()
    finally:
        keeper.close()


class _Keeper:
    """What is to be read, and the ear that hears of it."""

    def __init__(self, running: OpenMindhold) -> None:
        self._running = running
        self._ear: _Ear | None = None
        self._heard: list[tuple[Path, int, int]] = []  # the folders that it listens to
        self._changed: set[str] = set()
        self._whole = True  # all is to be looked at
        self._looked = 0.0
        self._woken = asyncio.Event()

    async def go_on(self) -> None:
        """Read what is new, if anything is; then wait for more."""
        await self._follow_roots()
        if time.monotonic() - self._looked > (WHOLE_SECONDS if self._hears else LOOK_SECONDS):
            self._whole = True
        pause = await self._read() if self._whole or self._changed else ROOTS_SECONDS
        await asyncio.sleep(REST)
        try:
            async with asyncio.timeout(max(0.0, pause - REST)):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    def close(self) -> None:
        """Stop listening."""
        if self._ear is not None:
            self._ear.stop()
            self._ear = None

    @property
    def _hears(self) -> bool:
        return self._ear is not None and self._ear.hears

    async def _follow_roots(self) -> None:
        """Listen where there is something to hear by now."""
        roots = await asyncio.to_thread(self._running.conversation_roots)
        there = await asyncio.to_thread(_identified, roots)
        if self._ear is not None and self._heard == there:
            return
        self._heard = there
        self.close()
        if roots:
            loop = asyncio.get_running_loop()

            def tell(names: Collection[str]) -> None:
                loop.call_soon_threadsafe(self._hear, names)

            self._ear = _Ear(roots, tell)

    def _hear(self, names: Collection[str]) -> None:
        """Nothing that changed: from now on it is told, and what changed before wasn't."""
        if names and all(name.endswith(NEWS) and self._is_within(name) for name in names):
            self._changed.update(names)
        else:
            self._whole = True
        self._woken.set()

    def _is_within(self, name: str) -> bool:
        """Some systems call a file by another path than the folder was given by."""
        return self._ear is not None and any(Path(name).is_relative_to(root) for root in self._ear.roots)

    async def _read(self) -> float:
        """A turn; in how many seconds the next one is due if nothing happens."""
        from mindhold.history.index import INDEX_HISTORY

        whole, changed = self._whole, frozenset(self._changed)
        self._whole = False
        self._changed.clear()
        try:
            done = await call_operation(
                self._running,
                INDEX_HISTORY,
                files=[] if whole else sorted(changed),
                most_bytes=TURN,
                most_seconds=TURN_SECONDS,
                workers=0,
            )
        except (MindholdError, OSError) as error:  # a busy or full disk: another look at all makes up for it
            watcher_log.warning(
                "conversations are not indexed: %s", getattr(error, "code", type(error).__name__)
            )
            self._whole = True
            return LOOK_SECONDS
        if whole and not done.busy:
            self._looked = time.monotonic()
        if done.busy or done.left:
            self._whole, self._changed = self._whole or whole, self._changed | changed
        if done.busy:
            return BUSY_SECONDS
        if done.left > BIG:
            return BUSY_SECONDS if await self._running.index_in_background() else REST
        return REST if done.left else ROOTS_SECONDS


def _identified(roots: Sequence[Path]) -> list[tuple[Path, int, int]]:
    """With which folder each is: one that took another's place isn't heard by who listens to that."""
    found = []
    for root in roots:
        try:
            facts = root.stat()
        except OSError:
            continue
        found.append((root, facts.st_dev, facts.st_ino))
    return found


class _Ear:
    """A thread that listens to the system, until it is stopped."""

    def __init__(self, roots: Sequence[Path], tell: ChangedFiles) -> None:
        self.roots = roots
        self.hears = True
        self._stop = threading.Event()
        self._tell = tell
        threading.Thread(target=self._listen, name="mindhold-watch", daemon=True).start()

    def stop(self) -> None:
        """It ends soon."""
        self._stop.set()

    def _listen(self) -> None:
        """Where it can't, such as where the system watches so many files already, nothing is told."""
        try:
            from watchfiles import Change, watch

            heard = watch(
                *self.roots,
                watch_filter=None,
                debounce=LONGEST,
                step=STEP,
                stop_event=self._stop,
                rust_timeout=STEP,
                yield_on_timeout=True,
                raise_interrupt=False,
                force_polling=False,
                ignore_permission_denied=True,
            )
            began = False
            for changes in heard:
                if self._stop.is_set():
                    return
                if changes or not began:
                    self._tell({GONE if change is Change.deleted else name for change, name in changes})
                began = True
        except (ImportError, OSError, RuntimeError) as error:  # also of a loop that has ended
            self.hears = False
            if not self._stop.is_set():
                watcher_log.warning(
                    "folders can't be watched, and are looked at instead: %s", type(error).__name__
                )
