"""Long texts as overlapping windows: which tokens each sees, and how their vectors become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mindhold.ports.embedder import Matrix

OVERLAP = 8
T = TypeVar("T")


def windows(ids: Sequence[T], limit: int) -> list[Sequence[T]]:
    """The ids, or characters, in windows of at most `limit`, neighbours sharing an eighth or more.

    They are spread evenly, so that no short rest stands alone at the end.
    """
    if len(ids) <= limit:
        return [ids]
    step = max(1, limit - limit // OVERLAP)
    last = len(ids) - limit
    count = 1 + -(-last // step)
    starts = [round(index * last / (count - 1)) for index in range(count)]
    return [ids[start : start + limit] for start in starts]


def combine(vectors: Matrix, lengths: Sequence[int]) -> Matrix:
    """One unit vector from the windows' vectors, each weighted by its length."""
    weighted = np.average(vectors, axis=0, weights=np.asarray(lengths, dtype=np.float64))
    norm = float(np.linalg.norm(weighted))
    return (weighted / norm if norm else vectors[0]).astype(np.float32)
