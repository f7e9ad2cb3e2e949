"""Keywords as they are compared."""

from __future__ import annotations

from collections.abc import Iterable

from mindhold.model.lexemes import lexemes


def keyword_form(keyword: str) -> str:
    """The same for what full text holds to be the same words: case, accents and endings make no difference."""
    return " ".join(lexemes(keyword)) or keyword.casefold().strip()


def keyword_forms(keywords: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order; what says nothing is left out."""
    return tuple(dict.fromkeys(form for form in map(keyword_form, keywords) if form))
