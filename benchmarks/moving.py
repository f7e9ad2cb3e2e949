"""How fast a project moves from store to store, and whether all of it arrives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.door import settings_for
from benchmarks.peers.front_door import plain_puts
from benchmarks.sites import LOCAL, MONGODB, POSTGRES, Sites
from benchmarks.vectors import Matrix

from mindhold.app.application import App, open_app
from mindhold.model.query import Filter
from mindhold.projects.migrate import MIGRATE_PROJECT, MigrateProjectInput
from mindhold.projects.projects import CREATE_PROJECT, CreateProjectInput
from mindhold.settings.loader import LoadedSettings

DATABASE = "mindhold_moved"
WAYS = ((LOCAL, POSTGRES), (POSTGRES, MONGODB), (MONGODB, LOCAL))
BATCH = 2_000


def move_around(
    sites: Sites, rows: Sequence[str], vectors: Path, *, folder: Path, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """A project of its own for each way, the same memories in each; one row a way."""
    ways = [way for way in WAYS if set(way) <= set(sites.stores)]
    if not ways:
        return []
    settings = settings_for(folder, {**options, "settings": sites.everywhere(DATABASE)})
    matrix = np.asarray(np.load(vectors, mmap_mode="r")[: len(rows)])
    return asyncio.run(_moved(settings, rows, matrix, ways))


async def _moved(
    settings: LoadedSettings, rows: Sequence[str], matrix: Matrix, ways: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    found = []
    async with open_app(settings) as app:
        for source, target in ways:
            project = f"from {source} to {target}"
            made = {"name": project, "storage_mode": source}
            await app.run(CREATE_PROJECT, CreateProjectInput.model_validate(made))
            for first in range(0, len(rows), BATCH):
                batch = slice(first, first + BATCH)
                await app.engine.store.apply(plain_puts(app, rows[batch], matrix[batch], scope=project))
            began = time.perf_counter()
            move = MigrateProjectInput.model_validate({"project": project, "to": target})
            await app.run(MIGRATE_PROJECT, move)
            took = time.perf_counter() - began
            arrived = await _arrived(app, project)
            figures = {"memories": len(rows), "arrived": arrived, "seconds": took}
            found.append({"source": source, "target": target, **figures})
            print(f"  {project}: {arrived:,} in {took:.1f} s", flush=True)
    return found


async def _arrived(app: App, project: str) -> int:
    """How many memories of the project there are with a vector."""
    model = app.engine.vector_source.model
    tally = await app.engine.store.tally(Filter(scopes=(project,)), "embedded_by")
    return tally.get(model, 0) if model else 0
