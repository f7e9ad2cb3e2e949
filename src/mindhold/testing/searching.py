"""Questions to an index, short enough for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mindhold.model.lexemes import lexemes
from mindhold.model.memory import Provenance
from mindhold.model.query import Candidates, Filter, Search, Vector
from mindhold.ports.store import Put, Store
from mindhold.testing.builders import DIMENSIONS, MODEL, Builder


def clustered(count: int, *, seed: int, clusters: int = 40) -> list[Vector]:
    """Vectors that lie together in heaps, as those of sentences do."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, DIMENSIONS))
    vectors = centres[random.integers(0, clusters, count)] + 0.5 * random.normal(size=(count, DIMENSIONS))
    return [np.asarray(vector / np.linalg.norm(vector), dtype=np.float32) for vector in vectors]


def indexed(build: Builder, content: str, **fields: Any) -> Put:
    """A Put whose lexemes are the real ones."""
    return replace(build.put(content, **fields), lexemes=lexemes(content))


async def by_text(store: Store, *words: str, **where: Any) -> Candidates:
    return await store.search(Search(Filter(**where), words, neighbours=False))


async def by_vector(store: Store, vector: Vector, **where: Any) -> Candidates:
    return await store.search(Search(Filter(**where), (), vector, MODEL, neighbours=False))


def at(conversation: str, position: int) -> Provenance:
    return Provenance(conversation=conversation, position=position)
