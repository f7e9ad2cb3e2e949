"""The lexemes of many texts, whose words recur."""

from __future__ import annotations

from string import punctuation

from mindhold.model.lexemes import lexemes

MOST_WORDS, LONGEST_WORD = 50_000, 40  # that are remembered
_AROUND = "".join(sorted(set(punctuation) - set("+#")))  # what is around a word and no part of it


class Words(dict[str, str]):
    """The lexemes of each word that was met. No lexeme spans a space, so that those of a text are its words'."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[
            str, str
        ] = {}  # what was remembered when it was full: words that recur are taken over

    def __missing__(self, word: str) -> str:
        found = self._before.get(word)
        if found is None:
            bare = word.strip(_AROUND) if word.isascii() else word
            found = self[bare] if bare != word else " ".join(lexemes(word))
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self._before = dict(self)
                self.clear()
            self[word] = found
        return found

    def of(self, text: str) -> str:
        """The text's lexemes in order, with a space between each two."""
        return " ".join(filter(None, map(self.__getitem__, text.split())))
