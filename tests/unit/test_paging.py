"""Cursors: what is handed out comes back as it went, and nothing else is taken."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.memories.views import decode_cursor, encode_cursor, page_start, position_of
from mindhold.model.errors import InvalidInput
from mindhold.model.query import Order, PagePosition

MOMENT = datetime(2025, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
SPOTS = {
    Order.NEWEST: PagePosition(MOMENT, "a"),
    Order.OLDEST: PagePosition(MOMENT, "msg_ä"),
    Order.IMPORTANT: PagePosition(0.1 + 0.2, "b"),
    Order.USED: PagePosition(7, "c"),
}


def made(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("order", list(Order))
def test_a_cursor_comes_back_as_it_went(order: Order) -> None:
    spot = SPOTS.get(order, PagePosition(MOMENT, "d"))
    cursor = encode_cursor(order.value, spot)
    assert position_of(cursor, order) == spot
    assert page_start(order, cursor=cursor) == spot
    assert page_start(order, cursor=None, after=cursor) == spot
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_a_cursor_is_of_one_order() -> None:
    cursor = encode_cursor("newest", SPOTS[Order.NEWEST])
    for order in (Order.OLDEST, Order.USED):
        with pytest.raises(InvalidInput, match="another order"):
            position_of(cursor, order)
        with pytest.raises(InvalidInput, match="another order"):
            page_start(order, cursor=None, after=cursor)


def test_listings_of_their_own() -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        decode_cursor("versions", made([1, "versions", 10**400, ""]))
    assert decode_cursor("versions", encode_cursor("versions", PagePosition(3, ""))) == (3, "")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "01K2ZJ0Q3W4E5R6T7Y8U9I0O1P",
        "ä",
        "====",
        "A" * 2_000,
        made(None),
        made({}),
        made([1, "newest", None]),
        made([2, "newest", MOMENT.isoformat(), "a"]),
        made([True, "newest", MOMENT.isoformat(), "a"]),
        made([1, "newest", 7, "a"]),
        made([1, "newest", None, "a"]),
        made([1, "newest", "2025-01-01", "a"]),
        made([1, "newest", "2025-01-01T00:00:00", "a"]),
        made([1, "newest", "0001-01-01T00:00:00+14:00", "a"]),
        made([1, "newest", MOMENT.isoformat(), 7]),
        made([1, "newest", MOMENT.isoformat(), "a\x00b"]),
        made([1, "newest", MOMENT.isoformat(), "\ud800"]),
        made([1, "newest", MOMENT.isoformat(), "a" * 201]),
        base64.urlsafe_b64encode(b"[" * 700).decode(),
    ],
)
def test_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        position_of(cursor, Order.NEWEST)


@pytest.mark.parametrize("value", ["7", True, None, float("nan"), float("inf"), 10**30, 10**400, [1]])
def test_numbers_that_are_none(value: Any) -> None:
    with pytest.raises(InvalidInput):
        position_of(made([1, "used", value, "a"]), Order.USED)


def test_an_id_is_no_cursor() -> None:
    assert (
        page_start(Order.NEWEST, cursor=None, after="01K2ZJ0Q3W4E5R6T7Y8U9I0O1P")
        == "01K2ZJ0Q3W4E5R6T7Y8U9I0O1P"
    )
    assert page_start(Order.NEWEST, cursor=None) is None
    with pytest.raises(InvalidInput):
        page_start(Order.NEWEST, cursor=encode_cursor("newest", SPOTS[Order.NEWEST]), after="a")


@given(st.text())
def test_no_text_does_harm(text: str) -> None:
    with pytest.raises(InvalidInput):
        position_of(text, Order.NEWEST)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60),
)
def test_any_place_comes_back(moment: datetime, last: str) -> None:
    spot = PagePosition(moment, last)
    assert position_of(encode_cursor("newest", spot), Order.NEWEST) == spot
