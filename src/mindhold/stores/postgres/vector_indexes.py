"""One approximate vector index for each embedding model, built when there are enough vectors."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from mindhold.stores.postgres.connection import SessionFactory, unlimited

Connection = psycopg.Connection[tuple[Any, ...]]
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
    """The name of the index, with the characters of the model's name that are allowed."""
    model, dimensions = key
    return f"fragments_embedding_{hashlib.sha256(model.encode()).hexdigest()[:12]}_{dimensions}"


def is_indexed(connection: Connection, model: str | None, dimensions: int) -> bool:
    """Whether the model's vectors have a valid index."""
    if model is None:
        return False
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
