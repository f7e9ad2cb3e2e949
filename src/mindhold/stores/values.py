"""How values of the model look where a store has no type for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from mindhold.model.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@contextmanager
def storable() -> Iterator[None]:
    """What no driver takes, as an error of ours. Raises InvalidInput."""
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


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 in UTC, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def to_optional_micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def from_optional_micros(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def list_json(values: Iterable[str]) -> str:
    """Unescaped, so that looking for a phrase's bytes finds them."""
    return json.dumps(list(values), ensure_ascii=False) if values else "[]"


def mapping_json(values: Mapping[str, Any]) -> str:
    """Raises InvalidInput for what JSON has no form for."""
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
