"""The write path: applies changes in order, runs of the same kind together; upkeep values, ratings and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import psycopg

from mindhold.model.memory import Memory
from mindhold.ports.store import Change, Inherit, Mark, Put, Rate, Revise, Tend
from mindhold.stores.postgres import rows as the_rows
from mindhold.stores.postgres.driver import Connection
from mindhold.stores.postgres.rows import (
    COLUMNS,
    POSTGRES,
    REVISE,
    UPSERT,
    UPSERT_WITH_VECTORS,
    arrays_of,
    distinct_tags,
    given,
    revised,
    sent_types,
    whole,
)
from mindhold.stores.sql_changes import SqlWriting
from mindhold.stores.values import number

T = TypeVar("T", Tend, Rate)

# Change the fields of upkeep, unless the record changed since upkeep read it.
_TENDED = sent_types(COLUMNS.tended)
TEND = f"""
    UPDATE fragments SET {", ".join(f"{name} = coalesce(given.{name}, fragments.{name})" for name in _TENDED)}
    FROM {given(_TENDED | {"id": "text", "since": "timestamptz"})} WHERE fragments.id = given.id
        AND (given.since IS NULL OR greatest(updated_at, accessed_at, stirred_at) <= given.since)
"""

# Add to the usefulness of records.
RATE = """
    UPDATE fragments SET usefulness = greatest(-1, least(1, usefulness + given.by)),
        stirred_at = greatest(stirred_at, given.moment), review_at = least(review_at, given.moment)
    FROM unnest(%s::text[], %s::float8[], %s::timestamptz[]) AS given (id, by, moment)
    WHERE fragments.id = given.id
"""

_COUNTED = """
    FROM (
        SELECT fragments.row, wanted.times FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS wanted (id, times)
        JOIN fragments ON fragments.id = wanted.id ORDER BY fragments.id FOR NO KEY UPDATE OF fragments
    ) AS counted WHERE fragments.row = counted.row
"""

# Count uses; a late report doesn't set the time back.
TOUCH = f"""
    UPDATE fragments SET access_count = access_count + counted.times, accessed_at = greatest(accessed_at, %(when)s),
        ttl_tier = CASE ttl_tier WHEN 'permanent' THEN ttl_tier ELSE 'hot' END, review_at = least(review_at, %(when)s)
    {_COUNTED}
"""

# Count showings.
SHOW = f"""
    UPDATE fragments SET shown = shown + counted.times, stirred_at = greatest(stirred_at, %(when)s),
        review_at = least(review_at, %(when)s)
    {_COUNTED}
"""


# Lock records; in order, so that no two writers deadlock.
HOLD = "SELECT row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR NO KEY UPDATE"

# Remove the tags of records, and add tags.
UNTAG = "DELETE FROM fragment_tags WHERE row = ANY(%s::bigint[])"
TAG = """
    INSERT INTO fragment_tags (row, folded, name, agent_id)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[])
"""


def apply(connection: Connection, changes: Sequence[Change], *, vectors: bool) -> None:
    """Apply changes within the caller's transaction. Without `vectors` the vectors in them are ignored."""
    _Writing(connection, vectors=vectors).apply(changes)


class _Writing(SqlWriting):
    """One call of apply()."""

    dialect = POSTGRES
    _connection: Connection

    def __init__(self, connection: Connection, *, vectors: bool) -> None:
        super().__init__(connection)
        self._vectors = vectors

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply the changes, locking the records step by step, or two writers with different steps could deadlock."""
        ids = set()
        for change in changes:
            if isinstance(change, (Put, Revise)):
                ids.add(change.memory.id)
            elif isinstance(change, (Mark, Inherit, Tend, Rate)):
                ids.add(change.memory_id)
        if len(ids) > 1:
            self._connection.execute(HOLD, (sorted(ids),))
        super().apply(changes)

    def _put(self, puts: dict[str, Put]) -> None:
        ordered = [puts[memory_id] for memory_id in sorted(puts)]
        memories = [put.memory for put in ordered]
        values = [whole(put, scope=self._scopes[put.memory.scope], vectors=self._vectors) for put in ordered]
        self._write(UPSERT_WITH_VECTORS if self._vectors else UPSERT, values, memories)
        self._label(memories)

    def _revise(self, memories: list[Memory], rows: dict[str, int]) -> None:
        values = [revised(memory, scope=self._scopes[memory.scope]) for memory in memories]
        self._write(REVISE, values, memories)
        self._label(memories)

    def _tend(self, tends: list[Tend]) -> None:
        for batch in _apart(tends):
            values = [(*COLUMNS.tended.values(tend), tend.memory_id, tend.unless_since) for tend in batch]
            self._connection.execute(TEND, arrays_of(values))

    def _rate(self, rates: list[Rate]) -> None:
        for batch in _apart(rates):
            values = [(rate.memory_id, number(rate.by), rate.when) for rate in batch]
            self._connection.execute(RATE, arrays_of(values))

    def _write(self, statement: str, values: list[tuple[Any, ...]], memories: list[Memory]) -> None:
        self._connection.execute("SAVEPOINT written")
        try:
            self._connection.execute(statement, arrays_of(values))
        except psycopg.errors.UniqueViolation as error:
            self._connection.execute("ROLLBACK TO written")
            raise self._clash(memories) from error
        self._connection.execute("RELEASE written")

    def _label(self, memories: list[Memory]) -> None:
        rows = self._rows([memory.id for memory in memories])
        self._connection.execute(UNTAG, (list(rows.values()),))
        tags = [
            (rows[memory.id], folded, name, memory.agent)
            for memory in memories
            for folded, name in distinct_tags(memory).items()
        ]
        if tags:
            self._connection.execute(TAG, arrays_of(tags))
        the_rows.note(self._connection, {rows[memory.id]: memory.keywords for memory in memories})


def _apart(changes: Sequence[T]) -> Iterator[list[T]]:
    """Batches that contain no record twice, because a statement changes a row only once."""
    batch: dict[str, T] = {}
    for change in changes:
        if change.memory_id in batch:
            yield list(batch.values())
            batch = {}
        batch[change.memory_id] = change
    yield list(batch.values())
