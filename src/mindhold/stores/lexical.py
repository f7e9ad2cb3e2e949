"""The arithmetic of full text over postings: which records are worth a look, and how often they say a word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mindhold.stores.sketch import Slots

_SATURATION, _LENGTH_SHARE = 1.2, 0.75


def best_by_text(
    postings: Sequence[Slots],
    *,
    frequencies: Sequence[int],
    lengths: npt.NDArray[np.int32],
    average_length: float,
    total: int,
    limit: int,
) -> Slots:
    """The slots with the highest BM25, each word counted once; a ranking counts them properly afterwards.

    `postings` are the slots within reach that have each word.
    """
    scores = np.zeros(len(lengths), dtype=np.float32)
    for slots, frequency in zip(postings, frequencies, strict=True):
        rarity = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5)) if frequency else 0.0
        relative = lengths[slots] / max(average_length, 1.0)
        scores[slots] += rarity / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))
    found = np.flatnonzero(scores)
    if limit < 1:
        return found[:0]
    if len(found) > limit:
        found = found[np.argpartition(scores[found], len(found) - limit)[len(found) - limit :]]
    return found[np.argsort(-scores[found], kind="stable")]


def occurrences(texts: Mapping[int, str], lexemes: Sequence[str], *, rows: int) -> npt.NDArray[np.int32]:
    """How often each lexeme is in the texts, which are lexemes joined by blanks; `texts` by the row of the result."""
    counts = np.zeros((rows, len(lexemes)), dtype=np.int32)
    sought = [f" {lexeme} " for lexeme in lexemes]
    for row, text in texts.items():
        # Two blanks between words, or of two equal words in a row the second would not be seen.
        spaced = f" {text.replace(' ', '  ')} "
        counts[row] = [spaced.count(lexeme) for lexeme in sought]
    counts[:, [not lexeme for lexeme in lexemes]] = 0
    return counts
