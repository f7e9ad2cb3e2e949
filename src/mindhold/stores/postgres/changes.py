"""The write path: applies changes in order, runs of one kind together; upkeep values and ratings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

import psycopg

from mindhold.model.errors import Changed, Conflict, InvalidInput, MemoryNotFound, ScopeNotFound
from mindhold.model.memory import Link, Memory, Version
from mindhold.ports.store import (
    Change,
    Connect,
    Disconnect,
    Enqueue,
    Inherit,
    Keep,
    Mark,
    Put,
    Rate,
    Revise,
    Tend,
)
from mindhold.stores.postgres import rows as the_rows
from mindhold.stores.postgres.connection import Connection
from mindhold.stores.postgres.jobs import enqueue
from mindhold.stores.postgres.rows import REVISE, distinct_tags, revised, upsert, whole
from mindhold.stores.values import mapping_json

T = TypeVar("T", Tend, Rate)

# Change what upkeep may, unless something happened to the record since upkeep had read it.
TEND = """
    UPDATE fragments SET ttl_tier = coalesce(given.tier, ttl_tier),
        importance = coalesce(given.importance, fragments.importance),
        utility_score = coalesce(given.utility, utility_score),
        usefulness = coalesce(given.usefulness, fragments.usefulness), is_anchor = coalesce(given.anchor, is_anchor),
        verified_at = coalesce(given.verified, verified_at), examined_at = coalesce(given.examined, examined_at),
        decayed_at = coalesce(given.decayed, decayed_at), review_at = coalesce(given.review, review_at)
    FROM unnest(
        %s::text[], %s::text[], %s::float8[], %s::float8[], %s::float8[], %s::boolean[], %s::timestamptz[],
        %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[]
    ) AS given (id, tier, importance, utility, usefulness, anchor, verified, examined, decayed, review, since)
    WHERE fragments.id = given.id
        AND (given.since IS NULL OR greatest(updated_at, accessed_at, stirred_at) <= given.since)
"""

# Say how useful records were, once more.
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

# Count uses; a late report doesn't turn the clock back.
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


def tend(connection: Connection, tends: Sequence[Tend]) -> None:
    """Within the caller's transaction, in their order."""
    numbers = [number for one in tends for number in (one.importance, one.utility, one.usefulness) if number]
    _check(numbers)
    for batch in _apart(tends):
        values = [
            (
                one.memory_id,
                None if one.tier is None else one.tier.value,
                one.importance,
                one.utility,
                one.usefulness,
                one.anchor,
                one.verified,
                one.examined,
                one.decayed,
                one.review,
                one.unless_since,
            )
            for one in batch
        ]
        connection.execute(TEND, _columns(values))


def rate(connection: Connection, rates: Sequence[Rate]) -> None:
    """The same."""
    _check([one.by for one in rates])
    for batch in _apart(rates):
        connection.execute(RATE, _columns([(one.memory_id, one.by, one.when) for one in batch]))


def _apart(changes: Sequence[T]) -> Iterator[list[T]]:
    """In batches that name no record twice: a statement changes a row once."""
    batch: dict[str, T] = {}
    for change in changes:
        if change.memory_id in batch:
            yield list(batch.values())
            batch = {}
        batch[change.memory_id] = change
    yield list(batch.values())


def _columns(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _check(numbers: Sequence[float]) -> None:
    if any(map(math.isnan, numbers)):
        raise InvalidInput("The database takes no such value: what is no number can't be stored.")


# The rows of scopes by their names. Nobody drops them meanwhile.
SCOPE_ROWS = "SELECT name, row FROM scope WHERE name = ANY(%s::text[]) FOR KEY SHARE"

# The rows of records by their ids. Nobody erases them meanwhile.
ROWS_OF = "SELECT id, row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR KEY SHARE"

# Let nobody change records meanwhile; in order, so that no two wait for each other.
HOLD = "SELECT row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR NO KEY UPDATE"

# When records were last changed. Nobody changes them meanwhile.
UPDATED = "SELECT id, updated_at FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR UPDATE"

# Whose hash it is, among the records that are alive in a scope for an agent.
HASH_HOLDER = """
    SELECT id FROM fragments
    WHERE content_hash = %s AND scope = %s AND agent_id = %s AND id <> %s AND status IN ('active', 'quarantined')
"""

# Take the tags off records, and put tags on.
UNTAG = "DELETE FROM fragment_tags WHERE row = ANY(%s::bigint[])"
TAG = """
    INSERT INTO fragment_tags (row, folded, name, agent_id)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[])
"""

# Change the status alone, unless it is another one by now. What is archived or active from now on is due for review.
MARK = """
    UPDATE fragments SET status = %(status)s, previous_status = %(previous)s, updated_at = %(when)s,
        review_at = CASE WHEN status <> %(status)s AND %(status)s IN ('active', 'archived') THEN %(when)s
            ELSE review_at END
    WHERE id = %(id)s AND (%(only)s::text IS NULL OR status = %(only)s)
"""

# Take over what another record had earned.
INHERIT = """
    UPDATE fragments SET supersedes = %s, importance = greatest(importance, %s),
        access_count = access_count + %s::bigint
    WHERE id = %s
"""

# Add a link, or replace the one of the same ends and relation.
CONNECT = """
    INSERT INTO fragment_links (from_id, to_id, relation_type, created_at, weight, automatic)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (from_id, to_id, relation_type) DO UPDATE SET created_at = excluded.created_at,
        weight = excluded.weight, automatic = excluded.automatic
"""

# Remove a link.
DISCONNECT = "DELETE FROM fragment_links WHERE from_id = %s AND to_id = %s AND relation_type = %s"

# Keep an earlier version, unless there is one of that number.
KEEP = """
    INSERT INTO fragment_versions
        (fragment_id, number, content, type, topic, tags, keywords, importance, is_anchor, occurred_at, ttl_tier,
        metadata, amended_at, amended_by)
    VALUES (%s, %s::bigint, %s, %s, %s, %s::text[], %s::text[], %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (fragment_id, number) DO NOTHING
"""

# What is kept under a number.
KEPT = "SELECT content, amended_at FROM fragment_versions WHERE fragment_id = %s AND number = %s"


def apply(connection: Connection, changes: Sequence[Change], *, vectors: bool) -> None:
    """Within the caller's transaction. Without `vectors` those of the changes are passed over."""
    writing = _Writing(connection, vectors=vectors)
    writing.hold(changes)
    for kind, run in groupby(changes, key=type):
        writing.run(kind, list(run))


class _Writing:
    """One call of apply() and the scopes that it has looked up."""

    def __init__(self, connection: Connection, *, vectors: bool) -> None:
        self._connection = connection
        self._vectors = vectors
        self._scopes: dict[str, int] = {}

    def hold(self, changes: Sequence[Change]) -> None:
        """Lock what is to be changed step by step, or two writers with other steps would wait for each other."""
        ids = set()
        for change in changes:
            if isinstance(change, (Put, Revise)):
                ids.add(change.memory.id)
            elif isinstance(change, (Mark, Inherit, Tend, Rate)):
                ids.add(change.memory_id)
        if len(ids) > 1:
            self._connection.execute(HOLD, (sorted(ids),))

    def run(self, kind: type[Change], run: list[Any]) -> None:
        if kind is Put:
            self._expect(run)
            self._put({put.memory.id: put for put in sorted(run, key=lambda put: put.memory.id)})
        elif kind is Revise:
            self._revise({revise.memory.id: revise.memory for revise in run})
        elif kind is Mark:
            self._mark(run)
        elif kind is Inherit:
            self._inherit(run)
        elif kind is Tend:
            tend(self._connection, run)
        elif kind is Rate:
            rate(self._connection, run)
        elif kind is Connect:
            self._connect([connect.link for connect in run])
        elif kind is Disconnect:
            self._many(DISCONNECT, [(cut.origin, cut.target, cut.relation.value) for cut in run])
        elif kind is Keep:
            self._keep([keep.version for keep in run])
        elif kind is Enqueue:
            enqueue(self._connection, [change.job for change in run])
        else:
            raise TypeError(f"{kind.__name__} is no change")

    def _expect(self, puts: list[Put]) -> None:
        """Refuse them all if one's record is another than its caller had read."""
        expecting = [put.memory.id for put in puts if put.expected is not None]
        if not expecting:
            return
        updated: dict[str, datetime] = dict(self._connection.execute(UPDATED, (expecting,)).fetchall())
        for put in puts:
            memory = put.memory
            if put.expected is not None and updated.get(memory.id) != put.expected:
                raise Changed(
                    f"Memory {memory.id} was changed by someone else meanwhile.",
                    advice="Look at it again, then try again.",
                )
            updated[memory.id] = memory.updated

    def _put(self, puts: dict[str, Put]) -> None:
        for put in puts.values():
            if put.vector is not None and not put.memory.embedded_by:
                raise InvalidInput("A vector needs the name of its model.", advice="Set embedded_by.")
        self._know_scopes(put.memory.scope for put in puts.values())
        memories = [put.memory for put in puts.values()]
        values = [
            whole(put, scope=self._scopes[put.memory.scope], vectors=self._vectors) for put in puts.values()
        ]
        self._write(upsert(vectors=self._vectors), values, memories)
        self._label(memories)

    def _revise(self, memories: dict[str, Memory]) -> None:
        self._existing(memories)
        self._know_scopes(memory.scope for memory in memories.values())
        values = [
            (*revised(memory, scope=self._scopes[memory.scope]), memory.id) for memory in memories.values()
        ]
        self._write(REVISE, values, list(memories.values()))
        self._label(list(memories.values()))

    def _mark(self, marks: list[Mark]) -> None:
        self._existing([mark.memory_id for mark in marks])
        for mark in marks:
            previous = None if mark.previous is None else mark.previous.value
            only = None if mark.only_from is None else mark.only_from.value
            values = {
                "status": mark.status.value,
                "previous": previous,
                "when": mark.updated,
                "id": mark.memory_id,
                "only": only,
            }
            try:
                self._connection.execute(MARK, values)
            except psycopg.errors.UniqueViolation as error:
                raise Conflict(
                    f"Another memory says the same as {mark.memory_id} now.",
                    advice="Amend or forget that one first.",
                ) from error

    def _inherit(self, inherits: list[Inherit]) -> None:
        self._existing([inherit.memory_id for inherit in inherits])
        self._many(
            INHERIT,
            [
                (inherit.supersedes, inherit.importance, inherit.uses, inherit.memory_id)
                for inherit in inherits
            ],
        )

    def _write(self, statement: str, values: list[tuple[Any, ...]], memories: list[Memory]) -> None:
        self._connection.execute("SAVEPOINT written")
        try:
            self._connection.execute(statement, [list(column) for column in zip(*values, strict=True)])
        except psycopg.errors.UniqueViolation as error:
            self._connection.execute("ROLLBACK TO written")
            raise self._clash(memories) from error
        self._connection.execute("RELEASE written")

    def _clash(self, memories: list[Memory]) -> Conflict:
        """Say which record has the hash already."""
        for memory in memories:
            found = self._connection.execute(
                HASH_HOLDER, (memory.content_hash, self._scopes[memory.scope], memory.agent, memory.id)
            ).fetchone()
            if found:
                return Conflict(
                    f"Memory {found[0]} says the same in scope {memory.scope!r}.",
                    advice="Amend that one, or forget it first.",
                )
        return Conflict("Two of these records say the same.")

    def _label(self, memories: list[Memory]) -> None:
        rows = self._rows([memory.id for memory in memories])
        self._connection.execute(UNTAG, (list(rows.values()),))
        tags = [
            (rows[memory.id], folded, name, memory.agent)
            for memory in memories
            for folded, name in distinct_tags(memory).items()
        ]
        if tags:
            self._connection.execute(TAG, [list(column) for column in zip(*tags, strict=True)])
        the_rows.note(self._connection, {rows[memory.id]: memory.keywords for memory in memories})

    def _connect(self, links: list[Link]) -> None:
        self._existing([end for link in links for end in (link.origin, link.target)])
        self._many(
            CONNECT,
            [
                (link.origin, link.target, link.relation.value, link.created, link.weight, link.automatic)
                for link in links
            ],
        )

    def _keep(self, versions: list[Version]) -> None:
        self._existing([version.memory_id for version in versions])
        for version in versions:
            values = (
                version.memory_id,
                version.number,
                version.content,
                version.kind.value,
                version.topic,
                list(version.tags),
                list(version.keywords),
                version.importance,
                version.anchor,
                version.occurred,
                version.tier.value,
                mapping_json(version.metadata),
                version.amended,
                version.amended_by,
            )
            if not self._connection.execute(KEEP, values).rowcount:
                kept = self._connection.execute(KEPT, (version.memory_id, version.number)).fetchone()
                if kept != (version.content, version.amended):
                    raise Conflict(
                        f"Memory {version.memory_id} was amended by someone else meanwhile.",
                        advice="Look at it again, then amend it again.",
                    )

    def _many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        if len(values) == 1:
            self._connection.execute(statement, values[0])
        else:
            self._connection.cursor().executemany(statement, values)

    def _know_scopes(self, names: Iterable[str]) -> None:
        unknown = sorted(set(names) - self._scopes.keys())
        if unknown:
            self._scopes |= dict(self._connection.execute(SCOPE_ROWS, (unknown,)).fetchall())
        for name in unknown:
            if name not in self._scopes:
                raise ScopeNotFound(name)

    def _rows(self, ids: Iterable[str]) -> dict[str, int]:
        return dict(self._connection.execute(ROWS_OF, (list(ids),)).fetchall())

    def _existing(self, ids: Iterable[str]) -> dict[str, int]:
        rows = self._rows(ids)
        for memory_id in ids:
            if memory_id not in rows:
                raise MemoryNotFound(memory_id)
        return rows
