"""What of a briefing fits into a budget of tokens: the summary first, then the newest and the related share fairly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fit:
    """So many of the newest, and the places of the related ones that fit beside them."""

    recent: int
    related: tuple[int, ...]


def fitted(
    room: int,
    *,
    recent: Sequence[int],
    related: Sequence[int],
    same: Mapping[int, int] | None = None,
    most: int | None = None,
) -> Fit:
    """Both by their costs in tokens: of the newest an unbroken run, of the related each that still fits, best first.

    The newest have half of the room, the related what is left, and the newest what these leave. `same` says which of the
    related are among the newest, and where: they come once. Of the related there are `most` at most.
    """
    places = same or {}
    run = _run(recent, max(room, 0) // 2)
    spare = room - sum(recent[:run])
    chosen: list[int] = []
    for place, cost in enumerate(related):
        if cost <= spare and len(chosen) != most and places.get(place, run) >= run:
            chosen.append(place)
            spare -= cost
    twice = {where: place for place, where in places.items()}
    for cost in recent[run:]:
        freed = related[twice[run]] if twice.get(run) in chosen else 0
        if cost > spare + freed:
            break
        spare += freed - cost
        chosen = [place for place in chosen if place != twice.get(run)]
        run += 1
    return Fit(run, tuple(chosen))


def _run(costs: Sequence[int], room: int) -> int:
    for number, cost in enumerate(costs):
        room -= cost
        if room < 0:
            return number
    return len(costs)
