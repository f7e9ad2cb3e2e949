"""Judges a conversation that has ended as a whole: what was captured piece by piece didn't know how it would end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from mindhold.capture.conversation_text import redact_steps, without_skipped_turns
from mindhold.capture.extracted_items import CAPTURED, REVIEWED, CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.engine import Engine
from mindhold.model.memory import Kind, Memory
from mindhold.model.query import Filter
from mindhold.ports.transcripts import TranscriptCursor, TranscriptStep
from mindhold.text.similarity import content_words, jaccard

MOST_BYTES = 16 << 20  # of a transcript; what was captured of a larger one stays as it is
SAID_AGAIN = 0.6  # share of common words from which an item says what a memory says


@dataclass(frozen=True, slots=True)
class Settlement:
    """What the whole conversation says, and the items of it that no longer hold."""

    items: tuple[CapturedItem, ...]
    withdrawn: tuple[CapturedItem, ...]


async def settle(
    engine: Engine, file: str, *, conversation: str, folder: str, scope: str, agent: str
) -> Settlement | None:
    """Extract from the whole conversation by rules; None if it is too long or gone.

    What was captured of it before, and is not said by its end, is withdrawn: unless the person said it, kept it, or it was used.
    """
    read = await asyncio.to_thread(
        engine.transcripts.follow, Path(file), TranscriptCursor(), most_bytes=MOST_BYTES
    )
    if read is None or read.more:
        return None
    steps, _ = without_skipped_turns(read.steps, skipping=False)
    if not engine.settings.capture.subagents:
        steps = [step for step in steps if not step.aside]
    extraction = await extract_by_rules(
        engine, await asyncio.to_thread(redact_steps, steps), {}, folder=folder
    )
    kinds = engine.settings.capture.captured_kinds
    items = tuple(item for item in extraction.items if item.kind in kinds)
    said = [content_words(item.content) for item in items]
    where = Filter(viewer=agent, agents=(agent,), scopes=(scope,), conversation=conversation)
    withdrawn = [
        CapturedItem(memory.kind, memory.content, memory.provenance.line or 0, withdrawn=True)
        async for batch in engine.store.scan(where)
        for memory in batch
        if _may_be_withdrawn(memory)
        and all(jaccard(content_words(memory.content), words) < SAID_AGAIN for words in said)
    ]
    return Settlement(with_times(items, read.steps), tuple(withdrawn))


def _may_be_withdrawn(memory: Memory) -> bool:
    if memory.provenance.source != CAPTURED or memory.kind is Kind.PREFERENCE:
        return False
    return not (memory.uses or memory.usefulness or REVIEWED in memory.metadata)


def with_times(items: Sequence[CapturedItem], steps: Sequence[TranscriptStep]) -> tuple[CapturedItem, ...]:
    """Add the time to each item; an item before these steps gets the time of the first step."""
    moments: dict[int, datetime] = {}
    for step in steps:
        if step.timestamp is not None:
            moments.setdefault(step.line, step.timestamp)
    first = min(moments.values(), default=None)
    return tuple(replace(item, said=moments.get(item.line, first)) for item in items)
