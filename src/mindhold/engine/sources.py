"""How much is remembered of each sort that an assistant tells apart."""

from __future__ import annotations

from dataclasses import replace

from mindhold.engine.core import Engine
from mindhold.engine.filing import Source
from mindhold.model.query import Filter

MESSAGES, NOTES, SUMMARIES, PROFILE = "messages", "notes", "summaries", "profile_facts"


async def by_source(engine: Engine, where: Filter) -> dict[str, int]:
    """Messages (a long one once), summaries, facts of the profile; all else are notes."""
    sources = await engine.store.tally(where, "source")
    messages = await engine.store.count(replace(where, turns=True))
    summaries, profile = (sources.get(source, 0) for source in (Source.SUMMARY, Source.PROFILE))
    rest = sum(sources.values()) - messages - summaries - profile
    return {MESSAGES: messages, NOTES: max(0, rest), SUMMARIES: summaries, PROFILE: profile}
