"""What models have cost: by day, by purpose, by model, and for which memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mindhold.engine.core import Engine
from mindhold.engine.ledger import EMBEDDING, LANGUAGE, OTHER, Spend, day_of, lines_of, summed

Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Share:
    """What a day, a purpose or a model has of it."""

    name: str
    spend: Spend
    memories: tuple[str, ...]  # each once


@dataclass(frozen=True, slots=True)
class Spending:
    """Days that nothing was asked on are absent; the newest comes first, of the others the dearest."""

    days: tuple[Share, ...]
    purposes: tuple[Share, ...]
    models: tuple[Share, ...]
    total: Share
    today: Spend  # of language models, which have the budget


async def spending(engine: Engine, *, days: int) -> Spending:
    """Of so many days (UTC), today's included. Raises the store's errors."""
    now = engine.clock()
    by_day: dict[str, Lines] = {}
    for back in range(days):
        day = day_of(now - timedelta(days=back))
        by_day[day] = await lines_of(engine.ledger, day, now=now)
    lines = [line for of_day in by_day.values() for line in of_day]
    return Spending(
        days=tuple(_share(day, of_day) for day, of_day in by_day.items() if of_day),
        purposes=_shares(lines, _purpose),
        models=_shares(lines, lambda line: str(line["model"])),
        total=_share("total", lines),
        today=summed(line for line in by_day[day_of(now)] if line.get("kind", LANGUAGE) == LANGUAGE),
    )


def _purpose(line: Mapping[str, Any]) -> str:
    return EMBEDDING if line.get("kind") == EMBEDDING else str(line.get("purpose") or OTHER)


def _shares(lines: Lines, name_of: Callable[[Mapping[str, Any]], str]) -> tuple[Share, ...]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[name_of(line)].append(line)
    shares = [_share(name, group) for name, group in groups.items()]
    return tuple(sorted(shares, key=lambda one: (-one.spend.dollars, -one.spend.tokens, one.name)))


def _share(name: str, lines: Lines) -> Share:
    ids = dict.fromkeys(one for line in lines for one in line.get("memories", ()))
    return Share(name, summed(lines), tuple(ids))
