"""Which scope a text belongs to, where nobody says: the one that was chosen, else the one that the text speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from mindhold.engine.text.hashtags import is_of_word
from mindhold.model.scope import GLOBAL, Scope, lineage

MOST_NAMED = 5  # scopes that a doubtful answer names
READ = 20_000  # characters: what a text is about is said by then
# Chinese, Japanese, Korean, and what else is written without spaces or with endings grown on: there a word has no edge.
_EDGELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Placed:
    """The scope, and why it is that one; no reason where it is simply the one that the call is made in."""

    scope: str
    reason: str = ""


def placed(text: str, tags: Sequence[str], *, scopes: Sequence[Scope], active: str) -> Placed:
    """The scope of a text that came without one. One that is switched off is never it.

    Who works in another scope than Global has chosen. Of scopes within each other the innermost is meant; of others that a text
    speaks of at once, none.
    """
    if active != GLOBAL:
        return Placed(active, "the active scope")
    spoken = _Spoken(text, tags)
    said = {
        scope.name: word
        for scope in scopes
        if scope.active and scope.name != GLOBAL and (word := spoken.word_of(scope))
    }
    innermost = [name for name in said if all(other in lineage(name, scopes) for other in said)]
    if len(innermost) == 1:
        [name] = innermost
        return Placed(name, f"it speaks of {said[name]!r}")
    if said:
        several = ", ".join(sorted(said)[:MOST_NAMED])
        return Placed(active, f"it speaks of several scopes: {several}")
    return Placed(active)


class _Spoken:
    """A text and its tags, in the form in which names are looked for."""

    def __init__(self, text: str, tags: Iterable[str]) -> None:
        self._folded = _folded(text[:READ])
        self._words = f" {' '.join(_words(self._folded))} "
        self._tags = {_joined(tag) for tag in tags}

    def word_of(self, scope: Scope) -> str:
        """The name or the keyword by which the scope is spoken of; empty when it isn't."""
        return next((word for word in (scope.name, *scope.keywords) if self._says(word)), "")

    def _says(self, word: str) -> bool:
        folded = _folded(word)
        if _joined(word) in self._tags:
            return True
        if _EDGELESS.search(folded):
            return folded.strip() in self._folded
        words = " ".join(_words(folded))
        return bool(words) and f" {words} " in self._words


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _words(folded: str) -> list[str]:
    """Whole words; the signs that hang on a letter, as in C++ and C#, belong to them."""
    characters: list[str] = []
    within = False
    for character in folded:
        within = is_of_word(character) or (within and character in "+#")
        characters.append(character if within else " ")
    return "".join(characters).split()


def _joined(label: str) -> str:
    """`project_alpha`, `Project Alpha` and `#ProjectAlpha` are one tag to who wrote them."""
    return "".join(_words(_folded(label.lstrip("#＃"))))
