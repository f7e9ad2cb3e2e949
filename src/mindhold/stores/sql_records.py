"""Records in the SQL stores: reading, counting, versions, and the write path that applies changes in order."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.memory import Link, Memory, Relation, Status, Version
from mindhold.model.query import Filter
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
    LAST_CHARACTER,
    MOST_RESOLVED,
    SingleRecords,
    amended_meanwhile,
    changed_meanwhile,
    check_counted_by,
    check_existing,
    check_vector,
    same_content,
)
from mindhold.stores.columns import LINK, entry_without, job_without, without
from mindhold.stores.sql import Condition, SqlConnection, SqlDialect, SqlPart, enqueue


class FilterClauses:
    """Builds the WHERE clause of a filter."""

    def __init__(self, dialect: SqlDialect, alias: str, seen: Condition) -> None:
        self._dialect = dialect
        self._alias = alias
        self._clauses, self._parameters = [seen.sql], list(seen.parameters)

    def add(self, clause: str, *values: Any) -> None:
        self._clauses.append(clause)
        self._parameters.extend(values)

    def add_plain(self, where: Filter) -> None:
        """Add the conditions on columns that all SQL stores have alike."""
        mark = self._dialect.mark
        number = self._dialect.notation("?" + self._dialect.integer_cast)
        topic = f"{self._alias}.topic_folded"
        if where.topic is not None:
            stated = f"{topic} <> '' AND " if where.topic else ""  # lets the partial index be used
            self.add(f"{stated}{topic} = {mark}", where.topic.casefold())
        for field, comparison, moment in (
            ("occurred", ">=", where.since),
            ("occurred", "<", where.until),
            ("updated", ">=", where.changed),
        ):
            if moment is not None:
                self.add(f"{self._column(field)} {comparison} {mark}", self._dialect.moment(moment))
        if where.conversation is not None:
            self.add(f"{self._alias}.conversation = {mark}", where.conversation)
        if where.positions is not None:
            self.add(f"{self._alias}.position BETWEEN {number} AND {number}", *where.positions)
        if where.minimum_trust > 0:
            self.add(f"{self._alias}.trust >= {mark}", where.minimum_trust)
        if where.anchored:
            self.add(f"{self._column('anchor')}{self._dialect.names['is_true']}")
        for field, waiting in (("verified", where.unverified), ("examined", where.unexamined)):
            if waiting:
                self.add(f"{self._column(field)} IS NULL")
        if (where.unverified or where.unexamined) and where.statuses == (Status.ACTIVE,):
            # As a constant it lets the partial index be used.
            self.add(f"{self._alias}.status = 'active'")

    def condition(self) -> Condition:
        return Condition(" AND ".join(self._clauses), tuple(self._parameters))

    def _column(self, field: str) -> str:
        return f"{self._alias}.{self._dialect.names[field]}"


# Live records of exactly one scope and agent, by content hash.
BY_HASH = """
    SELECT {selected} FROM {memory}
    WHERE content_hash = ANY(:hashes) AND {plus}scope = (SELECT row FROM scope WHERE name = :scope)
        AND {plus}{agent} = :agent AND status IN ('active', 'quarantined')
"""

# Active records of exactly one scope and agent by gist, with the gist.
BY_GIST = """
    SELECT {selected}, {memory}.gist FROM {memory}
    WHERE gist = ANY(:gists) AND gist <> '' AND {plus}scope = (SELECT row FROM scope WHERE name = :scope)
        AND {plus}{agent} = :agent AND status = 'active'
    ORDER BY {memory}.id
"""

# Records without a vector of a model: three ranges of an index, each read only until there are enough. The index
# skips records that have their vector, however many they are.
UNEMBEDDED = """
    SELECT {selected} FROM {memory} WHERE {memory}.row IN (
        SELECT row FROM {memory} WHERE embedded_by IS NULL AND status <> 'forgotten'
        UNION ALL SELECT row FROM {memory} WHERE embedded_by < :model AND status <> 'forgotten'
        UNION ALL SELECT row FROM {memory} WHERE embedded_by > :model AND status <> 'forgotten'
        LIMIT :most
    )
"""
UNEMBEDDED_OF = UNEMBEDDED.replace(
    "status <> 'forgotten'",
    "status <> 'forgotten' AND {plus}scope IN (SELECT row FROM scope WHERE name = ANY(:scopes))",
)

# The earlier versions of some records, oldest first, and the latest ones of one record.
VERSIONS = "{versions} WHERE {version_of} = ANY(:ids) ORDER BY {version_of}, number"
ALL_VERSIONS_OF = "{versions} WHERE {version_of} = :id ORDER BY number"
LATEST_VERSIONS_OF = "{versions} WHERE {version_of} = :id ORDER BY number DESC LIMIT :most"


MOST_LOOKED_UP = 50  # records that are read at once while the event loop waits


class SqlRecords(SqlPart, SingleRecords):
    """Implements Records, except find() and writing."""

    def _visible(self, viewer: str, alias: str = "") -> Condition:
        """The condition that `viewer` may see a record."""
        raise NotImplementedError

    def _matching(self, where: Filter, alias: str = "", *, walked: str = "") -> Condition:
        """The condition of a filter; `walked` is the column in whose order the records are read."""
        raise NotImplementedError

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        if not ids:
            return {}
        where = self._matching(Filter(viewer=viewer, statuses=(), ids=tuple(ids)))
        query = self._sql.sql("SELECT {selected} FROM {memory} WHERE ") + where.sql
        few = len(ids) <= MOST_LOOKED_UP
        rows = await self._database.rows(query, where.parameters, viewer=viewer, few=few)
        return {memory.id: memory for memory in map(self._sql.columns.memory.record, rows)}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        seen, mark = self._visible(viewer), self._sql.mark
        # Ids with a prefix are one range of the sort order.
        query = f"""
            SELECT id FROM {self._sql.names["memory"]} WHERE id >= {mark} AND id < {mark} AND {seen.sql}
            ORDER BY id LIMIT {MOST_RESOLVED}
        """
        bounds = (prefix, prefix + LAST_CHARACTER, *seen.parameters)
        return [memory_id for (memory_id,) in await self._database.rows(query, bounds, viewer=viewer)]

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        condition, table = self._matching(where), self._sql.names["memory"]
        query = f"SELECT count(*) FROM {table} WHERE {condition.sql}"
        if most is not None:
            query = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {condition.sql} LIMIT {most:d}) AS bounded"
        rows = await self._database.rows(query, condition.parameters, viewer=where.viewer, planned=False)
        return int(rows[0][0])

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        check_counted_by(by)
        condition, names = self._matching(where), self._sql.names
        value = {
            "scope": f"(SELECT name FROM scope WHERE scope.row = {names['memory']}.scope)",
            "tag": names["tag_name"],
            "embedded_by": "coalesce(embedded_by, '')",
            "conversation": "coalesce(conversation, '')",
        }.get(by) or f"{names['memory']}.{names[by]}"
        source = names["tagged"] if by == "tag" else names["memory"]
        group = names["tag_group"] if by == "tag" else "1"
        # Most common first; tags that differ only in case count as one.
        query = f"""
            SELECT {value}, count(*) FROM {source} WHERE {condition.sql} GROUP BY {group} ORDER BY count(*) DESC, 1
        """
        rows = await self._database.rows(query, condition.parameters, viewer=where.viewer, planned=False)
        return dict(rows)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        values = {"hashes": self._sql.many(hashes), "scope": scope, "agent": agent}
        rows = await self._rows(BY_HASH, values)
        return {memory.content_hash: memory for memory in map(self._sql.columns.memory.record, rows)}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        values = {"gists": self._sql.many(gists), "scope": scope, "agent": agent}
        by_gist: dict[str, list[Memory]] = {}
        for row in await self._rows(BY_GIST, values):
            by_gist.setdefault(row[-1], []).append(self._sql.columns.memory.record(row))
        return by_gist

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        rows = await self._rows("{derived}", {"ids": self._sql.many(ids)})
        return [self._sql.columns.memory.record(row) for row in rows]

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        values = {"model": model, "most": limit, "scopes": self._sql.many(scopes)}
        rows = await self._rows(UNEMBEDDED_OF if scopes else UNEMBEDDED, values)
        return [self._sql.columns.memory.record(row) for row in rows]

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        condition = self._matching(where, walked="id")
        select = self._sql.sql("SELECT {selected} FROM {memory} WHERE ")
        following = self._sql.sql(" AND {memory}.id > ? ORDER BY {memory}.id LIMIT ?")
        query = select + condition.sql + following
        last = ""
        while True:
            values = (*condition.parameters, last, batch)
            rows = await self._database.rows(query, values, viewer=where.viewer, planned=False)
            if rows:
                yield [self._sql.columns.memory.record(row) for row in rows]
                last = rows[-1][0]
            if len(rows) < batch:
                return


class SqlLinks(SqlRecords):
    """Implements Links: links by the store's own statements, versions by a shared one."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        query = self._links_query(ids, [relation.value for relation in relations], viewer)
        few = len(ids) <= MOST_LOOKED_UP
        rows = await self._database.rows(query.sql, query.parameters, viewer=viewer, few=few)
        return [self._sql.columns.link.record(row) for row in rows]

    def _links_query(self, ids: Sequence[str], relations: Sequence[str], viewer: str) -> Condition:
        """The query of links that begin or end at these records, with both ends visible, each once."""
        raise NotImplementedError

    async def count_links(self, where: Filter) -> int:
        origin, target = self._matching(where, "origin"), self._matching(where, "target")
        count = self._sql.sql("SELECT count(*) FROM {links_with_ends} WHERE ")
        query = f"{count}{origin.sql} AND {target.sql}"
        values = (*origin.parameters, *target.parameters)
        rows = await self._database.rows(query, values, viewer=where.viewer, planned=False)
        return int(rows[0][0])

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        query = ALL_VERSIONS_OF if latest is None else LATEST_VERSIONS_OF
        rows = await self._rows(query, {"id": memory_id, "most": latest})
        versions = [self._sql.columns.version.record(row) for row in rows]
        return versions if latest is None else versions[::-1]

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        rows = await self._rows(VERSIONS, {"ids": self._sql.many(ids)})
        versions = map(self._sql.columns.version.record, rows)
        return {memory_id: list(own) for memory_id, own in groupby(versions, key=lambda each: each.memory_id)}


# Every text that the check after an erasure searches for an erased id.
TEXTS = {
    "memory": "merged_from metadata content topic source conversation file keywords".split(),
    "version": "content topic tags keywords".split(),
    "job": "payload result error key".split(),
    "cursor": "name value".split(),
    "scope": "name description keywords".split(),
    "entry": "key value".split(),
}


@dataclass(frozen=True, slots=True)
class Naming:
    """Rows that may refer to an erased record: their keys, then the columns that refer to it."""

    memories: Sequence[Any]  # row, merged_from, metadata
    jobs: Sequence[Any]  # id, payload, result
    entries: Sequence[Any]  # namespace, key, value


def drop_references(
    connection: SqlConnection, dialect: SqlDialect, ids: Iterable[str], naming: Naming
) -> tuple[int, int]:
    """Remove jobs about one of the ids, and references to the ids elsewhere. Returns how many of each."""
    erased = frozenset(ids)

    def execute(statement: str, *values: Any) -> int:
        return connection.execute(dialect.sql(statement), values).rowcount

    jobs = 0
    references = connection.execute(
        dialect.sql("UPDATE {memory} SET supersedes = NULL WHERE supersedes = ANY(:ids)"),
        {"ids": dialect.many(erased)},
    ).rowcount
    for row, sources, data in naming.memories:
        merged_from, changed = without(decoded(sources), erased)
        metadata, also_changed = without(decoded(data), erased)
        if changed or also_changed:
            update = "UPDATE {memory} SET merged_from = {texts_mark}, metadata = ? WHERE row = ?"
            execute(update, dialect.many(merged_from or []), encoded(metadata or {}), row)
            references += 1
    for job_id, payload, result in naming.jobs:
        remainder = job_without(decoded(payload), decoded(result), erased)
        if remainder is not None and remainder.dropped:
            jobs += execute("DELETE FROM job WHERE id = ?", job_id)
        elif remainder is not None:
            outcome = None if remainder.result is None else encoded(remainder.result)
            update = "UPDATE job SET payload = ?, result = ? WHERE id = ?"
            execute(update, encoded(remainder.payload), outcome, job_id)
            references += 1
    for namespace, key, value in naming.entries:
        if key in erased:  # an entry that lists it among others keeps its fields
            references += execute("DELETE FROM entry WHERE drawer = ? AND key = ?", namespace, key)
        elif (fields := entry_without(decoded(value), erased)) is not None:
            execute(
                "UPDATE entry SET value = ? WHERE drawer = ? AND key = ?", encoded(fields), namespace, key
            )
            references += 1
    return jobs, references


def decoded(value: Any) -> Any:
    """JSON as a value; the driver may have parsed it already."""
    return json.loads(value) if isinstance(value, str) else value


def encoded(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


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


class SqlWriting(ABC):
    """One call of apply(), with the scopes that it has looked up. Subclasses add what a store has besides rows."""

    dialect: SqlDialect

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        self._scopes: dict[str, int] = {}
        self._appliers: dict[type[Change], Callable[[list[Any]], None]] = {
            Put: self._put,
            Revise: self._revise,
            Mark: self._mark,
            Inherit: self._inherit,
            Tend: self._tend,
            Rate: self._rate,
            Connect: self._connect,
            Disconnect: self._disconnect,
            Keep: self._keep,
            Enqueue: self._enqueue,
        }

    @classmethod
    def apply(cls, changes: Sequence[Change], connection: Any, **options: Any) -> None:
        """Apply the changes within the caller's transaction; `options` are those of the class."""
        writing = cls(connection, **options)
        writing._lock(changes)
        for kind, run in groupby(changes, key=type):
            writing._appliers[kind](list(run))

    @abstractmethod
    def _put(self, run: list[Put]) -> None: ...

    @abstractmethod
    def _revise(self, run: list[Revise]) -> None: ...

    @abstractmethod
    def _tend(self, tends: list[Tend]) -> None: ...

    @abstractmethod
    def _rate(self, rates: list[Rate]) -> None: ...

    @abstractmethod
    def _lock(self, changes: Sequence[Change]) -> None:
        """Lock the records that the changes concern, where a store needs it."""

    def _stamp(self) -> dict[str, Any]:
        """Further values of a changed row, by the parameters of {stamped}."""
        return {}

    def _reference(self, memory_id: str, rows: dict[str, int]) -> Any:
        """The reference to a record in links and versions."""
        return memory_id

    def _checked_puts(self, run: list[Put]) -> dict[str, Put]:
        """The last Put of each record; the scopes are known afterwards."""
        self._expect(run)
        for put in run:
            check_vector(put)
        self._find_scopes(put.memory.scope for put in run)
        return {put.memory.id: put for put in run}

    def _checked_revisions(self, run: list[Revise]) -> tuple[list[Memory], dict[str, int]]:
        """The last revision of each record, and their rows; the scopes are known afterwards."""
        memories = {revise.memory.id: revise.memory for revise in run}
        rows = self._existing(memories)
        self._find_scopes(memory.scope for memory in memories.values())
        return list(memories.values()), rows

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

    def _connect(self, connects: list[Connect]) -> None:
        links = [connect.link for connect in connects]
        rows = self._existing([end for link in links for end in (link.origin, link.target)])
        columns = self.dialect.columns.link
        self._many(
            CONNECT,
            [
                columns.values(
                    link, origin=self._reference(link.origin, rows), target=self._reference(link.target, rows)
                )
                for link in links
            ],
        )

    def _disconnect(self, cuts: list[Disconnect]) -> None:
        self._many("{disconnect}", [(cut.origin, cut.target, cut.relation.value) for cut in cuts])

    def _enqueue(self, changes: list[Enqueue]) -> None:
        enqueue(self._connection, self.dialect, [change.job for change in changes])

    def _keep(self, keeps: list[Keep]) -> None:
        versions = [keep.version for keep in keeps]
        rows = self._existing([version.memory_id for version in versions])
        for version in versions:
            reference = self._reference(version.memory_id, rows)
            values = self.dialect.columns.version.values(version, memory_id=reference)
            if not self._connection.execute(self.dialect.sql(KEEP), values).rowcount:
                same = (reference, version.number)
                stored = self._connection.execute(self.dialect.sql(KEPT), same).fetchone()
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
