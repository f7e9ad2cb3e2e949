"""The lexemes of many texts, whose words recur."""

from __future__ import annotations

from recollect.model.lexemes import lexemes

MOST_WORDS, LONGEST_WORD = 50_000, 40  # that are remembered


class Words(dict[str, str]):
    """The lexemes of each word that was met. No lexeme spans a space, so that those of a text are its words'."""

    def __missing__(self, word: str) -> str:
        found = " ".join(lexemes(word))
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = found
        return found

    def of(self, text: str) -> str:
        """The text's lexemes in order, with a space between each two."""
        return " ".join(filter(None, map(self.__getitem__, text.split())))
