"""The optional sidecar of a store, which makes it faster: keyword sets, cache, activity, job wake-ups. Nothing depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mindhold.model.query import Filter


@dataclass(frozen=True, slots=True)
class SidecarFacts:
    """The state of the sidecar, as `status`, `doctor` and /health show it."""

    kind: str = "none"
    state: str = "none"  # ok, away or denied; none if there is no sidecar
    location: str = ""
    keywords: str = "none"  # whole, building, unbuilt, away or off
    detail: str = ""  # why the state is not ok


@dataclass(frozen=True, slots=True)
class ActiveConversation:
    """A recently active conversation, with counts of each kind of activity."""

    agent: str
    conversation: str
    last: datetime
    counts: Mapping[str, int] = field(default_factory=dict)


class KeywordSets(Protocol):
    """An index from keywords to records."""

    async def having(self, forms: Sequence[str], where: Filter) -> list[str] | None:
        """Ids of the records that have all of these keywords (in the form of `keyword_form`), newest first.

        Applies only the scopes and the viewer of the filter. The caller checks the rest in the store, also whether each record
        still has the keywords. Returns None if the sets are incomplete or too many records match; then the caller searches the
        store instead. Sees every write that was acknowledged before the call, by any process of this home. Knows only records of
        the home store.
        """


class Cache(Protocol):
    """A cache of values that can be computed again."""

    async def get(self, key: str) -> bytes | None:
        """The value; None if it is missing or can't be read at once."""

    async def put(self, key: str, value: bytes) -> None:
        """Store the value for a while. Does nothing if that isn't possible."""


class Activity(Protocol):
    """Activity in each conversation on all servers; forgotten some time after the last one."""

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        """Add to the counts in the background; returns at once."""

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        """Conversations of the agents that the viewer may see, most recent first, at most 100."""


class JobSignal(Protocol):
    """A signal to all servers that a job was queued."""

    async def wait(self, seconds: float) -> bool:
        """Wait for the signal, at most `seconds`. Returns whether it came."""


class Sidecar(Protocol):
    """Everything that the sidecar offers."""

    @property
    def keywords(self) -> KeywordSets: ...

    @property
    def cache(self) -> Cache: ...

    @property
    def activity(self) -> Activity: ...

    @property
    def bell(self) -> JobSignal: ...

    async def facts(self) -> SidecarFacts:
        """The present state. Cheap; never raises."""


class NoSidecar:
    """The sidecar of a store that has none."""

    def __init__(self) -> None:
        self.keywords: KeywordSets = self
        self.cache: Cache = self
        self.activity: Activity = self
        self.bell: JobSignal = self

    async def facts(self) -> SidecarFacts:
        return SidecarFacts()

    async def having(self, forms: Sequence[str], where: Filter) -> list[str] | None:
        return None

    async def get(self, key: str) -> bytes | None:
        return None

    async def put(self, key: str, value: bytes) -> None:
        """Does nothing."""

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        """Does nothing."""

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        return []

    async def wait(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False


NO_SIDECAR = NoSidecar()
