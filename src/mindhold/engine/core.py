"""What every use case works with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from mindhold.engine.doings import Doings
from mindhold.engine.meaning import Meaning
from mindhold.engine.pulse import Pulse
from mindhold.engine.quiet import Quiet
from mindhold.engine.turns import Turns
from mindhold.engine.uses import UseCounter
from mindhold.model.access import DEFAULT_AGENT
from mindhold.model.backup import BackupRules
from mindhold.model.capture import Capture
from mindhold.model.history import History, Rlm
from mindhold.model.life import Life
from mindhold.model.maintenance import Maintenance
from mindhold.model.recap import Recaps
from mindhold.model.retention import Retention
from mindhold.model.scope import GLOBAL
from mindhold.ports.cache import ALONE, Aside
from mindhold.ports.classifier import Classifier
from mindhold.ports.clock import Clock, NewId
from mindhold.ports.history import Archive, HistoryIndex, NoArchive, NoHistory
from mindhold.ports.houses import Houses
from mindhold.ports.llm import LanguageModel
from mindhold.ports.models import ModelShelf
from mindhold.ports.rlm import RlmServer
from mindhold.ports.snapshot import Grounds, NoGrounds
from mindhold.ports.store import Entries, Store
from mindhold.ports.transcripts import Transcripts

LEAST_TRUST = 0.5  # what is trusted less is kept, and given to no model that didn't ask for it
T = TypeVar("T")


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
    life: Life = field(default_factory=Life)
    retention: Retention = field(default_factory=Retention)
    maintenance: Maintenance = field(default_factory=Maintenance)
    capture: Capture = field(default_factory=Capture)
    history: History = field(default_factory=History)
    rlm: Rlm = field(default_factory=Rlm)
    recaps: Recaps = field(default_factory=Recaps)
    backup: BackupRules = field(default_factory=BackupRules)


@dataclass(frozen=True, slots=True)
class Engine:
    """One store, one embedder, one policy: the use cases are functions of it."""

    store: Store
    meaning: Meaning
    models: ModelShelf
    clock: Clock
    new_id: NewId
    zone: Callable[[], ZoneInfo]
    uses: UseCounter
    policy: Policy
    transcripts: Transcripts
    ledger: Entries  # of the whole store, whoever calls: a fence has drawers of its own
    houses: Houses  # the stores that projects live in; `store` is one over all of them
    grounds: Grounds = field(default_factory=NoGrounds)  # where those stores stand
    history: HistoryIndex = field(default_factory=lambda: NoHistory(withheld=False))
    archive: Archive = field(default_factory=NoArchive)
    rlm: RlmServer | None = None  # the one that was configured
    aside: Aside = ALONE  # what stands beside the store
    llm: LanguageModel | None = None  # the one that was configured, for work that nobody waits for
    classifier: Classifier | None = None  # of contradictions; None: none are looked for
    behind: asyncio.Event = field(default_factory=asyncio.Event)  # set: conversations wait for the background
    pressing: asyncio.Event = field(default_factory=asyncio.Event)  # set: somebody waits for a job
    pulse: Pulse = field(default_factory=Pulse)  # beats when something was written, or a job got further
    quiet: Quiet = field(default_factory=Quiet)  # broken while somebody calls
    fence: tuple[str, ...] = ()  # the scopes that the caller is bound to, as the store is
    summary_turns: Turns = field(default_factory=Turns)  # who writes a project's summary, by its name
    doings: Doings = field(default_factory=Doings)  # what is done in conversations, until it is written down


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """What must not stop half-way: a caller who gives up leaves when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to tell
        raise
