"""However a stream comes in pieces, its lines are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.interfaces.http.rest.transfer import LineSplitter, NumberedLine

LONGEST = 12


def cut(*pieces: bytes, longest: int = LONGEST) -> list[NumberedLine]:
    cutter = LineSplitter(longest)
    return [*(line for piece in pieces for line in cutter.feed(piece)), *cutter.end()]


def texts(lines: list[NumberedLine]) -> list[tuple[int, bytes | None]]:
    return [(line.number, line.text) for line in lines]


def in_pieces(whole: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(whole), *(place % (len(whole) + 1) for place in cuts)})
    return [whole[start:end] for start, end in zip(places, places[1:], strict=False)]


STREAMS = st.lists(
    st.sampled_from(
        [b"a", b"{}", b"\n", b"\r\n", b" ", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"long enough to be told"]
    ),
    max_size=30,
).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
def test_any_pieces_have_the_same_lines(whole: bytes, cuts: list[int]) -> None:
    assert cut(*in_pieces(whole, cuts)) == cut(whole)


@given(STREAMS)
def test_byte_by_byte_is_the_same(whole: bytes) -> None:
    assert cut(*(whole[place : place + 1] for place in range(len(whole)))) == cut(whole)


@given(STREAMS)
def test_lines_are_those_between_the_line_feeds(whole: bytes) -> None:
    marked = whole.removeprefix(b"\xef\xbb\xbf")
    wanted = [
        (number, text if len(text) <= LONGEST else None)
        for number, text in enumerate((line.strip(b" \t\r") for line in marked.split(b"\n")), 1)
        if text
    ]
    assert texts(cut(whole)) == wanted


@pytest.mark.parametrize(
    ("whole", "lines"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b"a", [(1, b"a")]),
        (b"a\nb\n", [(1, b"a"), (2, b"b")]),
        (b"a\r\n\r\n \nb", [(1, b"a"), (4, b"b")]),
        (b"\xef\xbb\xbf{}\n", [(1, b"{}")]),
        (b"x" * 13 + b"\nb", [(1, None), (2, b"b")]),
        (b"x" * 12 + b"\r\nb", [(1, b"x" * 12), (2, b"b")]),
    ],
)
def test_empty_lines_marks_and_long_lines(whole: bytes, lines: list[tuple[int, bytes | None]]) -> None:
    assert texts(cut(whole)) == lines


def test_a_line_without_end_is_not_held() -> None:
    cutter = LineSplitter(1_000)
    for _ in range(1_000):
        assert cutter.feed(b"x" * 1_000) == []
    assert cutter.held <= 1_100
    assert texts(cutter.feed(b"x\n{}\n")) == [(1, None), (2, b"{}")]
