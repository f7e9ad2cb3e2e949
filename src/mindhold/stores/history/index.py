"""The index of past conversations in an SQLite file: reading, writing and removing. Contract: mindhold.ports.history.HistoryIndex."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mindhold.model.errors import StoreBusy, StoreFull, StoreReadOnly
from mindhold.model.query import Vector
from mindhold.ports.history import HistoryTotals, IndexedConversation, Passage, PassageMatch
from mindhold.ports.transcripts import uuid_key
from mindhold.stores.history.connection import (
    COLUMNS,
    PAGES_UNCLEAN,
    UNCLEAN_YET,
    HistoryFile,
    from_row,
    indexed,
    lexemes_of,
    pack,
    storable_text,
    to_row,
    unpack,
)

if TYPE_CHECKING:
    from mindhold.stores.history.search import HistoryTextSearch, HistoryVectorSearch


# Store a summary; replaces an earlier one of the same file about the same entry.
DROP = "DELETE FROM leaf WHERE met_in = ? AND key = ?"
NOTE = "INSERT INTO leaf (met_in, key, summary, sought) VALUES (?, ?, ?, 0)"

UPTO = "SELECT coalesce(max(row), 0) FROM entries"

# Summaries whose entry wasn't looked for in all rows yet.
UNSOUGHT = "SELECT sought, row, key FROM leaf WHERE sought < ? ORDER BY sought"

ENTRIES_AFTER = "SELECT conversation, keys FROM entries WHERE row > ?"

SOUGHT = "UPDATE leaf SET sought = ?1 WHERE sought < ?1"
SUMMED = "INSERT OR IGNORE INTO summed (conversation, leaf) VALUES (?, ?)"

# By conversation, the latest last.
SUMMARIES = "SELECT summed.conversation, leaf.summary FROM leaf JOIN summed ON summed.leaf = leaf.row ORDER BY leaf.row"


def is_unsought(connection: sqlite3.Connection) -> bool:
    """Whether resolve() has anything to do."""
    (upto,) = connection.execute(UPTO).fetchone()
    return connection.execute(f"{UNSOUGHT} LIMIT 1", (upto,)).fetchone() is not None


def resolve(connection: sqlite3.Connection) -> None:
    """Look for each summary's entry in rows that weren't searched yet, within the caller's transaction."""
    (upto,) = connection.execute(UPTO).fetchone()
    together: dict[int, list[tuple[bytes, int]]] = {}
    for searched_upto, row, key in connection.execute(UNSOUGHT, (upto,)):
        together.setdefault(searched_upto, []).append((key, row))
    for searched_upto, leaves in together.items():
        connection.executemany(SUMMED, _found(connection, searched_upto, leaves))
    if together:
        connection.execute(SOUGHT, (upto,))


def _found(
    connection: sqlite3.Connection, after: int, leaves: list[tuple[bytes, int]]
) -> list[tuple[int, int]]:
    rows: dict[int, list[int]] = {}
    for key, row in leaves:
        rows.setdefault(int.from_bytes(key, "little"), []).append(row)
    sorted_keys = np.sort(np.fromiter(rows, np.uint64, len(rows)))
    pairs: list[tuple[int, int]] = []
    for conversation, keys in connection.execute(ENTRIES_AFTER, (after,)):
        entry_keys = np.frombuffer(keys, dtype="<u8", count=len(keys) // 8)
        places = np.searchsorted(sorted_keys, entry_keys).clip(max=len(sorted_keys) - 1)
        for key in np.unique(entry_keys[sorted_keys[places] == entry_keys]).tolist():
            pairs += [(conversation, row) for row in rows[key]]
    return pairs


_LISTED = "(SELECT value FROM json_each(?))"
KEYS_OF = f"SELECT keys FROM entries WHERE conversation IN {_LISTED}"
OTHERS = f"SELECT conversation, keys FROM entries WHERE conversation NOT IN {_LISTED}"


def sharing(connection: sqlite3.Connection, rows: Collection[int]) -> dict[int, int]:
    """For each other conversation, how many entries it shares with the given ones."""
    row_list = json.dumps(sorted(rows))
    own = b"".join(keys for (keys,) in connection.execute(KEYS_OF, (row_list,)))
    own_keys = np.unique(np.frombuffer(own, dtype="<u8"))
    counts: Counter[int] = Counter()
    if not len(own_keys):
        return {}
    for conversation, keys in connection.execute(OTHERS, (row_list,)):
        other_keys = np.frombuffer(keys, dtype="<u8")
        if count := int(np.isin(other_keys, own_keys).sum()):
            counts[conversation] += count
    return dict(counts)


_NAMES = COLUMNS[1:]
_ALL = ", ".join(COLUMNS)

REVISE = "UPDATE state SET revision = revision + 1 RETURNING revision"

# Count a removal; mark that the file still contains removed text.
REMOVED = "UPDATE state SET removals = removals + 1"
UNCLEAN = f"UPDATE state SET unclean = {PAGES_UNCLEAN}"
LATER = f"UPDATE state SET unclean = {UNCLEAN_YET} WHERE unclean <> {PAGES_UNCLEAN}"
HOW_UNCLEAN = "SELECT unclean FROM state"

# The row of a conversation, and the rules that it was read by.
BY_FILE = "SELECT row, rules FROM conversation WHERE file = ?"
BY_ROW = "SELECT row, rules FROM conversation WHERE row = ?"
INSERT = f"INSERT INTO conversation (revision, {', '.join(_NAMES)}) VALUES (?{', ?' * len(_NAMES)})"
UPDATE = f"UPDATE conversation SET revision = ?, {' = ?, '.join(_NAMES)} = ? WHERE row = ?"

# One more than any passage ever had.
NEXT = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'passage'), 0) + 1"
PASSAGE = "INSERT INTO passage (row, conversation, head, length) VALUES (?, ?, ?, ?)"
WORDING = "INSERT INTO wording (row, packed) VALUES (?, ?)"
LEXEMES = "INSERT INTO lexeme (rowid, lexemes) VALUES (?, ?)"
ENTRIES = "INSERT INTO entries (conversation, keys) VALUES (?, ?)"

# Removing a passage from the full text needs its words; they stay in its pages until it is merged.
DROP_LEXEMES = "INSERT INTO lexeme (lexeme, rowid, lexemes) VALUES ('delete', ?, ?)"
MERGE = "INSERT INTO lexeme (lexeme) VALUES ('optimize')"

# Passages of conversations with their words; HEADS only those that describe the whole conversation.
WORDED = f"""
    SELECT passage.row, wording.packed FROM passage JOIN wording ON wording.row = passage.row
    WHERE passage.conversation IN {_LISTED}
"""
HEADS = f"{WORDED} AND passage.head"
LAST = (
    f"{WORDED} AND passage.row = (SELECT max(row) FROM passage WHERE conversation IN {_LISTED} AND head = 0)"
)

# Whether any conversation was read by other rules.
ANY_BY_OTHERS = "SELECT 1 FROM conversation WHERE NOT silent AND rules <> ?"


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """What to write for one conversation; see HistoryIndex.put."""

    conversation: IndexedConversation
    passages: Sequence[Passage]
    uuids: bytes = b""
    leaves: Iterable[tuple[str, str]] = ()
    anew: bool = False


def put(connection: sqlite3.Connection, pieces: Sequence[ConversationPart]) -> list[IndexedConversation]:
    """Write the pieces; returns the conversations with their rows, 0 for one that was removed in the meantime."""
    (revision,) = connection.execute(REVISE).fetchone()
    return [_put(connection, piece, revision) for piece in pieces]


def remove(connection: sqlite3.Connection, rows: Collection[int], *, at_once: bool) -> int:
    """Remove conversations and the summaries about them elsewhere; returns the number of removed passages."""
    row_list = json.dumps(sorted(rows))
    resolve(connection)
    connection.execute(
        f"DELETE FROM leaf WHERE row IN (SELECT leaf FROM summed WHERE conversation IN {_LISTED})",
        (row_list,),
    )
    passages = _empty(connection, row_list)
    removed = connection.execute(f"DELETE FROM conversation WHERE row IN {_LISTED}", (row_list,)).rowcount
    if removed:
        connection.execute(REVISE).fetchone()
        connection.execute(REMOVED)
        if at_once:
            _scrub(connection)
        else:
            connection.execute(LATER)
    return passages


def tidy(connection: sqlite3.Connection) -> None:
    """Mark postponed cleaning as due after this transaction."""
    if connection.execute(HOW_UNCLEAN).fetchone()[0] == UNCLEAN_YET:
        _scrub(connection)


def _put(connection: sqlite3.Connection, piece: ConversationPart, revision: int) -> IndexedConversation:
    conversation, values = piece.conversation, to_row(piece.conversation)
    if conversation.row:
        existing = connection.execute(BY_ROW, (conversation.row,)).fetchone()
    else:
        existing = connection.execute(BY_FILE, (values[0],)).fetchone()
    if existing is None and conversation.row and not piece.anew:  # it was removed
        return replace(conversation, row=0)
    if existing is None:
        row = connection.execute(INSERT, (revision, *values)).lastrowid or 0
    else:
        row, before = existing
        connection.execute(UPDATE, (revision, *values, row))
        if piece.anew:
            _begin_anew(connection, row, left_out=not piece.passages)
            _end_of_others(connection, before, conversation.rules)
        else:
            _make_place(connection, row, piece.passages)
    _add_passages(connection, row, piece.passages)
    if piece.uuids:
        connection.execute(ENTRIES, (row, piece.uuids))
    for uuid, summary in piece.leaves:
        key = uuid_key(uuid)
        connection.execute(DROP, (row, key))
        connection.execute(NOTE, (row, key, storable_text(summary)))
    return replace(conversation, row=row)


def _add_passages(connection: sqlite3.Connection, row: int, passages: Sequence[Passage]) -> None:
    if not passages:
        return
    (first,) = connection.execute(NEXT).fetchone()
    numbered = list(enumerate(passages, first))
    lexemes = {number: indexed(passage) for number, passage in numbered}
    lengths = {number: text.count(" ") + 1 if text else 0 for number, text in lexemes.items()}
    connection.executemany(
        PASSAGE, [(number, row, passage.head, lengths[number]) for number, passage in numbered]
    )
    connection.executemany(WORDING, [(number, pack(passage)) for number, passage in numbered])
    connection.executemany(LEXEMES, list(lexemes.items()))


def _begin_anew(connection: sqlite3.Connection, row: int, *, left_out: bool) -> None:
    """Remove all passages of a conversation; if it is left out from now on, its text is also cleaned away."""
    if _empty(connection, json.dumps([row])):
        connection.execute(REMOVED)
        if left_out:
            _scrub(connection)


def _end_of_others(connection: sqlite3.Connection, before: str, rules: str) -> None:
    """Clean the file once no conversation is read by old rules: text that only those allowed goes."""
    if rules and before != rules and connection.execute(ANY_BY_OTHERS, (rules,)).fetchone() is None:
        _scrub(connection)


def _make_place(connection: sqlite3.Connection, row: int, passages: Sequence[Passage]) -> None:
    """Remove passages that the new ones replace: the head, and the last passage if the first new one continues it."""
    if any(passage.head for passage in passages):
        _drop_passages(connection, HEADS, json.dumps([row]))
    first = next((passage for passage in passages if not passage.head), None)
    if first is not None:
        row_list = json.dumps([row])
        for _, packed in connection.execute(LAST, (row_list, row_list)).fetchall():
            last = unpack(packed, head=False)
            # The time of a step may differ.
            if [step[:3] for step in last.utterances[:1]] == [step[:3] for step in first.utterances[:1]]:
                _drop_passages(connection, LAST, row_list, row_list)


def _empty(connection: sqlite3.Connection, listed: str) -> int:
    """Remove everything of the conversations except their rows; returns the number of passages."""
    passages = _drop_passages(connection, WORDED, listed)
    connection.execute(f"DELETE FROM entries WHERE conversation IN {_LISTED}", (listed,))
    connection.execute(f"DELETE FROM leaf WHERE met_in IN {_LISTED}", (listed,))
    connection.execute(f"DELETE FROM summed WHERE conversation IN {_LISTED}", (listed,))
    connection.execute("DELETE FROM summed WHERE leaf NOT IN (SELECT row FROM leaf)")
    return passages


def _drop_passages(connection: sqlite3.Connection, which: str, *listed: str) -> int:
    rows: list[int] = []
    for row, packed in connection.execute(which, listed).fetchall():
        connection.execute(DROP_LEXEMES, (row, lexemes_of(packed)))
        rows.append(row)
    numbers = json.dumps(rows)
    connection.execute(f"DELETE FROM vector WHERE passage IN {_LISTED}", (numbers,))
    connection.execute(f"DELETE FROM wording WHERE row IN {_LISTED}", (numbers,))
    connection.execute(f"DELETE FROM passage WHERE row IN {_LISTED}", (numbers,))
    return len(rows)


def _scrub(connection: sqlite3.Connection) -> None:
    connection.execute(MERGE)
    connection.execute(UNCLEAN)


REVISION = "SELECT removals, revision FROM state"

# Conversations that changed since a revision.
CHANGED = f"SELECT {_ALL} FROM conversation WHERE revision > ?"

ONE = f"SELECT {_ALL} FROM conversation WHERE row = ?"

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
LAST_TURNS = """
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
        # Removals and revision of the cached conversations, these by row, and the latest first.
        self._removals, self._revision = 0, -1
        self._by_row: dict[int, IndexedConversation] = {}
        self._ordered: list[IndexedConversation] = []

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
        pieces = [ConversationPart(*row) for row in found]
        return self._file.write(lambda connection: put(connection, pieces)) if pieces else []

    def remove(self, rows: Collection[int], *, at_once: bool = True) -> int:
        if not rows or not self._file.path.exists():
            return 0
        return self._file.write(lambda connection: remove(connection, rows, at_once=at_once))

    def tidy(self) -> None:
        if self._file.read(lambda connection: connection.execute(HOW_UNCLEAN).fetchone()[0]):
            with suppress(StoreBusy, StoreFull, StoreReadOnly):  # it can wait
                self._file.write(tidy)

    def sharing(self, rows: Collection[int]) -> dict[int, int]:
        return self._file.read(lambda connection: sharing(connection, rows)) if rows else {}

    def leaf_summaries(self) -> dict[int, str]:
        if self._file.read(is_unsought):
            # If that fails, the summaries found before are an answer too.
            with suppress(StoreBusy, StoreFull, StoreReadOnly):
                self._file.write(resolve)
        return dict(self._file.read(lambda connection: connection.execute(SUMMARIES).fetchall()))

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
        rows = self._file.read(lambda connection: _passages(connection, LAST_TURNS, conversation))
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
            if removals != self._removals or revision < self._revision:
                self._revision, self._by_row = -1, {}
            if revision != self._revision:
                changed = [from_row(row) for row in connection.execute(CHANGED, (self._revision,))]
                self._by_row |= {conversation.row: conversation for conversation in changed}
                self._ordered = sorted(self._by_row.values(), key=_ended, reverse=True)
                self._removals, self._revision = removals, revision
            return list(self._ordered)


def _passages(
    connection: sqlite3.Connection, statement: str, *values: str | int
) -> list[tuple[int, Passage]]:
    records = connection.execute(statement, values)
    return [(row, unpack(packed, head=bool(head))) for row, head, packed in records]


def _ended(conversation: IndexedConversation) -> tuple[float, int]:
    ended = conversation.ended
    return (ended.timestamp() if ended is not None else float("-inf"), conversation.row)
