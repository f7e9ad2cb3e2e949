"""The index of past conversations in an SQLite file. Contract: mindhold.ports.history.HistoryIndex."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mindhold.model.errors import StoreBusy, StoreFull, StoreReadOnly
from mindhold.model.query import Vector
from mindhold.ports.history import HistoryTotals, IndexedConversation, Passage, PassageMatch
from mindhold.stores.history.connection import COLUMNS, HistoryFile, from_row, unpack

if TYPE_CHECKING:
    from mindhold.stores.history.search import HistoryTextSearch, HistoryVectorSearch


REVISION = "SELECT removals, revision FROM state"

# Conversations that changed since a revision.
CHANGED = f"SELECT {COLUMNS} FROM conversation WHERE revision > ?"

ONE = f"SELECT {COLUMNS} FROM conversation WHERE row = ?"

BY_ROWS = """
    SELECT passage.row, passage.head, wording.packed
    FROM json_each(?) AS wanted CROSS JOIN passage ON passage.row = wanted.value
        CROSS JOIN wording ON wording.row = passage.row
"""
OF_CONVERSATION = """
    SELECT passage.row, passage.head, wording.packed
    FROM passage JOIN wording ON wording.row = passage.row
    WHERE passage.conversation = ? ORDER BY passage.head DESC, passage.row
"""

# A passage, and those after it in the same conversation.
FROM_ONE = """
    SELECT passage.row, passage.head, wording.packed
    FROM passage JOIN wording ON wording.row = passage.row
    WHERE passage.conversation = (SELECT conversation FROM passage WHERE row = ?1) AND passage.head = 0 AND passage.row >= ?1
    ORDER BY passage.row LIMIT ?2
"""
LAST = """
    SELECT passage.row, passage.head, wording.packed
    FROM passage JOIN wording ON wording.row = passage.row
    WHERE passage.row = (SELECT max(row) FROM passage WHERE conversation = ? AND head = 0)
"""

# The index on `ended` gives the order, so that the query stops as soon as there are enough.
UNEMBEDDED = """
    SELECT passage.row, passage.head, wording.packed
    FROM conversation CROSS JOIN passage ON passage.conversation = conversation.row
        CROSS JOIN wording ON wording.row = passage.row
    WHERE NOT EXISTS (
        SELECT 1 FROM vector
        WHERE vector.passage = passage.row AND vector.model = (SELECT number FROM model WHERE name = ?)
    )
    ORDER BY conversation.ended DESC LIMIT ?
"""

# Totals; the vectors are those of the model that embedded last.
STOCK = """
    SELECT
        (SELECT count(*) FROM conversation WHERE NOT silent),
        (SELECT count(*) FROM passage),
        (SELECT count(*) FROM vector WHERE model = (SELECT model FROM vector ORDER BY row DESC LIMIT 1)),
        (SELECT coalesce(sum(cursor_offset), 0) FROM conversation WHERE NOT silent)
"""


class SqliteHistory:
    """The index in a file that is opened, or created, on first use. `most_pages` limits its size."""

    withheld = False

    def __init__(self, path: Path, *, busy_timeout_ms: int = 10_000, most_pages: int | None = None) -> None:
        self._file = HistoryFile(path, busy_timeout_ms=busy_timeout_ms, most_pages=most_pages)
        self._lock = threading.Lock()
        self._listed: tuple[int, int, dict[int, IndexedConversation], list[IndexedConversation]] = (
            0,
            -1,
            {},
            [],
        )

    def conversations(self) -> list[IndexedConversation]:
        return self._file.read(self._all)

    def conversation(self, row: int) -> IndexedConversation | None:
        def work(connection: sqlite3.Connection) -> IndexedConversation | None:
            record = connection.execute(ONE, (row,)).fetchone()
            return None if record is None else from_row(record)

        return self._file.read(work)

    def put(
        self,
        conversation: IndexedConversation,
        passages: Sequence[Passage],
        *,
        anew: bool = False,
        uuids: bytes = b"",
        leaves: Iterable[tuple[str, str]] = (),
    ) -> IndexedConversation:
        return self.put_many([(conversation, passages, uuids, tuple(leaves), anew)])[0]

    def put_many(
        self,
        found: Sequence[
            tuple[IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]
        ],
    ) -> list[IndexedConversation]:
        from mindhold.stores.history.changes import (
            ConversationPart,  # most processes only read
            put,
        )

        pieces = [ConversationPart(*row) for row in found]
        return self._file.write(lambda connection: put(connection, pieces)) if pieces else []

    def remove(self, rows: Collection[int], *, at_once: bool = True) -> int:
        from mindhold.stores.history.changes import remove

        if not rows or not self._file.path.exists():
            return 0
        return self._file.write(lambda connection: remove(connection, rows, at_once=at_once))

    def tidy(self) -> None:
        from mindhold.stores.history.changes import is_unclean, tidy

        if self._file.read(is_unclean):
            with suppress(StoreBusy, StoreFull, StoreReadOnly):  # it can wait
                self._file.write(tidy)

    def sharing(self, rows: Collection[int]) -> dict[int, int]:
        from mindhold.stores.history.changes import sharing  # only needed for forgetting

        return self._file.read(lambda connection: sharing(connection, rows)) if rows else {}

    def leaf_summaries(self) -> dict[int, str]:
        from mindhold.stores.history.changes import is_unsought, resolve, summaries

        if self._file.read(is_unsought):
            with suppress(
                StoreBusy, StoreFull, StoreReadOnly
            ):  # the summaries found before are an answer too
                self._file.write(resolve)
        return self._file.read(summaries)

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[PassageMatch]:
        words = self._words
        return self._file.read(lambda connection: words.search(connection, lexemes, among=among, limit=limit))

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        words = self._words
        return self._file.read(lambda connection: words.frequencies(connection, lexemes))

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[PassageMatch]:
        words, nearby = self._words, self._nearby

        def work(connection: sqlite3.Connection) -> list[PassageMatch]:
            table = words.known(connection)
            return nearby.nearest(connection, vector, model=model, among=among, limit=limit, known=table)

        return self._file.read(work)

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        row_list = json.dumps(list(rows))
        return dict(self._file.read(lambda connection: _passages(connection, BY_ROWS, row_list)))

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        return self._file.read(lambda connection: _passages(connection, OF_CONVERSATION, conversation))

    def passages_from(self, passage: int, *, most: int) -> list[Passage]:
        rows = self._file.read(lambda connection: _passages(connection, FROM_ONE, passage, most))
        return [one for _, one in rows]

    def last_passage(self, conversation: int) -> Passage | None:
        rows = self._file.read(lambda connection: _passages(connection, LAST, conversation))
        return rows[0][1] if rows else None

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        return dict(self._file.read(lambda connection: _passages(connection, UNEMBEDDED, model, limit)))

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        from mindhold.stores.history.search import put_vectors

        if vectors:
            self._file.write(lambda connection: put_vectors(connection, vectors, model=model))

    def stock(self) -> HistoryTotals:
        conversations, passages, embedded, indexed = self._file.read(
            lambda connection: connection.execute(STOCK).fetchone()
        )
        return HistoryTotals(conversations, passages, embedded, indexed, self._file.bytes_on_disk())

    def close(self) -> None:
        self._file.close()

    @cached_property
    def _words(self) -> HistoryTextSearch:
        from mindhold.stores.history.search import HistoryTextSearch as Words

        return Words()

    @cached_property
    def _nearby(self) -> HistoryVectorSearch:
        from mindhold.stores.history.search import HistoryVectorSearch as Nearby

        return Nearby()

    def _all(self, connection: sqlite3.Connection) -> list[IndexedConversation]:
        """All conversations, the latest first; unchanged ones come from the cache."""
        removals, revision = connection.execute(REVISION).fetchone()
        with self._lock:
            before, upto, by_row, ordered = self._listed
            if removals != before or revision < upto:
                upto, by_row = -1, {}
            if revision != upto:
                changed = [from_row(row) for row in connection.execute(CHANGED, (upto,))]
                by_row = {**by_row, **{conversation.row: conversation for conversation in changed}}
                ordered = sorted(by_row.values(), key=_ended, reverse=True)
                self._listed = removals, revision, by_row, ordered
            return list(ordered)


def _passages(
    connection: sqlite3.Connection, statement: str, *values: str | int
) -> list[tuple[int, Passage]]:
    records = connection.execute(statement, values)
    return [(row, unpack(packed, head=bool(head))) for row, head, packed in records]


def _ended(conversation: IndexedConversation) -> tuple[float, int]:
    ended = conversation.ended
    return (ended.timestamp() if ended is not None else float("-inf"), conversation.row)
