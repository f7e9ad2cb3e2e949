"""Writes conversations to the history index and removes them, with the summaries and entries they share."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mindhold.ports.history import IndexedConversation, Passage
from mindhold.ports.transcripts import uuid_key
from mindhold.stores.history.connection import (
    COLUMNS,
    PAGES_UNCLEAN,
    UNCLEAN_YET,
    indexed,
    lexemes_of,
    pack,
    storable_text,
    to_row,
    unpack,
)

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


def note_summaries(
    connection: sqlite3.Connection, conversation: int, leaves: Iterable[tuple[str, str]]
) -> None:
    """Store the summaries found in a conversation, within the caller's transaction."""
    for uuid, summary in leaves:
        key = uuid_key(uuid)
        connection.execute(DROP, (conversation, key))
        connection.execute(NOTE, (conversation, key, storable_text(summary)))


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


def summaries(connection: sqlite3.Connection) -> dict[int, str]:
    """The latest summary about each conversation."""
    return dict(connection.execute(SUMMARIES))


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


_NAMES = COLUMNS.split(", ")[1:]

REVISE = "UPDATE state SET revision = revision + 1 RETURNING revision"

# Count a removal; mark that the file still contains removed text.
REMOVED = "UPDATE state SET removals = removals + 1"
UNCLEAN = f"UPDATE state SET unclean = {PAGES_UNCLEAN}"
LATER = f"UPDATE state SET unclean = {UNCLEAN_YET} WHERE unclean <> {PAGES_UNCLEAN}"
HOW_UNCLEAN = "SELECT unclean FROM state"

ROW_OF = "SELECT row FROM conversation WHERE file = ?"
IS_THERE = "SELECT 1 FROM conversation WHERE row = ?"
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

# The rules that a conversation was read by; whether any was read by others.
RULES_OF = "SELECT rules FROM conversation WHERE row = ?"
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


def is_unclean(connection: sqlite3.Connection) -> bool:
    """Whether the file may still contain removed text."""
    return bool(connection.execute(HOW_UNCLEAN).fetchone()[0])


def tidy(connection: sqlite3.Connection) -> None:
    """Mark postponed cleaning as due after this transaction."""
    if connection.execute(HOW_UNCLEAN).fetchone()[0] == UNCLEAN_YET:
        _scrub(connection)


def _put(connection: sqlite3.Connection, piece: ConversationPart, revision: int) -> IndexedConversation:
    existing = _row_of(connection, piece.conversation)
    if existing is None and piece.conversation.row and not piece.anew:
        return replace(piece.conversation, row=0)
    values = to_row(piece.conversation)
    if existing is None:
        row = connection.execute(INSERT, (revision, *values)).lastrowid or 0
    else:
        row = existing
        (before,) = connection.execute(RULES_OF, (row,)).fetchone()
        connection.execute(UPDATE, (revision, *values, row))
        if piece.anew:
            _begin_anew(connection, row, left_out=not piece.passages)
            _end_of_others(connection, before, piece.conversation.rules)
        else:
            _make_place(connection, row, piece.passages)
    _add_passages(connection, row, piece.passages)
    if piece.uuids:
        connection.execute(ENTRIES, (row, piece.uuids))
    note_summaries(connection, row, piece.leaves)
    return replace(piece.conversation, row=row)


def _row_of(connection: sqlite3.Connection, conversation: IndexedConversation) -> int | None:
    """The row of the conversation; None if it was removed or isn't stored yet."""
    if conversation.row:
        exists = connection.execute(IS_THERE, (conversation.row,)).fetchone()
        return conversation.row if exists else None
    record = connection.execute(ROW_OF, (to_row(conversation)[0],)).fetchone()
    return None if record is None else int(record[0])


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
            if _begin_alike(unpack(packed, head=False), first):
                _drop_passages(connection, LAST, row_list, row_list)


def _begin_alike(one: Passage, other: Passage) -> bool:
    firsts = [
        [(step.role, step.line, step.text) for step in passage.utterances[:1]] for passage in (one, other)
    ]
    return firsts[0] == firsts[1]


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
