"""Memories as rows, a Filter as a WHERE clause (the only place that decides access), and the keyword table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.columns import (
    MEMORY,
    Column,
    Conversions,
    RecordColumns,
    StoreColumns,
    Type,
    mapping_json,
    number,
)
from mindhold.stores.postgres.driver import Connection, array_text, vector_text
from mindhold.stores.sql import LIST, NAMED, Condition, SqlDialect
from mindhold.stores.sql_records import FilterClauses

_LONGEST = 500  # characters of a keyword form: the limit of the index
_TOGETHER = 2_000

# Replace the keywords of some records; records without keywords have no row.
NOTE = """
    WITH unnamed AS (DELETE FROM fragment_keywords WHERE row = ANY(%s::bigint[]))
    INSERT INTO fragment_keywords (row, forms)
    SELECT row, forms::text[] FROM unnest(%s::bigint[], %s::text[]) AS given (row, forms)
    ON CONFLICT (row) DO UPDATE SET forms = excluded.forms
"""

# The next records that have keywords or rows in the keyword table, with both.
NOTED = """
    SELECT fragments.row, fragments.keywords, found.forms
    FROM fragments LEFT JOIN fragment_keywords AS found ON found.row = fragments.row
    WHERE fragments.row > %s AND (fragments.keywords <> '{}' OR found.row IS NOT NULL)
    ORDER BY fragments.row LIMIT %s
"""


def _cut(forms: Iterable[str]) -> list[str]:
    """Keyword forms cut to the length in the table."""
    return list(dict.fromkeys(form[:_LONGEST] for form in forms))


def note_keywords(connection: Connection, keywords: Mapping[int, Sequence[str]]) -> None:
    """Replace the keywords of records, by row."""
    forms = {row: array_text(_cut(keyword_forms(words))) for row, words in keywords.items()}
    without = [row for row, literal in forms.items() if literal == "{}"]
    noted = {row: literal for row, literal in forms.items() if literal != "{}"}
    if keywords:
        connection.execute(NOTE, (without, list(noted), list(noted.values())))


def count_wrong(connection: Connection) -> int:
    """The number of records whose rows in the keyword table are wrong."""
    return sum(len(wrong) for wrong in _wrong(connection))


def renew(connection: Connection) -> int:
    """Correct the keyword table within the caller's transaction. Returns how many records were wrong."""
    corrected = 0
    for wrong in _wrong(connection):
        note_keywords(connection, wrong)
        corrected += len(wrong)
    return corrected


def _wrong(connection: Connection) -> Iterator[dict[int, list[str]]]:
    last = 0
    while rows := connection.execute(NOTED, (last, _TOGETHER)).fetchall():
        last = rows[-1][0]
        yield {
            row: keywords
            for row, keywords, forms in rows
            if set(forms or ()) != set(_cut(keyword_forms(keywords)))
        }


def visible(viewer: str, alias: str = "fragments") -> Condition:
    """The condition that `viewer` may see a record."""
    agents = visible_agents(viewer)
    if agents is None:
        return Condition("true", ())
    return Condition(f"{alias}.agent_id = ANY(%s::text[])", (sorted(agents),))


def matching(where: Filter, alias: str = "fragments") -> Condition:
    """The condition of a filter, including its viewer's access."""
    clauses = FilterClauses(POSTGRES, alias, visible(where.viewer, alias))
    add = clauses.add
    if where.ids:
        add(f"{alias}.id = ANY(%s::text[])", list(where.ids))
    if where.turns and len(where.scopes) == 1:  # as one value, so that their index returns them in order
        add(f"{alias}.scope = (SELECT row FROM scope WHERE name = %s)", where.scopes[0])
    elif where.scopes:
        add(
            f"{alias}.scope = ANY(ARRAY(SELECT row FROM scope WHERE name = ANY(%s::text[])))",
            list(where.scopes),
        )
    if where.agents:
        add(f"{alias}.agent_id = ANY(%s::text[])", list(where.agents))
    if where.kinds:
        add(f"{alias}.type = ANY(%s::text[])", [kind.value for kind in where.kinds])
    if len(where.statuses) == 1:  # as one value, so that an index that begins with it returns rows in order
        add(f"{alias}.status = %s", where.statuses[0].value)
    elif where.statuses:
        add(f"{alias}.status = ANY(%s::text[])", [status.value for status in where.statuses])

    def add_rows(table: str, condition: str, value: Any) -> None:
        add(f"{alias}.row IN (SELECT row FROM {table} WHERE {condition})", value)

    if where.tags_any and where.tags:
        add_rows("fragment_tags", "folded = ANY(%s::text[])", [tag.casefold() for tag in where.tags])
    for tag in () if where.tags_any else where.tags:
        add_rows("fragment_tags", "folded = %s", tag.casefold())
    if where.keywords:
        comparison = "&&" if where.keywords_any else "@>"
        add_rows("fragment_keywords", f"forms {comparison} %s::text[]", _cut(where.keywords))
    clauses.add_plain(where)
    if where.tiers:
        add_rows("fragment_standing", "ttl_tier = ANY(%s::text[])", [tier.value for tier in where.tiers])
    if where.due is not None:
        add_rows("fragment_standing", "review_at <= %s", where.due)
    if where.turns:  # exactly as in the partial index
        stated = f"{alias}.dialect = 'project' AND {alias}.type = 'episode'"
        add(f"{stated} AND NOT is_later_part({alias}.metadata)")
    return clauses.condition()


COLUMNS = StoreColumns(
    "postgres",
    {
        Type.REAL: (number, None),
        Type.TEXTS: (list, tuple),
        Type.MAPPING: (mapping_json, None),
        Type.JSON: (mapping_json, None),
    },
)

# The columns for memory_of(), of a table called fragments.
SELECTED = COLUMNS.memory.listed(
    "fragments.", scope="(SELECT name FROM scope WHERE scope.row = fragments.scope)"
)
memory_of = COLUMNS.memory.record

# Records are sent together, each column as one array; lists inside it are array literals.
_SENT: Conversions = {
    Type.REAL: (number, None),
    Type.TEXTS: (array_text, None),
    Type.MAPPING: (mapping_json, None),
}
_WHOLE = RecordColumns(Memory, MEMORY, "postgres", _SENT)
_REVISED = RecordColumns(
    Memory, [column for column in MEMORY if not column.content and column.field != "id"], "postgres", _SENT
)
_SENT_TYPES = {Type.INTEGER: "bigint", Type.REAL: "float8", Type.FLAG: "boolean", Type.MOMENT: "timestamptz"}
_STORED_TYPES = {Type.TEXTS: "text[]", Type.MAPPING: "json"}
_DERIVED = {"topic_folded": "text"}
_OF_CONTENT = {"gist": "text", "lexemes": "text", "length": "bigint"}
_VECTOR = {"embedding": "text"}
_CASTS = {
    column.name("postgres"): _STORED_TYPES[column.type]
    for column in MEMORY
    if isinstance(column.type, Type) and column.type in _STORED_TYPES
} | {"embedding": "halfvec"}
_COUNTED = frozenset(column.name("postgres") for column in MEMORY if column.counted)


def sent_types(columns: RecordColumns[Any]) -> dict[str, str]:
    """The array type of each column, by column name."""
    pairs = zip(columns.names, columns.columns, strict=True)
    types = {
        name: _SENT_TYPES.get(column.type, "text") if isinstance(column.type, Type) else "text"
        for name, column in pairs
    }
    return types | {"scope": "bigint"} if "scope" in types else types


def given(columns: Mapping[str, str]) -> str:
    """A table expression of all rows: one array for each column."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    return f"unnest({arrays}) AS given ({', '.join(columns)})"


def arrays_of(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The parameters of given()."""
    return [list(column) for column in zip(*rows, strict=True)]


def _value(name: str) -> str:
    return f"given.{name}::{_CASTS[name]}" if name in _CASTS else f"given.{name}"


_REVISED_TYPES = sent_types(_REVISED) | _DERIVED

# Replace the fields of records, except content, index and vector.
REVISE = (
    f"UPDATE fragments SET {', '.join(f'{name} = {_value(name)}' for name in _REVISED_TYPES)} "
    f"FROM {given(_REVISED_TYPES | {'id': 'text'})} WHERE fragments.id = given.id"
)


def _upsert(*, vectors: bool) -> str:
    columns = sent_types(_WHOLE) | _DERIVED | _OF_CONTENT | (_VECTOR if vectors else {})
    replaced = [name for name in columns if name not in _COUNTED and name != "id"]
    return (
        f"INSERT INTO fragments ({', '.join(columns)}) SELECT {', '.join(map(_value, columns))} "
        f"FROM {given(columns)} "
        f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in replaced)}"
    )


# Insert records, or replace those with the same ids in their rows; counts stay.
UPSERT, UPSERT_WITH_VECTORS = _upsert(vectors=False), _upsert(vectors=True)


def revised(memory: Memory, *, scope: int) -> tuple[Any, ...]:
    """The values of REVISE."""
    tags = array_text(distinct_tags(memory).values())
    return (*_REVISED.values(memory, scope=scope, tags=tags), memory.topic.casefold(), memory.id)


def whole(put: Put, *, scope: int, vectors: bool) -> tuple[Any, ...]:
    """The values of UPSERT or UPSERT_WITH_VECTORS."""
    memory = put.memory
    vector = vector_text(put.vector) if vectors and put.vector is not None else None
    tags = array_text(distinct_tags(memory).values())
    model = None if vector is None else memory.embedded_by
    return (
        *_WHOLE.values(memory, scope=scope, tags=tags, embedded_by=model),
        memory.topic.casefold(),
        put.gist,
        " ".join((*put.lexemes, *put.labels)),
        len(put.lexemes),
        *([vector] if vectors else []),
    )


def distinct_tags(memory: Memory) -> dict[str, str]:
    """Tags by their folded form: of two that differ only in case the first counts."""
    tags: dict[str, str] = {}
    for name in memory.tags:
        tags.setdefault(name.casefold(), name)
    return tags


class PostgresDialect(SqlDialect):
    """PostgreSQL: lists are arrays."""

    name = "postgres"
    mark = "%s"
    integer_cast = "::bigint"
    integrity_error = psycopg.errors.IntegrityError
    # One change of scopes at a time; writers of records don't wait.
    lock_scopes = "LOCK TABLE scope IN SHARE ROW EXCLUSIVE MODE"

    def notation(self, text: str) -> str:
        return NAMED.sub(r"%(\1)s", LIST.sub(r"= ANY(:\1::text[])", text)).replace("?", "%s")

    def cast(self, column: Column) -> str:
        if column.type is Type.TEXTS:
            return "::text[]"
        return self.integer_cast if column.type is Type.INTEGER else ""

    def many(self, values: Iterable[str]) -> list[str]:
        return list(values)

    def moment(self, moment: datetime) -> datetime:
        return moment

    def is_duplicate(self, error: Exception) -> bool:
        return isinstance(error, psycopg.errors.UniqueViolation)


POSTGRES = PostgresDialect(
    COLUMNS,
    memory="fragments",
    selected=SELECTED,
    plus="",
    row="row",
    texts_mark="?::text[]",
    is_true="",
    greatest="greatest",
    stamped="",
    # Records merged from one of some ids. The first condition is that of the partial index.
    derived=f"""
        SELECT {SELECTED} FROM fragments
        WHERE (fragments.merged_from <> '{{}}' OR fragments.metadata::text <> '{{}}')
            AND fragments.merged_from && :ids::text[]
        ORDER BY fragments.id
    """,
    tagged="fragments JOIN fragment_tags ON fragment_tags.row = fragments.row",
    tag_name="min(fragment_tags.name)",
    tag_group="fragment_tags.folded",
    link="fragment_links",
    links_with_ends="""fragment_links AS link JOIN fragments AS origin ON origin.id = link.from_id
        JOIN fragments AS target ON target.id = link.to_id""",
    disconnect="DELETE FROM fragment_links WHERE from_id = ? AND to_id = ? AND relation_type = ?",
    version="fragment_versions",
    versions=f"SELECT {COLUMNS.version.listed()} FROM fragment_versions",
    version_of="fragment_id",
)
