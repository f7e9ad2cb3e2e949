"""What each conversation did, told to what stands beside the store."""

from __future__ import annotations

from typing import Any

from recollect.engine.core import Engine
from recollect.operations.catalogue import Operation, Output
from recollect.ports.cache import ALONE

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
