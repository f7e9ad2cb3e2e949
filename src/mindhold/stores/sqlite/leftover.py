"""What a file holds that isn't the store at present: looked at without opening it as one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_SAMPLE = 3


@dataclass(frozen=True, slots=True)
class Leftover:
    """How many memories an agent has there, and the ids of its oldest and newest."""

    memories: int = 0
    ids: tuple[str, ...] = ()


def leftover(path: Path, *, agent: str) -> Leftover:
    """Nothing for a file that isn't there, or that can't be read: whoever opens it is told why."""
    if not path.exists():
        return Leftover()
    kept = "FROM memory WHERE agent = ? AND status <> 'forgotten'"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (memories,) = connection.execute(f"SELECT count(*) {kept}", (agent,)).fetchone()
            ids = {
                found
                for order in ("", "DESC")
                for (found,) in connection.execute(
                    f"SELECT id {kept} ORDER BY row {order} LIMIT {_SAMPLE}", (agent,)
                )
            }
            return Leftover(memories, tuple(sorted(ids)))
    except sqlite3.Error:
        return Leftover()
