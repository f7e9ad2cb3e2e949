"""Health of the database: facts, integrity checks, repair, secure deletion, and one vector index for each embedding model."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from mindhold.ports.store import Receipt, StoreFacts, StoreFinding
from mindhold.stores.columns import phrase_forms
from mindhold.stores.postgres import rows
from mindhold.stores.postgres.connection import ROLE, SCHEMA, PostgresPart, SessionFactory, unlimited
from mindhold.stores.postgres.driver import Connection, escaped
from mindhold.stores.postgres.records import SEARCHED_TEXTS, TAG, UNTAG
from mindhold.stores.postgres.schema import latest, version_of

Key = tuple[str, int]

LOG = logging.getLogger("mindhold.postgres")
MOST_DIMENSIONS = 4_000  # the limit of pgvector's index for halfvec
_LOOKED_AFTER = 1_000  # new vectors before they are counted again
_QUIET_SECONDS = 5.0
_CANCELS, _CANCEL_SECONDS = 10, 1.0
_PATIENT = 20  # factor of the minimum after which an index is built although more vectors come

# The existing indexes, and whether they are valid.
INDEXES = """
    SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass('fragments') AND relname LIKE 'fragments_embedding_%'
"""

# The number of vectors of each model and dimension.
MODELS = """
    SELECT model.embedded_by, (
        SELECT vector_dims(embedding) FROM fragments WHERE embedded_by = model.embedded_by LIMIT 1
    ), model.number
    FROM (
        SELECT embedded_by, count(*) AS number FROM fragments WHERE embedded_by IS NOT NULL GROUP BY 1
    ) AS model WHERE model.number > %s
"""

# Whether a model has more vectors than a limit.
MANY = "SELECT count(*) FROM (SELECT 1 FROM fragments WHERE embedded_by = %s LIMIT %s) AS few"

BUILD = """
    CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON fragments
    USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)
    WHERE embedding IS NOT NULL AND embedded_by = {model}
"""


class PostgresVectorIndexes:
    """A thread that builds missing indexes once no vectors have come for a while.

    While very many records come in, updating an index with each of them would cost more than everything else. A process that
    ends soon builds nothing; optimise() does.
    """

    def __init__(self, session: SessionFactory, *, worth_it: int) -> None:
        self._session = session
        self._worth_it = worth_it
        self._lock = threading.Lock()
        self._built: set[Key] = set()
        self._waiting: dict[Key, int] = {}  # new vectors since
        self._grown = 0.0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._connection: Connection | None = None

    def look(self, connection: Connection) -> None:
        """Check the indexes; missing or unfinished ones are built in the background."""
        for key in self._missing(connection):
            self.grown(*key, self._worth_it)

    def grown(self, model: str, dimensions: int, number: int) -> None:
        """Note that vectors were added."""
        key = (model, dimensions)
        if not model or key in self._built or dimensions > MOST_DIMENSIONS:
            return
        with self._lock:
            self._grown = time.monotonic()
            self._waiting[key] = self._waiting.get(key, 0) + number
            if self._thread is None and self._waiting[key] >= min(_LOOKED_AFTER, self._worth_it):
                self._stopping.clear()
                self._thread = threading.Thread(target=self._run, name="mindhold-vector-index", daemon=True)
                self._thread.start()

    def build_missing(self, connection: Connection) -> list[Key]:
        """Build missing indexes now, in the calling thread."""
        return [key for key in self._missing(connection) if self._build(connection, key)]

    async def stop(self) -> None:
        """Stop; a running build is cancelled and starts again later."""
        thread = self._thread
        if thread is None:
            return
        self._stopping.set()
        for _ in range(_CANCELS):  # a cancellation may fall between two statements
            connection = self._connection
            if connection is not None:
                with suppress(psycopg.Error):
                    await asyncio.to_thread(connection.cancel_safe, timeout=_CANCEL_SECONDS)
            await asyncio.to_thread(thread.join, _CANCEL_SECONDS)
            if not thread.is_alive():
                return
        self._thread = None  # the server is silent; the thread ends with the connection or the process

    def _missing(self, connection: Connection) -> list[Key]:
        connection.execute(
            sql.SQL("SET search_path TO {}, {}").format(
                sql.Identifier(self._session.schema),
                sql.Identifier(self._session.vectors_in or self._session.schema),
            )
        )
        whole = {name for name, valid in connection.execute(INDEXES).fetchall() if valid}
        models = connection.execute(MODELS, (self._worth_it,)).fetchall()
        keys = [(model, dimensions) for model, dimensions, _ in models if dimensions <= MOST_DIMENSIONS]
        self._built |= {key for key in keys if name_of(key) in whole}
        return [key for key in keys if key not in self._built]

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                quiet = self._grown + _QUIET_SECONDS - time.monotonic()
                impatient = [
                    key for key, number in self._waiting.items() if number > _PATIENT * self._worth_it
                ]
                keys = impatient if quiet > 0 else list(self._waiting)
                for key in keys:
                    del self._waiting[key]
                if not keys and not self._waiting:
                    self._thread = None
                    return
            if keys:
                self._build_all(keys)
            else:
                self._stopping.wait(max(quiet, 0.0))
        self._thread = None

    def _build_all(self, keys: list[Key]) -> None:
        try:
            with self._session.connect(as_login=True) as connection:
                self._connection = connection
                for key in keys:
                    if not self._stopping.is_set():
                        self._build(connection, key)
        except psycopg.Error as error:
            LOG.warning("the vectors have no index yet: %s", error)
        finally:
            self._connection = None

    def _build(self, connection: Connection, key: Key) -> bool:
        try:
            built = build(connection, key, worth_it=self._worth_it)
        except psycopg.DataError as error:  # they are compared one by one instead, and other models go on
            LOG.warning("the vectors of %s have no index, for not all have %d dimensions: %s", *key, error)
            connection.execute(
                sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name_of(key)))
            )
            return False
        if built:
            self._built.add(key)
        return built


def name_of(key: Key) -> str:
    """The name of the index. It has a hash of the model's name, since not all characters are allowed."""
    model, dimensions = key
    return f"fragments_embedding_{hashlib.sha256(model.encode()).hexdigest()[:12]}_{dimensions}"


def is_indexed(connection: Connection, model: str, dimensions: int) -> bool:
    """Whether the model's vectors have a valid index."""
    states: dict[str, bool] = dict(connection.execute(INDEXES).fetchall())
    return states.get(name_of((model, dimensions)), False)


def build(connection: Connection, key: Key, *, worth_it: int) -> bool:
    """Build the index, one process at a time; others don't wait. Returns whether it exists."""
    model, dimensions = key
    lock = int.from_bytes(hashlib.sha256(name_of(key).encode()).digest()[:8], "big", signed=True)
    if connection.execute("SELECT pg_try_advisory_lock(%s)", (lock,)).fetchone() != (True,):
        return False
    try:
        if connection.execute(MANY, (model, worth_it + 1)).fetchone() != (worth_it + 1,):
            return False
        states: dict[str, bool] = dict(connection.execute(INDEXES).fetchall())
        name = sql.Identifier(name_of(key))
        with unlimited(connection):
            if states.get(name_of(key)) is False:
                connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))
            connection.execute("SET lock_timeout = 0; SET maintenance_work_mem = '256MB'")
            connection.execute(
                sql.SQL(BUILD).format(name=name, dimensions=sql.Literal(dimensions), model=sql.Literal(model))
            )
        return True
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (lock,))


SECURITY = "row security"
SECURED = ("fragments", "fragment_tags", "fragment_links", "fragment_versions")


def _of(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


# The size of the tables and their indexes.
SIZE = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = current_schema()::text::regnamespace AND relkind = 'r'
"""

# Tables whose row security is not enforced.
UNSECURED = """
    SELECT relname FROM pg_class
    WHERE relnamespace = current_schema()::text::regnamespace AND relname = ANY(%s::text[])
        AND NOT (relrowsecurity AND relforcerowsecurity)
"""

# Unfinished indexes.
BROKEN_INDEXES = """
    SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relnamespace = current_schema()::text::regnamespace AND NOT indisvalid
        AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index AS building WHERE building.index_relid = indexrelid)
"""

# Records whose full text differs from their content, and index rows without a record.
UNLIKE = """
    fragments.lexemes IS NOT NULL AND (
        found.row IS NULL OR found.length <> fragments.length OR found.lexemes <> lexemes_of(fragments.lexemes)
    )
"""
TEXT_DIFFERS = f"""
    SELECT count(*) FROM fragments LEFT JOIN fragment_lexemes AS found ON found.row = fragments.row WHERE {UNLIKE}
"""
REINDEX_TEXT = f"""
    INSERT INTO fragment_lexemes (row, length, lexemes)
    SELECT fragments.row, fragments.length, lexemes_of(fragments.lexemes)
    FROM fragments LEFT JOIN fragment_lexemes AS found ON found.row = fragments.row WHERE {UNLIKE}
    ON CONFLICT (row) DO UPDATE SET length = excluded.length, lexemes = excluded.lexemes
"""

# Records whose tags and folded tags don't match.
_TAGS = """
    FROM fragments WHERE cardinality(fragments.tags) <> (
        SELECT count(*) FROM fragment_tags
        WHERE fragment_tags.row = fragments.row AND fragment_tags.name = ANY(fragments.tags)
            AND fragment_tags.agent_id = fragments.agent_id
    )
"""
TAGS_DIFFER = f"SELECT count(*) {_TAGS}"
UNLIKE_TAGS = f"SELECT fragments.row, fragments.tags, fragments.agent_id {_TAGS}"

# Records whose row in `standing` differs from their own values.
_STANDING = "importance, ttl_tier, created_at, review_at"
_MISPLACED = f"""
    FROM fragments LEFT JOIN fragment_standing AS found ON found.row = fragments.row
    WHERE ({_of("found", _STANDING)}) IS DISTINCT FROM ({_of("fragments", _STANDING)})
"""
STANDING_DIFFERS = f"SELECT count(*) {_MISPLACED}"
PLACE = f"""
    INSERT INTO fragment_standing (row, id, {_STANDING})
    SELECT fragments.row, fragments.id, {_of("fragments", _STANDING)} {_MISPLACED}
    ON CONFLICT (row) DO UPDATE SET ({_STANDING}) = ROW ({_of("excluded", _STANDING)})
"""

# Records that name a model but have no vector, or the reverse.
UNPAIRED = "(embedding IS NULL) <> (embedded_by IS NULL)"

VACUUMED = (
    "fragments fragment_lexemes fragment_tags fragment_keywords fragment_standing fragment_links fragment_versions "
    "job entry"
).split()


class PostgresUpkeep(PostgresPart):
    """Implements StoreAdmin."""

    _session: SessionFactory
    _has_vectors: bool
    _vector_indexes: PostgresVectorIndexes

    async def facts(self) -> StoreFacts:
        def work(connection: Connection) -> StoreFacts:
            server = connection.info.server_version
            why, advice = self._session.without_vectors
            return StoreFacts(
                kind="postgres",
                location=self._session.place,
                schema_version=version_of(connection, self._session.schema),
                bytes_used=_number(connection, SIZE),
                details={
                    "postgres": f"{server // 10_000}.{server % 10_000}",
                    "pgvector": ".".join(map(str, self._session.vectors_version)) or f"{why}: full text only",
                    "row_security": self._row_security(),
                    "max_connections": self._database.limits.max_connections,
                },
                without_vectors=f"{why[0].upper()}{why[1:]}. {advice}" if why else "",
                collection=f"{SCHEMA}.fragments",
                # One for each model, with names that begin so.
                vector_index="" if why else "fragments_embedding",
            )

        return await self._database.read(work)

    async def check(self) -> list[StoreFinding]:
        findings = await self._database.alone(
            lambda connection: _findings(connection, vectors=self._has_vectors, enforced=self._row_security())
        )
        advice = "Connect as a role that is no superuser, or let the login make the role mindhold_app."
        if not self._session.bound:
            findings = [finding for finding in findings if finding.name != SECURITY or not finding.healthy]
            findings.append(StoreFinding(SECURITY, False, self._row_security(), advice))
        if self._has_vectors:  # without it the store is healthy, and facts() says what is missing
            findings.append(StoreFinding("pgvector", True, ".".join(map(str, self._session.vectors_version))))
        return findings

    async def repair(self) -> list[str]:
        return await self._database.alone(
            lambda connection: _mend(connection, vectors=self._has_vectors), long=True
        )

    async def optimise(self) -> int:
        def work(connection: Connection) -> int:
            before = _number(connection, SIZE)
            for index in ("fragment_lexemes_text", "fragment_keywords_forms"):
                connection.execute("SELECT gin_clean_pending_list(%s::regclass)", (index,)).fetchall()
            if self._has_vectors:
                self._vector_indexes.build_missing(connection)
            connection.execute(f"ANALYZE {', '.join(VACUUMED)}")
            return max(0, before - _number(connection, SIZE))

        return await self._database.alone(work, long=True)

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        """Rewrite the tables' files. The server's write-ahead log and backups are up to its administrator."""
        forms = sorted(escaped(form) for form in phrase_forms(phrases))

        def work(connection: Connection) -> Receipt:
            before = _number(connection, SIZE)
            with unlimited(connection):
                for table in VACUUMED:
                    connection.execute(f"VACUUM (FULL, ANALYZE) {table}")
            after = _number(connection, SIZE)
            return Receipt(
                ids=(),
                removed={"bytes": max(0, before - after)},
                remaining={table: _occurrences(connection, table, forms) for table in SEARCHED_TEXTS},
            )

        return await self._database.alone(work, long=True)

    def _row_security(self) -> str:
        if not self._session.bound:
            return "not enforced: the login is above it and can't take another role"
        return f"enforced, as the role {ROLE}" if self._session.role else "enforced for the login itself"


def _findings(connection: Connection, *, vectors: bool, enforced: str) -> list[StoreFinding]:
    (schema,) = connection.execute("SELECT current_schema()").fetchall()[0]
    version = version_of(connection, schema)
    unsecured = [row[0] for row in connection.execute(UNSECURED, (list(SECURED),)).fetchall()]
    broken = [row[0] for row in connection.execute(BROKEN_INDEXES).fetchall()]
    differing, tags = _number(connection, TEXT_DIFFERS), _number(connection, TAGS_DIFFER)
    words, misplaced = rows.count_wrong(connection), _number(connection, STANDING_DIFFERS)
    count = _number(connection, "SELECT count(*) FROM fragments")
    findings = [
        StoreFinding("schema", version == latest(), f"version {version}"),
        StoreFinding(
            SECURITY,
            not unsecured,
            f"off for {', '.join(unsecured)}" if unsecured else enforced,
            f"ALTER TABLE {SCHEMA}.{unsecured[0]} FORCE ROW LEVEL SECURITY" if unsecured else "",
        ),
        StoreFinding.derived("indexes", broken, ", ".join(broken), "all are whole"),
        StoreFinding.derived(
            "full text",
            differing,
            f"{differing} of {count} records differ from the index",
            "the index agrees with the records",
        ),
        StoreFinding.derived(
            "tags", tags, f"those of {tags} of {count} records don't fit", "they agree with the records"
        ),
        StoreFinding.derived(
            "keywords",
            words,
            f"{words} of {count} records are found by others than theirs",
            "they agree with the records",
        ),
        StoreFinding.derived(
            "standing",
            misplaced,
            f"{misplaced} of {count} records have another importance, tier or date of review than theirs",
            "it agrees with the records",
        ),
    ]
    if vectors:
        unpaired = _number(connection, f"SELECT count(*) FROM fragments WHERE {UNPAIRED}")
        unfit = f"those of {unpaired} of {count} records don't fit"
        findings.append(StoreFinding.derived("stored vectors", unpaired, unfit, "each has its model"))
    return findings


def _mend(connection: Connection, *, vectors: bool) -> list[str]:
    """Rebuild derived data and return what was done."""
    actions = []
    broken = [name for (name,) in connection.execute(BROKEN_INDEXES).fetchall()]
    with unlimited(connection):
        for name in broken:
            connection.execute(f'REINDEX INDEX "{name}"')
            actions.append(f"Built the index {name} anew.")
    with unlimited(connection), connection.transaction():
        renewed = connection.execute(REINDEX_TEXT).rowcount
        actions.append(f"Made the full text of {renewed} records anew.")
        actions.append(f"Made the tags of {_retag(connection)} records anew.")
        actions.append(f"Made the keywords of {rows.renew(connection)} records anew.")
        actions.append(f"Made the standing of {connection.execute(PLACE).rowcount} records anew.")
        if vectors:
            query = f"UPDATE fragments SET embedded_by = NULL, embedding = NULL WHERE {UNPAIRED}"
            actions.append(f"{connection.execute(query).rowcount} records wait for a vector again.")
    return actions


def _retag(connection: Connection) -> int:
    unlike: list[tuple[int, list[str], str]] = connection.execute(UNLIKE_TAGS).fetchall()
    connection.execute(UNTAG, ([row for row, _, _ in unlike],))
    tags = [(row, name.casefold(), name, agent) for row, names, agent in unlike for name in names]
    if tags:
        connection.execute(TAG, rows.arrays_of(tags))
    return len(unlike)


def _number(connection: Connection, query: str, values: tuple[Any, ...] = ()) -> int:
    return int(connection.execute(query, values).fetchall()[0][0])


def _occurrences(connection: Connection, table: str, wanted: Sequence[str]) -> int:
    """The number of rows that contain a phrase."""
    texts = " || ' ' || ".join(f"coalesce({column}::text, '')" for column in SEARCHED_TEXTS[table])
    query = f"SELECT count(*) FROM {table} WHERE EXISTS (SELECT 1 FROM unnest(%s::text[]) AS phrase WHERE position(phrase IN {texts}) > 0)"
    return _number(connection, query, (list(wanted),)) if wanted else 0
