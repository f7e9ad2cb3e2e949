"""What an operation is. Interfaces project the catalogue; none of them adds an ability of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from mindhold.engine.core import Engine
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.ports.llm import LanguageModel


class Effect(StrEnum):
    """What an operation may touch."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"


class Input(BaseModel):
    """Base of every operation's input: unknown fields are errors, so that typing mistakes are told."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Output(BaseModel):
    """Base of every operation's answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


def no_progress(_step: str, _done: int, _total: int | None) -> None:
    """For callers that don't show progress."""


def nothing() -> None:
    """For callers that needn't be told."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, on which engine, and whom to tell how far a long operation is."""

    engine: Engine
    agent: str
    progress: Callable[[str, int, int | None], None] = no_progress
    model: LanguageModel | None = None  # the caller's own, when it offers one
    conversation: str | None = None  # the one that the call is made in, when the door knows
    owner: bool = True  # whether the caller may know what concerns everybody


I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741


@dataclass(frozen=True, slots=True)
class Operation(Generic[I, O]):
    """One ability, declared once."""

    name: str
    summary: str
    takes: type[I]
    gives: type[O]
    run: Callable[[Call, I], Awaitable[O]]
    effect: Effect
    owner_only: bool = False  # concerns everybody: not for callers who are bound to an agent or to scopes


async def full_id(call: Call, given: str) -> str:
    """The id that a person's beginning of it stands for. Raises MemoryNotFound, InvalidInput when several do."""
    wanted = given.strip()
    if not wanted:
        raise InvalidInput("An id is empty.", advice="`mindhold list` shows ids.")
    found = await call.engine.store.resolve(wanted, viewer=call.agent)
    if wanted in found:
        return wanted
    if not found:
        raise MemoryNotFound(wanted)
    if len(found) > 1:
        raise InvalidInput(f"{wanted!r} begins several ids: {', '.join(found)}.", advice="Give more of it.")
    return found[0]


async def full_ids(call: Call, given: list[str]) -> list[str]:
    """Each in full, without repeats."""
    return list(dict.fromkeys([await full_id(call, one) for one in given]))
