"""What may run beside a store to make it faster: keyword sets, cache, activity, job wake-ups. Nothing depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mindhold.model.query import Filter


@dataclass(frozen=True, slots=True)
class SidecarFacts:
    """What `status`, `doctor` and /health tell about it."""

    kind: str = "none"
    state: str = "none"  # ok, away, denied; none where there is none
    location: str = ""
    keywords: str = "none"  # whole, building, unbuilt, away, off
    detail: str = ""  # why it is not as it should be


@dataclass(frozen=True, slots=True)
class ActiveConversation:
    """A conversation that something was done in lately, and how often what was."""

    agent: str
    conversation: str
    last: datetime
    counts: Mapping[str, int] = field(default_factory=dict)


class KeywordSets(Protocol):
    """Which records have which keywords."""

    async def having(self, forms: Sequence[str], where: Filter) -> list[str] | None:
        """Ids of the records that have all of these keywords (as `keyword_form` has them), the newest first.

        Of the filter only scopes and viewer are looked at: the caller asks the store for the rest, and whether each has
        those keywords still. None when it can't be said, because the sets aren't whole, or too many match: then the
        store is asked instead. No write that was acknowledged before the call is missed, by whichever process of this home
        it was made; of what lives in another store than home they are not to be asked.
        """


class Cache(Protocol):
    """Values that can be made again."""

    async def get(self, key: str) -> bytes | None:
        """The value; None when it is not there, or can't be had at once."""

    async def put(self, key: str, value: bytes) -> None:
        """Keep it for a while; what can't be kept is not."""


class Activity(Protocol):
    """What is done in each conversation, by whichever server; forgotten some time after the last of it."""

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        """Count; nobody waits for it."""

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        """Those of the agents whom the viewer sees, the latest first, at most 100."""


class JobSignal(Protocol):
    """Rings when a job is queued, in whichever server."""

    async def wait(self, seconds: float) -> bool:
        """Until it rings, at most so long. Whether it rang."""


class Sidecar(Protocol):
    """All of it."""

    @property
    def keywords(self) -> KeywordSets: ...

    @property
    def cache(self) -> Cache: ...

    @property
    def activity(self) -> Activity: ...

    @property
    def bell(self) -> JobSignal: ...

    async def facts(self) -> SidecarFacts:
        """Cheap; never raises."""


class NoSidecar:
    """For a store that nothing stands beside."""

    @property
    def keywords(self) -> KeywordSets:
        return self

    @property
    def cache(self) -> Cache:
        return self

    @property
    def activity(self) -> Activity:
        return self

    @property
    def bell(self) -> JobSignal:
        return self

    async def facts(self) -> SidecarFacts:
        return SidecarFacts()

    async def having(self, forms: Sequence[str], where: Filter) -> list[str] | None:
        return None

    async def get(self, key: str) -> bytes | None:
        return None

    async def put(self, key: str, value: bytes) -> None:
        """Nowhere."""

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        """By nobody."""

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        return []

    async def wait(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False


NO_SIDECAR = NoSidecar()
