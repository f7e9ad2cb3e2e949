"""Whether two amounts are the same in different units, or two dates perhaps the same day. What can't be converted is unclear,
never different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isclose

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.wording import DATE_WORDS

_DECIMAL = Expression(r"\d{1,15}(?:\.\d{1,9})?")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0, "week": 604800.0}
_KOREAN_SECONDS = {"초": 1.0, "분": 60.0, "시간": 3600.0, "일": 86400.0, "주": 604800.0}
_BYTES = {"byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_TWOFOLD = {"byte": 1.0, "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30, "tb": 2.0**40}  # as many count
_NAMES = tuple(dict.fromkeys(DATE_WORDS.values()))
_WEEKDAYS = frozenset(name for name in _NAMES if name.endswith(("day", "요일"))) - {
    "today",
    "yesterday",
    "weekday",
}
MONTHS = frozenset(_NAMES[_NAMES.index("january") : _NAMES.index("december") + 1])
_KOREAN_DAY = Expression(r"(?:(\d{4})년)?(\d{1,2})월(?:(\d{1,2})일)?")
_DIMENSIONS = (_SECONDS | _KOREAN_SECONDS, _BYTES, _TWOFOLD)


class Amounts(StrEnum):
    """How two values can be held against each other."""

    COMPARABLE = (
        "comparable"  # as they are written: in one unit, converted and different, or no amounts at all
    )
    EQUAL = "equal"
    UNCLEAR = "unclear"


def compared(one: Sequence[str], two: Sequence[str], *, bare: bool) -> Amounts:
    """Of the keys of two values; `bare` where they are numbers, units and signs alone.

    "5 minutes" is 300 seconds, "02:00 UTC" may be "11:00 KST", and of kilometres and miles nothing is known here.
    """
    if not one or not two:
        return Amounts.COMPARABLE
    if not (_is_number(one[0]) and _is_number(two[0])):
        if not bare or any(_is_number(key) for key in (*one, *two)):
            return Amounts.COMPARABLE
        known = any(one[-1] in units and two[-1] in units for units in _DIMENSIONS)
        return Amounts.COMPARABLE if known else Amounts.UNCLEAR
    if one[1:] == two[1:]:
        return Amounts.COMPARABLE
    amounts = [(_amount(one, units), _amount(two, units)) for units in _DIMENSIONS]
    both = [(left, right) for left, right in amounts if left is not None and right is not None]
    if any(isclose(left, right) for left, right in both):
        return Amounts.EQUAL
    return Amounts.COMPARABLE if both else Amounts.UNCLEAR


def _is_number(key: str) -> bool:
    return key[:1].isdigit()


def _amount(keys: Sequence[str], units: Mapping[str, float]) -> float | None:
    """ "5 minutes" in seconds."""
    if len(keys) != 2 or not _DECIMAL.fullmatch(keys[0]) or keys[1] not in units:
        return None
    return float(keys[0]) * units[keys[1]]


def may_be_one_day(one: Sequence[str], two: Sequence[str]) -> bool:
    """Of the keys of two dates: Monday may be the fifth, and the fifth of March be in 2026; Monday is no Thursday."""
    days = [_KOREAN_DAY.fullmatch(key) for keys in (one, two) for key in keys]
    if len(days) == 2 and days[0] and days[1]:
        parts = zip(days[0].groups(), days[1].groups(), strict=True)
        return all(left is None or right is None or int(left) == int(right) for left, right in parts)
    return _form(one) != _form(two)


def _form(keys: Sequence[str]) -> str:
    if any(key in _WEEKDAYS for key in keys):
        return "weekday"
    if any(key in MONTHS or "월" in key for key in keys):
        return "month"
    return "digits" if keys[0][:1].isdigit() else "words"
