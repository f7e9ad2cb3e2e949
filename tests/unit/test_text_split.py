"""Splitting: every part fits, nothing is lost, cuts fall where a reader would make them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mindhold.text.clean
from mindhold.model.errors import InvalidInput
from mindhold.text.clean import split


def _solid(text: str) -> str:
    return "".join(text.split())


def test_short_text_is_one_part() -> None:
    assert split("One line.", limit=100) == ["One line."]


def test_blank_text_has_no_part() -> None:
    assert split(" \n ", limit=100) == []
    assert split(" " * 300, limit=100) == []


def test_paragraphs_come_first() -> None:
    text = "First paragraph. It has two sentences.\n\nSecond paragraph. Also two sentences."

    assert split(text, limit=60) == [
        "First paragraph. It has two sentences.",
        "Second paragraph. Also two sentences.",
    ]


def test_then_sentences() -> None:
    text = "The first sentence is here. The second one follows it. The third ends."

    assert split(text, limit=40) == [
        "The first sentence is here.",
        "The second one follows it.",
        "The third ends.",
    ]


def test_then_words() -> None:
    parts = split("alpha beta gamma delta epsilon zeta eta theta", limit=12)

    assert parts == ["alpha beta", "gamma delta", "epsilon zeta", "eta theta"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("最初の文です。次の文がここにあります。最後の文。", "最初の文です。次の文がここにあります。"),
        ("这是第一句话。这是第二句话，比较长一些。第三句。", "这是第一句话。这是第二句话，比较长一些。"),
    ],
)
def test_sentences_without_spaces(text: str, first: str) -> None:
    assert split(text, limit=21)[0] == first


def test_a_fenced_block_stays_whole_where_it_fits() -> None:
    block = "```python\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n```"
    text = f"Some words before the block that take room.\n\n{block}\n\nAnd words after the block."

    parts = split(text, limit=80)

    assert any(block in part for part in parts)


def test_a_fenced_block_that_is_too_long_is_cut_at_lines() -> None:
    lines = [f"line_{number} = {number}" for number in range(40)]
    parts = split("```\n" + "\n".join(lines) + "\n```", limit=100)

    assert [line for part in parts for line in part.split("\n")] == ["```", *lines, "```"]


@pytest.mark.parametrize("line", ["```a\n", "~~~ x\n", "```\n~~~~ y\n", "````a\n```b\n"])
def test_a_megabyte_of_fences_that_are_never_closed_is_split_too(line: str) -> None:
    text = line * (1_000_000 // len(line))

    parts = split(text, limit=4_000)

    assert all(len(part) <= 4_000 for part in parts)
    assert _solid("".join(parts)) == _solid(text)


def test_a_fence_that_is_never_closed_hides_no_block_behind_it() -> None:
    block = "```python\ndef f():\n\n    return 1\n\n\ndef g():\n    return 2\n```"
    text = f"~~~ never closed\nSome words before the block that take room.\n\n{block}\n\nAnd words after it."

    assert any(block in part for part in split(text, limit=90))


def test_a_fence_is_closed_by_one_of_at_least_its_length() -> None:
    block = "````\n```\nshown\n\n```\n\nmore words of it\n````"
    text = f"Some words before the block that take room, and more.\n\n{block}\n\nAnd words after it."

    assert any(block in part for part in split(text, limit=80))


def test_a_word_longer_than_the_limit_is_cut_but_not_its_characters() -> None:
    assert split("x" * 25, limit=10) == ["x" * 10, "x" * 10, "x" * 5]
    assert all(not part.startswith("\u0301") for part in split("e\u0301" * 20, limit=7))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput):
        split("text", limit=0)


TEXTS = st.one_of(
    st.text(max_size=400),
    st.text(st.sampled_from("ab .\n`~。、\t"), max_size=400),
    st.lists(
        st.sampled_from(["word", "。", ". ", "\n\n", "```\n", "code\n", "  ", "긴단어", "\n"]), max_size=80
    ).map("".join),
)


@given(TEXTS, st.integers(1, 60))
def test_every_part_fits_and_nothing_is_lost(text: str, limit: int) -> None:
    parts = split(text, limit=limit)

    assert all(len(part) <= limit for part in parts)
    assert _solid("".join(parts)) == _solid(text)


@given(st.lists(st.from_regex(r"[a-z]{1,9}[.,]?", fullmatch=True), max_size=60), st.integers(10, 60))
def test_words_stay_whole_and_in_order(words: list[str], limit: int) -> None:
    parts = split(" ".join(words), limit=limit)

    assert [word for part in parts for word in part.split()] == words


@given(TEXTS, st.integers(8, 200), st.integers(1, 40))
def test_boundaries_are_the_same_however_near_the_end_they_are_sought(
    text: str, limit: int, window: int
) -> None:
    found = []
    for size in (window, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mindhold.text.clean, "_WINDOW", size)
            found.append(split(text, limit=limit))

    assert found[0] == found[1]
