"""How the cost of a question grows to a million memories, and how many of the exact answers remain."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from benchmarks import texts
from benchmarks.contestants import FLOOR, OURS, Field
from benchmarks.measures import Material, exactness, fill, recall
from benchmarks.vectors import Matrix, between

# Bytes a memory while it runs: the matrix in the file given, the floor's copy, our file; the matrix in memory twice.
_DISK = 8_000
_MEMORY = 4_000


def grow(
    steps: Sequence[int],
    *,
    base: Matrix,
    questions: Sequence[str],
    queries: Matrix,
    folder: Path,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """One row a step. Vectors are composed between real ones; texts are the generator's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    largest = _bearable(steps, folder)
    vectors = folder / "vectors.npy"
    np.save(vectors, np.concatenate([base, between(base, max(largest) - len(base), seed=7)]))
    words = texts.memories(max(largest))
    material = Material(
        texts=words, vectors=vectors, questions=list(questions), fresh=iter(()), folder=folder
    )
    start = 0
    with Field(folder, {**options, "plain": True}, entries=(FLOOR, OURS)) as stage:
        for count in largest:
            print(f"growing to {count:,}", flush=True)
            loaded = fill(stage, material, start=start, count=count)
            found = recall(stage, material, queries=len(questions))
            near = exactness(stage, material, queries)
            stage.close()
            if stage.missing:
                raise SystemExit(f"the growth stopped: {stage.missing}")
            rows.append({"count": count, **{key: loaded[key] | found[key] | near[key] for key in found}})
            start = count
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def _bearable(steps: Sequence[int], folder: Path) -> list[int]:
    disk = shutil.disk_usage(folder).free // _DISK
    memory = psutil.virtual_memory().available // _MEMORY
    fitting = [count for count in steps if count <= min(disk, memory)]
    if len(fitting) < len(steps):
        print(f"  not grown beyond {max(fitting, default=0):,}: too little disk or memory")
    return fitting or [min(steps)]
