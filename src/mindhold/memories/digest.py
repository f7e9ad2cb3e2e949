"""Summarises many memories in few words: how many of which kind, topics, tags, time range and newest summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from pydantic import Field

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.model.memory import Kind, Memory
from mindhold.model.query import Filter, Order
from mindhold.operations import Output

SUMMARY = "summary"  # the source of memories that summarise others
MOST_KINDS, MOST_TOPICS, MOST_TAGS = 6, 5, 8
LOOKED_AT = 20  # how many of the newest are read for a summary and for keywords
LONGEST_SUMMARY = 400  # characters
LONGEST_LABEL = 60


@dataclass(frozen=True, slots=True)
class Tallies:
    """What the store counted of the matching memories, with the oldest, the newest and possible summaries."""

    kinds: Mapping[str, int]
    topics: Mapping[str, int]
    tags: Mapping[str, int]
    oldest: Memory | None = None
    newest: Sequence[Memory] = ()
    condensing: Sequence[Memory] = ()


@dataclass(frozen=True, slots=True)
class MemoryDigest:
    """A digest of bounded size. `topics` are keywords of the newest memories if none has a topic or a tag."""

    count: int
    kinds: Mapping[str, int]
    topics: tuple[str, ...]
    tags: tuple[str, ...]
    start: datetime | None = None
    end: datetime | None = None
    summary: str = ""

    def words(self, zone: tzinfo | None = None) -> str:
        """Return the digest as a sentence."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        sentence = "1 memory" if self.count == 1 else f"{self.count} memories"
        sentence += f" ({kinds})" if kinds else ""
        if self.start and self.end:
            first, last = (f"{moment.astimezone(zone):%Y-%m-%d}" for moment in (self.start, self.end))
            sentence += f" of {first}" if first == last else f" from {first} to {last}"
        about = ", ".join((*self.topics, *(f"#{tag}" for tag in self.tags)))
        return f"{sentence}, about {about}." if about else f"{sentence}."


async def digest_of(engine: Engine, where: Filter) -> MemoryDigest:
    """Make the digest of all matching memories with a few reads, however many match."""
    store = engine.store
    newest = await store.find(where, order=Order.NEWEST, limit=LOOKED_AT)
    oldest = await store.find(where, order=Order.OLDEST, limit=1)
    condensing = [
        memory
        for memory in await store.find(replace(where, kinds=(Kind.CONTEXT,)), limit=LOOKED_AT)
        if not where.kinds or memory.kind in where.kinds
    ]
    return digest_memories(
        Tallies(
            kinds=await store.tally(where, "kind"),
            topics=await store.tally(where, "topic"),
            tags=await store.tally(where, "tag"),
            oldest=next(iter(oldest), None),
            newest=newest,
            condensing=condensing,
        )
    )


def digest_memories(told: Tallies) -> MemoryDigest:
    """Make the digest from the store's counts."""
    topics, tags = _most(told.topics, MOST_TOPICS), _most(told.tags, MOST_TAGS)
    if not (topics or tags):
        spoken = Counter(word for memory in told.newest for word in memory.keywords)
        topics = _most({word: count for word, count in spoken.items() if count > 1}, MOST_TOPICS)
    kinds = sorted(told.kinds.items(), key=lambda item: (-item[1], item[0]))
    top_kinds = dict(kinds[:MOST_KINDS])
    if rest := sum(count for _, count in kinds[MOST_KINDS:]):
        top_kinds["other"] = rest
    return MemoryDigest(
        count=sum(told.kinds.values()),
        kinds=top_kinds,
        topics=topics,
        tags=tags,
        start=told.oldest.occurred if told.oldest else None,
        end=told.newest[0].occurred if told.newest else None,
        summary=_summary(told.condensing),
    )


def _most(counts: Mapping[str, int], most: int) -> tuple[str, ...]:
    """Return the most frequent words, bounded in number and length."""
    ordered = sorted(
        ((name, count) for name, count in counts.items() if name.strip()),
        key=lambda item: (-item[1], item[0].casefold()),
    )
    return tuple(_short(name, LONGEST_LABEL) for name, _ in ordered[:most])


def _summary(condensing: Iterable[Memory]) -> str:
    newest = next(
        (
            memory
            for memory in condensing
            if memory.provenance.source == SUMMARY and memory.trust >= LEAST_TRUST
        ),
        None,
    )
    return _short(newest.content, LONGEST_SUMMARY) if newest else ""


def _short(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1].rstrip() + "…"


class DigestView(Output):
    """What many memories are, in few words; `words` says it in a line, but for the summary."""

    count: int = Field(description="Number of items in this answer.")
    kinds: dict[str, int] = Field(description="Number of memories by kind.")
    topics: list[str] = Field(description="Topics to listen to: `memories`, `jobs`.")
    tags: list[str] = Field(description="Tags.")
    start: datetime | None = None
    end: datetime | None = None
    summary: str = Field(default="", description="The summary.")  # the newest one among them
    words: str

    @classmethod
    def of(cls, digest: MemoryDigest, zone: tzinfo) -> DigestView:
        """Return the digest as a view, with dates in the given zone."""
        return cls(
            count=digest.count,
            kinds=dict(digest.kinds),
            topics=list(digest.topics),
            tags=list(digest.tags),
            start=digest.start,
            end=digest.end,
            summary=digest.summary,
            words=digest.words(zone),
        )
