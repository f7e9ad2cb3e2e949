"""What a summary says: decisions, what else was said, open ends. Pure, and read back from the text that it was written as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mindhold.engine.text.overlap import content_words
from mindhold.engine.text.sameness import TOKEN
from mindhold.model.tokens import count_tokens

TOLD = 0.9  # of its words another point has: then it is no news
BULLET = "- "
_VALUES = ("date", "path", "number")


class Sort(StrEnum):
    """In the order of the text; the values are its headings."""

    DECIDED = "Decided:"
    SAID = "Said:"
    OPEN = "Open:"


@dataclass(frozen=True, slots=True)
class Point:
    """One statement: who made it, or when, and which memory it stands in. The greater the weight, the sooner it is told."""

    sort: Sort
    text: str
    who: str = ""
    source: str = ""
    weight: float = 0.0

    @property
    def line(self) -> str:
        """As it is told."""
        return f"{BULLET}{self.who}: {self.text}" if self.who else f"{BULLET}{self.text}"


def chosen(points: Iterable[Point], *, room: int) -> list[Point]:
    """The weightiest that so many tokens have room for, each told once, in the order that they came in."""
    listed = list(points)
    told: list[tuple[frozenset[str], frozenset[str]]] = []
    taken: set[int] = set()
    sorts: set[Sort] = set()
    for place in sorted(range(len(listed)), key=lambda one: (-listed[one].weight, one)):
        point = listed[place]
        words, values = content_words(point.text), values_of(point.text)
        if not words or any(
            values <= others and len(words & other) >= TOLD * len(words) for other, others in told
        ):
            continue
        cost = count_tokens(f"\n{point.line}") + (
            0 if point.sort in sorts else count_tokens(f"\n{point.sort}")
        )
        if cost > room:
            continue
        room -= cost
        told.append((words, values))
        taken.add(place)
        sorts.add(point.sort)
    return [listed[place] for place in sorted(taken)]


def values_of(text: str) -> frozenset[str]:
    """Dates, paths and numbers: what makes it another statement, and nobody remembers by themselves."""
    return frozenset(match[0] for match in TOKEN.finditer(text) if match.lastgroup in _VALUES)


def rendered(heading: str, points: Sequence[Point], *, narrative: str = "") -> str:
    """As text: the heading, the story if there is one, and the points by their sort."""
    lines = [heading, *([narrative] if narrative else [])]
    for sort in Sort:
        own = [point.line for point in points if point.sort is sort]
        lines += [sort.value, *own] if own else []
    return "\n".join(lines)


def read(text: str) -> tuple[str, list[Point]]:
    """The story and the points that a text was written of; a person's own words are a story."""
    _heading, *lines = text.split("\n")
    sort: Sort | None = None
    story: list[str] = []
    points: list[Point] = []
    headings = {one.value: one for one in Sort}
    for line in lines:
        if line in headings:
            sort = headings[line]
        elif sort is not None and line.startswith(BULLET):
            points.append(Point(sort, line.removeprefix(BULLET)))
        elif line.strip():
            story.append(line)
    return "\n".join(story), points


def weighed(points: Iterable[Point], weight: float) -> list[Point]:
    """So much weightier."""
    return [replace(point, weight=point.weight + weight) for point in points]
