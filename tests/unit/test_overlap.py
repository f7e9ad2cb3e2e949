"""How much two texts share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.text.similarity import content_words, one_contains_other, quantifiers
from mindhold.text.similarity import jaccard as shared


def jaccard(a: str, b: str) -> float:
    return shared(content_words(a), content_words(b))


@pytest.mark.parametrize(
    ("a", "b", "least", "most"),
    [
        ("The app router", "An app router is", 1.0, 1.0),
        ("Stripe Checkout for billing", "Billing with Stripe Checkout", 1.0, 1.0),
        ("Deploys run on Friday", "The parser is written by hand", 0.0, 0.0),
        ("alpha beta gamma", "alpha beta delta", 0.5, 0.5),
        ("우리는 탭을 사용한다", "우리는 탭을 사용한다", 1.0, 1.0),
        ("", "", 0.0, 0.0),
        ("the of and", "the of and", 0.0, 0.0),
    ],
)
def test_the_share_of_words_in_common(a: str, b: str, least: float, most: float) -> None:
    assert least <= jaccard(a, b) <= most


def test_words_that_say_nothing_do_not_count() -> None:
    assert content_words("the router of the app") == content_words("router app")


@given(st.text(max_size=60), st.text(max_size=60))
def test_it_is_a_share_and_the_same_both_ways(a: str, b: str) -> None:
    assert 0.0 <= jaccard(a, b) == jaccard(b, a) <= 1.0
    assert jaccard(a, a) == (1.0 if content_words(a) else 0.0)


def test_a_word_in_the_place_of_another_is_no_addition() -> None:
    invoices, receipts = content_words("keep the invoices"), content_words("keep the receipts")
    assert one_contains_other(invoices, content_words("keep the invoices for a year"))
    assert not one_contains_other(invoices, receipts)
    assert quantifiers("Always encrypt them") != quantifiers("Sometimes encrypt them")
