"""Everything at one moment: one transaction sees one state, however long it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from mindhold.model.errors import Refused
from mindhold.model.totals import content_sum
from mindhold.ports.snapshot import Cursor, Kept, Record, Step, Totals
from mindhold.stores.postgres.adapting import vector_of
from mindhold.stores.postgres.connection import Connection, Part
from mindhold.stores.postgres.entries import COLUMNS as ENTRY_COLUMNS
from mindhold.stores.postgres.entries import entry_of
from mindhold.stores.postgres.failures import translated
from mindhold.stores.postgres.jobs import COLUMNS as JOB_COLUMNS
from mindhold.stores.postgres.jobs import job_of
from mindhold.stores.postgres.links import ALL_VERSIONS, link_of, version_of
from mindhold.stores.postgres.rows import SELECTED, memory_of
from mindhold.stores.postgres.scopes import SCOPES, scope_of
from mindhold.stores.postgres.session import Session

BATCH = 500

# One state for all that follows, which takes as long as it takes.
BEGIN = """
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0
"""

# All links, by the ids of their ends.
LINKS = """
    SELECT from_id, to_id, relation_type, created_at, weight, automatic FROM fragment_links
    ORDER BY from_id, to_id, relation_type
"""

# How much there is of everything besides the records.
COUNTS = """
    SELECT (SELECT count(*) FROM fragment_versions), (SELECT count(*) FROM fragment_links),
        (SELECT count(*) FROM scope), (SELECT count(*) FROM job), (SELECT count(*) FROM entry),
        (SELECT count(*) FROM cursor), (SELECT count(*) FROM fragments WHERE embedded_by IS NOT NULL)
"""


class SnapshotPart(Part):
    """The Snapshots protocol."""

    _session: Session
    _has_vectors: bool

    @property
    def raw_form(self) -> str:
        return ""

    async def copy_raw(self, path: Path, *, told: Step) -> None:
        raise Refused("This store makes no copies as they are.", advice="Use its snapshot.")

    async def snapshot(self) -> AsyncIterator[list[Kept]]:
        with translated(self._session.place):
            connection = await asyncio.to_thread(self._begun)
            try:
                for query, made in self._read():
                    cursor = connection.cursor("mindhold_snapshot")
                    await asyncio.to_thread(cursor.execute, query)
                    while batch := await asyncio.to_thread(_some, cursor, made):
                        yield batch
                    await asyncio.to_thread(cursor.close)
            finally:
                with suppress(psycopg.Error):
                    await asyncio.to_thread(connection.close)

    async def totals(self) -> Totals:
        def work(connection: Connection) -> Totals:
            versions, links, scopes, jobs, entries, cursors, vectors = connection.execute(COUNTS).fetchall()[
                0
            ]
            pairs = connection.execute("SELECT id, content_hash FROM fragments").fetchall()
            memories, content = content_sum(pairs)
            return Totals(memories, vectors, versions, links, scopes, jobs, entries, cursors, content)

        return await self._database.alone(work, long=True)

    def _begun(self) -> Connection:
        connection = self._session.connect(as_login=True)
        try:
            connection.execute(BEGIN)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self) -> list[tuple[str, Callable[[Any], Kept]]]:
        vector = "CASE WHEN embedded_by IS NULL THEN NULL ELSE halfvec_send(embedding) END"
        kept = vector if self._has_vectors else "NULL::bytea"
        return [
            (SCOPES, scope_of),
            (f"SELECT {SELECTED}, {kept} FROM fragments ORDER BY fragments.row", _record),
            (f"{ALL_VERSIONS} ORDER BY fragment_id, number", version_of),
            (LINKS, link_of),
            (f"SELECT {JOB_COLUMNS} FROM job ORDER BY created_at, id", job_of),
            (f"SELECT {ENTRY_COLUMNS} FROM entry ORDER BY row", entry_of),
            ("SELECT name, value FROM cursor ORDER BY name", lambda row: Cursor(*row)),
        ]


def _record(row: tuple[Any, ...]) -> Record:
    return Record(memory_of(row[:-1]), None if row[-1] is None else vector_of(bytes(row[-1])))


def _some(cursor: psycopg.ServerCursor[tuple[Any, ...]], made: Callable[[Any], Kept]) -> list[Kept]:
    return [made(row) for row in cursor.fetchmany(BATCH)]
