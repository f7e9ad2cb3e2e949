"""Words that are taken apart once: they have the lexemes that the text has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lexemes import lexemes
from recollect.model.words import Words


@given(st.text() | st.text("aB1-_./'@&:,+# \u00e9\u0301\uac00\u0e01\u3000\u00b4\u2003\n"))
def test_words_have_the_lexemes_of_their_text(text: str) -> None:
    words = Words()
    assert words.of(text).split() == words.of(text).split() == lexemes(text)
