"""Encoding of values in stores: storable text, times, JSON, references to erased records, restore stamps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from unicodedata import normalize

from mindhold.model.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@contextmanager
def storable() -> Iterator[None]:
    """Turn the errors of values that no driver accepts into InvalidInput."""
    try:
        yield
    except OverflowError as error:
        raise InvalidInput(
            f"A number is too large for the database: {error}.", advice="Give a smaller one."
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "The text has half of a surrogate pair.", advice="Send text that can be written as UTF-8."
        ) from error


def number(value: float) -> float:
    """The number. Raises InvalidInput for NaN."""
    if math.isnan(value):
        raise InvalidInput("The database takes no such value: what is no number can't be stored.")
    return value


def to_micros(moment: datetime) -> int:
    """Exact microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_optional_micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def from_optional_micros(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def list_json(values: Iterable[str]) -> str:
    """A list as JSON, unescaped, so that a search for the bytes of a phrase finds them."""
    return json.dumps(list(values), ensure_ascii=False) if values else "[]"


def mapping_json(values: Mapping[str, Any]) -> str:
    """A mapping as JSON. Raises InvalidInput for values that JSON can't express."""
    if not values:
        return "{}"
    try:
        return json.dumps(dict(values), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Metadata can't be stored: {error}.", advice="Use text, numbers, lists and mappings of them."
        ) from error


def from_list_json(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def from_mapping_json(text: str) -> dict[str, Any]:
    return {} if text == "{}" else dict(json.loads(text))


WORDS = "words"  # the field of an entry that may quote records
_WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class JobRemainder:
    """What remains of a job that named an erased record; it is dropped if it was about nothing else."""

    dropped: bool
    payload: dict[str, Any]
    result: dict[str, Any] | None


def beginning(ids: Iterable[str]) -> str:
    """The common prefix of the ids."""
    listed = tuple(ids)
    if not listed:
        return ""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(listed), max(listed), strict=False))
    return "".join(character for character, _ in pairs)


def mentions(texts: Iterable[str], gone: frozenset[str]) -> int:
    """The number of texts that contain one of the ids as a word."""
    return sum(not gone.isdisjoint(_WORD.findall(text)) for text in texts)


def without(value: Any, gone: frozenset[str]) -> tuple[Any, bool]:
    """The JSON value without the ids (None if that leaves nothing), and whether it changed."""
    if isinstance(value, str):
        return (None, True) if value in gone else (value, False)
    if isinstance(value, list):
        parts = [without(item, gone) for item in value]
        changed = any(change for _, change in parts)
        items = [item for item, change in parts if not (change and item is None)]
        return (items if items or not changed else None), changed
    if isinstance(value, dict):
        pairs = {key: without(item, gone) for key, item in value.items() if key not in gone}
        changed = len(pairs) < len(value) or any(change for _, change in pairs.values())
        fields = {key: item for key, (item, change) in pairs.items() if not (change and item is None)}
        return (fields if fields or not changed else None), changed
    return value, False


def job_without(
    payload: Mapping[str, Any], result: Mapping[str, Any] | None, gone: frozenset[str]
) -> JobRemainder | None:
    """What remains of a job without the ids; None if it named none of them."""
    remaining, changed = without(payload, gone)
    outcome, also = without(result, gone)
    if not changed and not also:
        return None
    return JobRemainder(changed and len(remaining or ()) < len(payload), remaining or {}, outcome)


def entry_without(value: Mapping[str, Any], gone: frozenset[str]) -> dict[str, Any] | None:
    """The entry's fields without the ids; `words` is removed if it contains one. None if it named none of them."""
    spoken = mentions(texts_in(value.get(WORDS)), gone) > 0
    remaining, changed = without({**value, WORDS: None} if spoken else value, gone)
    if not changed and not spoken:
        return None
    fields = {name: (remaining or {}).get(name) for name in value if name not in gone}
    emptied: dict[str, Any] = {
        name: [] for name, item in fields.items() if item is None and isinstance(value[name], list)
    }
    return fields | emptied


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, including field names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from texts_in(item)


def phrase_forms(phrases: Iterable[str]) -> set[str]:
    """The phrases as given, and in Unicode's composed form."""
    return {form for phrase in phrases for form in (phrase, normalize("NFC", phrase)) if form}


FORM = "%Y%m%dT%H%M%S%fZ"
_STALE = timedelta(days=1)


def moment_of(stamp: str) -> datetime | None:
    """The time of a stamp; None if it is no stamp."""
    try:
        return datetime.strptime(stamp.upper(), FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_stale(stamp: str, now: datetime) -> bool:
    """Whether a restore with that stamp is over or dead."""
    begun = moment_of(stamp)
    return begun is not None and begun + _STALE < now
