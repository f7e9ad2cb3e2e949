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


async def digest_of(engine: Engine, where: Filter) -> DigestView:
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
        ),
        engine.zone(),
    )


def digest_memories(tallies: Tallies, zone: tzinfo) -> DigestView:
    """Make the digest from the store's counts; without topics and tags, of keywords of the newest memories."""
    topics, tags = _most(tallies.topics, MOST_TOPICS), _most(tallies.tags, MOST_TAGS)
    if not (topics or tags):
        keywords = Counter(word for memory in tallies.newest for word in memory.keywords)
        topics = _most({word: count for word, count in keywords.items() if count > 1}, MOST_TOPICS)
    ranked_kinds = sorted(tallies.kinds.items(), key=lambda item: (-item[1], item[0]))
    kinds = dict(ranked_kinds[:MOST_KINDS])
    if rest := sum(count for _, count in ranked_kinds[MOST_KINDS:]):
        kinds["other"] = rest
    total = sum(tallies.kinds.values())
    start = tallies.oldest.occurred if tallies.oldest else None
    end = tallies.newest[0].occurred if tallies.newest else None
    words = "1 memory" if total == 1 else f"{total} memories"
    if kinds:
        words += f" ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})"
    if start and end:
        first, last = (f"{moment.astimezone(zone):%Y-%m-%d}" for moment in (start, end))
        words += f" of {first}" if first == last else f" from {first} to {last}"
    if about := ", ".join((*topics, *(f"#{tag}" for tag in tags))):
        words += f", about {about}"
    return DigestView(
        count=total,
        kinds=kinds,
        topics=topics,
        tags=tags,
        start=start,
        end=end,
        summary=_summary(tallies.condensing),
        words=f"{words}.",
    )


def _most(counts: Mapping[str, int], most: int) -> list[str]:
    """Return the most frequent words, bounded in number and length."""
    ordered = sorted(
        ((name, count) for name, count in counts.items() if name.strip()),
        key=lambda item: (-item[1], item[0].casefold()),
    )
    return [_short(name, LONGEST_LABEL) for name, _ in ordered[:most]]


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
