"""What happened in a conversation: stored as separate events, read as one, and folded before there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mindhold.conversations.activity import MOST_ANSWERED, MOST_STORED, MOST_TOUCHED
from mindhold.engine import Engine
from mindhold.locks import claim
from mindhold.memories.validation import in_utc
from mindhold.model.job import Entry

KEPT = timedelta(days=90)  # after the last that was heard of one
FOLDED = "folded"  # in an event: the keys of those that it stands for
MOST_EVENTS = 10_000
MOST_APART = 100  # events, from which on they are folded into one
MOST_DROPPED = 2 * MOST_APART  # at once, for somebody waits; the others are named, and dropped the next time


@dataclass(frozen=True, slots=True)
class ConversationEvent:
    """One thing that happened, or many that were folded into one. None in `ended` says nothing of that."""

    memories: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()  # of long texts the first parts
    touched: tuple[str, ...] = ()  # recalled, or shown
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: Mapping[str, int] = field(default_factory=dict)
    started: datetime | None = None
    reflected: bool = False
    reflection: str | None = None
    ended: bool | None = None


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What is known of one. `reflection` is the memory that was written at its end, when nobody else reflected.

    `answers` has what the latest answer of each tool gave.
    """

    id: str
    agent: str
    started: datetime
    last: datetime
    tools: Mapping[str, int] = field(default_factory=dict)
    memories: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reflected: bool = False
    reflection: str | None = None
    ended: bool = False

    @property
    def by_hand(self) -> bool:
        """Whether somebody reflected on it; what goes on after that counts as reflected."""
        return self.reflected and self.reflection is None


def sum_events(entries: Sequence[Entry], conversation: str, *, agent: str) -> ConversationState | None:
    """All that happened, of entries with the newest first."""
    folded = {key for entry in entries for key in entry.value.get(FOLDED) or ()}
    apart = [entry for entry in reversed(entries) if entry.key not in folded]
    if not apart:
        return None
    known = ConversationState(conversation, agent, started=apart[0].created, last=apart[-1].created)
    tools: Counter[str] = Counter()
    answers: dict[str, tuple[str, ...]] = {}
    memories: dict[str, None] = {}
    documents: dict[str, None] = {}
    touched: dict[str, None] = {}
    for entry in apart:
        event = _event(entry.value)
        tools.update(event.tools)
        answers.update(event.answers)
        for kept, more in (
            (memories, event.memories),
            (documents, event.documents),
            (touched, event.touched),
        ):
            for memory_id in more:  # each at its latest place
                kept.pop(memory_id, None)
                kept[memory_id] = None
        known = replace(
            known,
            started=min(known.started, event.started or entry.created),
            reflected=known.reflected or event.reflected,
            reflection=event.reflection if event.reflected else known.reflection,
            ended=known.ended if event.ended is None else event.ended,
        )
    return replace(
        known,
        tools=dict(tools),
        answers=answers,
        memories=tuple(memories)[-MOST_STORED:],
        documents=tuple(documents)[-MOST_STORED:],
        touched=tuple(touched)[-MOST_TOUCHED:],
    )


async def fold(engine: Engine, drawer: str, conversation: str, *, agent: str) -> None:
    """Have one entry stand for all that there are. It names them, so that who reads meanwhile counts nothing twice."""
    async with claim(engine, f"fold {drawer}") as mine:
        if not mine:
            return
        now = engine.clock()
        entries = await engine.store.entries(drawer, now=now, limit=MOST_EVENTS)
        known = sum_events(entries, conversation, agent=agent)
        if known is None or len(entries) <= MOST_APART:
            return
        newest, *others = entries
        event = ConversationEvent(
            memories=known.memories,
            documents=known.documents,
            touched=known.touched,
            answers=known.answers,
            tools=known.tools,
            started=known.started,
            reflected=known.reflected,
            reflection=known.reflection,
            ended=known.ended,
        )
        value = {**value_of(event), FOLDED: [entry.key for entry in others]}
        await engine.store.put_entry(replace(newest, value=value, expires=now + KEPT))
        for entry in others[-MOST_DROPPED:]:
            await engine.store.drop_entry(drawer, entry.key)


def value_of(event: ConversationEvent) -> dict[str, Any]:
    return {
        "memories": list(event.memories),
        "documents": list(event.documents),
        "touched": list(event.touched),
        "answers": {tool: list(ids) for tool, ids in event.answers.items()},
        "tools": dict(event.tools),
        "started": event.started.isoformat() if event.started else None,
        "reflected": event.reflected,
        "reflection": event.reflection,
        "ended": event.ended,
    }


def _event(value: Mapping[str, Any]) -> ConversationEvent:
    """What was erased since is missing from it, and so may be what earlier versions didn't write."""
    started = value.get("started")
    return ConversationEvent(
        memories=tuple(value.get("memories") or ()),
        documents=tuple(value.get("documents") or ()),
        touched=tuple(value.get("touched") or ()),
        answers={
            tool: tuple(ids or ())[:MOST_ANSWERED] for tool, ids in (value.get("answers") or {}).items()
        },
        tools=value.get("tools") or {},
        started=in_utc(datetime.fromisoformat(started)) if started else None,
        reflected=bool(value.get("reflected")),
        reflection=value.get("reflection"),
        ended=value.get("ended"),
    )
