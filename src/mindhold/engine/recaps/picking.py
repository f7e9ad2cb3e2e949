"""What of a conversation is worth telling again, in its own words: by rules, always the same of the same messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mindhold.engine.capture.item import Item
from mindhold.engine.capture.rules import by_rules
from mindhold.engine.capture.rules.speech import Sentence, sentences
from mindhold.engine.core import Engine
from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.insights import section_of, statements
from mindhold.engine.recaps.points import Point, Sort, values_of
from mindhold.engine.reflect import OPEN_QUESTION
from mindhold.engine.text.noise import is_noise
from mindhold.engine.text.overlap import content_words
from mindhold.engine.text.suspicion import suspicion
from mindhold.engine.text.worth import worth
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step, beginning

FEW = 8  # messages that rules look at in one go
LONGEST_POINT = 320  # characters
LONG = 160  # of what is taken for one sentence, from which on it is looked at more closely
OUTRIGHT, BY_RULES, LEFT_OPEN = (
    3.0,
    2.0,
    1.8,
)  # weights; sentences of themselves have 1 at most, and a little for what they share
LEAST_WORTH = 0.52  # of a sentence that is told
TELLING, MOST_VALUES = 0.2, 2  # what each number, date or path adds
SHARED = 0.3  # the most that sharing the words of the whole adds
MOST_SENTENCES = 2_000
_ROLES = {"user": Role.USER, "assistant": Role.CLAUDE}
_DECIDED = frozenset({Kind.DECISION})
_ASKS = ("?", "？")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said, and which message that is."""

    id: str
    who: str
    text: str
    occurred: datetime


async def picked(engine: Engine, said: Sequence[Utterance]) -> list[Point]:
    """All that may be told, weighed, in the order of the conversation."""
    items = await _items(engine, said)
    return await asyncio.to_thread(_picked, said, items)


async def _items(engine: Engine, said: Sequence[Utterance]) -> list[Item]:
    """What silent capture would pick out."""
    steps = _steps(said)
    items: list[Item] = []
    carried: Mapping[str, Any] = {}
    for start in range(0, len(steps), FEW):
        found = await by_rules(engine, steps[start : start + FEW], carried, folder="")
        items, carried = [*items, *found.items], found.carried
        await asyncio.sleep(0)  # others have their turn
    return items


def _steps(said: Sequence[Utterance]) -> list[Step]:
    """What neither a person nor an assistant says is told by nobody."""
    return [
        Step(_ROLES[one.who], one.text, line=number, end=number, timestamp=one.occurred)
        for number, one in enumerate(said, 1)
        if one.who in _ROLES
    ]


def _picked(said: Sequence[Utterance], items: Sequence[Item]) -> list[Point]:
    spoken = [
        replace(one, text=text)
        for one in sentences(_steps(said))
        for text in (statements(one.text) if len(one.text) > LONG else (one.text,))
    ][:MOST_SENTENCES]
    found = [*_captured(said, items), *_spoken(said, spoken)]
    safe = [(line, point) for line, point in found if suspicion(point.text).score < QUARANTINE_FROM]
    return [point for _, point in sorted(safe, key=lambda pair: pair[0])]


def _captured(said: Sequence[Utterance], items: Sequence[Item]) -> Iterator[tuple[int, Point]]:
    for item in items:
        if not 1 <= item.line <= len(said):
            continue
        sort = (
            Sort.DECIDED if item.kind in _DECIDED else Sort.OPEN if OPEN_QUESTION in item.tags else Sort.SAID
        )
        weight = BY_RULES + item.confidence * (1.0 if sort is Sort.DECIDED else 0.5)
        yield item.line, _point(said[item.line - 1], sort, item.content, weight)


def _spoken(said: Sequence[Utterance], spoken: Sequence[Sentence]) -> Iterator[tuple[int, Point]]:
    common = Counter(word for one in spoken for word in content_words(one.text))
    most = max(common.values(), default=1)
    unanswered = _unanswered(said)
    for one in spoken:
        value = worth(one.text)
        asks = one.text.rstrip().endswith(_ASKS)
        if asks and one.line in unanswered:
            yield one.line, _point(said[one.line - 1], Sort.OPEN, one.text, LEFT_OPEN + value.score)
            continue
        if value.score < LEAST_WORTH or asks:
            continue
        section = section_of(one.text, "")
        if section == "key_decisions":
            yield one.line, _point(said[one.line - 1], Sort.DECIDED, one.text, OUTRIGHT)
            continue
        words = content_words(one.text)
        shared = sum(common[word] for word in words) / (most * len(words)) if words else 0.0
        telling = TELLING * min(MOST_VALUES, len(values_of(one.text)))
        weight = (OUTRIGHT - 0.5 if section else value.score) + SHARED * shared + telling
        yield one.line, _point(said[one.line - 1], Sort.SAID, one.text, weight)


def _unanswered(said: Sequence[Utterance]) -> set[int]:
    """The numbers of those that nobody else answered."""
    answered: str = ""  # by whom, later
    waiting: set[int] = set()
    for number in range(len(said), 0, -1):
        one = said[number - 1]
        if not answered or answered == one.who:
            waiting.add(number)
        if not is_noise(one.text):
            if answered and answered != one.who:
                break
            answered = one.who
    return waiting


def _point(one: Utterance, sort: Sort, text: str, weight: float) -> Point:
    line = " ".join(text.split())
    short = line if len(line) <= LONGEST_POINT else beginning(line, LONGEST_POINT - 1).rstrip() + "…"
    return Point(sort, short, who=one.who, source=one.id, weight=weight)
