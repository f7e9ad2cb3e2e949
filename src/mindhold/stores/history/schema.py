"""The tables of the index of past conversations. All of it is derived: another version is dropped and made anew."""

from __future__ import annotations

import sqlite3

from mindhold.stores.sqlite_file import transaction

VERSION = 2
PAGES_UNCLEAN, LOG_UNCLEAN = 2, 1  # where words that went may still be
UNCLEAN_YET = 3  # the same in pages, and there is time

# Rows of passages are never used twice, so that what is kept in memory of one never becomes another's.
_TABLES = (
    # `removals` counts how often conversations lost passages, from a number by chance on: no two files are taken for one.
    """
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        revision INTEGER NOT NULL,
        removals INTEGER NOT NULL,
        unclean INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO state VALUES (1, 0, random() / 2, 0)",
    """
    CREATE TABLE conversation (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        revision INTEGER NOT NULL,
        file BLOB NOT NULL UNIQUE,
        session_id TEXT NOT NULL,
        source TEXT NOT NULL,
        size INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        note_modified INTEGER NOT NULL,
        cursor_offset INTEGER NOT NULL,
        cursor_line INTEGER NOT NULL,
        cursor_mark TEXT NOT NULL,
        folder TEXT NOT NULL,
        project TEXT NOT NULL,
        part_of TEXT NOT NULL,
        title TEXT NOT NULL,
        title_by TEXT NOT NULL,
        summary TEXT NOT NULL,
        summary_by TEXT NOT NULL,
        model TEXT NOT NULL,
        started INTEGER,
        ended INTEGER,
        prompts INTEGER NOT NULL,
        bad_lines TEXT NOT NULL,
        skipping INTEGER NOT NULL,
        silent INTEGER NOT NULL,
        gone INTEGER NOT NULL,
        archived INTEGER NOT NULL,
        rules TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX conversation_revision ON conversation (revision)",
    "CREATE INDEX conversation_ended ON conversation (ended)",
    """
    CREATE TABLE passage (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL,
        head INTEGER NOT NULL,
        length INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX passage_conversation ON passage (conversation, head)",
    "CREATE TABLE wording (row INTEGER PRIMARY KEY, packed BLOB NOT NULL) STRICT",
    """
    CREATE VIRTUAL TABLE lexeme USING fts5 (
        lexemes,
        content = '',
        tokenize = 'unicode61 remove_diacritics 0',
        detail = none,
        columnsize = 0
    )
    """,
    # Eight bytes for each entry of a conversation, a row for each piece of it that was read.
    """
    CREATE TABLE entries (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL,
        keys BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX entries_conversation ON entries (conversation)",
    # A summary that was met in one conversation about an entry, which was sought among all up to `sought`.
    """
    CREATE TABLE leaf (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        met_in INTEGER NOT NULL,
        key BLOB NOT NULL,
        summary TEXT NOT NULL,
        sought INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX leaf_met_in ON leaf (met_in)",
    "CREATE INDEX leaf_sought ON leaf (sought)",
    # The conversations that have the entry.
    """
    CREATE TABLE summed (
        conversation INTEGER NOT NULL,
        leaf INTEGER NOT NULL,
        PRIMARY KEY (conversation, leaf)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE model (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    # `row` tells which are new since a process last looked.
    """
    CREATE TABLE vector (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        model INTEGER NOT NULL,
        passage INTEGER NOT NULL,
        code BLOB NOT NULL
    ) STRICT
    """,
    "CREATE UNIQUE INDEX vector_of ON vector (passage, model)",
)

# What stands in the file that isn't SQLite's own; tables of the full text go with it.
_OTHERS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def version_of(connection: sqlite3.Connection) -> int:
    """0 for a file in which nothing was made yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def make(connection: sqlite3.Connection) -> None:
    """The tables, in the place of an earlier version's, all or nothing; what is current stays."""
    with transaction(connection):
        if version_of(connection) >= VERSION:  # another process was quicker
            return
        while found := connection.execute(f"{_OTHERS} ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC").fetchone():
            connection.execute(f'DROP TABLE "{found[0]}"')
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def empty() -> sqlite3.Connection:
    """An index without anything, for who reads where there is none."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    make(connection)
    return connection
