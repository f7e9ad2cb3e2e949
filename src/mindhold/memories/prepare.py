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
TURN = "message_type"  # metadata that marks a turn of a log, which is stored verbatim
PART_OF = "part:"  # prefix of a hash that is not of the content alone
PARTS = "parts"  # metadata of the first part of a long message: the number of parts
GAP = "gap"  # metadata of a later part: the text between it and the part before, unless it is PARAGRAPH
PARAGRAPH = "\n\n"
FINGERPRINT = "told"  # metadata of a named message: a hash of everything that was stored with it
MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True, slots=True)
class PreparedRecord:
    """A memory with everything that full text finds it by. Only `put` makes the record that a store writes."""

    memory: Memory
    lexemes: Sequence[str]
    labels: Sequence[str]
    gist: str
    redacted: tuple[RedactionFinding, ...] = ()
    suspicious: tuple[str, ...] = ()
    gap: str = ""  # the text between it and the part before

    def put(self, vector: Vector | None = None, model: str | None = None, **changes: Any) -> Put:
        """Return the record with its vector, which `model` made; `changes` are fields of the memory to set."""
        embedded_by = model if vector is not None else None
        if changes or embedded_by != self.memory.embedded_by:
            memory = replace(self.memory, embedded_by=embedded_by, **changes)
        else:
            memory = self.memory
        return Put(memory, self.lexemes, labels=self.labels, gist=self.gist, vector=vector)

    async def embedded_put(self, engine: Engine, **changes: Any) -> Put:
        """Return the record with a vector of the engine's model, for a caller who writes it with other changes."""
        matrix = await engine.vector_source.embed([self.memory.content])
        return self.put(None if matrix is None else matrix[0], engine.vector_source.model, **changes)


def index_memory(memory: Memory, zone: ZoneInfo, **found: Any) -> PreparedRecord:
    """Make the full-text index of a memory, with dates in the user's zone."""
    words = lexemes(memory.content)
    return PreparedRecord(memory, words, labels_in(zone, memory), gist_of(words), **found)


def indexed(engine: Engine, memory: Memory, *, vector: Vector | None) -> Put:
    """Return a changed memory with its index, and the vector that the engine's model made."""
    return index_memory(memory, engine.zone()).put(vector, engine.vector_source.model)


def prepare(engine: Engine, request: RememberInput, *, agent: str | None = None) -> list[PreparedRecord]:
    """Turn a request into records: one, or the parts of a long text; none if it is noise.

    The request isn't resolved: its scope has to exist, and its metadata may have reserved names. The default agent is the
    engine's.

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
    doubt = suspicion(  # before cleaning, since hidden characters are a sign
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
        )  # messages of a log have an error code of their own
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
    """Return the fields in which a stored duplicate differs from the request; amending would change them."""
    differences = {
        "importance": request.importance is not None and abs(request.importance - known.importance) > 1e-6,
        "anchor": request.anchor and not known.anchor,
        "permanence": request.permanent and known.tier is not Tier.PERMANENT,
        "topic": bool(request.topic) and request.topic.casefold() != known.topic.casefold(),
        "type": request.kind not in (Kind.NOTE, known.kind),
        "keywords": not set(request.keywords) <= set(known.keywords),
    }
    return tuple(name for name, differs in differences.items() if differs)


def content_hash(text: str) -> str:
    """Hash a text; equal for texts that differ in white space only."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


def gist_of(said: Sequence[str]) -> str:
    """Hash a text's lexemes; equal for the same content words in any order, empty if there are too few."""
    words = sorted(set(said) - stop_lexemes())
    return hashlib.blake2b(" ".join(words).encode(), digest_size=12).hexdigest() if len(words) > 1 else ""


def labels_of(engine: Engine, memory: Memory) -> list[str]:
    """Return the lexemes that full text also finds a memory by: its labels, and the day that it is about."""
    return labels_in(engine.zone(), memory)


def labels_in(zone: ZoneInfo, memory: Memory) -> list[str]:
    """Return the same for a zone. Keywords that were taken from the text itself add nothing and are left out."""
    keywords = () if has_own_keywords(memory) else memory.keywords
    label_text = " ".join((memory.topic, *memory.tags, *keywords))
    day = memory.occurred.astimezone(zone).date()
    return [*lexemes(label_text), *_day_lexemes(day)] if label_text.strip() else list(_day_lexemes(day))


def has_own_keywords(memory: Memory) -> bool:
    """Whether its keywords were extracted from its text, because the caller gave none."""
    return memory.keywords == own_keywords(memory.content, memory.metadata)


def own_keywords(text: str, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Extract keywords from a text; none for the turns of a log, which are found by position and words."""
    return () if TURN in metadata else extract_keywords(text)


def _redacted(
    request: RememberInput, memory: Memory, in_content: Sequence[RedactionFinding]
) -> tuple[RedactionFinding, ...]:
    """Return what was redacted in the content and in the labels."""
    counts = Counter({finding.kind: finding.count for finding in in_content})
    labels = {request.topic, *request.tags, *request.keywords, request.source, request.file}
    source = memory.provenance
    stored = {memory.topic, *memory.tags, *memory.keywords, source.source, source.file}
    for text in filter(None, labels - stored):  # a label that is stored unchanged contained no secret
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
    """Return the text before each part since the part before; gaps and parts joined are the text again."""
    gaps, end = [], 0
    for part in parts:
        start = max(text.find(part, end), end)
        gaps.append(text[end:start])
        end = start + len(part)
    return gaps


def _parts(engine: Engine, first: Memory, texts: Sequence[str]) -> list[Memory]:
    """Make the memories of a split text. The document is part of their hashes, so that two may share a paragraph."""
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
    """Return the provenance of a part: a turn's parts keep its position, a document's parts are numbered."""
    if first.provenance.position is not None:
        return first.provenance
    return replace(first.provenance, conversation=f"document:{first.id}", position=number)


def name_hash(name: str) -> str:
    """Return the hash of a record that is unique by its name; its text may repeat that of another record."""
    return PART_OF + content_hash(name)


def fingerprint_of(request: RememberInput, parts: Sequence[PreparedRecord]) -> str:
    """Hash everything that is stored of a message, after redaction: a secret can't be guessed from it."""
    first = parts[0].memory
    stored = (
        [(part.gap, part.memory.content) for part in parts],
        (first.kind, first.topic, first.tags, first.keywords, first.importance, first.metadata),
        (first.provenance.dialect, first.provenance.conversation, first.provenance.source),
        None
        if request.occurred is None
        else first.occurred.isoformat(),  # otherwise it is the time of the call
    )
    text = json.dumps(stored, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def as_said(
    parts: Sequence[PreparedRecord], digest: str, fingerprint: str, position: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the fields to set in each part of a message, so that a text can be stored twice and parts joined again."""
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
    """Whether the memory is longer than one statement should be."""
    return memory.kind in ATOMIC_KINDS and len(memory.content) > RECOMMENDED_LENGTH
