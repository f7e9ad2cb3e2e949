"""JSON without `json`: the same values, the same refusals."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.hooks.fast_json import parse_json, parse_record, write_json

texts = st.text(st.characters(exclude_categories=[]))  # halves of pairs too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_it_is_what_the_library_reads_and_writes(value: object) -> None:
    assert json.loads(write_json(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False)) == value
    assert parse_json(f" \n{json.dumps(value, indent=1)}\r\n\t") == value
    assert write_json(value).isascii()
    assert "\n" not in write_json(value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "}", '{"a":}', "{} {}", "[1,]", "nul", '"open', "[" * 100_000, "9" * 5_000, "{'a': 1}"],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_json(text)


def test_records_are_objects_in_whatever_bytes() -> None:
    assert parse_record(b'\xef\xbb\xbf{"a": "\xff"}') == {"a": "\ufffd"}
    for raw in (b"[]", b"1", b"null", b"", b"\x00", '{"a": 1}'.encode("utf-16")):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            parse_record(raw)


def test_what_json_has_no_form_for() -> None:
    assert write_json(float("nan")) == "null"
    with pytest.raises(TypeError):
        write_json({"a": object()})
