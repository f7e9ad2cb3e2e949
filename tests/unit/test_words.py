"""Words that are taken apart once: they have the lexemes that the text has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mindhold.model.lexemes
from mindhold.model.lexemes import LexemeCache, lexemes


@given(st.text() | st.text("aB1-_./'@&:,+# \u00e9\u0301\uac00\u0e01\u3000\u00b4\u2003\n"))
def test_words_have_the_lexemes_of_their_text(text: str) -> None:
    words = LexemeCache()
    assert words.of(text).split() == words.of(text).split() == lexemes(text)


@given(st.lists(st.text("aB1-_./'@&:,+#()", max_size=8), max_size=80), st.integers(1, 5))
def test_so_they_have_when_there_is_no_room_for_more(texts: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mindhold.model.lexemes, "MOST_WORDS", most)
        words = LexemeCache()
        for text in texts:
            assert words.of(text).split() == lexemes(text)
