"""Forgetting for good, and looking again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindhold.model.errors import StoreError
from mindhold.ports.store import Receipt
from mindhold.stores.postgres.connection import Connection, Part
from mindhold.stores.references import beginning, entry_left, job_left, mentions, without

_FEW = 20  # ids that each text is compared with
_TELLING = 8  # characters that hardly any text has by chance
_SPECIAL, _ESCAPED = re.compile(r"([\\%_])"), r"\\\1"

# The rows of records by their ids, which nobody changes meanwhile.
ROWS_OF = "SELECT id, row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR UPDATE"

# Where something about a record is kept, and by what; the records themselves last.
PLACES = {
    "links": "fragment_links WHERE from_id = ANY(%(ids)s::text[]) OR to_id = ANY(%(ids)s::text[])",
    "versions": "fragment_versions WHERE fragment_id = ANY(%(ids)s::text[])",
    "tags": "fragment_tags WHERE row = ANY(%(rows)s::bigint[])",
    "keywords": "fragment_keywords WHERE row = ANY(%(rows)s::bigint[])",
    "standing": "fragment_standing WHERE row = ANY(%(rows)s::bigint[])",
    "text": "fragment_lexemes WHERE row = ANY(%(rows)s::bigint[])",
    "memories": "fragments WHERE row = ANY(%(rows)s::bigint[]) OR id = ANY(%(ids)s::text[])",
}
VECTORS = "SELECT count(*) FROM fragments WHERE row = ANY(%(rows)s::bigint[]) AND embedded_by IS NOT NULL"

# Records whose lists or JSON may name others; a partial index holds them.
REFERRING = """
    SELECT row, merged_from, metadata FROM fragments
    WHERE (merged_from <> '{}' OR metadata::text <> '{}')
        AND (merged_from::text LIKE ANY(%(likely)s::text[]) OR metadata::text LIKE ANY(%(likely)s::text[]))
    ORDER BY row FOR UPDATE
"""

# Jobs whose JSON may name a record.
ABOUT = """
    SELECT id, payload, result FROM job
    WHERE payload::text LIKE ANY(%(likely)s::text[]) OR result::text LIKE ANY(%(likely)s::text[])
    ORDER BY id FOR UPDATE
"""

# Entries that may name a record.
NAMING = """
    SELECT drawer, key, value FROM entry WHERE value::text LIKE ANY(%(likely)s::text[]) OR key LIKE ANY(%(likely)s::text[])
    ORDER BY drawer, key FOR UPDATE
"""

# Every text in which a second look searches for an id.
TEXTS = {
    "fragments": "merged_from metadata content topic source conversation file keywords".split(),
    "fragment_keywords": ["forms"],
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
        try:
            remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        except StoreError as error:
            raise type(error)(
                f"The {len(erased.rows)} records are erased, but nobody could look again: {error.message}",
                advice=f"Erase the same ids again to have it looked at. {error.advice}",
            ) from error
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
    """In how many rows an id stands."""
    if not ids:
        return 0
    columns = TEXTS[table]
    likely = " OR ".join(f"{column}::text LIKE ANY(%(likely)s::text[])" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}::text, '')" for column in columns)
    rows = connection.execute(
        f"SELECT {texts} FROM {table} WHERE {likely}", {"likely": _likely(ids)}
    ).fetchall()
    return mentions((text for (text,) in rows), frozenset(ids))


def _likely(ids: tuple[str, ...]) -> list[str]:
    """Patterns that tell most rows that name none of the ids apart at once: a few ids, or how all of them begin."""
    begin = beginning(ids)
    sought = ids if len(begin) < _TELLING and len(ids) <= _FEW else (begin,)
    return [f"%{_SPECIAL.sub(_ESCAPED, one)}%" for one in sought]


def _drop_references(connection: Connection, ids: tuple[str, ...]) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    if not ids:
        return 0, 0
    gone, likely = frozenset(ids), {"likely": _likely(ids)}
    jobs = 0
    references = connection.execute(
        "UPDATE fragments SET supersedes = NULL WHERE supersedes = ANY(%s::text[])", (list(ids),)
    ).rowcount
    for row, sources, data in connection.execute(REFERRING, likely).fetchall():
        (merged_from, one), (metadata, other) = without(sources, gone), without(data, gone)
        if one or other:
            values = (merged_from or [], _text(metadata or {}), row)
            connection.execute("UPDATE fragments SET merged_from = %s, metadata = %s WHERE row = %s", values)
            references += 1
    for job_id, payload, result in connection.execute(ABOUT, likely).fetchall():
        left = job_left(payload, result, gone)
        if left is not None and left.dropped:
            jobs += connection.execute("DELETE FROM job WHERE id = %s", (job_id,)).rowcount
        elif left is not None:
            kept = (_text(left.payload), None if left.result is None else _text(left.result), job_id)
            connection.execute("UPDATE job SET payload = %s, result = %s WHERE id = %s", kept)
            references += 1
    return jobs, references + _leave_out_of_entries(connection, gone, likely)


def _leave_out_of_entries(connection: Connection, gone: frozenset[str], likely: dict[str, list[str]]) -> int:
    """An entry about an id goes; one that names it among others keeps its fields."""
    changes = 0
    for drawer, key, value in connection.execute(NAMING, likely).fetchall():
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
