"""A conversation in the form that is searched, and how many of them are kept."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from recollect.model.lexemes import lexemes
from recollect.ports.transcripts import MOST_KEPT, Check, Digest, Said, Transcript, TranscriptFile, Turn

LONGEST_LOOK = 40_000  # characters of one turn that are searched
MOST_ASKED, LONGEST_ASKED = 3, 4_000
MOST_WORDS, LONGEST_WORD = 50_000, 40  # that are remembered while many texts are taken apart
_OF_A_TURN, _OF_A_FILE = 256, 2_048  # bytes of memory beside the words


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


def digest_of(transcript: Transcript, words: Words, check: Check) -> Digest:
    """Raises what `check` raises."""
    pieces: list[bytes] = []
    starts = array("Q", [0])
    for turn in transcript.turns:
        check()
        pieces.append(f" {words.of(turn.text[:LONGEST_LOOK])} \n".encode("utf-8", "replace"))
        starts.append(starts[-1] + len(pieces[-1]))
    asked = _asked(transcript.turns)
    return Digest(
        about=replace(transcript, turns=()),
        turns=tuple(Said(turn.line, turn.timestamp, turn.start, turn.end) for turn in transcript.turns),
        words=b"".join(pieces),
        starts=starts,
        asked=asked,
        size=_OF_A_FILE + starts[-1] + _OF_A_TURN * len(starts) + sum(4 * len(text) for text in asked),
    )


def _asked(turns: Sequence[Turn]) -> tuple[str, ...]:
    said = (turn.text[:LONGEST_ASKED] for turn in turns if turn.role == "user")
    return tuple(text for text, _ in zip(said, range(MOST_ASKED), strict=False))


class Digests:
    """The ones asked for last, as long as their files stay as they are and there is room."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[Path, tuple[TranscriptFile, Digest]] = OrderedDict()

    def get(self, file: TranscriptFile) -> Digest | None:
        """None when it isn't here or the file has changed since."""
        known, digest = self._kept.get(file.path, (None, None))
        if known != file:
            return None
        self._kept.move_to_end(file.path)
        return digest

    def put(self, file: TranscriptFile, digest: Digest) -> None:
        """The longest unused make room."""
        self._drop(file.path)
        self._kept[file.path] = (file, digest)
        self._size += digest.size
        while self._size > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, path: Path) -> None:
        if path in self._kept:
            self._size -= self._kept.pop(path)[1].size
