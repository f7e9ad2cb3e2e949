"""Where memory goes in a document: between two lines, and nowhere else, whatever stands around them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mindhold.model.errors import MarkersWrong
from mindhold.model.markers import END, START, find_block, replace_block

A, Z = START.encode(), END.encode()
BLOCK = "# App\n- It lives in src/app.py\n"

newlines = st.sampled_from([b"\n", b"\r\n", b"\r"])
# Anything but a line that begins with a marker or a fence: those have tests of their own.
bytes_around = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.text(max_size=20).map(lambda text: text.encode("utf-16-le", "surrogatepass")),
        st.sampled_from(
            [b"# Title", b"\xe9t\xe9", b"text <!-- MEMORY:START --> in a line", b"", b"  - item"]
        ),
    ).map(lambda line: line.replace(b"`", b"").replace(b"~", b"")),
    max_size=6,
)


def joined(lines: list[bytes], newline: bytes) -> bytes:
    return b"".join(line + newline for line in lines)


@given(bytes_around, bytes_around, bytes_around, newlines, st.booleans(), st.booleans())
def test_every_byte_outside_stays(
    before: list[bytes],
    inside: list[bytes],
    after: list[bytes],
    newline: bytes,
    final: bool,
    bom: bool,
) -> None:
    head = (b"\xef\xbb\xbf" if bom else b"") + joined(before, newline) + A + newline
    tail = Z + (newline + joined(after, newline) if final else b"")
    document = head + joined(inside, newline) + tail
    assume(not document.startswith((b"\xff\xfe", b"\xfe\xff")))
    assume(
        not (newline == b"\r" and joined(inside, newline).startswith(b"\n"))
    )  # together they are one end of a line
    written = replace_block(document, BLOCK)
    block = BLOCK.encode().replace(b"\n", newline)
    assert written == head + block + tail
    assert replace_block(written, BLOCK) == written


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (f"one\n{START}\ntwo\n", 2, "has no"),
        (f"one\n{END}\n", 2, "has no"),
        (f"{END}\n{START}\n", 1, "has no"),
        (f"{START}\n{START}\n{END}\n", 2, "within"),
        (f"{START}\n{END}\n\n{START}\n{END}\n", 4, "once more"),
        (f"{START}\n{END}\n{END}\n", 3, "once more"),
        (f"{START} {END}\n", 1, "alone"),
        (f"{START}\n- a\n{END} and so on\n", 3, "alone"),
    ],
)
def test_markers_that_enclose_no_place_are_told_with_their_line(text: str, line: int, said: str) -> None:
    for spelling in (text, text.replace("\n", "\r\n")):
        with pytest.raises(MarkersWrong, match=f"app/CLAUDE.md, line {line}: .*{said}"):
            find_block(spelling.encode(), name="app/CLAUDE.md")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Nothing here\n",
        f"The line `{START}` begins the block.\n",
        f"```html\n{START}\n{END}\n```\n",
        f"~~~~\n```\n{START}\n~~~~\n",
        f"   ```\n{END}\n```\n",
        f"Such as:\n\n    {START}\n    {END}\n",
        f"Such as:\n\n\t{START}\n\t{END}\n",
        f"- item\n    ```\n    {START}\n{END}\n    ```\n",
        f"1. ```\n   {START}\n   {END}\n   ```\n",
        f"<!-- Put these in:\n{START}\n{END}\n-->\n",
    ],
)
def test_what_is_quoted_is_no_marker(text: str) -> None:
    assert find_block(text.encode(), name="CLAUDE.md") is None
    with pytest.raises(MarkersWrong, match="no markers"):
        replace_block(text.encode(), BLOCK)


def test_code_above_and_within_the_block_hides_nothing() -> None:
    above = f"```sh\n{START}\n```\n{START}\n```\nhalf a fence\n{END}\n".encode()
    assert replace_block(above, "- a\n") == f"```sh\n{START}\n```\n{START}\n- a\n{END}\n".encode()
    unclosed = f"```\nnever closed\n{START}\n{END}\n".encode()
    assert replace_block(unclosed, "- a\n") == f"```\nnever closed\n{START}\n- a\n{END}\n".encode()


def test_a_marker_may_be_indented_and_a_block_empty() -> None:
    assert replace_block(f"  {START}\n   {END}".encode(), "") == f"  {START}\n   {END}".encode()


@pytest.mark.parametrize(
    "above",
    [
        f"    {START}\n    {END}\n",
        f"- item\n    ```\n    {START}\n    {END}\n    ```\n",
        f"<!--\n{START}\n{END}\n-->\n",
        "<!-- a comment --> and\n<!-- another\nof two lines -->\n",
        "    ```\n\n",  # a line of code, which begins nothing
        "<!-- never closed\n",
    ],
)
def test_what_is_shown_above_leaves_the_true_ones(above: str) -> None:
    after = "\n```\ncode\n```\n"
    written = replace_block(f"{above}{START}\n{END}{after}".encode(), "- a\n")
    assert written == f"{above}{START}\n- a\n{END}{after}".encode()


def test_utf_16_is_told() -> None:
    with pytest.raises(MarkersWrong, match="UTF-16"):
        find_block(f"{START}\n{END}\n".encode("utf-16"), name="CLAUDE.md")
    assert find_block("no markers".encode("utf-16"), name="CLAUDE.md") is None
