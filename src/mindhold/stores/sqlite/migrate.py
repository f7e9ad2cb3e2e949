"""The schema, brought up to date by numbered files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from mindhold.model.errors import SchemaTooNew, StoreError
from mindhold.stores.sqlite.connection import transaction
from mindhold.stores.sqlite.keywords import note_keywords
from mindhold.stores.values import to_micros

Steps = tuple[tuple[int, str], ...]

LIFE = 4  # from this step on records have a date of review, and keywords a table

APPLICATION_ID = 0x5265636F  # "Reco"


@cache
def migrations() -> Steps:
    """Number and SQL of each, in order."""
    folder = files("mindhold.stores.sqlite").joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return tuple(sorted((int(entry.name[:4]), entry.read_text("utf-8")) for entry in found))


def latest() -> int:
    return migrations()[-1][0]


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, path: Path, *, now: datetime, steps: Steps | None = None) -> None:
    """Apply what is missing, all of it or nothing. Raises SchemaTooNew, StoreError for another program's file."""
    steps = migrations() if steps is None else steps
    newest = steps[-1][0]
    if _is_current(connection, path, newest):
        return
    with transaction(connection):
        if _is_current(connection, path, newest):  # another process was quicker
            return
        version = version_of(connection)
        if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreError(
                f"{path} is a database of another program.", advice="Choose another file or another home."
            )
        for number, script in steps:
            if number > version:
                for statement in statements(script):
                    connection.execute(statement)
        if version == 0:
            connection.execute("UPDATE scope SET created = ?", (to_micros(now),))
        elif version < LIFE <= newest:
            # Upkeep sees each once. What was before doesn't count as fading, and nothing of it waits to be judged.
            connection.execute(
                "UPDATE memory SET review = ?1, decayed = ?1, verified = ?1, examined = ?1", (to_micros(now),)
            )
            note_keywords(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")


def statements(script: str) -> Iterator[str]:
    """One by one, since executescript() would commit before the first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        raise ValueError(f"unfinished statement: {pending!r}")


def _is_current(connection: sqlite3.Connection, path: Path, newest: int) -> bool:
    version = version_of(connection)
    if version > newest:
        raise SchemaTooNew(
            f"The database {path} has schema {version}; this Mindhold knows up to {newest}.",
            advice="Upgrade Mindhold, as whoever wrote the file did.",
        )
    return version == newest
