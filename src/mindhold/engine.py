"""Engine: the ports, settings and shared state that every use case works with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from mindhold.aio import ChangeNotifier
from mindhold.conversations.activity import ActivityBuffer
from mindhold.locks import NamedLocks
from mindhold.model.errors import StoreError
from mindhold.model.scope import DEFAULT_AGENT
from mindhold.ports.backend import BackendSites, NoBackendSites, StoreRegistry
from mindhold.ports.cache import NO_SIDECAR, Sidecar
from mindhold.ports.embedder import ModelRegistry
from mindhold.ports.history import Archive, HistoryIndex, NoArchive, NoHistory
from mindhold.ports.llm import Classifier, LanguageModel, RlmServer
from mindhold.ports.store import Clock, Entries, NewId, Store
from mindhold.ports.transcripts import Transcripts
from mindhold.settings.schema import Settings

if TYPE_CHECKING:
    from mindhold.memories.embedding import VectorSource


FLUSH_AT_COUNT = 200
FLUSH_SECONDS = 5.0  # a crash loses the counts of this time at most


class UseCounter:
    """Counts which memories were recalled or shown, and writes the counts a few seconds later and at the end."""

    def __init__(self, store: Store, clock: Clock, *, seconds: float = FLUSH_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._used: list[str] = []
        self._shown: list[str] = []
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, ids: Iterable[str]) -> None:
        """Count one use of each."""
        self._used.extend(ids)
        self._schedule()

    def note_shown(self, ids: Iterable[str]) -> None:
        """Count that each was shown without being asked for."""
        self._shown.extend(ids)
        self._schedule()

    async def flush(self) -> None:
        """Write the counts. They are lost if the store is busy or full: a count must not fail an answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        async with self._lock:
            used, self._used = self._used, []
            shown, self._shown = self._shown, []
            with suppress(StoreError):
                if used:
                    await self._store.touch(used, self._clock())
            with suppress(StoreError):
                if shown:
                    await self._store.note_shown(shown, self._clock())

    def _schedule(self) -> None:
        """Write at once when many counts wait, otherwise after a delay; never two writers at a time."""
        count = len(self._used) + len(self._shown)
        if count >= FLUSH_AT_COUNT and not self._is_writing():
            self._begin()
        elif count and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self.flush())


class NoUseCounter(UseCounter):
    """Counts nothing: reading with a read-only key must not change how memories rank."""

    def note(self, ids: Iterable[str]) -> None:
        """Do nothing."""

    def note_shown(self, ids: Iterable[str]) -> None:
        """Do nothing."""


class IdleTracker:
    """Tracks how long nobody has called this process. The process's own checks don't count."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last: datetime | None = None

    @contextmanager
    def busy(self, clock: Clock) -> Iterator[None]:
        """Count the block as a call."""
        self._under_way += 1
        self._last = clock()
        try:
            yield
        finally:
            self._under_way -= 1
            self._last = clock()

    def idle_for(self, now: datetime, at_least: timedelta) -> bool:
        """Whether nobody called for so long. The first check starts the count: a new process is about to be called."""
        if self._last is None or self._last > now:
            self._last = now
        return not self._under_way and now - self._last >= at_least


LEAST_TRUST = 0.5  # memories below it are stored, but shown to a model only on request


@dataclass(frozen=True, slots=True)
class Engine:
    """The ports, the settings and the shared state of one running application; use cases are functions of it."""

    store: Store
    vector_source: VectorSource
    models: ModelRegistry
    clock: Clock
    new_id: NewId
    zone: Callable[[], ZoneInfo]
    use_counter: UseCounter
    settings: Settings
    transcripts: Transcripts
    ledger: Entries  # of the whole store, even if the caller's store is limited to scopes
    store_registry: StoreRegistry  # the stores that projects live in; `store` routes to them
    backend_sites: BackendSites = field(default_factory=NoBackendSites)
    history: HistoryIndex = field(default_factory=lambda: NoHistory(withheld=False))
    archive: Archive = field(default_factory=NoArchive)
    rlm: RlmServer | None = None
    sidecar: Sidecar = NO_SIDECAR  # Redis
    llm: LanguageModel | None = None  # for background work
    classifier: Classifier | None = None  # detects contradictions; None: they aren't searched for
    history_behind: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set: transcripts wait to be indexed
    urgent_job: asyncio.Event = field(default_factory=asyncio.Event)  # set: somebody waits for a job
    change_notifier: ChangeNotifier = field(default_factory=ChangeNotifier)  # writes and jobs' progress
    idle_tracker: IdleTracker = field(default_factory=IdleTracker)
    allowed_scopes: tuple[str, ...] = ()  # the scopes that the caller is bound to; empty: all
    summary_locks: NamedLocks = field(default_factory=NamedLocks)  # by project: one writer at a time
    activity: ActivityBuffer = field(default_factory=ActivityBuffer)  # of conversations, until written
    home_agent: str = DEFAULT_AGENT  # the agent in the home's own settings; a call may be another agent's
    tells_hooks: bool = True  # False: the store is not the home's own, so it must not fill the hook caches

    def with_settings(self, **changes: Any) -> Engine:
        """The same engine with other settings: `engine.with_settings(scope="shop")`."""
        return replace(self, settings=replace(self.settings, **changes))
