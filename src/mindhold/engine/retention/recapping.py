"""What retention asks of summaries: which messages one stands for, and to write one."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from mindhold.engine.core import Engine
from mindhold.model.life import stands_for_others
from mindhold.model.memory import Status

_MODULE = "mindhold.engine.recaps"


class Covering(Protocol):
    """Which of these messages an active summary stands for."""

    def __call__(self, engine: Engine, ids: Sequence[str], /) -> Awaitable[AbstractSet[str]]: ...


class Recapping(Protocol):
    """Write the summary of a conversation, as far as there is none."""

    def __call__(self, engine: Engine, conversation: str, /, *, scope: str, agent: str) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Recaps:
    """Both; where nobody writes summaries, those that are there still count."""

    covering: Covering
    recap: Recapping | None = None


def recaps_of() -> Recaps:
    """Those of the engine."""
    if find_spec(_MODULE) is None:
        return Recaps(covered_by_lineage)
    module = import_module(_MODULE)
    return Recaps(module.covering, module.recap_conversation)


async def covered_by_lineage(engine: Engine, ids: Sequence[str], /) -> set[str]:
    """By what each summary says that it was made of."""
    wanted = set(ids)
    made = await engine.store.derived_from(list(ids)) if ids else []
    return {
        source
        for one in made
        if one.status is Status.ACTIVE and stands_for_others(one)
        for source in one.merged_from
        if source in wanted
    }
