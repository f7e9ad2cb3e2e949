"""Summaries that one file has about a conversation in another, by an entry of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np

from mindhold.ports.transcripts import uuid_key
from mindhold.stores.history.rows import storable_text

# Note a summary that was met; an earlier one that the same file has about the same entry goes.
DROP = "DELETE FROM leaf WHERE met_in = ? AND key = ?"
NOTE = "INSERT INTO leaf (met_in, key, summary, sought) VALUES (?, ?, ?, 0)"

UPTO = "SELECT coalesce(max(row), 0) FROM entries"

# Which ones weren't sought everywhere yet.
UNSOUGHT = "SELECT sought, row, key FROM leaf WHERE sought < ? ORDER BY sought"

ENTRIES_AFTER = "SELECT conversation, keys FROM entries WHERE row > ?"

SOUGHT = "UPDATE leaf SET sought = ?1 WHERE sought < ?1"
SUMMED = "INSERT OR IGNORE INTO summed (conversation, leaf) VALUES (?, ?)"

# By conversation, the latest last.
SUMMARIES = "SELECT summed.conversation, leaf.summary FROM leaf JOIN summed ON summed.leaf = leaf.row ORDER BY leaf.row"


def note_leaves(connection: sqlite3.Connection, conversation: int, leaves: Iterable[tuple[str, str]]) -> None:
    """Within the caller's transaction."""
    for uuid, summary in leaves:
        key = uuid_key(uuid)
        connection.execute(DROP, (conversation, key))
        connection.execute(NOTE, (conversation, key, storable_text(summary)))


def is_unsought(connection: sqlite3.Connection) -> bool:
    """Whether there is something that resolve() would look at."""
    (upto,) = connection.execute(UPTO).fetchone()
    return connection.execute(f"{UNSOUGHT} LIMIT 1", (upto,)).fetchone() is not None


def resolve(connection: sqlite3.Connection) -> None:
    """Seek each summary's entry where it wasn't sought yet, within the caller's transaction."""
    (upto,) = connection.execute(UPTO).fetchone()
    together: dict[int, list[tuple[bytes, int]]] = {}
    for sought, row, key in connection.execute(UNSOUGHT, (upto,)):
        together.setdefault(sought, []).append((key, row))
    for sought, leaves in together.items():
        connection.executemany(SUMMED, _found(connection, sought, leaves))
    if together:
        connection.execute(SOUGHT, (upto,))


def summaries(connection: sqlite3.Connection) -> dict[int, str]:
    """For each conversation the latest one about it."""
    return dict(connection.execute(SUMMARIES))


def _found(
    connection: sqlite3.Connection, after: int, leaves: list[tuple[bytes, int]]
) -> list[tuple[int, int]]:
    rows: dict[int, list[int]] = {}
    for key, row in leaves:
        rows.setdefault(int.from_bytes(key, "little"), []).append(row)
    wanted = np.sort(np.fromiter(rows, np.uint64, len(rows)))
    found: list[tuple[int, int]] = []
    for conversation, keys in connection.execute(ENTRIES_AFTER, (after,)):
        there = np.frombuffer(keys, dtype="<u8", count=len(keys) // 8)
        places = np.searchsorted(wanted, there).clip(max=len(wanted) - 1)
        for key in np.unique(there[wanted[places] == there]).tolist():
            found += [(conversation, row) for row in rows[key]]
    return found
