"""How much two texts share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.text.overlap import content_words, jaccard


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
