"""What each conversation did, told to what stands beside the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.engine.core import Engine
from recollect.operations.catalogue import Operation, Output
from recollect.ports.cache import ALONE, Active, Activity, Aside, AsideFacts, Bell, Cache, KeywordSets

STORED, RECALLED = "memories stored", "memories recalled"


def note_done(
    engine: Engine, operation: Operation[Any, Any], answer: Output, *, conversation: str, agent: str
) -> None:
    """One call, and the memories that it stored or recalled."""
    if engine.aside is not ALONE:
        counts = {operation.name: 1} | {name: number for name, number in _memories(answer).items() if number}
        engine.aside.activity.note(conversation, agent=agent, counts=counts)


def _memories(answer: Output) -> dict[str, int]:
    from recollect.operations.reading import (
        RecallResult,
    )  # only for those who have something beside the store
    from recollect.operations.writing import RememberManyResult, RememberResult

    match answer:
        case RecallResult():
            return {RECALLED: len(answer.hits)}
        case RememberResult():
            return {STORED: int(answer.created)}
        case RememberManyResult():
            return {STORED: answer.created}
        case _:
            return {}


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
