"""Keeps the history index current: a background process that indexes and exits, and a watcher while a server runs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.hooks.lease import Lease, indexer_lock_path
from mindhold.hooks.worker import LAST_SECONDS, lower_priority, set_deadline
from mindhold.interfaces.runtime import OpenMindhold, call_operation
from mindhold.model.errors import MindholdError

if TYPE_CHECKING:
    from mindhold.settings.loader import LoadedSettings


indexer_log = logging.getLogger("mindhold.indexer")
LONGEST_SECONDS = 1_800.0
INDEXER_BUSY_SECONDS = 30.0  # the longest wait for another process that indexes
INDEXER_LOOK_SECONDS = 0.5
MOST_PROCESSES = 2
PASSAGES = 256


def run_indexer(home: str, handed: int | None = None) -> int:
    """Index all new transcripts, unless another indexer runs. `handed` is a descriptor that already holds the lease."""
    begun = time.monotonic()
    # An OSError means that the home can't be written, so not even a log.
    with suppress(OSError), Lease(home, handed, path=indexer_lock_path(home)) as mine:
        if mine:
            set_deadline(begun + LONGEST_SECONDS)
            lower_priority()
            _run_indexer(home, until=begun + LONGEST_SECONDS - LAST_SECONDS)
    return 0


def _run_indexer(home: str, *, until: float) -> None:
    from mindhold.interfaces.logs import logging_to
    from mindhold.settings.loader import load_settings

    try:
        loaded = load_settings({"home": home})
        with logging_to(loaded.settings):
            asyncio.run(_index(loaded, until=until))
    except MindholdError as error:  # the store is away, busy or full, or the settings are wrong
        indexer_log.warning("conversations wait: %s", error.code)
    except Exception:  # noqa: BLE001 - the outermost handler
        indexer_log.exception("the indexer failed")


async def _index(loaded: LoadedSettings, *, until: float) -> None:
    from mindhold.app.application import open_app
    from mindhold.history.index import INDEX_HISTORY
    from mindhold.history.passages import EMBED_HISTORY

    def left() -> float:
        return until - time.monotonic()

    async with open_app(loaded) as running:
        patience = time.monotonic() + INDEXER_BUSY_SECONDS
        workers = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 1))  # one core is left to the user
        while left() > 0:
            done = await call_operation(running, INDEX_HISTORY, most_seconds=left(), workers=workers)
            if done.busy and time.monotonic() < patience:
                await asyncio.sleep(INDEXER_LOOK_SECONDS)
            elif done.busy or not done.left or not done.bytes:
                break
        while left() > 0:
            if not (await call_operation(running, EMBED_HISTORY, most=PASSAGES, seconds=left())).embedded:
                break


watcher_log = logging.getLogger("mindhold.watching")
TURN = 8 << 20  # bytes of transcripts that the server reads in one turn
TURN_SECONDS = 2.0
BIG = 32 << 20  # bytes: more than that is left to the background indexer
REST = 1.0  # seconds between two turns at least
BUSY_SECONDS = 2.0  # while another process indexes
ROOTS_SECONDS = 3.0  # between two checks of the folders
LOOK_SECONDS = 10.0  # between two full scans if folders can't be watched
WHOLE_SECONDS = 300.0  # between two full scans if folders are watched
STEP = 400  # milliseconds without a change after which changes are reported
LONGEST = 3_000  # milliseconds for which changes are gathered at most
NEWS = ".jsonl"  # a change of any other file causes a full scan
DELETED = ""  # reported in place of a deleted file's name
ChangedFiles = Callable[[Collection[str]], None]


async def keep_current(running: OpenMindhold) -> None:
    """Keep the index current until it is cancelled. Faults are logged, and tried again."""
    watcher = _HistoryWatcher(running)
    try:
        while True:
            await watcher.go_on()
    finally:
        watcher.close()


class _HistoryWatcher:
    """Which transcripts are to be read, and the thread that reports changes."""

    def __init__(self, running: OpenMindhold) -> None:
        self._running = running
        self._watch: _FolderWatch | None = None
        self._watched: list[tuple[Path, int, int]] = []  # the watched folders
        self._changed: set[str] = set()
        self._whole = True  # a full scan is due
        self._scanned_at = 0.0
        self._woken = asyncio.Event()

    async def go_on(self) -> None:
        """Read what is new, if anything is; then wait for more."""
        await self._follow_roots()
        is_watching = self._watch is not None and self._watch.works
        if time.monotonic() - self._scanned_at > (WHOLE_SECONDS if is_watching else LOOK_SECONDS):
            self._whole = True
        pause = await self._read() if self._whole or self._changed else ROOTS_SECONDS
        await asyncio.sleep(REST)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, pause - REST)):
                await self._woken.wait()
        self._woken.clear()

    def close(self) -> None:
        """Stop the watch."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    async def _follow_roots(self) -> None:
        """Watch the folders that exist now."""
        roots = await asyncio.to_thread(self._running.conversation_roots)
        folders = await asyncio.to_thread(_identified, roots)
        if self._watch is not None and self._watched == folders:
            return
        self._watched = folders
        self.close()
        if roots:
            loop = asyncio.get_running_loop()

            def report(names: Collection[str]) -> None:
                loop.call_soon_threadsafe(self._note_changes, names)

            self._watch = _FolderWatch(roots, report)

    def _note_changes(self, names: Collection[str]) -> None:
        """Remember changed files. No names mean that the watch has begun: earlier changes need a full scan."""
        if names and all(name.endswith(NEWS) and self._is_within(name) for name in names):
            self._changed.update(names)
        else:
            self._whole = True
        self._woken.set()

    def _is_within(self, name: str) -> bool:
        """Whether the file lies in a watched folder; some systems report it by another path."""
        return self._watch is not None and any(Path(name).is_relative_to(root) for root in self._watch.roots)

    async def _read(self) -> float:
        """Index one turn; returns the seconds until the next one is due if nothing changes."""
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
        except (MindholdError, OSError) as error:  # such as a full disk: a full scan makes up for it
            watcher_log.warning(
                "conversations are not indexed: %s", getattr(error, "code", type(error).__name__)
            )
            self._whole = True
            return LOOK_SECONDS
        if whole and not done.busy:
            self._scanned_at = time.monotonic()
        if done.busy or done.left:
            self._whole, self._changed = self._whole or whole, self._changed | changed
        if done.busy:
            return BUSY_SECONDS
        if done.left > BIG:
            return BUSY_SECONDS if await self._running.index_in_background() else REST
        return REST if done.left else ROOTS_SECONDS


def _identified(roots: Sequence[Path]) -> list[tuple[Path, int, int]]:
    """Each folder with its device and inode: one that replaced another must be watched anew."""
    folders = []
    for root in roots:
        with suppress(OSError):
            facts = root.stat()
            folders.append((root, facts.st_dev, facts.st_ino))
    return folders


class _FolderWatch:
    """A thread that watches folders for changes until it is stopped."""

    def __init__(self, roots: Sequence[Path], report: ChangedFiles) -> None:
        self.roots = roots
        self.works = True
        self._stop = threading.Event()
        self._report = report
        threading.Thread(target=self._run, name="mindhold-watch", daemon=True).start()

    def stop(self) -> None:
        """Have the thread end soon."""
        self._stop.set()

    def _run(self) -> None:
        """Report changes. Ends where folders can't be watched, such as at the system's limit of watches."""
        try:
            from watchfiles import Change, watch

            batches = watch(
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
            for changes in batches:
                if self._stop.is_set():
                    return
                if changes or not began:
                    self._report({DELETED if change is Change.deleted else name for change, name in changes})
                began = True
        except (ImportError, OSError, RuntimeError) as error:  # also when the event loop has ended
            self.works = False
            if not self._stop.is_set():
                watcher_log.warning(
                    "folders can't be watched, and are looked at instead: %s", type(error).__name__
                )
