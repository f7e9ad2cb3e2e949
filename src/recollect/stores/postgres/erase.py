"""Forgetting for good, and looking again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.ports.store import Receipt
from recollect.stores.postgres.connection import Connection, Part
from recollect.stores.references import beginning, entry_left, job_left, mentions, without

# The rows of records by their ids, which nobody changes meanwhile.
ROWS_OF = "SELECT id, row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR UPDATE"

# Where something about a record is kept, and by what; the records themselves last.
PLACES = {
    "links": "fragment_links WHERE from_id = ANY(%(ids)s::text[]) OR to_id = ANY(%(ids)s::text[])",
    "versions": "fragment_versions WHERE fragment_id = ANY(%(ids)s::text[])",
    "tags": "fragment_tags WHERE row = ANY(%(rows)s::bigint[])",
    "text": "fragment_lexemes WHERE row = ANY(%(rows)s::bigint[])",
    "memories": "fragments WHERE row = ANY(%(rows)s::bigint[]) OR id = ANY(%(ids)s::text[])",
}
VECTORS = "SELECT count(*) FROM fragments WHERE row = ANY(%(rows)s::bigint[]) AND embedded_by IS NOT NULL"

# Records whose lists or JSON may name others; a partial index holds them.
REFERRING = """
    SELECT row, merged_from, metadata FROM fragments
    WHERE (merged_from <> '{}' OR metadata::text <> '{}')
        AND (position(%(start)s IN merged_from::text) > 0 OR position(%(start)s IN metadata::text) > 0)
    ORDER BY row FOR UPDATE
"""

# Jobs whose JSON may name a record.
ABOUT = """
    SELECT id, payload, result FROM job
    WHERE position(%(start)s IN payload::text) > 0 OR position(%(start)s IN result::text) > 0
    ORDER BY id FOR UPDATE
"""

# Entries that may name a record.
NAMING = """
    SELECT drawer, key, value FROM entry WHERE position(%(start)s IN value::text) > 0 OR position(%(start)s IN key) > 0
    ORDER BY drawer, key FOR UPDATE
"""

# Every text in which a second look searches for an id.
TEXTS = {
    "fragments": "merged_from metadata content topic source conversation file keywords".split(),
    "fragment_versions": "content topic tags keywords".split(),
    "job": "payload result error key".split(),
    "cursor": "name value".split(),
    "scope": "name description keywords".split(),
    "entry": "key value".split(),
}


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    rows: dict[str, int]
    removed: dict[str, int]
    references: bool  # whether what names them was changed too

    @property
    def values(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "rows": list(self.rows.values())}


class ErasePart(Part):
    """Records.erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        wanted = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda connection: _erase(connection, wanted, references=references)
        )
        self._erased(len(erased.rows))
        remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        found = tuple(memory_id for memory_id in wanted if memory_id in erased.rows)
        return Receipt(ids=found, removed=erased.removed, remaining=remaining)

    def _erased(self, number: int) -> None:
        """To be told after each erasure."""
        raise NotImplementedError


def _erase(connection: Connection, ids: tuple[str, ...], *, references: bool) -> _Erased:
    rows: dict[str, int] = dict(connection.execute(ROWS_OF, (list(ids),)).fetchall())
    erased = _Erased(ids, rows, {}, references)
    erased.removed["vectors"] = _count(connection, VECTORS, erased.values)
    for place, where in PLACES.items():
        erased.removed[place] = connection.execute(f"DELETE FROM {where}", erased.values).rowcount
    if references:
        erased.removed["jobs"], erased.removed["references"] = _drop_references(connection, ids)
    return erased


def _remaining(connection: Connection, erased: _Erased) -> dict[str, int]:
    """What a second look finds in each place; `mentions` counts texts elsewhere in which an id stands."""
    found = {"vectors": _count(connection, VECTORS, erased.values)}
    for place, where in PLACES.items():
        found[place] = _count(connection, f"SELECT count(*) FROM {where}", erased.values)
    if not erased.references:
        return found
    found["jobs"] = _mentions(connection, "job", erased.ids)
    found["references"] = _count(
        connection, "SELECT count(*) FROM fragments WHERE supersedes = ANY(%(ids)s::text[])", erased.values
    )
    found["mentions"] = sum(_mentions(connection, table, erased.ids) for table in TEXTS if table != "job")
    return found


def _count(connection: Connection, query: str, values: dict[str, Any]) -> int:
    return int(connection.execute(query, values).fetchall()[0][0])


def _mentions(connection: Connection, table: str, ids: tuple[str, ...]) -> int:
    """In how many rows an id stands; what the ids begin with alike tells most rows apart at once."""
    columns = TEXTS[table]
    likely = " OR ".join(f"position(%(start)s IN {column}::text) > 0" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}::text, '')" for column in columns)
    rows = connection.execute(
        f"SELECT {texts} FROM {table} WHERE {likely}", {"start": beginning(ids)}
    ).fetchall()
    return mentions((text for (text,) in rows), frozenset(ids))


def _drop_references(connection: Connection, ids: tuple[str, ...]) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    gone, start = frozenset(ids), {"start": beginning(ids)}
    jobs = 0
    references = connection.execute(
        "UPDATE fragments SET supersedes = NULL WHERE supersedes = ANY(%s::text[])", (list(ids),)
    ).rowcount
    for row, sources, data in connection.execute(REFERRING, start).fetchall():
        (merged_from, one), (metadata, other) = without(sources, gone), without(data, gone)
        if one or other:
            values = (merged_from or [], _text(metadata or {}), row)
            connection.execute("UPDATE fragments SET merged_from = %s, metadata = %s WHERE row = %s", values)
            references += 1
    for job_id, payload, result in connection.execute(ABOUT, start).fetchall():
        left = job_left(payload, result, gone)
        if left is not None and left.dropped:
            jobs += connection.execute("DELETE FROM job WHERE id = %s", (job_id,)).rowcount
        elif left is not None:
            kept = (_text(left.payload), None if left.result is None else _text(left.result), job_id)
            connection.execute("UPDATE job SET payload = %s, result = %s WHERE id = %s", kept)
            references += 1
    return jobs, references + _leave_out_of_entries(connection, gone, start)


def _leave_out_of_entries(connection: Connection, gone: frozenset[str], start: dict[str, str]) -> int:
    """An entry about an id goes; one that names it among others keeps its fields."""
    changes = 0
    for drawer, key, value in connection.execute(NAMING, start).fetchall():
        if key in gone:
            changes += connection.execute(
                "DELETE FROM entry WHERE drawer = %s AND key = %s", (drawer, key)
            ).rowcount
            continue
        left = entry_left(value, gone)
        if left is not None:
            connection.execute(
                "UPDATE entry SET value = %s WHERE drawer = %s AND key = %s", (_text(left), drawer, key)
            )
            changes += 1
    return changes


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
