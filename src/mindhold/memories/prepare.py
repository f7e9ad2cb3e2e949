"""The pure steps of the write path: a request becomes one or more indexed records that a store can be given."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any
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
from mindhold.model.errors import ContentTooLarge, EmptyContent, InvalidInput
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import DEFAULT_IMPORTANCE, PART_KEY, Kind, Memory, Provenance, Status, Tier
from mindhold.model.query import Vector
from mindhold.model.tokens import count_tokens
from mindhold.ports.store import Put
from mindhold.text.clean import clean, split
from mindhold.text.injection import suspicion
from mindhold.text.keywords import extract_keywords
from mindhold.text.noise import is_noise
from mindhold.text.redaction import RedactionFinding, redact

if TYPE_CHECKING:
    from mindhold.memories.write import RememberInput

QUARANTINE_FROM = 0.5
QUARANTINED_TRUST = 0.2
TURN = "message_type"  # metadata that marks a turn of a log: it stays as it was said
PART_OF = "part:"  # before a hash that is not of the content alone
PARTS = "parts"  # metadata of the first part of a long message: how many there are
GAP = "gap"  # metadata of a later part: the text between it and the part before, unless it is PARAGRAPH
PARAGRAPH = "\n\n"
FINGERPRINT = "told"  # metadata of a message that has a name: a hash of everything that was stored with it
MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """A record and everything that full text finds it by. `put` is the only place that makes what a store is given."""

    memory: Memory
    lexemes: Sequence[str]
    labels: Sequence[str]
    gist: str
    redacted: tuple[RedactionFinding, ...] = ()
    suspicious: tuple[str, ...] = ()
    gap: str = ""  # the text between it and the part before

    def put(self, vector: Vector | None = None, model: str | None = None, **changes: Any) -> Put:
        """The record with its vector, which that model made; `changes` are fields of the memory to set."""
        embedded_by = model if vector is not None else None
        if changes or embedded_by != self.memory.embedded_by:
            memory = replace(self.memory, embedded_by=embedded_by, **changes)
        else:
            memory = self.memory
        return Put(memory, self.lexemes, labels=self.labels, gist=self.gist, vector=vector)

    async def embedded_put(self, engine: Engine, **changes: Any) -> Put:
        """The same with the vector of the engine's model, for a caller who writes it along with other changes."""
        matrix = await engine.vector_source.embed([self.memory.content])
        return self.put(None if matrix is None else matrix[0], engine.vector_source.model, **changes)


def index_memory(memory: Memory, zone: ZoneInfo, **found: Any) -> PreparedRecord:
    """The index of a memory, for a person who lives in that zone."""
    words = lexemes(memory.content)
    return PreparedRecord(memory, words, labels_in(zone, memory), gist_of(words), **found)


def indexed(engine: Engine, memory: Memory, *, vector: Vector | None) -> Put:
    """A changed memory with everything that finds it, and the vector that the engine's model made of it."""
    return index_memory(memory, engine.zone()).put(vector, engine.vector_source.model)


def prepare(engine: Engine, request: RememberInput, *, agent: str | None = None) -> list[PreparedRecord]:
    """The records that a request becomes: one, or the parts of a long text; none when it is noise.

    It is taken as it is: its scope exists, its metadata may have names of ours. Without an agent it is the engine's.

    Raises InvalidInput, ContentTooLarge.
    """
    intake = engine.settings.intake
    if len(request.content) > intake.longest:
        raise ContentTooLarge(
            f"The text has {len(request.content):,} characters; at most {intake.longest:,} are stored at once.",
            advice="Split it, or raise intake.longest.",
        )
    provenance = Provenance(
        dialect=request.dialect,
        source=request.source,
        conversation=request.conversation,
        position=request.position,
        file=request.file,
        line=request.line,
    )
    doubt = suspicion(  # before cleaning, for hidden characters are a sign
        everything_said(
            request.content,
            labels=(request.topic, *request.tags, *request.keywords),
            provenance=provenance,
            metadata=request.metadata,
        )
    )
    text = clean(request.content)
    redaction = redact(text) if intake.redact else None
    text = redaction.text if redaction else text
    if not text.strip():
        empty = (
            EmptyContent if TURN in request.metadata else InvalidInput
        )  # a log has an error code of its own
        raise empty("There is nothing to remember in an empty text.", advice="Give it some words.")
    if intake.noise_gate and not request.keep_noise and is_noise(text):
        return []
    texts = [text] if len(text) <= intake.part_length else split(text, limit=intake.part_length)
    first = _memory(
        engine,
        request,
        text=texts[0],
        agent=agent or engine.settings.agent,
        provenance=provenance,
        quarantined=doubt.score >= QUARANTINE_FROM,
    )
    redacted = _redacted(request, first, redaction.findings) if redaction else ()
    memories = [first] if len(texts) == 1 else _parts(engine, first, texts)
    zone = engine.zone()
    return [
        index_memory(
            memory,
            zone,
            redacted=redacted,
            suspicious=doubt.reasons if memory.status is Status.QUARANTINED else (),
            gap=gap,
        )
        for memory, gap in zip(memories, _gaps(text, texts), strict=True)
    ]


def unapplied(request: RememberInput, known: Memory) -> tuple[str, ...]:
    """Fields in which a stored duplicate differs from what the request asks for: amending would change them."""
    asked = {
        "importance": request.importance is not None and abs(request.importance - known.importance) > 1e-6,
        "anchor": request.anchor and not known.anchor,
        "permanence": request.permanent and known.tier is not Tier.PERMANENT,
        "topic": bool(request.topic) and request.topic.casefold() != known.topic.casefold(),
        "type": request.kind not in (Kind.NOTE, known.kind),
        "keywords": not set(request.keywords) <= set(known.keywords),
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
    """What full text also finds a memory by: its labels, and the day that it is about."""
    return labels_in(engine.zone(), memory)


def labels_in(zone: ZoneInfo, memory: Memory) -> list[str]:
    """The same, for a person who lives there. Keywords from the memory's own words add nothing and are left out."""
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


def _redacted(
    request: RememberInput, memory: Memory, in_content: Sequence[RedactionFinding]
) -> tuple[RedactionFinding, ...]:
    """What was taken out of the content and of the labels."""
    counts = Counter({finding.kind: finding.count for finding in in_content})
    labels = {request.topic, *request.tags, *request.keywords, request.source, request.file}
    source = memory.provenance
    stored = {memory.topic, *memory.tags, *memory.keywords, source.source, source.file}
    for text in filter(None, labels - stored):  # a label that is stored as it is held no secret
        counts.update({finding.kind: finding.count for finding in redact(clean(text)).findings})
    return tuple(RedactionFinding(kind, count) for kind, count in counts.items())


@lru_cache(maxsize=1024)
def _day_lexemes(day: date) -> tuple[str, ...]:
    return tuple(lexemes(f"{day.day} {MONTHS[day.month - 1]} {day.year}"))


def _memory(
    engine: Engine,
    request: RememberInput,
    *,
    text: str,
    agent: str,
    provenance: Provenance,
    quarantined: bool,
) -> Memory:
    now = engine.clock()
    importance = DEFAULT_IMPORTANCE[request.kind] if request.importance is None else request.importance
    keywords = checked_labels(engine, request.keywords, what="keyword")
    return Memory(
        id=engine.new_id(),
        content=text,
        kind=request.kind,
        scope=request.scope or engine.settings.scope,
        agent=agent,
        created=now,
        updated=now,
        occurred=checked_moment(engine, request.occurred) if request.occurred else now,
        content_hash=content_hash(text),
        tokens=count_tokens(text),
        topic=checked_topic(engine, request.topic),
        tags=checked_labels(engine, request.tags, what="tag"),
        keywords=keywords or own_keywords(text, request.metadata),
        importance=checked_share(importance, what="The importance"),
        confidence=checked_share(request.confidence, what="The confidence"),
        trust=QUARANTINED_TRUST if quarantined else 1.0,
        tier=Tier.HOT if request.session_only else Tier.PERMANENT if request.permanent else Tier.WARM,
        anchor=request.anchor,
        status=Status.QUARANTINED if quarantined else Status.ACTIVE,
        review=now,
        provenance=checked_provenance(engine, provenance),
        metadata=checked_metadata(engine, request.metadata),
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


def name_hash(name: str) -> str:
    """In place of the content's hash, for a record that may repeat the words of another: it is stored once by this name."""
    return PART_OF + content_hash(name)


def fingerprint_of(request: RememberInput, parts: Sequence[PreparedRecord]) -> str:
    """A hash of everything that is stored of a message, as it is stored: a redacted secret can't be guessed from it."""
    first = parts[0].memory
    stored = (
        [(part.gap, part.memory.content) for part in parts],
        (first.kind, first.topic, first.tags, first.keywords, first.importance, first.metadata),
        (first.provenance.dialect, first.provenance.conversation, first.provenance.source),
        None if request.occurred is None else first.occurred.isoformat(),  # else it is now
    )
    text = json.dumps(stored, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def as_said(
    parts: Sequence[PreparedRecord], digest: str, fingerprint: str, position: int | None
) -> Iterator[dict[str, Any]]:
    """The fields to set in each part of a message, so that the same words may be stored twice and the parts joined again."""
    for number, part in enumerate(parts):
        metadata = dict(part.memory.metadata)
        if number:
            metadata[PART_KEY] = number
            if part.gap != PARAGRAPH:
                metadata[GAP] = part.gap
        elif len(parts) > 1:
            metadata[PARTS] = len(parts)
        if fingerprint and not number:
            metadata[FINGERPRINT] = fingerprint
        provenance = part.memory.provenance
        if position is not None:
            provenance = replace(provenance, position=position)
        own = name_hash(part.memory.id) if number else digest
        yield {"content_hash": own, "metadata": metadata, "provenance": provenance}


RECOMMENDED_LENGTH = 300  # characters of one atomic statement
ATOMIC_KINDS = frozenset(
    {Kind.FACT, Kind.DECISION, Kind.ERROR, Kind.PREFERENCE, Kind.PROCEDURE, Kind.RELATION}
)
SHORTER_ADVICE = "several short statements are found more easily."
LONG_NOTICE = f"It is kept whole, but it has over {RECOMMENDED_LENGTH} characters: {SHORTER_ADVICE}"


def is_long(memory: Memory) -> bool:
    """Longer than one statement should be."""
    return memory.kind in ATOMIC_KINDS and len(memory.content) > RECOMMENDED_LENGTH
