"""Keeps the index of conversations current while a server runs: it hears of files that grow, and looks now and then.

Where the system tells nothing, looking is all there is, and it is done more often.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mindhold.interfaces.running import Running, ask
from mindhold.model.errors import MindholdError

log = logging.getLogger("mindhold.watching")
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
Told = Callable[[Collection[str]], None]


async def keep_current(running: Running) -> None:
    """For as long as it isn't cancelled; what goes wrong with the index is logged, and tried again."""
    keeper = _Keeper(running)
    try:
        while True:
            await keeper.go_on()
    finally:
        keeper.close()


class _Keeper:
    """What is to be read, and the ear that hears of it."""

    def __init__(self, running: Running) -> None:
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
        whole, changed = self._whole, frozenset(self._changed)
        self._whole = False
        self._changed.clear()
        try:
            done = await ask(
                self._running,
                "index_history",
                files=[] if whole else sorted(changed),
                most_bytes=TURN,
                most_seconds=TURN_SECONDS,
                workers=0,
            )
        except (MindholdError, OSError) as error:  # a busy or full disk: another look at all makes up for it
            log.warning("conversations are not indexed: %s", getattr(error, "code", type(error).__name__))
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

    def __init__(self, roots: Sequence[Path], tell: Told) -> None:
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
                log.warning("folders can't be watched, and are looked at instead: %s", type(error).__name__)
