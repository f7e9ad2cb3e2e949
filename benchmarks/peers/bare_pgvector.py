"""The least that PostgreSQL must do: the ten nearest, from the table and by the index that Mindhold has made."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_NEAREST = """
SELECT id, content FROM agent_memory.fragments
WHERE embedding IS NOT NULL AND embedded_by = {model}
ORDER BY embedding::halfvec({dimensions}) <=> %s::halfvec({dimensions}) LIMIT 10
"""


_INDEXED = """
SELECT coalesce(bool_and(indisvalid), false) AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = 'agent_memory.fragments'::regclass AND relname LIKE 'fragments_embedding_%'
"""


class BarePgvector:
    """One connection of the same driver; nothing is filtered, ranked or counted."""

    def __init__(self, url: str, *, model: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True, options="-c search_path=agent_memory,public")
        self._model = model

    def nearest(self, vector: npt.NDArray[Any]) -> list[str]:
        """Ids, nearest first."""
        rows = self._connection.execute(self._query(len(vector)), (_written(vector),)).fetchall()
        return [str(row[0]) for row in rows]

    def plan(self, vector: npt.NDArray[Any]) -> str:
        from psycopg.sql import SQL

        query = SQL("EXPLAIN ") + self._query(len(vector))
        return "\n".join(row[0] for row in self._connection.execute(query, (_written(vector),)))

    def indexed(self) -> bool:
        """Whether the vectors have an index that is whole, and none is being built."""
        return self._connection.execute(_INDEXED).fetchone() == (True,)

    def _query(self, dimensions: int) -> Any:
        from psycopg.sql import SQL, Literal

        # The model is written out, not sent: the planner takes a partial index only for a condition that it can read.
        return SQL(_NEAREST).format(model=Literal(self._model), dimensions=Literal(dimensions))

    def close(self) -> None:
        self._connection.close()


def _written(vector: npt.NDArray[Any]) -> str:
    return "[" + ",".join(map(str, vector.astype(np.float16).tolist())) + "]"
