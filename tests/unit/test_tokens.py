from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.tokens import ELLIPSIS, count_tokens, truncate_to_tokens

SENTENCE = "The quick brown fox jumps over the lazy dog and goes home."


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
        ("<|endoftext|>", 7),
    ],
)
def test_counts_as_cl100k_base(text: str, count: int) -> None:
    assert count_tokens(text) == count


def test_half_a_surrogate_pair_is_counted() -> None:
    assert count_tokens("a\ud800b") > 0


def test_threads_agree() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(count_tokens, [SENTENCE] * 32)) == {count_tokens(SENTENCE)}


class TestTruncate:
    def test_what_fits_is_left_alone(self) -> None:
        assert truncate_to_tokens(SENTENCE, count_tokens(SENTENCE)) == SENTENCE

    def test_cuts_between_words(self) -> None:
        assert truncate_to_tokens(SENTENCE, 6) == "The quick brown fox jumps…"

    @pytest.mark.parametrize("limit", [0, -3])
    def test_no_budget(self, limit: int) -> None:
        assert truncate_to_tokens(SENTENCE, limit) == ""

    def test_a_budget_of_one(self) -> None:
        assert truncate_to_tokens(SENTENCE, 1) == ELLIPSIS

    def test_never_within_a_character(self) -> None:
        family = "👨‍👩‍👧‍👦"
        for limit in range(1, 60):
            kept = truncate_to_tokens(family * 5, limit).removesuffix(ELLIPSIS)
            assert kept == family * (len(kept) // len(family))

    def test_never_within_a_flag_or_before_a_mark(self) -> None:
        for limit in range(1, 40):
            assert len(truncate_to_tokens("🇩🇪🇰🇷🇫🇷🇯🇵", limit).removesuffix(ELLIPSIS)) % 2 == 0
            assert len(truncate_to_tokens("e\u0301" * 20, limit).removesuffix(ELLIPSIS)) % 2 == 0

    def test_a_long_text_uses_the_budget(self) -> None:
        assert count_tokens(truncate_to_tokens("word and thing " * 10_000, 500)) == 500

    @given(text=st.text(max_size=300), limit=st.integers(0, 80))
    def test_never_exceeds_the_limit(self, text: str, limit: int) -> None:
        shortened = truncate_to_tokens(text, limit)
        assert count_tokens(shortened) <= limit
        if count_tokens(text) > limit > 0:
            assert shortened.endswith(ELLIPSIS)

    @given(
        words=st.lists(st.sampled_from(["alpha", "서버를", "数据库", "it's", "x"]), min_size=5),
        limit=st.integers(2, 30),
    )
    def test_is_a_beginning_of_the_text(self, words: list[str], limit: int) -> None:
        text = " ".join(words)
        shortened = truncate_to_tokens(text, limit)
        assert text.startswith(shortened.removesuffix(ELLIPSIS))
