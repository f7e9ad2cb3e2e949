"""The messages since a project's summary was last updated, and the statements in them that matter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mindhold.capture.items import CapturedItem
from mindhold.capture.rules.selection import extract_by_rules
from mindhold.conversations.messages import is_message, messages_where, role_of
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.hit_context import shortened
from mindhold.memories.prepare import QUARANTINE_FROM
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Kind, Memory, Status, id_time
from mindhold.model.query import Order, PagePosition
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.projects.summary import Summary, line_of
from mindhold.projects.summary_sections import (
    INSIGHTS,
    SummaryEntry,
    SummaryKnowledge,
    section_of,
    statements,
)
from mindhold.text.injection import suspicion
from mindhold.text.similarity import content_words

PAGE = 100
MOST_MESSAGES = 100  # the newest
LONGEST_MESSAGE = 2_000  # characters
MOST_CHARACTERS = 40_000
FEW = 8  # messages that rules process at once
LONGEST_MARK = 200
LATE = timedelta(minutes=10)  # the largest difference between a record's time and that of its id
NO_MESSAGE = "`last_summarized_message_id` names no message of this project that can be read: none were, and the mark stays where it was."
EARLIER = "The summary knows of later messages already: none were read, and the mark stays where it was."
MOST_FOUND = 12  # entries that rules take from messages at once
LONGEST_FOUND = 400  # characters of an entry
OUTRIGHT = 0.9  # the confidence of a sentence that names its kind
SAID = 0.7  # if this share of its words is known already, it is no news
_ROLES = {"user": Role.USER, "assistant": Role.CLAUDE}
_SECTIONS = {
    Kind.DECISION: "key_decisions",
    Kind.GOTCHA: "gotchas",
    Kind.ERROR: "gotchas",
    Kind.PATTERN: "patterns",
    Kind.PREFERENCE: "patterns",
    Kind.ARCHITECTURE: INSIGHTS,
    Kind.CONTEXT: INSIGHTS,
}


@dataclass(frozen=True, slots=True)
class Material:
    """Messages, oldest first and shortened, and the new mark; None leaves the mark as it is.

    `notice` says what was asked for and is missing.
    """

    messages: tuple[Memory, ...] = ()
    mark: str | None = None
    notice: str = ""


def checked_mark(mark: str | None) -> str | None:
    """Return a message id, whether it exists or not. Raises InvalidInput for an invalid one."""
    if mark is None or not mark.strip():
        return None
    mark = mark.strip()
    if len(mark) > LONGEST_MARK or not mark.isprintable() or any(character.isspace() for character in mark):
        raise InvalidInput(
            "That is no id of a message.", advice="Give the id that saving it answered, or leave it out."
        )
    if suspicion(mark).score >= QUARANTINE_FROM:
        raise InvalidInput("That is no id of a message.", advice="It reads like an instruction.")
    return mark


async def material_since(engine: Engine, before: Summary, mark: str | None, *, agent: str) -> Material:
    """Return messages that were saved after the summary's mark, up to the new mark; if too many, the newest.

    The order is that of saving, by id, whatever time a message states. A mark never goes back, and one that can't be read (erased,
    quarantined, of another project) changes nothing.
    """
    if mark is None:
        return Material()
    last = await _message(engine, mark, before.project, agent=agent)
    if last is None:
        return Material(notice=NO_MESSAGE)
    last_known = place_of(before.last_message)
    if last.id <= last_known:
        return Material(notice=EARLIER if last.id < last_known else "")
    messages: list[Memory] = []
    room = MOST_CHARACTERS
    async for memory in _saved_between(engine, before, last, agent=agent):
        if not is_message(memory) or suspicion(memory.content).score >= QUARANTINE_FROM:
            continue
        short = shortened(memory, LONGEST_MESSAGE)
        room -= len(short.content)
        if room < 0 or len(messages) == MOST_MESSAGES:
            return Material(
                _in_order(messages), mark, "Only the newest messages were read: there are too many."
            )
        messages.append(short)
    return Material(_in_order(messages), mark)


def further_mark(material: Material, *, before: Summary, now: Summary) -> str | None:
    """Return the new mark of a summary that may have changed since the material was read.

    If an older version was restored meanwhile, its mark stays, so that the next update reads the messages since then.
    """
    present = place_of(now.last_message)
    if material.mark is None or present < place_of(before.last_message):
        return now.last_message
    return max(present, material.mark)


def place_of(mark: str | None) -> str:
    """Return the sort key of a message in the order of saving; an unknown id comes first."""
    return mark if mark and id_time(mark) else ""


async def _saved_between(
    engine: Engine, before: Summary, last: Memory, *, agent: str
) -> AsyncIterator[Memory]:
    """Yield messages, newest first, from the last one back to the summary's mark.

    There may be many later ones; one page of these is searched for messages that were amended since.
    """
    last_known = place_of(before.last_message)
    where = messages_where(before.project, viewer=agent)
    if since := id_time(last_known):
        where = replace(where, changed=since - LATE)
    start = (id_time(last.id) or last.created) + LATE
    after: PagePosition | None = None
    page: Sequence[Memory] = ()
    while after is None or len(page) == PAGE:
        page = await engine.store.find(where, order=Order.CHANGED, limit=PAGE, after=after)
        for memory in page:
            if last_known < memory.id <= last.id:
                yield memory
        if not page:
            return
        far = after is None and page[-1].updated > start
        after = PagePosition(start, "") if far else PagePosition.of(page[-1], Order.CHANGED)


def _in_order(messages: Sequence[Memory]) -> tuple[Memory, ...]:
    return tuple(sorted(messages, key=lambda one: one.id))


async def _message(engine: Engine, mark: str, project: str, *, agent: str) -> Memory | None:
    try:
        memory = await engine.store.get(mark, viewer=agent)
    except MemoryNotFound:
        return None
    trusted = memory.status is Status.ACTIVE and memory.trust >= LEAST_TRUST
    return memory if memory.scope == project and is_message(memory) and trusted else None


async def statements_by_rules(
    engine: Engine, messages: Sequence[Memory], *, known: SummaryKnowledge
) -> list[SummaryEntry]:
    """Return decisions, pitfalls and the like from the messages that the summary doesn't contain yet."""
    known_words = [content_words(statement) for text in known.texts() for statement in statements(text)]
    fresh: list[tuple[float, SummaryEntry]] = []
    for sureness, section, text in [*_outright(messages), *await _captured(engine, messages)]:
        words = content_words(text)
        if len(text) > LONGEST_FOUND or not words:
            continue
        if any(len(words & other) >= SAID * len(words) for other in known_words):
            continue
        line = line_of(engine, text)
        if line and suspicion(line).score < QUARANTINE_FROM:
            known_words.append(words)
            fresh.append((sureness, (section, line)))
    best = sorted(range(len(fresh)), key=lambda place: -fresh[place][0])[:MOST_FOUND]
    return [fresh[place][1] for place in sorted(best)]


def _outright(messages: Sequence[Memory]) -> Iterator[tuple[float, str, str]]:
    """Yield statements whose first words call them a decision or a pitfall."""
    for message in messages:
        if role_of(message) in _ROLES:
            for statement in statements(message.content):
                section = section_of(statement, "")
                if section and not statement.endswith("?"):
                    yield OUTRIGHT, section, statement


async def _captured(engine: Engine, messages: Sequence[Memory]) -> list[tuple[float, str, str]]:
    """Return what automatic capture would extract from these conversations."""
    conversations: dict[str, list[TranscriptStep]] = {}
    for number, message in enumerate(messages, 1):
        if (role := _ROLES.get(role_of(message))) is not None:
            steps = conversations.setdefault(message.provenance.conversation or "", [])
            steps.append(
                TranscriptStep(role, message.content, line=number, end=number, timestamp=message.occurred)
            )
    items: list[CapturedItem] = []
    for steps in conversations.values():
        carried: Mapping[str, Any] = {}
        for start in range(0, len(steps), FEW):
            extraction = await extract_by_rules(engine, steps[start : start + FEW], carried, folder="")
            items, carried = [*items, *extraction.items], extraction.carried
            await asyncio.sleep(0)  # let other tasks run
    return [(item.confidence, _SECTIONS[item.kind], item.content) for item in items if item.kind in _SECTIONS]
