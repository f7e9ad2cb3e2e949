"""Cleaning: hidden characters go, ordinary text of any language stays."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.clean import clean

ZWJ, ZWNJ, ZWSP = "\u200d", "\u200c", "\u200b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("page\x0cbreak\x0bhere\u2028now", "page\nbreak\nhere\nnow"),
        ("\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("nul\x00 bell\x07 back\x08space\x7f", "nul bell backspace"),
        ("c1 \x9b31mred\x84", "c1 red"),
        ("tab\tstays", "tab\tstays"),
        ("zero\u200bwidth\ufeff and\u2060 joiner", "zerowidth and joiner"),
        ("user\u202egpj.exe\u202c", "usergpj.exe"),
        ("pass\u200c\u200dword", "password"),
        ("left\u200e right\u200f", "left right"),
        ("hidden \U000e0041\U000e0042tags", "hidden tags"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("pair \ud83d\ude00 joined", "pair \U0001f600 joined"),
        ("cafe\u0301", "caf\u00e9"),
        ("\u1112\u1161\u11ab", "\ud55c"),
        ("end of line   \nnext\t\n", "end of line\nnext"),
        ("a\n\n\n\n\n\nb", "a\n\n\nb"),
        ("a\n \n \n \n \nb", "a\n\n\nb"),
        ("\n\n  indented", "  indented"),
        ("  \n\t \u200b \n", ""),
        ("", ""),
    ],
)
def test_what_is_cleaned(text: str, expected: str) -> None:
    assert clean(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Plain English, with \u201cquotes\u201d \u2014 and dashes\u2026",
        "def f(x):\n\n    return x\n\n\nclass A: ...",
        "한국어 문장입니다. 「日本語」も、中文也。",
        "می" + ZWNJ + "خواهم",
        "क्" + ZWJ + "ष and क्" + ZWNJ + "ष",
        "👩" + ZWJ + "👩" + ZWJ + "👧" + " and 👩🏽" + ZWJ + "💻 and 🏳️" + ZWJ + "🌈 and ❤️" + ZWJ + "🔥",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f Scotland",
        "ភាសា" + ZWSP + "ខ្មែរ",
        "שלום\u200f (abc) مرحبا",
        "葛\U000e0100 is a variant",
        "x\u00b2 + \u00bd \u2260 \u221e, 5\u202f000 \u20ac",
        "Zażółć gęślą jaźń; Tiếng Việt; Ёлка",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


@given(st.text(st.characters(codec=None)))
def test_cleaning_is_idempotent_and_leaves_valid_text(text: str) -> None:
    cleaned = clean(text)

    assert clean(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    cleaned.encode("utf-8")
    assert not any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in cleaned)


@given(
    st.text(
        st.sampled_from("ab \t\n\r\x1b[]m\x07\x9b\u200b\u200c\u200d\u200e👩ا\u202e\u0301\ufe0f\U000e0041")
    )
)
def test_any_mix_of_hidden_characters_settles_in_one_call(text: str) -> None:
    cleaned = clean(text)

    assert clean(cleaned) == cleaned


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])))
def test_letters_and_digits_survive(text: str) -> None:
    kept = [c for c in unicodedata.normalize("NFC", text) if c.isalnum()]

    assert [c for c in clean(text) if c.isalnum()] == kept
