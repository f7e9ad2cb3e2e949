"""The write path of the SQL stores: applies changes in order, runs of the same kind together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

from mindhold.model.errors import Conflict, ScopeNotFound
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
from mindhold.stores.base import (
    amended_meanwhile,
    changed_meanwhile,
    check_existing,
    check_vector,
    same_content,
)
from mindhold.stores.columns import LINK
from mindhold.stores.sql import SqlConnection, SqlDialect, enqueue

# Rows of scopes by name, locked against removal. One scope is the usual case.
SCOPE_ROW = "SELECT name, row FROM scope WHERE name = :name FOR KEY SHARE"
SCOPE_ROWS = "SELECT name, row FROM scope WHERE name = ANY(:names) FOR KEY SHARE"

# Rows of records by id, locked against removal.
ROWS_OF = "SELECT id, row FROM {memory} WHERE id = ANY(:ids) ORDER BY id FOR KEY SHARE"

# Update times of records, locked against changes.
UPDATED = "SELECT id, {updated} FROM {memory} WHERE id = ANY(:ids) ORDER BY id FOR UPDATE"

# The live record with that hash, in a scope and for an agent.
HASH_HOLDER = """
    SELECT id FROM {memory}
    WHERE content_hash = ? AND scope = ? AND {agent} = ? AND id <> ? AND status IN ('active', 'quarantined')
"""

# Change the status only. A record that becomes archived or active is due for review.
MARK = """
    UPDATE {memory} SET status = :status, previous_status = :previous, {updated} = :when {stamped},
        {review} = CASE WHEN status <> :status AND :status IN ('active', 'archived') THEN :when ELSE {review} END
    WHERE id = :id
"""
MARK_IF = f"{MARK} AND status = :only"

# Take over the importance and uses of another record.
INHERIT = """
    UPDATE {memory} SET supersedes = :supersedes, importance = {greatest}(importance, :importance),
        {uses} = {uses} + :uses {stamped}
    WHERE id = :id
"""

_ENDS = ("origin", "target", "relation")
_REST = ", ".join(f"{{{column.field}}} = excluded.{{{column.field}}}" for column in LINK[3:])

# Add a link, or replace the one with the same ends and relation.
CONNECT = f"""
    INSERT INTO {{link}} ({{link_columns}}) VALUES ({{link_marks}})
    ON CONFLICT ({{origin}}, {{target}}, {{relation}}) DO UPDATE SET {_REST}
"""

# Store an earlier version, unless there is one with that number.
KEEP = """
    INSERT INTO {version} ({version_columns}) VALUES ({version_marks})
    ON CONFLICT ({memory_id}, number) DO NOTHING
"""

# The stored version with that number.
KEPT = "SELECT content, {amended} FROM {version} WHERE {memory_id} = ? AND number = ?"


class SqlWriting:
    """One call of apply(), with the scopes that it has looked up. Subclasses add what a store has besides rows."""

    dialect: SqlDialect

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply the changes within the caller's transaction."""
        for kind, run in groupby(changes, key=type):
            self._run(kind, list(run))

    def _run(self, kind: type[Change], run: list[Any]) -> None:
        if kind is Put:
            self._expect(run)
            for put in run:
                check_vector(put)
            self._find_scopes(put.memory.scope for put in run)
            self._put({put.memory.id: put for put in run})
        elif kind is Revise:
            memories = {revise.memory.id: revise.memory for revise in run}
            rows = self._existing(memories)
            self._find_scopes(memory.scope for memory in memories.values())
            self._revise(list(memories.values()), rows)
        elif kind is Mark:
            self._mark(run)
        elif kind is Inherit:
            self._inherit(run)
        elif kind is Tend:
            self._tend(run)
        elif kind is Rate:
            self._rate(run)
        elif kind is Connect:
            self._connect([connect.link for connect in run])
        elif kind is Disconnect:
            self._many("{disconnect}", [(cut.origin, cut.target, cut.relation.value) for cut in run])
        elif kind is Keep:
            self._keep([keep.version for keep in run])
        elif kind is Enqueue:
            enqueue(self._connection, self.dialect, [change.job for change in run])
        else:
            raise TypeError(f"{kind.__name__} is no change")

    def _put(self, puts: dict[str, Put]) -> None:
        raise NotImplementedError

    def _revise(self, memories: list[Memory], rows: dict[str, int]) -> None:
        raise NotImplementedError

    def _tend(self, tends: list[Tend]) -> None:
        raise NotImplementedError

    def _rate(self, rates: list[Rate]) -> None:
        raise NotImplementedError

    def _stamp(self) -> dict[str, Any]:
        """Further values of a changed row, by the parameters of {stamped}."""
        return {}

    def _reference(self, memory_id: str, rows: dict[str, int]) -> Any:
        """The reference to a record in links and versions."""
        return memory_id

    def _expect(self, puts: list[Put]) -> None:
        """Refuse all Puts if a record was updated since its caller read it."""
        expecting = [put.memory.id for put in puts if put.expected is not None]
        if not expecting:
            return
        updated = dict(self._all(UPDATED, ids=self.dialect.many(expecting)))
        for put in puts:
            memory = put.memory
            if put.expected is not None and updated.get(memory.id) != self.dialect.moment(put.expected):
                raise changed_meanwhile(memory.id)
            updated[memory.id] = self.dialect.moment(memory.updated)

    def _mark(self, marks: list[Mark]) -> None:
        self._existing([mark.memory_id for mark in marks])
        for mark in marks:
            values = {
                "status": mark.status.value,
                "previous": None if mark.previous is None else mark.previous.value,
                "when": self.dialect.moment(mark.updated),
                "id": mark.memory_id,
                "only": None if mark.only_from is None else mark.only_from.value,
                **self._stamp(),
            }
            statement = self.dialect.sql(MARK if mark.only_from is None else MARK_IF)
            try:
                self._connection.execute(statement, values)
            except self.dialect.integrity_error as error:
                if not self.dialect.is_duplicate(error):
                    raise
                raise Conflict(
                    f"Another memory says the same as {mark.memory_id} now.",
                    advice="Amend or forget that one first.",
                ) from error

    def _inherit(self, inherits: list[Inherit]) -> None:
        self._existing([inherit.memory_id for inherit in inherits])
        stamp = self._stamp()
        self._many(
            INHERIT,
            [
                {
                    "supersedes": inherit.supersedes,
                    "importance": inherit.importance,
                    "uses": inherit.uses,
                    "id": inherit.memory_id,
                    **stamp,
                }
                for inherit in inherits
            ],
        )

    def _clash(self, memories: Iterable[Memory]) -> Conflict:
        """The error that names the record which has the hash already."""
        for memory in memories:
            values = (memory.content_hash, self._scopes[memory.scope], memory.agent, memory.id)
            holder = self._connection.execute(self.dialect.sql(HASH_HOLDER), values).fetchone()
            if holder:
                return same_content(holder[0], memory.scope)
        return Conflict("Two of these records say the same.")

    def _connect(self, links: list[Link]) -> None:
        rows = self._existing([end for link in links for end in (link.origin, link.target)])
        columns = self.dialect.columns.link
        self._many(
            CONNECT,
            [
                columns.values(
                    link,
                    origin=self._reference(link.origin, rows),
                    target=self._reference(link.target, rows),
                )
                for link in links
            ],
        )

    def _keep(self, versions: list[Version]) -> None:
        rows = self._existing([version.memory_id for version in versions])
        for version in versions:
            reference = self._reference(version.memory_id, rows)
            values = self.dialect.columns.version.values(version, memory_id=reference)
            if not self._connection.execute(self.dialect.sql(KEEP), values).rowcount:
                stored = self._connection.execute(
                    self.dialect.sql(KEPT), (reference, version.number)
                ).fetchone()
                if stored != (version.content, self.dialect.moment(version.amended)):
                    raise amended_meanwhile(version.memory_id)

    def _many(self, statement: str, values: Sequence[Any]) -> None:
        query = self.dialect.sql(statement)
        if len(values) == 1:
            self._connection.execute(query, values[0])
        else:
            self._connection.cursor().executemany(query, values)

    def _all(self, statement: str, **values: Any) -> list[tuple[Any, Any]]:
        return self._connection.execute(self.dialect.sql(statement), values).fetchall()

    def _find_scopes(self, names: Iterable[str]) -> None:
        unknown = sorted(set(names) - self._scopes.keys())
        if len(unknown) == 1:
            self._scopes.update(self._all(SCOPE_ROW, name=unknown[0]))
        elif unknown:
            self._scopes.update(self._all(SCOPE_ROWS, names=self.dialect.many(unknown)))
        for name in unknown:
            if name not in self._scopes:
                raise ScopeNotFound(name)

    def _rows(self, ids: Iterable[str]) -> dict[str, int]:
        return dict(self._all(ROWS_OF, ids=self.dialect.many(ids)))

    def _existing(self, ids: Collection[str]) -> dict[str, int]:
        rows = self._rows(ids)
        check_existing(ids, rows)
        return rows
