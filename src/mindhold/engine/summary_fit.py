"""A summary that never grows without end: what matters least is told in fewer words first, and then no more. Pure.

Whatever goes is still in the versions before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from mindhold.engine.insights import INSIGHTS, Knowledge, rendered, statements

NARRATIVE = "narrative"
HEAVIEST = 5  # so many times its characters a summary may weigh as the JSON that is kept of it
_HEAVIEST_CHARACTER = 12  # as JSON has those that take two escapes
_CUT_AT_LEAST = 0.5  # of the room: no cut at a blank before that


@dataclass(frozen=True, slots=True)
class _Step:
    """Of a section, from the oldest entry on: each to so many characters (0: it goes), but for the newest ones."""

    section: str
    longest: int
    spared: int = 0


# From the least loss to the greatest: old insights are shortened first, decisions go last.
_STEPS = (
    _Step(INSIGHTS, 240, 3),
    _Step(INSIGHTS, 120, 3),
    _Step("patterns", 240),
    _Step("gotchas", 240),
    _Step("key_decisions", 320),
    _Step(INSIGHTS, 0, 3),
    _Step("patterns", 120),
    _Step("patterns", 0, 5),
    _Step("tech_stack", 80),
    _Step("tech_stack", 0, 40),
    _Step("gotchas", 160),
    _Step("gotchas", 0, 20),
    _Step(INSIGHTS, 240),
    _Step("key_decisions", 160, 3),
    _Step(NARRATIVE, 2),
    _Step("key_decisions", 0, 60),
    _Step("gotchas", 0, 10),
    _Step("key_decisions", 0, 40),
    _Step(INSIGHTS, 0, 1),
    _Step(NARRATIVE, 4),
    _Step("patterns", 0, 1),
    _Step("tech_stack", 0, 10),
    _Step("gotchas", 0, 3),
    _Step("key_decisions", 0, 3),
    _Step(NARRATIVE, 20),
)


def fits(knowledge: Knowledge, *, title: str, longest: int) -> bool:
    """Whether it has at most so many characters when rendered, and isn't too heavy to be kept."""
    return _excess(knowledge, title=title, longest=longest) <= 0


def bounded(knowledge: Knowledge, *, title: str, longest: int) -> Knowledge:
    """What fits, with as little lost as can be."""
    for step in _STEPS:
        if fits(knowledge, title=title, longest=longest):
            return knowledge
        if step.section == NARRATIVE:
            knowledge = replace(knowledge, narrative=cut(knowledge.narrative, longest // step.longest))
        else:
            knowledge = _taken(knowledge, step, title=title, longest=longest)
    if fits(knowledge, title=title, longest=longest):
        return knowledge
    few = Knowledge()  # of what is short by now
    for name in ("key_decisions", "gotchas", INSIGHTS):
        few = few.with_entries(name, knowledge.entries(name)[-1:])
    return few


def _taken(knowledge: Knowledge, step: _Step, *, title: str, longest: int) -> Knowledge:
    """As much of a step as is needed."""
    entries = knowledge.entries(step.section)
    kept = list(entries[: max(0, len(entries) - step.spared)])
    spared = entries[len(kept) :]
    excess = _excess(knowledge, title=title, longest=longest)
    for place, entry in enumerate(entries[: len(kept)]):
        if excess <= 0:
            excess = _excess(knowledge, title=title, longest=longest)
            if excess <= 0:
                break
        kept[place] = cut(entry, step.longest) if step.longest else ""
        excess -= len(entry) - len(kept[place])
        knowledge = knowledge.with_entries(step.section, (*filter(None, kept), *spared))
    return knowledge


def _excess(knowledge: Knowledge, *, title: str, longest: int) -> int:
    """How many characters are too many, at least."""
    over = len(rendered(knowledge, title=title)) - longest
    heavy = len(json.dumps(knowledge.as_metadata())) - HEAVIEST * longest
    return max(over, -(-heavy // _HEAVIEST_CHARACTER))


def cut(text: str, longest: int) -> str:
    """Its first sentences, as many as there is room for; of the very first one the beginning."""
    if len(text) <= longest:
        return text
    end = 0
    for sentence in statements(text):
        start = text.find(sentence, end)
        if start < 0 or start + len(sentence) > longest:
            break
        end = start + len(sentence)
    if end:
        return text[:end]
    blank = text.rfind(" ", int(longest * _CUT_AT_LEAST), longest - 1)
    return text[: blank if blank > 0 else longest - 1].rstrip() + "…"
