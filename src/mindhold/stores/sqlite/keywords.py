"""Keywords as they are compared, in a table of their own: derived from the records, and made anew from them."""

from __future__ import annotations

import sqlite3

from mindhold.model.keywords import keyword_forms
from mindhold.stores.values import from_list_json

# Let a record be found by a keyword.
KEYWORD = "INSERT OR IGNORE INTO keyword (memory, form) VALUES (?, ?)"

# Take the keywords off a record.
DROP_KEYWORDS = "DELETE FROM keyword WHERE memory = ?"

# The next records that have keywords.
KEYWORDS_AFTER = "SELECT row, keywords FROM memory WHERE row > ? AND keywords <> '[]' ORDER BY row LIMIT 1000"

# What a record is found by.
FORMS = "SELECT form FROM keyword WHERE memory = ?"

# Forms of records that have no keyword.
UNFOUNDED = "memory NOT IN (SELECT row FROM memory WHERE keywords <> '[]')"


def note_keywords(connection: sqlite3.Connection) -> int:
    """Make the table what the records say, within the caller's transaction; returns how many it had wrong."""
    wrong = connection.execute(f"DELETE FROM keyword WHERE {UNFOUNDED}").rowcount
    last = -1
    while rows := connection.execute(KEYWORDS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        for row, keywords in rows:
            if _differ(connection, row, keywords):
                connection.execute(DROP_KEYWORDS, (row,))
                forms = keyword_forms(from_list_json(keywords))
                connection.executemany(KEYWORD, [(row, form) for form in forms])
                wrong += 1
    return wrong


def mistaken(connection: sqlite3.Connection) -> int:
    """How many records aren't found by their keywords, or by others."""
    wrong, last = (
        connection.execute(f"SELECT count(DISTINCT memory) FROM keyword WHERE {UNFOUNDED}").fetchone()[0],
        -1,
    )
    while rows := connection.execute(KEYWORDS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        wrong += sum(_differ(connection, row, keywords) for row, keywords in rows)
    return int(wrong)


def _differ(connection: sqlite3.Connection, row: int, keywords: str) -> bool:
    kept = {form for (form,) in connection.execute(FORMS, (row,))}
    return kept != set(keyword_forms(from_list_json(keywords)))
