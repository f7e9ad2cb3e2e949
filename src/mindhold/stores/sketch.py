"""One bit for each dimension of a vector: small enough to look at a million of them in a few milliseconds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Vector

Slots = npt.NDArray[np.int64]


def distinct(numbers: Slots) -> Slots:
    """Sorted, each once. numpy's own brings masked arrays along, which cost a start 40 ms."""
    ordered = np.sort(numbers, axis=None)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


_BLOCK = 65_536  # records at a time: what fits the processor's cache
_FAR = np.iinfo(np.uint16).max


class Sketches:
    """Signs of vectors about a centre, word by word rather than record by record: NumPy counts bits fastest so.

    Some models put all their vectors to one side of the origin; about their own centre the signs tell them apart.
    """

    def __init__(self, centre: Vector, capacity: int) -> None:
        self._centre = centre
        self._words = np.zeros((-(-len(centre) // 64), capacity), dtype=np.uint64)

    def grow(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        wider = np.zeros((len(self._words), capacity), dtype=np.uint64)
        wider[:, : self._words.shape[1]] = self._words
        self._words = wider

    def put(self, slots: Slots | slice, vectors: npt.NDArray[Any]) -> None:
        """Set the sketches of unit vectors."""
        self._words[:, slots] = self._signs(vectors)

    def closest(self, vector: Vector, mask: npt.NDArray[np.bool_], count: int) -> Slots:
        """The slots of the `count` sketches within the mask that are most like the vector's, and their ties."""
        distances = self._distances(self._signs(vector[np.newaxis])[:, 0], len(mask))
        np.copyto(distances, _FAR, where=~mask)
        limit = min(_quantile(distances, count), int(_FAR) - 1)
        return np.flatnonzero(distances <= limit)

    def _signs(self, vectors: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        packed = np.packbits(vectors > self._centre, axis=1)
        padded = np.zeros((len(packed), len(self._words) * 8), dtype=np.uint8)
        padded[:, : packed.shape[1]] = packed
        return padded.view(np.uint64).T

    def _distances(self, words: npt.NDArray[np.uint64], used: int) -> npt.NDArray[np.uint16]:
        distances = np.zeros(used, dtype=np.uint16)
        differing = np.empty(min(_BLOCK, used), dtype=np.uint64)
        bits = np.empty(len(differing), dtype=np.uint8)
        for start in range(0, used, _BLOCK):
            block = distances[start : start + _BLOCK]
            size = len(block)
            for column, word in zip(self._words, words, strict=True):
                np.bitwise_xor(column[start : start + size], word, out=differing[:size])
                np.bitwise_count(differing[:size], out=bits[:size])
                np.add(block, bits[:size], out=block)
        return distances


def _quantile(distances: npt.NDArray[np.uint16], count: int) -> int:
    """The distance that about `count` of them don't exceed; of very many, a sample tells."""
    wanted = float(count)
    if len(distances) > 4 * _BLOCK:
        wanted *= _BLOCK / len(distances)
        wanted += 2 * math.sqrt(wanted)  # rather too many than too few
        distances = distances[np.random.default_rng(0).integers(0, len(distances), _BLOCK)]
    place = min(math.ceil(wanted), len(distances)) - 1
    return int(np.partition(distances, place)[place])
