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


INTERVAL = 60.0  # seconds: a crash loses at most this much activity, and never a memory
MOST_STORED = 500  # ids per conversation, the newest
MOST_TOUCHED = 200
MOST_ANSWERED = 50
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """A conversation of an agent. `fence` are the scopes that its caller is limited to; they have namespaces of their own."""

    fence: tuple[str, ...]
    agent: str
    conversation: str

    @property
    def key(self) -> str:
        """A unique string."""
        return json.dumps([list(self.fence), self.agent, self.conversation], ensure_ascii=False)

    def as_value(self) -> dict[str, Any]:
        """The stored form."""
        return {"fence": list(self.fence), "agent": self.agent, "conversation": self.conversation}

    @classmethod
    def of_value(cls, value: Mapping[str, Any]) -> ConversationKey:
        """Parse the stored form."""
        return cls(tuple(value["fence"]), value["agent"], value["conversation"])


@dataclass(frozen=True, slots=True)
class CallActivity:
    """One call: the ids it stored and the ids in its result (None: the operation never returns memories)."""

    tool: str
    stored: tuple[str, ...] = ()
    gave: tuple[str, ...] | None = None


@dataclass(slots=True)
class ConversationActivity:
    """The activity of one conversation since the last write."""

    engine: Engine
    started: datetime
    tools: Counter[str] = field(default_factory=Counter)
    stored: dict[str, None] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the latest of each tool

    def add(self, call: CallActivity) -> None:
        """Add one call."""
        self.tools[call.tool] += 1
        self.stored = newest_ids([*self.stored, *call.stored], MOST_STORED)
        if call.gave is not None:
            self.answers[call.tool] = call.gave[:MOST_ANSWERED]
            self.touched = newest_ids([*self.touched, *call.gave], MOST_TOUCHED)


class ActivityBuffer:
    """Collects the activity of all conversations of this process. `arrange` schedules a write after the first one."""

    def __init__(self, seconds: float = INTERVAL) -> None:
        self._seconds = seconds
        self._pending: dict[ConversationKey, ConversationActivity] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: set[asyncio.Task[None]] = set()
        self._stopped = False

    def __bool__(self) -> bool:
        """Whether there is unwritten activity."""
        return bool(self._pending)

    def note(self, engine: Engine, key: ConversationKey, call: CallActivity) -> None:
        """Add a call."""
        activity = self._pending.get(key)
        if activity is None:
            activity = self._pending[key] = ConversationActivity(engine, engine.clock())
        activity.engine = engine
        activity.add(call)

    def places(self) -> list[ConversationKey]:
        """The conversations with unwritten activity."""
        return list(self._pending)

    def take(self, key: ConversationKey) -> ConversationActivity | None:
        """Remove and return the activity of one conversation."""
        return self._pending.pop(key, None)

    def give_back(self, key: ConversationKey, activity: ConversationActivity) -> None:
        """Put activity that could not be written back, before what was added since."""
        since = self._pending.get(key)
        if since is not None:
            activity.tools.update(since.tools)
            activity.stored = newest_ids([*activity.stored, *since.stored], MOST_STORED)
            activity.answers.update(since.answers)
            activity.touched = newest_ids([*activity.touched, *since.touched], MOST_TOUCHED)
        self._pending[key] = activity

    def arrange(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Schedule one call of `write`; further calls until then do nothing."""
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._start_write, write)

    async def rest(self) -> None:
        """Schedule nothing more and wait for writes that have begun."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _start_write(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(write())
        self._writing.add(task)
        task.add_done_callback(self._on_written)

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("what was done in conversations could not be written down", exc_info=error)


def newest_ids(ids: Iterable[str], most: int) -> dict[str, None]:
    """The last `most` ids, each once, at its latest position."""
    newest = list(dict.fromkeys(reversed(list(ids))))[:most]
    return dict.fromkeys(reversed(newest))


STORED, RECALLED = "memories stored", "memories recalled"


def call_activity_of(operation: Operation[Any, Any], answer: Output, *, tool: str | None) -> CallActivity:
    """Describe one call as activity."""
    return CallActivity(
        tool or operation.name,
        stored=tuple(operation.stored_ids(answer)) if operation.stored_ids else (),
        gave=tuple(operation.shown_ids(answer)) if operation.shown_ids else None,
    )


def note_call_activity(
    engine: Engine, operation: Operation[Any, Any], call: CallActivity, *, conversation: str, caller: Caller
) -> None:
    """Record a call: in the sidecar at once, in the store soon."""
    if engine.sidecar is not NO_SIDECAR:
        memories = {STORED: len(call.stored), RECALLED: len(call.gave or ())}
        counts = {operation.name: 1} | {name: number for name, number in memories.items() if number}
        engine.sidecar.activity.note(conversation, agent=caller.agent, counts=counts)
    if caller.writes:  # a caller who may only read leaves no trace
        from mindhold.conversations.sessions import note_call  # only needed by interfaces with conversations

        note_call(engine, conversation, call, agent=caller.agent)


async def flush_activity(engine: Engine) -> None:
    """Write all activity at the end of the process."""
    await engine.activity.rest()
    if engine.activity:
        from mindhold.conversations.sessions import write_activity

        await write_activity(engine)
