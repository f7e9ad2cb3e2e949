"""What happened in a conversation: stored as separate events, read as one, and folded before there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from mindhold.conversations.activity import MOST_ANSWERED, MOST_STORED, MOST_TOUCHED
from mindhold.engine import Engine
from mindhold.locks import claim
from mindhold.memories.prepare import in_utc
from mindhold.model.job import Entry

KEPT = timedelta(days=90)  # after the last event
FOLDED = "folded"  # in an event: the keys of the events that it replaces
MOST_EVENTS = 10_000
MOST_UNFOLDED = 100  # events; more are folded into one
# At once, since a caller waits; the others are named and dropped the next time.
MOST_DROPPED = 2 * MOST_UNFOLDED


@dataclass(frozen=True, slots=True)
class ConversationEvent:
    """One event, or several that were folded into one. `ended` is None if the event doesn't change it."""

    memories: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()  # the first parts of long texts
    touched: tuple[str, ...] = ()  # recalled or shown
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: Mapping[str, int] = field(default_factory=dict)
    started: datetime | None = None
    reflected: bool = False
    reflection: str | None = None
    ended: bool | None = None


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The state of a conversation. `reflection` is the memory written at its end, if nobody else reflected on it.

    `answers` has the ids in the latest answer of each tool.
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
        """Whether somebody reflected on it; later activity counts as reflected too."""
        return self.reflected and self.reflection is None


def sum_events(entries: Sequence[Entry], conversation: str, *, agent: str) -> ConversationState | None:
    """Sum up events, given newest first."""
    folded = {key for entry in entries for key in entry.value.get(FOLDED) or ()}
    current = [entry for entry in reversed(entries) if entry.key not in folded]
    if not current:
        return None
    state = ConversationState(conversation, agent, started=current[0].created, last=current[-1].created)
    tools: Counter[str] = Counter()
    answers: dict[str, tuple[str, ...]] = {}
    memories: dict[str, None] = {}
    documents: dict[str, None] = {}
    touched: dict[str, None] = {}
    for entry in current:
        event = _parse_event(entry.value)
        tools.update(event.tools)
        answers.update(event.answers)
        for ids, more in ((memories, event.memories), (documents, event.documents), (touched, event.touched)):
            for memory_id in more:  # each at its latest position
                ids.pop(memory_id, None)
                ids[memory_id] = None
        state = replace(
            state,
            started=min(state.started, event.started or entry.created),
            reflected=state.reflected or event.reflected,
            reflection=event.reflection if event.reflected else state.reflection,
            ended=state.ended if event.ended is None else event.ended,
        )
    return replace(
        state,
        tools=dict(tools),
        answers=answers,
        memories=tuple(memories)[-MOST_STORED:],
        documents=tuple(documents)[-MOST_STORED:],
        touched=tuple(touched)[-MOST_TOUCHED:],
    )


async def fold_events(engine: Engine, namespace: str, conversation: str, *, agent: str) -> None:
    """Replace all events by one that names them, so that a concurrent reader counts nothing twice."""
    async with claim(engine, f"fold {namespace}") as acquired:
        if not acquired:
            return
        now = engine.clock()
        entries = await engine.store.entries(namespace, now=now, limit=MOST_EVENTS)
        state = sum_events(entries, conversation, agent=agent)
        if state is None or len(entries) <= MOST_UNFOLDED:
            return
        newest, *others = entries
        event = ConversationEvent(**{own.name: getattr(state, own.name) for own in fields(ConversationEvent)})
        value = {**event_to_value(event), FOLDED: [entry.key for entry in others]}
        await engine.store.put_entry(replace(newest, value=value, expires=now + KEPT))
        for entry in others[-MOST_DROPPED:]:
            await engine.store.drop_entry(namespace, entry.key)


def event_to_value(event: ConversationEvent) -> dict[str, Any]:
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


def _parse_event(value: Mapping[str, Any]) -> ConversationEvent:
    """Parse an event. Fields may be missing after an erasure or from an earlier version."""
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
