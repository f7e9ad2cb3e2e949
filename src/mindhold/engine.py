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
FLUSH_SECONDS = 5.0  # that a count waits at most: a crash loses no more


class UseCounter:
    """Remembers which memories were recalled or shown, and writes it down soon after, and at the end."""

    def __init__(self, store: Store, clock: Clock, *, seconds: float = FLUSH_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._waiting: list[str] = []
        self._shown: list[str] = []
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, ids: Iterable[str]) -> None:
        """Count one use of each, later."""
        self._waiting.extend(ids)
        self._arrange()

    def note_shown(self, ids: Iterable[str]) -> None:
        """Count that each was put before somebody who had not asked for it, later."""
        self._shown.extend(ids)
        self._arrange()

    async def flush(self) -> None:
        """Write what has gathered; a store that is busy or full loses a count, not an answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        async with self._turn:
            used, self._waiting = self._waiting, []
            shown, self._shown = self._shown, []
            with suppress(StoreError):
                if used:
                    await self._store.touch(used, self._clock())
            with suppress(StoreError):
                if shown:
                    await self._store.note_shown(shown, self._clock())

    def _arrange(self) -> None:
        """Where much has gathered it is written at once; nobody waits for it, or two would write at a time."""
        gathered = len(self._waiting) + len(self._shown)
        if gathered >= FLUSH_AT_COUNT and not self._is_writing():
            self._begin()
        elif gathered and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self.flush())


class NoUseCounter(UseCounter):
    """For callers who may only read: what they look at must not grow dearer by it."""

    def note(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""

    def note_shown(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""


class IdleTracker:
    """The calls of one process. Its own questions are none."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last: datetime | None = None

    @contextmanager
    def broken(self, clock: Clock) -> Iterator[None]:
        """For the time of a call."""
        self._under_way += 1
        self._last = clock()
        try:
            yield
        finally:
            self._under_way -= 1
            self._last = clock()

    def lasts(self, now: datetime, at_least: timedelta) -> bool:
        """Whether nobody called for so long. Who starts a process is about to call: it counts from the first look."""
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
    """One store, one embedder, one policy: the use cases are functions of it."""

    store: Store
    meaning: VectorSource
    models: ModelRegistry
    clock: Clock
    new_id: NewId
    zone: Callable[[], ZoneInfo]
    uses: UseCounter
    policy: Policy
    transcripts: Transcripts
    ledger: Entries  # of the whole store, whoever calls: a fence has drawers of its own
    houses: StoreRegistry  # the stores that projects live in; `store` is one over all of them
    grounds: BackendSites = field(default_factory=NoBackendSites)  # where those stores stand
    history: HistoryIndex = field(default_factory=lambda: NoHistory(withheld=False))
    archive: Archive = field(default_factory=NoArchive)
    rlm: RlmServer | None = None  # the one that was configured
    aside: Sidecar = NO_SIDECAR  # what stands beside the store
    llm: LanguageModel | None = None  # the one that was configured, for work that nobody waits for
    classifier: Classifier | None = None  # of contradictions; None: none are looked for
    behind: asyncio.Event = field(default_factory=asyncio.Event)  # set: conversations wait for the background
    pressing: asyncio.Event = field(default_factory=asyncio.Event)  # set: somebody waits for a job
    pulse: ChangeNotifier = field(
        default_factory=ChangeNotifier
    )  # beats when something was written, or a job got further
    quiet: IdleTracker = field(default_factory=IdleTracker)  # broken while somebody calls
    fence: tuple[str, ...] = ()  # the scopes that the caller is bound to, as the store is
    summary_turns: NamedLocks = field(
        default_factory=NamedLocks
    )  # who writes a project's summary, by its name
    doings: ActivityBuffer = field(
        default_factory=ActivityBuffer
    )  # what is done in conversations, until it is written down
