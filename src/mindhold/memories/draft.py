"""The pure steps of the write path: from what a caller gave to a record that can be stored."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from mindhold.engine import Engine
from mindhold.memories.validation import (
    checked_labels,
    checked_metadata,
    checked_moment,
    checked_provenance,
    checked_share,
    checked_topic,
    everything_said,
)
from mindhold.model.errors import ContentTooLarge, EmptyContent, InvalidInput, MindholdError
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import DEFAULT_IMPORTANCE, Kind, Link, Memory, Provenance, Status, Tier
from mindhold.model.tokens import count_tokens
from mindhold.text.clean import clean, split
from mindhold.text.injection import suspicion
from mindhold.text.keywords import extract_keywords
from mindhold.text.noise import is_noise
from mindhold.text.redaction import RedactionFinding, redact

QUARANTINE_FROM = 0.5
QUARANTINED_TRUST = 0.2
TURN = "message_type"  # metadata that marks a turn of a log: it stays as it was said
PART_OF = "part:"  # before a hash that is not of the content alone
MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True, slots=True)
class Draft:
    """What a caller wants remembered. None means: as the settings have it."""

    content: str
    kind: Kind = Kind.NOTE
    scope: str | None = None
    agent: str | None = None
    topic: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: float | None = None
    confidence: float = 1.0
    occurred: datetime | None = None
    anchor: bool = False
    tier: Tier = Tier.WARM
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    linked_to: tuple[str, ...] = ()
    keep_noise: bool = False


class WriteOutcome(StrEnum):
    """What became of a draft."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    NOISE = "noise"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The answer to one draft."""

    outcome: WriteOutcome
    memory: Memory | None = None
    parts: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    redacted: tuple[RedactionFinding, ...] = ()
    suspicious: tuple[str, ...] = ()
    embedded: bool = False
    unapplied: tuple[str, ...] = ()  # what a repetition asked for and the memory that is there hasn't
    proposed: bool = False  # by a dry run: the memory isn't there
    error: MindholdError | None = None


@dataclass(frozen=True, slots=True)
class PreparedDraft:
    """One record ready to be written, apart from its vector."""

    memory: Memory
    lexemes: Sequence[str]
    labels: Sequence[str]
    gist: str
    redacted: tuple[RedactionFinding, ...]
    suspicious: tuple[str, ...]
    gap: str = ""  # what stood between it and the part before


def prepare(engine: Engine, draft: Draft) -> list[PreparedDraft]:
    """The records that a draft becomes: one, or the parts of a long text; none when it is noise.

    Raises InvalidInput, ContentTooLarge.
    """
    intake = engine.settings.intake
    if len(draft.content) > intake.longest:
        raise ContentTooLarge(
            f"The text has {len(draft.content):,} characters; at most {intake.longest:,} are stored at once.",
            advice="Split it, or raise intake.longest.",
        )
    doubt = suspicion(  # before cleaning, for hidden characters are a sign
        everything_said(
            draft.content,
            labels=(draft.topic, *draft.tags, *draft.keywords),
            provenance=draft.provenance,
            metadata=draft.metadata,
        )
    )
    text = clean(draft.content)
    redaction = redact(text) if intake.redact else None
    text = redaction.text if redaction else text
    if not text.strip():
        empty = EmptyContent if TURN in draft.metadata else InvalidInput  # a log has a code of its own for it
        raise empty("There is nothing to remember in an empty text.", advice="Give it some words.")
    if intake.noise_gate and not draft.keep_noise and is_noise(text):
        return []
    texts = [text] if len(text) <= intake.part_length else split(text, limit=intake.part_length)
    first = _record(engine, draft, text=texts[0], quarantined=doubt.score >= QUARANTINE_FROM)
    found = _with_labels(draft, first, redaction.findings) if redaction else ()
    records = [first] if len(texts) == 1 else _parts(engine, first, texts)
    return [
        PreparedDraft(
            memory=record,
            lexemes=(said := lexemes(record.content)),
            labels=labels_of(engine, record),
            gist=gist_of(said),
            redacted=found,
            suspicious=doubt.reasons if record.status is Status.QUARANTINED else (),
            gap=gap,
        )
        for record, gap in zip(records, _gaps(text, texts), strict=True)
    ]


def unapplied(draft: Draft, known: Memory) -> tuple[str, ...]:
    """What was asked for along with a text that is known already, and is otherwise there: amending would change it."""
    asked = {
        "importance": draft.importance is not None and abs(draft.importance - known.importance) > 1e-6,
        "anchor": draft.anchor and not known.anchor,
        "permanence": draft.tier is Tier.PERMANENT and known.tier is not Tier.PERMANENT,
        "topic": bool(draft.topic) and draft.topic.casefold() != known.topic.casefold(),
        "type": draft.kind not in (Kind.NOTE, known.kind),
        "keywords": not set(draft.keywords) <= set(known.keywords),
    }
    return tuple(name for name, differs in asked.items() if differs)


def content_hash(text: str) -> str:
    """Equal for texts that differ in white space only."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


def gist_of(said: Sequence[str]) -> str:
    """Of a text's lexemes: equal for the same content words in any order; empty when there are too few to tell."""
    words = sorted(set(said) - stop_lexemes())
    return hashlib.blake2b(" ".join(words).encode(), digest_size=12).hexdigest() if len(words) > 1 else ""


def labels_of(engine: Engine, memory: Memory) -> list[str]:
    """What full text also finds a memory by: its labels, and the day that it is about.

    Keywords that were taken from its own words add nothing to them.
    """
    return labels_in(engine.zone(), memory)


def labels_in(zone: ZoneInfo, memory: Memory) -> list[str]:
    """The same, for a person who lives there."""
    chosen = () if has_own_keywords(memory) else memory.keywords
    named = " ".join((memory.topic, *memory.tags, *chosen))
    day = memory.occurred.astimezone(zone).date()
    return [*lexemes(named), *_day_lexemes(day)] if named.strip() else list(_day_lexemes(day))


def has_own_keywords(memory: Memory) -> bool:
    """Whether its keywords are the ones that it got by itself, because nobody gave any."""
    return memory.keywords == own_keywords(memory.content, memory.metadata)


def own_keywords(text: str, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """For when nobody gave any; none for the turns of a log, which are found by their place and their words."""
    return () if TURN in metadata else extract_keywords(text)


def _with_labels(
    draft: Draft, record: Memory, found: Sequence[RedactionFinding]
) -> tuple[RedactionFinding, ...]:
    """What was taken out of the content, and out of what was given along with it."""
    counts = Counter({finding.kind: finding.count for finding in found})
    given, kept = (
        {one.topic, *one.tags, *one.keywords, one.provenance.source, one.provenance.file}
        for one in (draft, record)
    )
    for text in filter(None, given - kept):  # what was kept as it is held no secret
        counts.update({finding.kind: finding.count for finding in redact(clean(text)).findings})
    return tuple(RedactionFinding(kind, count) for kind, count in counts.items())


@lru_cache(maxsize=1024)
def _day_lexemes(day: date) -> tuple[str, ...]:
    return tuple(lexemes(f"{day.day} {MONTHS[day.month - 1]} {day.year}"))


def _record(engine: Engine, draft: Draft, *, text: str, quarantined: bool) -> Memory:
    now = engine.clock()
    importance = DEFAULT_IMPORTANCE[draft.kind] if draft.importance is None else draft.importance
    keywords = checked_labels(engine, draft.keywords, what="keyword")
    return Memory(
        id=engine.new_id(),
        content=text,
        kind=draft.kind,
        scope=draft.scope or engine.settings.scope,
        agent=draft.agent or engine.settings.agent,
        created=now,
        updated=now,
        occurred=checked_moment(engine, draft.occurred) if draft.occurred else now,
        content_hash=content_hash(text),
        tokens=count_tokens(text),
        topic=checked_topic(engine, draft.topic),
        tags=checked_labels(engine, draft.tags, what="tag"),
        keywords=keywords or own_keywords(text, draft.metadata),
        importance=checked_share(importance, what="The importance"),
        confidence=checked_share(draft.confidence, what="The confidence"),
        trust=QUARANTINED_TRUST if quarantined else 1.0,
        tier=draft.tier,
        anchor=draft.anchor,
        status=Status.QUARANTINED if quarantined else Status.ACTIVE,
        review=now,
        provenance=checked_provenance(engine, draft.provenance),
        metadata=checked_metadata(engine, draft.metadata),
    )


def _gaps(text: str, parts: Sequence[str]) -> list[str]:
    """What stood before each part and after the one before: with these between, the parts are the text again."""
    gaps, end = [], 0
    for part in parts:
        start = max(text.find(part, end), end)
        gaps.append(text[end:start])
        end = start + len(part)
    return gaps


def _parts(engine: Engine, first: Memory, texts: Sequence[str]) -> list[Memory]:
    """Parts are told apart by their document, so that two documents may share a paragraph."""
    document = hashlib.sha256("".join(texts).encode()).hexdigest()
    own = has_own_keywords(first)
    return [
        replace(
            first,
            id=first.id if number == 0 else engine.new_id(),
            content=text,
            content_hash=PART_OF + content_hash(f"{document} {number} {text}"),
            tokens=count_tokens(text),
            keywords=own_keywords(text, first.metadata) if own else first.keywords,
            provenance=_place(first, number),
        )
        for number, text in enumerate(texts)
    ]


def _place(first: Memory, number: int) -> Provenance:
    """A turn's parts stay at the turn's place; the parts of a document follow one another, wherever it was given."""
    if first.provenance.position is not None:
        return first.provenance
    return replace(first.provenance, conversation=f"document:{first.id}", position=number)


RECOMMENDED_LENGTH = 300  # characters of one atomic statement
ATOMIC_KINDS = frozenset(
    {Kind.FACT, Kind.DECISION, Kind.ERROR, Kind.PREFERENCE, Kind.PROCEDURE, Kind.RELATION}
)
SHORTER_ADVICE = "several short statements are found more easily."
LONG_NOTICE = f"It is kept whole, but it has over {RECOMMENDED_LENGTH} characters: {SHORTER_ADVICE}"


def is_long(memory: Memory) -> bool:
    """Longer than one statement should be."""
    return memory.kind in ATOMIC_KINDS and len(memory.content) > RECOMMENDED_LENGTH
