"""The write path: applies changes in order, runs of one kind together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from mindhold.model.errors import Changed, Conflict, InvalidInput, MemoryNotFound, ScopeNotFound
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory, Version
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
from mindhold.stores.sqlite.jobs import enqueue
from mindhold.stores.sqlite.rows import DROP_KEYWORDS, KEYWORD, REVISE, UPSERT, as_list, revised, whole
from mindhold.stores.values import list_json, mapping_json, to_micros, to_optional_micros
from mindhold.stores.vectors import encode

# Take the next number, by which indexes in memory find what is new to them.
NEXT_REVISION = "UPDATE counter SET value = value + 1 WHERE name = 'revision' RETURNING value"

# The row of a scope by its name.
SCOPE_ROW = "SELECT row FROM scope WHERE name = ?"

# The rows of records by their ids.
ROWS_OF = "SELECT id, row FROM memory WHERE id IN (SELECT value FROM json_each(?))"

# When a record was last changed.
UPDATED = "SELECT updated FROM memory WHERE id = ?"

# What a record's status is.
STATUS = "SELECT status FROM memory WHERE id = ?"

# Whose hash it is, among the records that are alive in a scope for an agent.
HASH_HOLDER = """
    SELECT id FROM memory
    WHERE content_hash = ? AND scope = ? AND agent = ? AND id <> ? AND status IN ('active', 'quarantined')
"""

# Add a tag; one that differs in case alone is the same.
TAG = "INSERT OR IGNORE INTO tag (memory, name, folded, place) VALUES (?, ?, ?, ?)"

# Take the tags off a record.
UNTAG = "DELETE FROM tag WHERE memory = ?"

# Set the vector of a row, whatever model made the one before.
SET_VECTOR = "INSERT OR REPLACE INTO vector (row, model, exact) VALUES (?, ?, ?)"
SET_CODE = "INSERT OR REPLACE INTO vector_code (row, model, code) VALUES (?, ?, ?)"

# Take the vector off a row.
DROP_VECTOR = "DELETE FROM vector WHERE row = ?"
DROP_CODE = "DELETE FROM vector_code WHERE row = ?"

# Change the status alone. What is archived or active from now on is due for review.
MARK = """
    UPDATE memory SET status = ?1, previous_status = ?2, updated = ?3, revision = ?4,
        review = CASE WHEN status <> ?1 AND ?1 IN ('active', 'archived') THEN ?3 ELSE review END
    WHERE id = ?5
"""

# Take over what another record had earned.
INHERIT = """
    UPDATE memory SET supersedes = ?, importance = max(importance, ?), uses = uses + ?, revision = ? WHERE id = ?
"""

# Change what upkeep may, unless something happened to the record since upkeep had read it.
TEND = """
    UPDATE memory SET tier = coalesce(?, tier), importance = coalesce(?, importance), utility = coalesce(?, utility),
        usefulness = coalesce(?, usefulness), anchor = coalesce(?, anchor), verified = coalesce(?, verified),
        examined = coalesce(?, examined), decayed = coalesce(?, decayed), review = coalesce(?, review)
    WHERE id = ? AND max(updated, coalesce(last_used, updated), coalesce(stirred, updated)) <= coalesce(?, 1 << 62)
"""

# Say how useful it was, once more.
RATE = """
    UPDATE memory SET usefulness = max(-1.0, min(1.0, usefulness + ?1)), stirred = max(coalesce(stirred, ?2), ?2),
        review = min(coalesce(review, ?2), ?2)
    WHERE id = ?3
"""

# Add a link, or replace the one of the same ends and relation.
CONNECT = """
    INSERT OR REPLACE INTO link (origin, target, relation, created, weight, automatic) VALUES (?, ?, ?, ?, ?, ?)
"""

# Remove a link.
DISCONNECT = """
    DELETE FROM link
    WHERE origin = (SELECT row FROM memory WHERE id = ?) AND target = (SELECT row FROM memory WHERE id = ?)
        AND relation = ?
"""

# Keep an earlier version, unless there is one of that number.
KEEP = """
    INSERT INTO version
        (memory, number, content, kind, topic, tags, keywords, importance, anchor, occurred, tier, metadata, amended,
        amended_by)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (memory, number) DO NOTHING
"""

# What is kept under a number.
KEPT = "SELECT content, amended FROM version WHERE memory = ? AND number = ?"


def apply(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """Within the caller's transaction."""
    writing = _Writing(connection)
    for kind, run in groupby(changes, key=type):
        writing.run(kind, list(run))


def next_revision(connection: sqlite3.Connection) -> int:
    # All rows are fetched, or the statement would stay open and the commit fail.
    return int(connection.execute(NEXT_REVISION).fetchall()[0][0])


def set_vectors(connection: sqlite3.Connection, vectors: Iterable[tuple[int, str, Any]]) -> None:
    """Row, model and vector of each."""
    exact, codes = [], []
    for row, model, vector in vectors:
        whole_vector, code = encode(vector)
        exact.append((row, model, whole_vector))
        codes.append((row, model, code))
    connection.executemany(SET_VECTOR, exact)
    connection.executemany(SET_CODE, codes)


class _Writing:
    """One call of apply(): its revision and the rows that it has looked up."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}
        self._revision: int | None = None

    def run(self, kind: type[Change], run: list[Any]) -> None:
        if kind is Put:
            self._expect(run)
            self._put({put.memory.id: put for put in run})
        elif kind is Revise:
            self._revise({revise.memory.id: revise.memory for revise in run})
        elif kind is Mark:
            self._mark(run)
        elif kind is Inherit:
            self._inherit(run)
        elif kind is Tend:
            self._connection.executemany(TEND, [_tended(tend) for tend in run])
        elif kind is Rate:
            rates = [(rate.by, to_micros(rate.when), rate.memory_id) for rate in run]
            self._connection.executemany(RATE, rates)
        elif kind is Connect:
            self._connect([connect.link for connect in run])
        elif kind is Disconnect:
            self._connection.executemany(
                DISCONNECT, [(cut.origin, cut.target, cut.relation.value) for cut in run]
            )
        elif kind is Keep:
            self._keep([keep.version for keep in run])
        elif kind is Enqueue:
            enqueue(self._connection, [change.job for change in run])
        else:
            raise TypeError(f"{kind.__name__} is no change")

    def _expect(self, puts: list[Put]) -> None:
        """Refuse them all if one's record is another than its caller had read."""
        updated: dict[str, int] = {}  # by those of the same run
        for put in puts:
            memory = put.memory
            if put.expected is not None:
                now = updated.get(memory.id)
                if now is None:
                    found = self._connection.execute(UPDATED, (memory.id,)).fetchone()
                    now = None if found is None else found[0]
                if now != to_micros(put.expected):
                    raise Changed(
                        f"Memory {memory.id} was changed by someone else meanwhile.",
                        advice="Look at it again, then try again.",
                    )
            updated[memory.id] = to_micros(memory.updated)

    def _put(self, puts: dict[str, Put]) -> None:
        for put in puts.values():
            if put.vector is not None and not put.memory.embedded_by:
                raise InvalidInput("A vector needs the name of its model.", advice="Set embedded_by.")
        revision = self._next_revision()
        before = self._rows(puts)
        values = [whole(put, scope=self._scope(put.memory.scope), revision=revision) for put in puts.values()]
        self._write(UPSERT, values, [put.memory for put in puts.values()])
        if before:
            replaced = [(row,) for row in before.values()]
            for statement in (UNTAG, DROP_KEYWORDS, DROP_VECTOR, DROP_CODE):
                self._connection.executemany(statement, replaced)
        rows = self._rows(puts)
        self._label((rows[put.memory.id], put.memory) for put in puts.values())
        set_vectors(
            self._connection,
            (
                (rows[put.memory.id], put.memory.embedded_by or "", put.vector)
                for put in puts.values()
                if put.vector is not None
            ),
        )

    def _revise(self, memories: dict[str, Memory]) -> None:
        revision = self._next_revision()
        rows = self._existing(memories)
        values = [
            (*revised(memory, scope=self._scope(memory.scope), revision=revision), memory.id)
            for memory in memories.values()
        ]
        self._write(REVISE, values, list(memories.values()))
        for statement in (UNTAG, DROP_KEYWORDS):
            self._connection.executemany(statement, [(row,) for row in rows.values()])
        self._label((rows[memory.id], memory) for memory in memories.values())

    def _mark(self, marks: list[Mark]) -> None:
        self._existing([mark.memory_id for mark in marks])
        for mark in marks:
            if mark.only_from is not None and self._status(mark.memory_id) != mark.only_from.value:
                continue
            previous = None if mark.previous is None else mark.previous.value
            revision = self._next_revision()
            values = (mark.status.value, previous, to_micros(mark.updated), revision, mark.memory_id)
            try:
                self._connection.execute(MARK, values)
            except sqlite3.IntegrityError as error:
                if not _is_twin(error):
                    raise
                raise Conflict(
                    f"Another memory says the same as {mark.memory_id} now.",
                    advice="Amend or forget that one first.",
                ) from error

    def _inherit(self, inherits: list[Inherit]) -> None:
        revision = self._next_revision()
        self._existing([inherit.memory_id for inherit in inherits])
        self._connection.executemany(
            INHERIT,
            [
                (inherit.supersedes, inherit.importance, inherit.uses, revision, inherit.memory_id)
                for inherit in inherits
            ],
        )

    def _write(self, statement: str, values: list[tuple[Any, ...]], memories: list[Memory]) -> None:
        try:
            self._connection.executemany(statement, values)
        except sqlite3.IntegrityError as error:
            if not _is_twin(error):
                raise
            raise self._clash(memories) from error

    def _clash(self, memories: list[Memory]) -> Conflict:
        """Say which record has the hash already; what was written of this run before is seen as well."""
        for memory in memories:
            found = self._connection.execute(
                HASH_HOLDER, (memory.content_hash, self._scope(memory.scope), memory.agent, memory.id)
            ).fetchone()
            if found:
                return Conflict(
                    f"Memory {found[0]} says the same in scope {memory.scope!r}.",
                    advice="Amend that one, or forget it first.",
                )
        return Conflict("Two of these records say the same.")

    def _label(self, records: Iterable[tuple[int, Memory]]) -> None:
        tags, forms = [], []
        for row, memory in records:
            tags += [(row, name, name.casefold(), place) for place, name in enumerate(memory.tags)]
            forms += [(row, form) for form in keyword_forms(memory.keywords)]
        self._connection.executemany(TAG, tags)
        self._connection.executemany(KEYWORD, forms)

    def _connect(self, links: list[Any]) -> None:
        rows = self._existing([end for link in links for end in (link.origin, link.target)])
        self._connection.executemany(
            CONNECT,
            [
                (
                    rows[link.origin],
                    rows[link.target],
                    link.relation.value,
                    to_micros(link.created),
                    link.weight,
                    link.automatic,
                )
                for link in links
            ],
        )

    def _keep(self, versions: list[Version]) -> None:
        rows = self._existing([version.memory_id for version in versions])
        for version in versions:
            row, amended = rows[version.memory_id], to_micros(version.amended)
            values = (
                row,
                version.number,
                version.content,
                version.kind.value,
                version.topic,
                list_json(version.tags),
                list_json(version.keywords),
                version.importance,
                version.anchor,
                to_micros(version.occurred),
                version.tier.value,
                mapping_json(version.metadata),
                amended,
                version.amended_by,
            )
            if not self._connection.execute(KEEP, values).rowcount:
                kept = self._connection.execute(KEPT, (row, version.number)).fetchone()
                if kept != (version.content, amended):
                    raise Conflict(
                        f"Memory {version.memory_id} was amended by someone else meanwhile.",
                        advice="Look at it again, then amend it again.",
                    )

    def _status(self, memory_id: str) -> str:
        return str(self._connection.execute(STATUS, (memory_id,)).fetchone()[0])

    def _scope(self, name: str) -> int:
        if name not in self._scopes:
            found = self._connection.execute(SCOPE_ROW, (name,)).fetchone()
            if found is None:
                raise ScopeNotFound(name)
            self._scopes[name] = found[0]
        return self._scopes[name]

    def _next_revision(self) -> int:
        if self._revision is None:
            self._revision = next_revision(self._connection)
        return self._revision

    def _rows(self, ids: Iterable[str]) -> dict[str, int]:
        return dict(self._connection.execute(ROWS_OF, (as_list(ids),)))

    def _existing(self, ids: Iterable[str]) -> dict[str, int]:
        rows = self._rows(ids)
        for memory_id in ids:
            if memory_id not in rows:
                raise MemoryNotFound(memory_id)
        return rows


def _tended(tend: Tend) -> tuple[Any, ...]:
    """The values of TEND."""
    times = (tend.verified, tend.examined, tend.decayed, tend.review)
    return (
        None if tend.tier is None else tend.tier.value,
        tend.importance,
        tend.utility,
        tend.usefulness,
        tend.anchor,
        *map(to_optional_micros, times),
        tend.memory_id,
        to_optional_micros(tend.unless_since),
    )


def _is_twin(error: sqlite3.IntegrityError) -> bool:
    """Whether another record says the same; else a value is none that a column takes."""
    return error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE
