"""Where a page ended, as one word that callers hand back unread: the place itself, so that no write moves it."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mindhold.engine.checks import LARGEST_NUMBER
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import Memory
from mindhold.model.query import Order, Spot

VERSION = 1
LONGEST = 1_000  # characters of a cursor
LONGEST_ID = 200
_TIMED = (Order.NEWEST, Order.OLDEST, Order.DUE, Order.CHANGED)


def next_cursor(memories: Sequence[Memory], order: Order, *, limit: int) -> str | None:
    """What continues after this page; None where it is the last one."""
    if len(memories) < limit or not memories:
        return None
    return encoded(order.value, Spot.of(memories[-1], order))


def started(order: Order, *, cursor: str | None, after: str | None = None) -> str | Spot | None:
    """Where `find` begins; `after` is an id, or a cursor as well. Raises InvalidInput."""
    if cursor is not None and after is not None:
        raise InvalidInput("`cursor` and `after` were both given.", advice="Give one of them.")
    if cursor is not None:
        return spot_of(cursor, order)
    if after is not None and _read(after) is not None:
        return spot_of(after, order)
    return after


def spot_of(cursor: str, order: Order) -> Spot:
    """The place that a cursor of that order stands for. Raises InvalidInput."""
    value, last = decoded(order.value, cursor)
    if order in _TIMED:
        return Spot(_moment(value), last)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise unreadable()
    if order is Order.USED and not (isinstance(value, int) and 0 <= value <= LARGEST_NUMBER):
        raise unreadable()
    return Spot(float(value) if order is Order.IMPORTANT else value, last)


def encoded(listing: str, spot: Spot) -> str:
    """A cursor of the listing of that name."""
    value = spot.value.astimezone(UTC).isoformat() if isinstance(spot.value, datetime) else spot.value
    text = json.dumps([VERSION, listing, value, spot.id], ensure_ascii=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(listing: str, cursor: str) -> tuple[Any, str]:
    """The value, as JSON has it, and the id. Raises InvalidInput for what is no cursor, or one of another listing."""
    read = _read(cursor)
    if read is None or read[0] != VERSION:
        raise unreadable()
    if read[1] != listing:
        raise InvalidInput(
            "The cursor is of a listing in another order.",
            advice="Begin again without a cursor, or ask in the order that it was given for.",
        )
    return read[2], read[3]


def unreadable() -> InvalidInput:
    return InvalidInput(
        "The cursor can't be read.", advice="Hand back `next` of the page before as it is, or begin without."
    )


def _read(cursor: str) -> tuple[int, str, Any, str] | None:
    if len(cursor) > LONGEST or not cursor.isascii():
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        read = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        return None
    if not isinstance(read, list) or len(read) != 4:
        return None
    version, listing, value, last = read
    if type(version) is not int or not isinstance(listing, str) or not isinstance(last, str):
        return None
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        return None
    if len(last) > LONGEST_ID or "\x00" in last or any("\ud800" <= sign <= "\udfff" for sign in last):
        return None
    return version, listing, value, last


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise unreadable()
