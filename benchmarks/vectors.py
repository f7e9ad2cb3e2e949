"""Vectors of the benchmark's texts, made once and kept; and how a million are composed from a hundred thousand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks import texts

Matrix = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Matrix]

CHUNK = 1_024


def stored_vectors(cache: Path, rows: Sequence[str], *, model: str, embed: Embed) -> Path:
    """An .npy file with one unit row a text. Rows that an earlier run made are taken from the cache."""
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:12]
    name = f"{model.replace('/', '-')}-texts{texts.VERSION}"
    file = cache / f"vectors-{name}-{len(rows)}-{digest}.npy"
    if file.is_file():
        return file
    cache.mkdir(parents=True, exist_ok=True)
    known = _Known(cache / f"known-{name}")
    for start in range(0, len(rows), CHUNK):
        known.add(rows[start : start + CHUNK], embed)
        print(f"\r  embedding {min(start + CHUNK, len(rows)):,} of {len(rows):,} texts", end="", flush=True)
    print()
    np.save(file, known.rows(rows))
    return file


class _Known:
    """Chunks on disk, each under the hash of its texts, so that an interrupted run goes on where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._chunks: list[Matrix] = []

    def add(self, rows: Sequence[str], embed: Embed) -> None:
        file = self._folder / f"{hashlib.sha256(json.dumps(list(rows)).encode()).hexdigest()[:24]}.npy"
        if not file.is_file():
            # Texts of like length together, so that little is spent on padding.
            order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
            made = embed([rows[row] for row in order])
            matrix = np.empty_like(made)
            matrix[order] = made
            partial = file.with_suffix(".partial.npy")
            np.save(partial, matrix)
            partial.replace(file)
        self._chunks.append(np.load(file))

    def rows(self, wanted: Sequence[str]) -> Matrix:
        matrix: Matrix = np.concatenate(self._chunks)
        assert len(matrix) == len(wanted)
        return matrix


def between(base: Matrix, count: int, *, seed: int) -> Matrix:
    """`count` unit vectors, each between two different rows of `base`, nearer to the first.

    Points between real sentences stay where sentences are, which random ones don't: near neighbours remain near, and an
    approximate index has about the work that it has with real text.
    """
    draw = np.random.default_rng(seed)
    first = draw.integers(0, len(base), count)
    second = (first + draw.integers(1, len(base), count)) % len(base)
    weight = draw.uniform(0.15, 0.45, count).astype(np.float32)[:, None]
    mixed = (1 - weight) * base[first] + weight * base[second]
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), dtype=np.float32)


def agreement(answers: Sequence[Sequence[int]], exact: Sequence[Sequence[int]]) -> float:
    """Which share of the exact rows was found."""
    return float(np.mean([len(set(a) & set(e)) / len(e) for a, e in zip(answers, exact, strict=True)]))
