"""What is left of values that named records which are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

WORDS = "words"  # the field of an entry that may repeat what records say
_WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class JobLeft:
    """What becomes of a job that named one: dropped if it was about nothing else."""

    dropped: bool
    payload: dict[str, Any]
    result: dict[str, Any] | None


def beginning(ids: Iterable[str]) -> str:
    """What all of them begin with."""
    listed = tuple(ids)
    if not listed:
        return ""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(listed), max(listed), strict=False))
    return "".join(character for character, _ in pairs)


def mentions(texts: Iterable[str], gone: frozenset[str]) -> int:
    """In how many of the texts one of the ids stands as a word."""
    return sum(not gone.isdisjoint(_WORD.findall(text)) for text in texts)


def without(value: Any, gone: frozenset[str]) -> tuple[Any, bool]:
    """The JSON value without the ids, None if nothing is left of what named them; and whether it changed."""
    if isinstance(value, str):
        return (None, True) if value in gone else (value, False)
    if isinstance(value, list):
        parts = [without(item, gone) for item in value]
        changed = any(change for _, change in parts)
        kept = [item for item, change in parts if not (change and item is None)]
        return (kept if kept or not changed else None), changed
    if isinstance(value, dict):
        pairs = {key: without(item, gone) for key, item in value.items() if key not in gone}
        changed = len(pairs) < len(value) or any(change for _, change in pairs.values())
        left = {key: item for key, (item, change) in pairs.items() if not (change and item is None)}
        return (left if left or not changed else None), changed
    return value, False


def job_left(
    payload: Mapping[str, Any], result: Mapping[str, Any] | None, gone: frozenset[str]
) -> JobLeft | None:
    """None if it named none of them."""
    left, changed = without(payload, gone)
    outcome, also = without(result, gone)
    if not changed and not also:
        return None
    return JobLeft(changed and len(left or ()) < len(payload), left or {}, outcome)


def entry_left(value: Mapping[str, Any], gone: frozenset[str]) -> dict[str, Any] | None:
    """Its fields stay, emptied of the ids; `words` goes whole where one stands in it. None if it named none of them."""
    spoken = mentions(_texts(value.get(WORDS)), gone) > 0
    left, changed = without({**value, WORDS: None} if spoken else value, gone)
    if not changed and not spoken:
        return None
    kept = {name: (left or {}).get(name) for name in value if name not in gone}
    emptied: dict[str, Any] = {
        name: [] for name, item in kept.items() if item is None and isinstance(value[name], list)
    }
    return kept | emptied


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
