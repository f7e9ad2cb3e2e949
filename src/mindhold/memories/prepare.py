"""The pure steps of the write path: input is checked, cleaned and redacted, and becomes one or more indexed records."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from mindhold.engine import Engine
from mindhold.model.errors import ContentTooLarge, EmptyContent, InvalidInput
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.lifecycle import OURS
from mindhold.model.memory import DEFAULT_IMPORTANCE, PART_KEY, Kind, Memory, Provenance, Status, Tier
from mindhold.model.query import Vector
from mindhold.model.scope import Scope, validate_scope_name
from mindhold.model.tokens import count_tokens
from mindhold.ports.store import Put
from mindhold.text.clean import clean, split
from mindhold.text.injection import suspicion
from mindhold.text.keywords import extract_keywords
from mindhold.text.noise import is_noise
from mindhold.text.redaction import RedactionFinding, redact, redact_metadata

if TYPE_CHECKING:
    from mindhold.memories.write import RememberInput


MOST_LABELS = 64
LONGEST_LABEL = 200
LONGEST_SOURCE = 2_000
LONGEST_DESCRIPTION = 2_000
LONGEST_METADATA = 64_000
DEEPEST_METADATA = 20
LARGEST_NUMBER = 2**31 - 1  # the largest position, line or count
FIRST_YEAR, LAST_YEAR = 2, 9998  # with a margin on both sides, so that every zone can express the moment


def safe_text(engine: Engine, text: str) -> str:
    """Remove control characters and, unless switched off, secrets and personal data."""
    cleaned = clean(text)
    return redact(cleaned).text if engine.settings.intake.redact else cleaned


def checked_content(engine: Engine, text: str) -> str:
    """Return safe, bounded and non-empty content. Raises ContentTooLarge, InvalidInput."""
    longest = engine.settings.intake.longest
    if len(text) > longest:
        raise ContentTooLarge(
            f"The text has {len(text):,} characters; at most {longest:,} are stored at once.",
            advice="Shorten it, or raise intake.longest.",
        )
    safe = safe_text(engine, text)
    if not safe.strip():
        raise InvalidInput("There is nothing in the text.", advice="Give it some words.")
    return safe


def bare_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are stored: without a leading `#`."""
    return tuple(tag.strip().lstrip("#＃").strip() for tag in tags)


def checked_labels(engine: Engine, labels: Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return labels trimmed and safe, without duplicates in any case. Raises InvalidInput."""
    unique: dict[str, str] = {}
    for label in filter(None, bare_tags(labels) if what == "tag" else labels):
        safe = " ".join(safe_text(engine, label).split())
        if len(safe) > LONGEST_LABEL:
            raise InvalidInput(f"A {what} has over {LONGEST_LABEL} characters.", advice="Use a shorter one.")
        if safe:
            unique.setdefault(safe.casefold(), safe)
    if len(unique) > MOST_LABELS:
        raise InvalidInput(f"{len(unique)} {what}s are too many.", advice=f"Give at most {MOST_LABELS}.")
    return tuple(unique.values())


def checked_topic(engine: Engine, topic: str) -> str:
    """Return one label, or none. Raises InvalidInput."""
    return "".join(checked_labels(engine, [topic], what="topic"))


def checked_share(value: float, *, what: str) -> float:
    """Return a number between 0 and 1. Raises InvalidInput."""
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{what} is {value}; it must be between 0 and 1.", advice="Correct the number.")
    return float(value)


def checked_moment(engine: Engine, moment: datetime) -> datetime:
    """Return a moment in UTC; without a zone it is in the user's. Raises InvalidInput."""
    return in_utc(moment if moment.tzinfo is not None else moment.replace(tzinfo=engine.zone()))


def in_utc(moment: datetime) -> datetime:
    """Return the moment in UTC. Raises InvalidInput for one that not every zone can express."""
    try:
        placed = moment.astimezone(UTC)
    except OverflowError:
        placed = None
    if placed is None or not FIRST_YEAR <= placed.year <= LAST_YEAR:
        raise InvalidInput(
            f"The year {moment.year} is out of reach.", advice=f"Give one from {FIRST_YEAR} to {LAST_YEAR}."
        )
    return placed


def checked_metadata(engine: Engine, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return safe JSON of bounded size and depth. Raises InvalidInput."""
    if not metadata:
        return {}
    if _depth(metadata) > DEEPEST_METADATA:
        raise InvalidInput(
            f"The metadata is nested deeper than {DEEPEST_METADATA} levels.", advice="Make it flatter."
        )
    try:
        size = len(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The metadata is not JSON: {error}.", advice="Use plain values.") from error
    if size > LONGEST_METADATA:
        raise ContentTooLarge(
            f"The metadata has {size:,} characters; at most {LONGEST_METADATA:,} are kept.",
            advice="Put long text into the content.",
        )
    safe: Mapping[str, Any] = _cleaned(metadata)
    return redact_metadata(safe).value if engine.settings.intake.redact else safe


def checked_provenance(engine: Engine, provenance: Provenance) -> Provenance:
    """Return safe and bounded provenance. Raises InvalidInput."""
    return replace(
        provenance,
        dialect=_source(engine, provenance.dialect) or "",
        source=_source(engine, provenance.source) or "",
        conversation=_source(engine, provenance.conversation),
        file=_source(engine, provenance.file),
    )


def imported_scope(engine: Engine, scope: Scope) -> Scope:
    """Check a scope of an export: secrets are removed from its name, so that the rest can be imported. Raises InvalidInput."""
    parent = None if scope.parent is None else imported_scope_name(engine, scope.parent)
    return checked_scope(engine, replace(scope, name=imported_scope_name(engine, scope.name), parent=parent))


def imported_scope_name(engine: Engine, name: str) -> str:
    """Return a safe scope name from an export. Raises InvalidInput."""
    return checked_scope_name(engine, safe_text(engine, name))


def checked_scope(engine: Engine, scope: Scope) -> Scope:
    """Return a safe and bounded scope. Raises InvalidInput."""
    return replace(
        scope,
        name=checked_scope_name(engine, scope.name),
        description=checked_description(engine, scope.description),
        kind="".join(checked_labels(engine, [scope.kind], what="kind")),
        parent=None if scope.parent is None else checked_scope_name(engine, scope.parent),
        keywords=checked_labels(engine, scope.keywords, what="keyword"),
    )


def checked_scope_name(engine: Engine, name: str) -> str:
    """Return a printable, bounded name. Raises InvalidInput, also if it contains a secret: redacted, nobody would find it."""
    cleaned = validate_scope_name(name)
    if safe_text(engine, cleaned) != cleaned:
        raise InvalidInput(
            "The name of a scope or project can't hold a secret or personal data.",
            advice="Choose another name.",
        )
    if cleaned in (".", ".."):  # in a path these mean another folder
        raise InvalidInput(
            f"{cleaned!r} can't be a scope's name.", advice="Give it a word or two, such as 'work'."
        )
    return cleaned


def checked_description(engine: Engine, text: str) -> str:
    """Return a safe description of a scope. Raises InvalidInput."""
    if len(text) > LONGEST_DESCRIPTION:
        raise InvalidInput(
            f"The description has {len(text):,} characters; at most {LONGEST_DESCRIPTION:,} are kept.",
            advice="Shorten it, or remember it as a memory of the scope.",
        )
    return safe_text(engine, text)


def everything_said(
    content: str, *, labels: Iterable[str], provenance: Provenance, metadata: Mapping[str, Any]
) -> str:
    """Return the content and all else that comes back with a hit, to be scanned for instructions to the reader."""
    source = (provenance.source, provenance.file, provenance.conversation)
    return "\n".join(filter(None, (content, *labels, *source, *_strings(metadata))))


def _strings(value: Any) -> Iterator[str]:
    """Yield every string and key of a value that is unchecked and may be nested too deeply."""
    waiting = [(value, 1)]
    while waiting:
        current, level = waiting.pop()
        if isinstance(current, str):
            yield current
        elif level <= DEEPEST_METADATA and isinstance(current, Mapping):
            waiting.extend((inner, level + 1) for pair in current.items() for inner in pair)
        elif level <= DEEPEST_METADATA and isinstance(current, list | tuple):
            waiting.extend((inner, level + 1) for inner in current)


def _cleaned(value: Any) -> Any:
    """Remove control characters from every string and key; the depth is known to be small."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        result: dict[Any, Any] = {}
        for key, item in value.items():
            name = clean(key) if isinstance(key, str) else key
            while name in result:  # two keys may be the same once cleaned; neither value may be lost
                name = f"{name}'"
            result[name] = _cleaned(item)
        return result
    return [_cleaned(item) for item in value] if isinstance(value, list | tuple) else value


def _source(engine: Engine, text: str | None) -> str | None:
    if not text:
        return text
    if len(text) > LONGEST_SOURCE:
        raise InvalidInput(
            f"A source has over {LONGEST_SOURCE:,} characters.",
            advice="Shorten source, file or conversation.",
        )
    return safe_text(engine, text)


def _depth(value: Any) -> int:
    """Return the nesting depth, without recursion, since it may be too deep for that."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        current, level = waiting.pop()
        deepest = max(deepest, level)
        if level > DEEPEST_METADATA:
            break
        if isinstance(current, Mapping):
            waiting.extend((inner, level + 1) for inner in current.values())
        elif isinstance(current, list | tuple):
            waiting.extend((inner, level + 1) for inner in current)
    return deepest


def checked_caller_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the caller's metadata. Raises InvalidInput for a reserved name."""
    for name in metadata:
        if name.startswith(OURS):
            raise InvalidInput(
                f"The metadata has {name[:100]!r}: names that begin with {OURS!r} are Mindhold's own.",
                advice="Choose another name.",
            )
    return metadata


LONGEST_ID = 64

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
