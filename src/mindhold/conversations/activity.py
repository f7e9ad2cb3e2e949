"""Activity of conversations, buffered in this process and written to the store later, so that no call waits. The engine imports it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mindhold.model.scope import Caller
from mindhold.ports.cache import NO_SIDECAR

if TYPE_CHECKING:
    from mindhold.engine import Engine
    from mindhold.operations import Operation, Output


INTERVAL = 60.0  # seconds: a crash loses at most so much of what is gathered, and never a memory
MOST_STORED = 500  # of one conversation: the newest
MOST_TOUCHED = 200
MOST_ANSWERED = 50
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """A conversation of an agent's; `fence` are the scopes that its caller is bound to, for they have drawers of their own."""

    fence: tuple[str, ...]
    agent: str
    conversation: str

    @property
    def key(self) -> str:
        """No two have the same."""
        return json.dumps([list(self.fence), self.agent, self.conversation], ensure_ascii=False)

    def as_value(self) -> dict[str, Any]:
        """To be kept."""
        return {"fence": list(self.fence), "agent": self.agent, "conversation": self.conversation}

    @classmethod
    def of_value(cls, value: Mapping[str, Any]) -> ConversationKey:
        """The other way."""
        return cls(tuple(value["fence"]), value["agent"], value["conversation"])


@dataclass(frozen=True, slots=True)
class CallActivity:
    """One call: what it stored, and what memories its answer gave (None: it gives none, whatever it is asked)."""

    tool: str
    stored: tuple[str, ...] = ()
    gave: tuple[str, ...] | None = None


@dataclass(slots=True)
class ConversationActivity:
    """What was done in one conversation since it was last written down."""

    engine: Engine
    started: datetime
    tools: Counter[str] = field(default_factory=Counter)
    stored: dict[str, None] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of each tool the latest

    def add(self, done: CallActivity) -> None:
        """One call more."""
        self.tools[done.tool] += 1
        self.stored = newest_ids([*self.stored, *done.stored], MOST_STORED)
        if done.gave is not None:
            self.answers[done.tool] = done.gave[:MOST_ANSWERED]
            self.touched = newest_ids([*self.touched, *done.gave], MOST_TOUCHED)


class ActivityBuffer:
    """Of all conversations of this process. `arrange` has it written some time after the first that is gathered."""

    def __init__(self, seconds: float = INTERVAL) -> None:
        self._seconds = seconds
        self._gathered: dict[ConversationKey, ConversationActivity] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: set[asyncio.Task[None]] = set()
        self._rests = False

    def __bool__(self) -> bool:
        """Whether anything has gathered."""
        return bool(self._gathered)

    def note(self, engine: Engine, place: ConversationKey, done: CallActivity) -> None:
        """Remember a call."""
        known = self._gathered.get(place)
        if known is None:
            known = self._gathered[place] = ConversationActivity(engine, engine.clock())
        known.engine = engine
        known.add(done)

    def places(self) -> list[ConversationKey]:
        """Where something has gathered."""
        return list(self._gathered)

    def take(
        self, place: ConversationKey | None = None
    ) -> list[tuple[ConversationKey, ConversationActivity]]:
        """What has gathered, of one place or of all; it is the taker's now."""
        places = list(self._gathered) if place is None else [place]
        return [(one, found) for one in places if (found := self._gathered.pop(one, None)) is not None]

    def give_back(self, place: ConversationKey, gathered: ConversationActivity) -> None:
        """What could not be written, before what came since."""
        since = self._gathered.get(place)
        if since is not None:
            gathered.tools.update(since.tools)
            gathered.stored = newest_ids([*gathered.stored, *since.stored], MOST_STORED)
            gathered.answers.update(since.answers)
            gathered.touched = newest_ids([*gathered.touched, *since.touched], MOST_TOUCHED)
        self._gathered[place] = gathered

    def arrange(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have `write` called a while from now, once however often it is arranged until then."""
        if self._timer is None and not self._rests:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin, write)

    async def rest(self) -> None:
        """Nothing is arranged any more, and what was begun is done, well or not."""
        self._rests = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _begin(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(write())
        self._writing.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what was done in conversations could not be written down", exc_info=error)


def newest_ids(ids: Iterable[str], most: int) -> dict[str, None]:
    """The last so many, each once, at its latest place."""
    found = list(dict.fromkeys(reversed(list(ids))))[:most]
    return dict.fromkeys(reversed(found))


STORED, RECALLED = "memories stored", "memories recalled"


def call_activity_of(operation: Operation[Any, Any], answer: Output, *, tool: str | None) -> CallActivity:
    """One call, in the words of the conversation's activity."""
    return CallActivity(
        tool or operation.name,
        stored=tuple(operation.stored_ids(answer)) if operation.stored_ids else (),
        gave=tuple(operation.shown_ids(answer)) if operation.shown_ids else None,
    )


def note_call_activity(
    engine: Engine, operation: Operation[Any, Any], done: CallActivity, *, conversation: str, caller: Caller
) -> None:
    """A call in a conversation: told to what stands beside the store at once, and to the store before long."""
    if engine.sidecar is not NO_SIDECAR:
        memories = {STORED: len(done.stored), RECALLED: len(done.gave or ())}
        counts = {operation.name: 1} | {name: number for name, number in memories.items() if number}
        engine.sidecar.activity.note(conversation, agent=caller.agent, counts=counts)
    if caller.writes:  # who may only read leaves nothing behind
        from mindhold.conversations.sessions import note_call  # only for doors that know of conversations

        note_call(engine, conversation, done, agent=caller.agent)


async def flush_activity(engine: Engine) -> None:
    """At the end of the process: what was noted is written."""
    await engine.activity.rest()
    if engine.activity:
        from mindhold.conversations.sessions import write_activity

        await write_activity(engine)
