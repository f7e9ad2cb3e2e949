"""Engine and Policy: the ports, rules and shared state that every use case works with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from mindhold.aio import ChangeNotifier, NamedLocks
from mindhold.conversations.activity import ActivityBuffer
from mindhold.model.errors import StoreError
from mindhold.model.lifecycle import LifecycleRules, RetentionRules
from mindhold.model.policies import (
    BackupRules,
    CaptureRules,
    HistoryRules,
    MaintenanceRules,
    RecapRules,
    RlmRules,
)
from mindhold.model.scope import DEFAULT_AGENT, GLOBAL
from mindhold.ports.backend import BackendSites, NoBackendSites, StoreRegistry
from mindhold.ports.cache import NO_SIDECAR, Sidecar
from mindhold.ports.embedder import ModelRegistry
from mindhold.ports.history import Archive, HistoryIndex, NoArchive, NoHistory
from mindhold.ports.llm import Classifier, LanguageModel, RlmServer
from mindhold.ports.store import Clock, Entries, NewId, Store
from mindhold.ports.transcripts import Transcripts

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
    """Knows how long nobody has called this process. The process's own questions don't count."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last: datetime | None = None

    @contextmanager
    def busy(self, clock: Clock) -> Iterator[None]:
        """A call lasts as long as the block."""
        self._under_way += 1
        self._last = clock()
        try:
            yield
        finally:
            self._under_way -= 1
            self._last = clock()

    def idle_for(self, now: datetime, at_least: timedelta) -> bool:
        """Whether nobody called for so long. The first question starts the count: a new process is about to be called."""
        if self._last is None or self._last > now:
            self._last = now
        return not self._under_way and now - self._last >= at_least


LEAST_TRUST = 0.5  # what is trusted less is kept, and given to no model that didn't ask for it


@dataclass(frozen=True, slots=True)
class Policy:
    """The knobs of the engine; app fills them from the settings."""

    export_dir: Path
    home: Path
    agent: str = DEFAULT_AGENT
    home_agent: str = DEFAULT_AGENT  # whose the home is, as it says itself: a call may be another's
    tells_hooks: bool = True  # False on another file than the home's own: hooks are told what is in that one
    scope: str = GLOBAL
    date_order: str = "MDY"
    longest: int = 1_000_000
    part_length: int = 4_000
    redact: bool = True
    noise_gate: bool = True
    link_threshold: float = 0.7
    near_duplicate: float = 0.85
    most_links: int = 3
    limit: int = 10
    floor: float | None = None
    local_model: bool = True  # whether recall is meant to stand on a pulled model
    longest_hit: int = 2_000
    longest_answer: int = 60_000
    daily_tokens: int = 200_000  # of language models, from midnight to midnight UTC
    daily_dollars: float = 0.0  # for them; 0 is no limit
    importance_weight: float = 0.6  # of what orders equals; the two sum to 1
    recency_weight: float = 0.4
    composite_from: int = 100  # memories within reach, below which equals stand in order of time
    most_linked: int = 10  # linked memories that come along with a recall
    session_ttl: timedelta = timedelta(minutes=60)  # a conversation that was silent for so long is over
    reflect: bool = True  # upon conversations that end without anybody's doing it
    life: LifecycleRules = field(default_factory=LifecycleRules)
    retention: RetentionRules = field(default_factory=RetentionRules)
    maintenance: MaintenanceRules = field(default_factory=MaintenanceRules)
    capture: CaptureRules = field(default_factory=CaptureRules)
    history: HistoryRules = field(default_factory=HistoryRules)
    rlm: RlmRules = field(default_factory=RlmRules)
    recaps: RecapRules = field(default_factory=RecapRules)
    backup: BackupRules = field(default_factory=BackupRules)


@dataclass(frozen=True, slots=True)
class Engine:
    """The ports, the policy and the shared state of one running application; use cases are functions of it."""

    store: Store
    vector_source: VectorSource
    models: ModelRegistry
    clock: Clock
    new_id: NewId
    zone: Callable[[], ZoneInfo]
    use_counter: UseCounter
    policy: Policy
    transcripts: Transcripts
    ledger: Entries  # of the whole store, also where the caller's store is scoped
    store_registry: StoreRegistry  # the stores that projects live in; `store` routes to them
    backend_sites: BackendSites = field(default_factory=NoBackendSites)
    history: HistoryIndex = field(default_factory=lambda: NoHistory(withheld=False))
    archive: Archive = field(default_factory=NoArchive)
    rlm: RlmServer | None = None
    sidecar: Sidecar = NO_SIDECAR  # Redis
    llm: LanguageModel | None = None  # for background work
    classifier: Classifier | None = None  # of contradictions; None: none are looked for
    history_behind: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set: transcripts wait to be indexed
    urgent_job: asyncio.Event = field(default_factory=asyncio.Event)  # set: somebody waits for a job
    change_notifier: ChangeNotifier = field(default_factory=ChangeNotifier)  # of writes and of jobs' progress
    idle_tracker: IdleTracker = field(default_factory=IdleTracker)
    allowed_scopes: tuple[str, ...] = ()  # the scopes that the caller is bound to; empty: all
    summary_locks: NamedLocks = field(default_factory=NamedLocks)  # by project: one writer of its summary
    activity: ActivityBuffer = field(default_factory=ActivityBuffer)  # of conversations, until it is written
