"""Checks, cleans and redacts callers' input before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mindhold.engine import Engine
from mindhold.model.errors import ContentTooLarge, InvalidInput
from mindhold.model.lifecycle import OURS
from mindhold.model.memory import Provenance
from mindhold.model.scope import Scope, validate_scope_name
from mindhold.text.clean import clean
from mindhold.text.redaction import redact, redact_metadata

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
