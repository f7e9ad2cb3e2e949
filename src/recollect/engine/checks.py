"""What callers may give: checked, cleaned and stripped of secrets before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from recollect.engine.core import Engine
from recollect.engine.text.clean import clean
from recollect.engine.text.redact import redact, redact_metadata
from recollect.model.errors import ContentTooLarge, InvalidInput
from recollect.model.memory import Provenance

MOST_LABELS = 64
LONGEST_LABEL = 200
LONGEST_SOURCE = 2_000
LONGEST_METADATA = 64_000
DEEPEST_METADATA = 20


def safe_text(engine: Engine, text: str) -> str:
    """Without control characters and, unless switched off, without secrets and personal data."""
    cleaned = clean(text)
    return redact(cleaned).text if engine.policy.redact else cleaned


def checked_labels(engine: Engine, labels: Iterable[str], *, what: str) -> tuple[str, ...]:
    """Trimmed, safe, without repeats whatever the case. Raises InvalidInput."""
    kept: dict[str, str] = {}
    for label in filter(None, labels):
        safe = " ".join(safe_text(engine, label).split())
        if len(safe) > LONGEST_LABEL:
            raise InvalidInput(f"A {what} has over {LONGEST_LABEL} characters.", advice="Use a shorter one.")
        if safe:
            kept.setdefault(safe.casefold(), safe)
    if len(kept) > MOST_LABELS:
        raise InvalidInput(f"{len(kept)} {what}s are too many.", advice=f"Give at most {MOST_LABELS}.")
    return tuple(kept.values())


def checked_topic(engine: Engine, topic: str) -> str:
    """One label, or none. Raises InvalidInput."""
    return "".join(checked_labels(engine, [topic], what="topic"))


def checked_share(value: float, *, what: str) -> float:
    """A number between 0 and 1. Raises InvalidInput."""
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{what} is {value}; it must be between 0 and 1.", advice="Correct the number.")
    return float(value)


def checked_moment(engine: Engine, moment: datetime) -> datetime:
    """In UTC; one without a zone is the person's own."""
    placed = moment if moment.tzinfo is not None else moment.replace(tzinfo=engine.zone())
    return placed.astimezone(UTC)


def checked_metadata(engine: Engine, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON of a bounded size and depth, safe. Raises InvalidInput."""
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
    safe: Mapping[str, Any] = redact_metadata(dict(metadata)).value if engine.policy.redact else metadata
    return safe


def checked_provenance(engine: Engine, provenance: Provenance) -> Provenance:
    """Safe and bounded. Raises InvalidInput."""
    return replace(
        provenance,
        dialect=_source(engine, provenance.dialect) or "",
        source=_source(engine, provenance.source) or "",
        conversation=_source(engine, provenance.conversation),
        file=_source(engine, provenance.file),
    )


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
    """Without recursion, for what is nested too deeply for it."""
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
