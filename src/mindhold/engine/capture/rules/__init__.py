"""What a conversation left that is worth keeping, by rules: for people who have no language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mindhold.engine.capture.item import Found, Item
from mindhold.engine.capture.rules.agreement import agreements
from mindhold.engine.capture.rules.architecture import architecture
from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.carrying import Carried
from mindhold.engine.capture.rules.choosing import chosen
from mindhold.engine.capture.rules.corrections import corrections
from mindhold.engine.capture.rules.decisions import decisions
from mindhold.engine.capture.rules.deeds import deeds, undone
from mindhold.engine.capture.rules.failures import mended, still_open
from mindhold.engine.capture.rules.findings import conflicts, reported, told
from mindhold.engine.capture.rules.gotchas import gotchas
from mindhold.engine.capture.rules.korean import stated_in_korean
from mindhold.engine.capture.rules.mishaps import mishaps
from mindhold.engine.capture.rules.own_choices import own_choices, put_right
from mindhold.engine.capture.rules.preferences import preferences
from mindhold.engine.capture.rules.procedures import procedures
from mindhold.engine.capture.rules.progress import committed, finished, open_ends
from mindhold.engine.capture.rules.speech import Sentence, sentences
from mindhold.engine.capture.rules.stack import stack
from mindhold.engine.capture.rules.surroundings import surroundings
from mindhold.engine.capture.rules.tables import tabled
from mindhold.engine.core import Engine
from mindhold.engine.reflect import OPEN_QUESTION
from mindhold.engine.text.keywords import telling_keywords
from mindhold.engine.text.redact import redact
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step

MOST_TAGS = 4


async def by_rules(
    engine: Engine, steps: Sequence[Step], carried: Mapping[str, Any], *, folder: str
) -> Found:
    """What is new in these steps; `carried` is what the call before gave for the same conversation."""
    state = Carried.from_json(carried)
    said = list(sentences(steps))
    asked = state.offer is not None and state.offer.question != ""
    candidates = [_safe(one, folder) for one in _candidates(steps, said, state)]
    gone = undone(steps)
    candidates = [one for one in candidates if not any(name in one.content for name in gone)]
    kept = put_right(await chosen(engine, candidates), said, state.claims, asked=asked)
    if steps:
        last = max((one.line for one in steps if one.role == Role.USER and not one.aside), default=0)
        state.claims = [one.content for one in kept if one.own and one.line > last]
    items = tuple(_item(one) for one in kept if state.is_new(one.content))
    return Found(items, state.as_json())


def _candidates(steps: Sequence[Step], said: Sequence[Sentence], state: Carried) -> Iterator[Candidate]:
    done = list(deeds(steps))
    agreed, state.offer = agreements(steps, state.offer)
    yield from decisions(said, steps, done, agreed)
    yield from own_choices(said)
    yield from preferences(said)
    yield from corrections(said)
    yield from surroundings(said)
    yield from stated_in_korean(said)
    yield from mended(done, said, state.troubles)
    yield from conflicts(done, said)
    yield from reported(steps, said, done)
    yield from told(said)
    yield from mishaps(said)
    yield from procedures(done, said, steps, state.counts)
    yield from architecture(said)
    yield from tabled(steps)
    yield from stack(done)
    yield from gotchas(said)
    yield from committed(done)
    yield from finished(said)
    yield from open_ends(said)
    for trouble, text in still_open(state.troubles):
        if not trouble.reported:
            trouble.reported = text
            yield Candidate(Kind.PROGRESS, text, trouble.line, 0.8, tags=(OPEN_QUESTION,))


def _safe(candidate: Candidate, folder: str) -> Candidate:
    """Without secrets, and with paths as they are inside the project."""
    text = candidate.content
    if folder:
        root = folder.rstrip("/\\")
        text = text.replace(f"{root}/", "").replace(f"{root}\\", "")
    return replace(candidate, content=redact(text).text)


def _item(candidate: Candidate) -> Item:
    words = [word.lower() for word in telling_keywords(candidate.content, MOST_TAGS)]
    return Item(
        kind=candidate.kind,
        content=candidate.content,
        line=candidate.line,
        tags=tuple(dict.fromkeys([*candidate.tags, *words])),
        supersedes=candidate.supersedes,
        confidence=round(min(1.0, candidate.weight + 0.1), 2),
        metadata=candidate.metadata,
    )
