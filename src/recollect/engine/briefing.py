"""What of a briefing fits into a budget of tokens: the summary first, then the newest and the related share fairly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """So many of the newest, and the places of the related ones that fit beside them."""

    recent: int
    related: tuple[int, ...]


def fitted(room: int, *, recent: Sequence[int], related: Sequence[int]) -> Fit:
    """Both by their costs in tokens: of the newest an unbroken run, of the related each that still fits, best first.

    Either has half of the room, and what the other leaves of its own.
    """
    wanted, half = sum(related), max(room, 0) // 2
    run = _run(recent, max(half, room - wanted))
    left = room - sum(recent[:run])
    chosen = _each(related, left)
    spare = left - sum(related[place] for place in chosen)
    return Fit(run + _run(recent[run:], spare), chosen)


def _run(costs: Sequence[int], room: int) -> int:
    for number, cost in enumerate(costs):
        room -= cost
        if room < 0:
            return number
    return len(costs)


def _each(costs: Sequence[int], room: int) -> tuple[int, ...]:
    chosen: list[int] = []
    for place, cost in enumerate(costs):
        if cost <= room:
            chosen.append(place)
            room -= cost
    return tuple(chosen)
