"""What each conversation did, told to what stands beside the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.doings import Done
from mindhold.model.access import Caller
from mindhold.operations.catalogue import Operation, Output
from mindhold.ports.cache import ALONE, Active, Activity, Aside, AsideFacts, Bell, Cache, KeywordSets

STORED, RECALLED = "memories stored", "memories recalled"
Ids = Callable[[Any], Iterable[str]]


def _listed(*names: str, by: str = "id") -> Ids:
    """The ids of what stands in an answer's lists of these names."""
    return lambda answer: [getattr(one, by) for name in names for one in getattr(answer, name)]


# The memories that an answer gives, by operation, and those that it says were stored.
GIVES: Mapping[str, Ids] = {
    "recall": _listed("hits"),
    "context": _listed("core", "working"),
    "list": _listed("memories"),
    "show": lambda answer: [answer.memory.id],
    "ask": _listed("citations"),
    "explore": _listed("nodes"),
}
STORES: Mapping[str, Ids] = {
    "remember": lambda answer: _created([answer]),
    "remember_many": lambda answer: _created(answer.results),
    "reflect": lambda answer: answer.ids,
    "store": lambda answer: _created([answer]),
}


def _created(results: Iterable[Any]) -> list[str]:
    return [each for one in results if one.created for each in (one.parts or [one.id]) if each]


def done_by(operation: Operation[Any, Any], answer: Output, *, tool: str | None) -> Done:
    """One call, in the words of the conversation's activity."""
    gives, stores = GIVES.get(operation.name), STORES.get(operation.name)
    return Done(
        tool or operation.name,
        stored=tuple(stores(answer)) if stores else (),
        gave=tuple(gives(answer)) if gives else None,
    )


def note_done(
    engine: Engine, operation: Operation[Any, Any], done: Done, *, conversation: str, caller: Caller
) -> None:
    """A call in a conversation: told to what stands beside the store at once, and to the store before long."""
    if engine.aside is not ALONE:
        memories = {STORED: len(done.stored), RECALLED: len(done.gave or ())}
        counts = {operation.name: 1} | {name: number for name, number in memories.items() if number}
        engine.aside.activity.note(conversation, agent=caller.agent, counts=counts)
    if caller.writes:  # who may only read leaves nothing behind
        from mindhold.engine.conversations import note_call  # only for doors that know of conversations

        note_call(engine, conversation, done, agent=caller.agent)


async def finish_notes(engine: Engine) -> None:
    """At the end of the process: what was noted is written."""
    await engine.doings.rest()
    if engine.doings:
        from mindhold.engine.conversations import write_down

        await write_down(engine)


class FencedAside:
    """What stands beside the store, but for what others do: of a conversation it isn't known in which scope it is."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    @property
    def keywords(self) -> KeywordSets:
        return self._aside.keywords

    @property
    def cache(self) -> Cache:
        return self._aside.cache

    @property
    def activity(self) -> Activity:
        return self

    @property
    def bell(self) -> Bell:
        return self._aside.bell

    async def facts(self) -> AsideFacts:
        return await self._aside.facts()

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        self._aside.activity.note(conversation, agent=agent, counts=counts)

    async def recent(self, *, viewer: str) -> list[Active]:
        return []
