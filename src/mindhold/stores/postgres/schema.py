"""The schema, migrated by numbered files, and what else the server offers."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib.resources import files

import psycopg
from psycopg import sql

from mindhold.model.errors import SchemaTooNew, StoreError
from mindhold.stores.postgres import rows
from mindhold.stores.postgres.connection import ROLE, SCHEMA, SessionFactory
from mindhold.stores.postgres.driver import Connection

Steps = tuple[tuple[int, str], ...]

_KEYWORDS = 2  # the step that adds the table of keywords, which our code must fill

OLDEST_SERVER = 140_000
OLDEST_VECTORS = (0, 7)  # the first version with halfvec

# One process at a time; the number is arbitrary but ours.
LOCK = f"SELECT pg_advisory_xact_lock({0x7265636F6C6C6563})"

EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = %s"

# Whether our schema exists. Looked up as rows, because a session's cached names may be older than what another
# process created while this one waited.
VERSIONED = """
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'agent_memory' AND relname = 'schema_version'
"""

# Whether the login bypasses row security.
ABOVE = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"

# Schema and version of the extension.
EXTENSION = """
    SELECT nspname, extversion FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'
"""

# Whether the server could install it, and which version.
AVAILABLE = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"

# Whether the table of records has a vector column.
VECTOR_COLUMN = """
    SELECT count(*) FROM pg_attribute
    WHERE attrelid = 'agent_memory.fragments'::regclass AND attname = 'embedding' AND NOT attisdropped
"""

# The role's privileges: everything on rows, nothing on tables.
GRANTS = f"""
    GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {ROLE};
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {ROLE}
"""


@cache
def migrations() -> Steps:
    """Number and SQL of each migration, in order."""
    folder = files("mindhold.stores.postgres").joinpath("migrations")
    entries = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return tuple(sorted((int(entry.name[:4]), entry.read_text("utf-8")) for entry in entries))


def latest() -> int:
    return migrations()[-1][0]


def version_of(connection: Connection, schema: str = SCHEMA) -> int:
    """The version of the schema; 0 if there is none."""
    if connection.execute(VERSIONED.replace(SCHEMA, schema)).fetchone() is None:
        return 0
    row = connection.execute(f"SELECT max(version) FROM {schema}.schema_version").fetchone()
    return int(row[0] or 0) if row else 0


def prepare(
    connection: Connection, session: SessionFactory, *, now: datetime, steps: Steps | None = None
) -> None:
    """Create or migrate the schema, and store what was found in the session. Raises SchemaTooNew."""
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"The database {session.place} is PostgreSQL {connection.info.server_version // 10_000}.",
            advice="Use 14 or newer.",
        )
    _migrate(connection, session, now=now, steps=migrations() if steps is None else steps)
    session.vectors_in, session.vectors_version = _vectors(connection, session) or (None, ())
    session.without_vectors = ("", "") if session.vectors_in else _why_without(connection)
    above = connection.execute(ABOVE).fetchone() != (False,)
    session.role = _role(connection, session) if above else None
    session.bound = not above or session.role is not None


def _migrate(connection: Connection, session: SessionFactory, *, now: datetime, steps: Steps) -> None:
    newest = steps[-1][0]
    if _is_current(connection, session, newest):
        return
    with connection.transaction():
        connection.execute(LOCK)
        if _is_current(connection, session, newest):  # another process was faster
            return
        version = version_of(connection, session.schema)
        # Creating it needs a privilege even if it exists.
        if connection.execute(EXISTS, (session.schema,)).fetchone() is None:
            connection.execute(f"CREATE SCHEMA {session.schema}")
        connection.execute(f"SET LOCAL search_path TO {session.schema}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {session.schema}.schema_version "
            "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL)"
        )
        connection.execute("SELECT set_config('mindhold.now', %s, true)", (now.isoformat(),))
        for number, script in steps:
            if number > version:
                connection.execute(session.within(script))
                if number == _KEYWORDS:
                    rows.renew(connection)
                connection.execute(
                    f"INSERT INTO {session.schema}.schema_version VALUES (%s, %s)", (number, now)
                )
        if version == 0:
            connection.execute("UPDATE scope SET created_at = %s", (now,))


def _is_current(connection: Connection, session: SessionFactory, newest: int) -> bool:
    version = version_of(connection, session.schema)
    if version > newest:
        raise SchemaTooNew(
            f"The database {session.place} has schema {version}; this Mindhold knows up to {newest}.",
            advice="Upgrade Mindhold, as whoever wrote it did.",
        )
    return version == newest


def _vectors(connection: Connection, session: SessionFactory) -> tuple[str, tuple[int, ...]] | None:
    """Schema and version of pgvector, installed if possible; None if it is missing or too old."""
    extension = _extension(connection)
    if extension is None:
        try:
            with connection.transaction():
                connection.execute(LOCK)
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        except (
            psycopg.errors.FeatureNotSupported,
            psycopg.errors.UndefinedFile,
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.InvalidSchemaName,
        ):
            return None
        extension = _extension(connection)
    if extension is None or extension[1] < OLDEST_VECTORS:
        return None
    if connection.execute(session.within(VECTOR_COLUMN)).fetchone() == (0,):
        kind = sql.Identifier(extension[0], "halfvec")
        with connection.transaction():
            connection.execute(LOCK)
            connection.execute(
                sql.SQL("ALTER TABLE {}.fragments ADD COLUMN IF NOT EXISTS embedding {}").format(
                    sql.Identifier(session.schema), kind
                )
            )
    return extension


def _why_without(connection: Connection) -> tuple[str, str]:
    """Why there are no vectors, and what to do about it."""
    oldest = ".".join(map(str, OLDEST_VECTORS))
    extension = _extension(connection)
    if extension is not None:
        return (
            f"pgvector {'.'.join(map(str, extension[1]))} is too old",
            f"`ALTER EXTENSION vector UPDATE` in this database, once the server has {oldest} or newer.",
        )
    if connection.execute(AVAILABLE).fetchone() is not None:
        return (
            "pgvector is on the server, but not in this database",
            "An administrator's `CREATE EXTENSION vector` in this database brings it.",
        )
    return (
        "pgvector is not on the server",
        f"Install {oldest} or newer there, then `CREATE EXTENSION vector` in this database.",
    )


def _extension(connection: Connection) -> tuple[str, tuple[int, ...]] | None:
    row = connection.execute(EXTENSION).fetchone()
    if row is None:
        return None
    return row[0], tuple(int(part) for part in row[1].split(".") if part.isdigit())


def _role(connection: Connection, session: SessionFactory) -> str | None:
    """The role to work as, for a login that bypasses row security; None if it can't be created."""
    try:
        with connection.transaction():
            connection.execute(LOCK)
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} NOLOGIN NOINHERIT")
            if _lacks_grants(connection, session):
                connection.execute(session.within(GRANTS))
            if session.vectors_in:
                usage = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}")
                connection.execute(usage.format(sql.Identifier(session.vectors_in), sql.Identifier(ROLE)))
            connection.execute(f"SET LOCAL ROLE {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        return None
    except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
        # Roles belong to the whole server: a process of another database was faster.
        return _role(connection, session)
    return ROLE


def _lacks_grants(connection: Connection, session: SessionFactory) -> bool:
    """Whether privileges are missing. Granting rewrites the catalogue and may fail if two do it at once, so it is only done then."""
    granted = connection.execute(
        "SELECT bool_and(has_table_privilege(%s, oid, 'DELETE')) FROM pg_class "
        "WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v')",
        (ROLE, session.schema),
    ).fetchone()
    return granted != (True,)
