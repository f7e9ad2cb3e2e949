"""What a project's summary is made of, and how something new is worked into it without end. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from recollect.engine.text.sameness import replaces, same_statement

SHORT = 120  # what an old insight is condensed to
SECTIONS = ("key_decisions", "tech_stack", "patterns", "gotchas")
HEADINGS = {
    "key_decisions": "Key decisions",
    "tech_stack": "Tech stack",
    "patterns": "Patterns",
    "gotchas": "Gotchas",
    "insights": "Insights",
}
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_HEADING = re.compile(r"^\s*#{1,6}\s+|^\s*[-=*_]{3,}\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A summary by its parts; lists run from the oldest entry to the newest."""

    narrative: str = ""
    key_decisions: tuple[str, ...] = ()
    tech_stack: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    gotchas: tuple[str, ...] = ()
    insights: tuple[str, ...] = ()

    def as_metadata(self) -> dict[str, Any]:
        """For the record that holds it."""
        return {"narrative": self.narrative, **{name: list(getattr(self, name)) for name in HEADINGS}}

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any]) -> Knowledge:
        """The other way; what is missing or no text is empty."""
        lists = {
            name: tuple(entry for entry in metadata.get(name) or () if isinstance(entry, str))
            for name in HEADINGS
        }
        return cls(narrative=str(metadata.get("narrative") or ""), **lists)


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement and its words, so that the close look is for the few that need it."""

    text: str
    words: frozenset[str] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> _Said:
        return cls(text, frozenset(_WORD.findall(text.casefold())))

    def repeats(self, other: _Said) -> bool:
        """Whether both say the same."""
        near = 3 * len(self.words & other.words) >= 2 * max(len(self.words), len(other.words))
        return near and same_statement(self.text, other.text)


def rendered(knowledge: Knowledge, *, title: str) -> str:
    """As Markdown."""
    blocks = [f"# {title}", knowledge.narrative]
    for name, heading in HEADINGS.items():
        entries: tuple[str, ...] = getattr(knowledge, name)
        if entries:
            blocks.append("\n".join([f"## {heading}", *(f"- {entry}" for entry in entries)]))
    return "\n\n".join(filter(None, blocks))


def entries_of(text: str) -> list[str]:
    """What a person or a model wrote, one entry a paragraph or bullet, without the marks."""
    entries: list[str] = []
    grows = False  # whether the next line goes on with the entry before
    for line in text.splitlines():
        if not line.strip() or _HEADING.match(line):
            grows = False
            continue
        bullet = _BULLET.match(line)
        said = " ".join(line[bullet.end() if bullet else 0 :].split())
        if grows and not bullet:
            entries[-1] = f"{entries[-1]} {said}"
        elif said:
            entries.append(said)
        grows = bool(entries)
    return entries


def merged(knowledge: Knowledge, new: Iterable[str], *, into: str) -> Knowledge:
    """With new entries in one of the lists: what is said already is passed over, what is overtaken goes."""
    for entry in new:
        statements = [_Said.of(part) for part in _statements(entry)]
        known = [_Said.of(part) for text in _everything(knowledge) for part in _statements(text)]
        if statements and all(any(one.repeats(other) for other in known) for one in statements):
            continue
        lists: dict[str, Any] = {name: _without(getattr(knowledge, name), statements) for name in HEADINGS}
        lists[into] = (*lists[into], entry)
        knowledge = replace(knowledge, **lists)
    return knowledge


def bounded(knowledge: Knowledge, *, title: str, longest: int) -> Knowledge:
    """At most so many characters when rendered: the oldest insights are condensed, then dropped, the rest after them."""
    for name in ("insights", *reversed(SECTIONS)):
        for step in (_condensed, _dropped):
            kept: list[str] = list(getattr(knowledge, name))
            place = 0
            while place < len(kept) and len(rendered(knowledge, title=title)) > longest:
                place = step(kept, place)
                shorter: dict[str, Any] = {name: tuple(kept)}
                knowledge = replace(knowledge, **shorter)
    over = len(rendered(knowledge, title=title)) - longest
    if over > 0:
        room = max(0, len(knowledge.narrative) - over - 1)
        knowledge = replace(knowledge, narrative=knowledge.narrative[:room].rstrip() + "…")
    return knowledge


def _condensed(entries: list[str], place: int) -> int:
    first = _statements(entries[place])[0]
    entries[place] = first if len(first) <= SHORT else first[: SHORT - 1].rstrip() + "…"
    return place + 1


def _dropped(entries: list[str], place: int) -> int:
    del entries[place]
    return place


def _without(entries: Sequence[str], new: Sequence[_Said]) -> tuple[str, ...]:
    """Those that the new statements neither repeat as a whole nor say have changed."""

    def overtaken(old: _Said) -> bool:
        return any(one.repeats(old) or replaces(one.text, old.text) for one in new)

    return tuple(
        entry for entry in entries if not all(overtaken(_Said.of(part)) for part in _statements(entry))
    )


def _everything(knowledge: Knowledge) -> Iterable[str]:
    return chain([knowledge.narrative], *(getattr(knowledge, name) for name in HEADINGS))


def _statements(text: str) -> list[str]:
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()] or [text]
