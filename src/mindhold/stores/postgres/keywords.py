"""Keywords as they are compared, in a table of their own: derived from the records, and made anew from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg

from mindhold.model.keywords import keyword_forms
from mindhold.stores.postgres.adapting import array_text

Connection = psycopg.Connection[tuple[Any, ...]]

_LONGEST = 500  # characters of a form: what an index takes
_TOGETHER = 2_000

# What some records are found by, and nothing else; those without keywords have no row.
NOTE = """
    WITH unnamed AS (DELETE FROM fragment_keywords WHERE row = ANY(%s::bigint[]))
    INSERT INTO fragment_keywords (row, forms)
    SELECT row, forms::text[] FROM unnest(%s::bigint[], %s::text[]) AS given (row, forms)
    ON CONFLICT (row) DO UPDATE SET forms = excluded.forms
"""

# The next records that have keywords, or are found by some, and by which.
NOTED = """
    SELECT fragments.row, fragments.keywords, found.forms
    FROM fragments LEFT JOIN fragment_keywords AS found ON found.row = fragments.row
    WHERE fragments.row > %s AND (fragments.keywords <> '{}' OR found.row IS NOT NULL)
    ORDER BY fragments.row LIMIT %s
"""


def forms_of(keywords: Iterable[str]) -> list[str]:
    return cut(keyword_forms(keywords))


def cut(forms: Iterable[str]) -> list[str]:
    """As the table has them."""
    return list(dict.fromkeys(form[:_LONGEST] for form in forms))


def note(connection: Connection, keywords: Mapping[int, Sequence[str]]) -> None:
    """Let records, by their rows, be found by their keywords and no others."""
    forms = {row: forms_of(words) for row, words in keywords.items() if words}
    named = {row: some for row, some in forms.items() if some}
    without = [row for row in keywords if row not in named]
    if keywords:
        connection.execute(NOTE, (without, list(named), [array_text(some) for some in named.values()]))


def count_wrong(connection: Connection) -> int:
    """How many records aren't found by their keywords, or by others."""
    return sum(len(wrong) for wrong in _wrong(connection))


def renew(connection: Connection) -> int:
    """Make the table what the records say, within the caller's transaction; returns how many it had wrong."""
    done = 0
    for wrong in _wrong(connection):
        note(connection, wrong)
        done += len(wrong)
    return done


def _wrong(connection: Connection) -> Iterator[dict[int, list[str]]]:
    last = 0
    while rows := connection.execute(NOTED, (last, _TOGETHER)).fetchall():
        last = rows[-1][0]
        yield {row: keywords for row, keywords, forms in rows if set(forms or ()) != set(forms_of(keywords))}
