"""Vectors in memory: int8 codes and one-bit sketches that find the nearest candidates before exact rescoring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numkong
import numpy as np
import numpy.typing as npt

from mindhold.model.query import Vector

Slots = npt.NDArray[np.int64]


def distinct(numbers: Slots) -> Slots:
    """The distinct numbers, sorted. numpy.unique imports masked arrays, which costs 40 ms at start."""
    ordered = np.sort(numbers, axis=None)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


_BLOCK = 65_536  # records at a time, so that they fit the processor's cache
_FAR = np.iinfo(np.uint16).max


class Sketches:
    """Signs of vectors relative to a centre, stored word by word rather than record by record: NumPy counts bits fastest so.

    Some models put all their vectors on one side of the origin; relative to their own centre the signs tell them apart.
    """

    def __init__(self, centre: Vector, capacity: int) -> None:
        self._centre = centre
        self._words = np.zeros((-(-len(centre) // 64), capacity), dtype=np.uint64)

    def grow(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""
        wider = np.zeros((len(self._words), capacity), dtype=np.uint64)
        wider[:, : self._words.shape[1]] = self._words
        self._words = wider

    def put(self, slots: Slots | slice, vectors: npt.NDArray[Any]) -> None:
        """Set the sketches of unit vectors."""
        self._words[:, slots] = self._signs(vectors)

    def closest(self, vector: Vector, mask: npt.NDArray[np.bool_], count: int) -> Slots:
        """The slots of the `count` sketches within the mask that are most similar to the vector's, and ties."""
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
    """The distance that about `count` of them don't exceed; estimated from a sample if there are very many."""
    rank = float(count)
    if len(distances) > 4 * _BLOCK:
        rank *= _BLOCK / len(distances)
        rank += 2 * math.sqrt(rank)  # rather too many than too few
        distances = distances[np.random.default_rng(0).integers(0, len(distances), _BLOCK)]
    place = min(math.ceil(rank), len(distances)) - 1
    return int(np.partition(distances, place)[place])


Mask = npt.NDArray[np.bool_]
Cosines = npt.NDArray[np.float32]

_SCALE = np.dtype("<f4")
_GATHERED = 2048  # codes copied together, so that they fit the processor's cache
_GATHER_BELOW = 0.4  # below this share of all codes, copying them is faster than comparing all
_SKETCHED_SHARE = 0.01  # share of the admitted records that are compared by code after the sketches
_SAMPLE = 4096


def encode(vector: Vector) -> tuple[bytes, bytes]:
    """The stored forms of a vector: float16 of unit length, and an int8 code with its scale.

    The code has a quarter of the size of float32 and finds the candidates; float16 gives the exact cosine.
    """
    unit = _unit(vector)
    code, scale = _quantised(unit)
    return unit.astype("<f2").tobytes(), code.tobytes() + np.array([scale], dtype=_SCALE).tobytes()


def decode(exact: bytes) -> Vector:
    """The vector that encode() got, of unit length, in the precision of float16."""
    return np.frombuffer(exact, dtype="<f2").astype(np.float32)


def same_code(code: bytes, fresh: bytes) -> bool:
    """Whether two codes differ only by rounding: `fresh` was made from the rounded exact vector."""
    if len(code) != len(fresh):
        return False
    size = len(code) - np.dtype(_SCALE).itemsize
    first, other = (np.frombuffer(part[:size], dtype=np.int8).astype(np.int16) for part in (code, fresh))
    return bool(np.abs(first - other).max(initial=0) <= 1)


def exact_cosines(vector: Vector, stored: Sequence[bytes]) -> npt.NDArray[np.float64]:
    """The cosines of a vector with stored exact ones."""
    if not stored:
        return np.empty(0)
    query = _unit(vector).astype(np.float16)[np.newaxis]
    rows = np.frombuffer(b"".join(stored), dtype="<f2").reshape(len(stored), -1)
    cosines: npt.NDArray[np.float64] = np.asarray(numkong.cdist(query, rows, metric="dot"), dtype=np.float64)[
        0
    ]
    return cosines


@dataclass(frozen=True, slots=True)
class NearestCodes:
    """The nearest slots by code, nearest first, and the distribution of the cosines of all admitted ones."""

    slots: Slots
    cosines: Cosines
    embedded: int
    mean: float
    deviation: float
    exact: bool  # False if sketches chose
    elsewhere: int = 0  # those of `embedded` whose codes are not held here and were not compared


ELSEWHERE = b""  # instead of a code: the store has the vector and its own index for it

_NOTHING = NearestCodes(np.empty(0, np.int64), np.empty(0, np.float32), 0, 0.0, 0.0, exact=True)


class Codes:
    """One code for each slot that has a vector of one model."""

    def __init__(self, *, exact_up_to: int, capacity: int) -> None:
        self._exact_up_to = exact_up_to
        self._capacity = capacity
        self._codes = np.zeros((capacity, 0), dtype=np.int8)  # the first code shows their width
        self._scales = np.zeros(capacity, dtype=np.float32)
        self._has = np.zeros(capacity, dtype=np.bool_)
        self._elsewhere: Mask | None = None  # created when the first one occurs
        self._sketches: Sketches | None = None

    def grow(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""
        self._capacity = capacity
        self._scales = lengthened(self._scales, capacity)
        self._has = lengthened(self._has, capacity)
        if self._elsewhere is not None:
            self._elsewhere = lengthened(self._elsewhere, capacity)
        self._codes = lengthened(self._codes, capacity)
        if self._sketches is not None:
            self._sketches.grow(capacity)

    def put(self, slots: Slots, codes: Sequence[bytes | None]) -> None:
        """Set the codes that encode() returned; None without a vector, ELSEWHERE if it is not held here."""
        if self._elsewhere is not None or ELSEWHERE in codes:
            if self._elsewhere is None:
                self._elsewhere = np.zeros(self._capacity, dtype=np.bool_)
            self._elsewhere[slots] = [code == ELSEWHERE for code in codes]
        if not self._codes.shape[1]:
            width = next((len(code) - _SCALE.itemsize for code in codes if code), 0)
            if not width:
                return
            self._codes = np.zeros((self._capacity, width), dtype=np.int8)
        size = self._codes.shape[1] + _SCALE.itemsize
        valid = np.array([code is not None and len(code) == size for code in codes], dtype=np.bool_)
        self._has[slots] = valid
        if not valid.any():
            return
        if not valid.all():
            slots = slots[valid]
        self.put_joined(slots, b"".join([code for code in codes if code is not None and len(code) == size]))

    def put_joined(self, slots: Slots, codes: bytes) -> None:
        """Set the codes of slots, which are of one length and one after the other."""
        packed = np.frombuffer(codes, dtype=np.int8).reshape(len(slots), -1)
        if not self._codes.shape[1]:
            self._codes = np.zeros((self._capacity, packed.shape[1] - _SCALE.itemsize), dtype=np.int8)
        self._has[slots] = True
        self._codes[slots] = packed[:, : -_SCALE.itemsize]
        self._scales[slots] = np.ascontiguousarray(packed[:, -_SCALE.itemsize :]).view(_SCALE)[:, 0]
        if self._sketches is not None:
            self._sketches.put(slots, self._units(slots))

    def drop(self, slots: Slots) -> None:
        self._has[slots] = False
        if self._elsewhere is not None:
            self._elsewhere[slots] = False

    def keep(self, slots: Slots) -> None:
        """Move these slots, in order, to the front and forget the others."""
        size = len(slots)
        self._has[:size], self._has[size:] = self._has[slots], False
        if self._elsewhere is not None:
            self._elsewhere[:size], self._elsewhere[size:] = self._elsewhere[slots], False
        self._scales[:size] = self._scales[slots]
        self._codes[:size] = self._codes[slots]
        self._sketches = None

    def nearest(self, vector: Vector, mask: Mask, limit: int) -> NearestCodes:
        """At most `limit` slots within the mask. Compares all of them unless there are very many."""
        result = self._nearest(vector, mask, limit)
        elsewhere = len(self.elsewhere(mask))
        return replace(result, embedded=result.embedded + elsewhere, elsewhere=elsewhere)

    def elsewhere(self, mask: Mask) -> Slots:
        """The slots within the mask whose codes are not held here."""
        if self._elsewhere is None:
            return _NOTHING.slots
        return np.flatnonzero(mask & self._elsewhere[: len(mask)])

    def _nearest(self, vector: Vector, mask: Mask, limit: int) -> NearestCodes:
        embedded_mask = mask & self._has[: len(mask)]
        embedded = int(np.count_nonzero(embedded_mask))
        if not embedded or len(vector) != self._codes.shape[1]:
            return _NOTHING
        if embedded > self._exact_up_to:
            return self._by_sketch(vector, embedded_mask, limit, embedded)
        slots, cosines = self._all_cosines(vector, embedded_mask, embedded)
        best = _largest(cosines, limit)
        return NearestCodes(
            slots[best], cosines[best], embedded, float(cosines.mean()), float(cosines.std()), exact=True
        )

    def nearest_each(self, vectors: Sequence[Vector], mask: Mask, limit: int) -> list[NearestCodes]:
        """nearest() for many vectors. Uses sketches if that is cheaper; they never miss what is very near."""
        embedded_mask = mask & self._has[: len(mask)]
        embedded = int(np.count_nonzero(embedded_mask))
        if len(vectors) == 1 or embedded < 8 * _SAMPLE or self._elsewhere is not None:
            return [self.nearest(vector, mask, limit) for vector in vectors]
        return [self._by_sketch(vector, embedded_mask, limit, embedded, spread=False) for vector in vectors]

    def _by_sketch(
        self, vector: Vector, chosen: Mask, limit: int, embedded: int, *, spread: bool = True
    ) -> NearestCodes:
        if len(vector) != self._codes.shape[1]:
            return _NOTHING
        candidates = max(4 * limit, int(_SKETCHED_SHARE * embedded)) if spread else 16 * limit
        slots = self._sketched(len(chosen)).closest(_unit(vector), chosen, candidates)
        cosines = self._cosines(vector, slots)
        best = _largest(cosines, limit)
        mean = deviation = 0.0
        if spread:
            within = np.flatnonzero(chosen)
            drawn = np.random.default_rng(0).integers(0, len(within), _SAMPLE)
            sample = self._cosines(vector, within[drawn])
            mean, deviation = float(sample.mean()), float(sample.std())
        return NearestCodes(slots[best], cosines[best], embedded, mean, deviation, exact=False)

    def _all_cosines(self, vector: Vector, chosen: Mask, embedded: int) -> tuple[Slots, Cosines]:
        slots = np.flatnonzero(chosen)
        if embedded < _GATHER_BELOW * len(chosen):
            return slots, self._cosines(vector, slots)
        code, scale = _quantised(_unit(vector))
        cosines = _products(code, self._codes[: len(chosen)]) * (self._scales[: len(chosen)] * scale)
        return slots, cosines if embedded == len(chosen) else cosines[slots]

    def _cosines(self, vector: Vector, slots: Slots) -> Cosines:
        code, scale = _quantised(_unit(vector))
        products = np.empty(len(slots), dtype=np.float32)
        together = np.empty((min(_GATHERED, len(slots)), len(code)), dtype=np.int8)
        for start in range(0, len(slots), _GATHERED):
            block = slots[start : start + _GATHERED]
            np.take(self._codes, block, axis=0, out=together[: len(block)], mode="clip")
            products[start : start + len(block)] = _products(code, together[: len(block)])
        return products * (self._scales[slots] * scale)

    def _sketched(self, used: int) -> Sketches:
        if self._sketches is None:
            embedded = np.flatnonzero(self._has[:used])
            drawn = np.random.default_rng(0).integers(0, len(embedded), _SAMPLE)
            sketches = Sketches(self._units(embedded[drawn]).mean(axis=0), self._capacity)
            for start in range(0, used, _GATHERED):
                block = slice(start, min(start + _GATHERED, used))
                sketches.put(block, self._units(block))
            self._sketches = sketches  # assigned when complete, because other threads may be searching
        return self._sketches

    def _units(self, slots: Slots | slice) -> npt.NDArray[np.float32]:
        return self._codes[slots] * self._scales[slots, np.newaxis]


def _unit(vector: Vector) -> Vector:
    flat = np.asarray(vector, dtype=np.float32).ravel()
    norm = float(np.linalg.norm(flat))
    return flat / np.float32(norm) if norm > 0.0 else flat


def _quantised(unit: Vector) -> tuple[npt.NDArray[np.int8], np.float32]:
    scale = np.float32(max(float(np.abs(unit).max(initial=0.0)), 1e-12) / 127.0)
    return np.rint(unit / scale).astype(np.int8), scale


def _products(code: npt.NDArray[np.int8], codes: npt.NDArray[np.int8]) -> Cosines:
    products: Cosines = np.asarray(numkong.cdist(code[np.newaxis], codes, metric="dot"))[0].astype(np.float32)
    return products


def _largest(values: Cosines, limit: int) -> Slots:
    """The indices of the largest values, largest first."""
    limit = max(limit, 1)
    if limit < len(values):
        best = np.argpartition(values, len(values) - limit)[len(values) - limit :]
    else:
        best = np.arange(len(values))
    return best[np.argsort(-values[best], kind="stable")]


def lengthened(array: npt.NDArray[Any], capacity: int, *, empty: int = 0) -> npt.NDArray[Any]:
    """The array with room for more items, which are `empty`."""
    longer = np.full((capacity, *array.shape[1:]), empty, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
