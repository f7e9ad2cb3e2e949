"""The file of the history index: schema, connections, and the mapping of conversations and passages to rows.

All its content is derived from transcripts.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged
from mindhold.ports.history import ConversationLabel, IndexedConversation, IndexedStep, Passage
from mindhold.ports.transcripts import Role, TranscriptCursor
from mindhold.stores.columns import from_micros, from_optional_micros, to_micros
from mindhold.stores.sqlite_file import make_private, primary_code, transaction, translated, until_free

VERSION = 2
PAGES_UNCLEAN, LOG_UNCLEAN = 2, 1  # where removed text may still be
UNCLEAN_YET = 3  # in pages too, but cleaning can wait

# Passage rows are never reused, so that cached data of one passage never applies to another.
_TABLES = (
    # `removals` counts removals of passages. It starts at a random number, so that two files are never confused.
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
    # Eight bytes for each entry of a conversation, one row for each piece of it that was read.
    """
    CREATE TABLE entries (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL,
        keys BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX entries_conversation ON entries (conversation)",
    # A summary found in one conversation about an entry; entries up to the row `sought` were searched for it.
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
    # The conversations that contain the entry of a summary.
    """
    CREATE TABLE summed (
        conversation INTEGER NOT NULL,
        leaf INTEGER NOT NULL,
        PRIMARY KEY (conversation, leaf)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE model (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    # `row` shows which vectors are new since a process last looked.
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

# All tables that aren't SQLite's own; those of the full text are dropped with it.
_OTHERS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def make(connection: sqlite3.Connection) -> None:
    """Create the tables in one transaction, replacing an earlier version's; a current schema stays."""
    with transaction(connection):
        if version_of(connection) >= VERSION:  # another process was quicker
            return
        while table := connection.execute(f"{_OTHERS} ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC").fetchone():
            connection.execute(f'DROP TABLE "{table[0]}"')
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Identity = tuple[int, int] | None

_MOST_IDLE = 4
_PAGE_BYTES = 8192
_LOG_BYTES = 16 << 20
_CLEANING_MS = 2_000  # how long cleaning waits for readers
_CLEANING_PAUSE = 60.0  # seconds until failed cleaning is tried again
_UNOPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)

log = logging.getLogger(__name__)


class HistoryFile:
    """The file of the index. `most_pages` limits its size."""

    def __init__(self, path: Path, *, busy_timeout_ms: int, most_pages: int | None) -> None:
        self.path = path.absolute()
        self._busy_timeout_ms = busy_timeout_ms
        self._most_pages = most_pages
        self._lock = threading.Lock()  # guards _identity and _idle
        self._identity: Identity = None
        self._idle: list[sqlite3.Connection] = []
        self._writing = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._written: Identity = None
        # By monotonic(): the earliest time of the next try after a failure.
        self._rewritten_from = self._waited_from = 0.0

    def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent view; on an empty index if the file is missing or damaged."""
        for _ in range(2):
            identity = self._look()
            try:
                return self._read(work, identity)
            except StoreDamaged as error:
                self._discard(error, identity)
        return self._read_nothing(work)

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction.

        If the file is damaged it is deleted and StoreDamaged is raised once: what the caller knew of the
        index is void.
        """
        with self._writing:
            identity = _identity(self.path)
            try:
                with translated(self.path):
                    connection = self._opened_writer()
                    with transaction(connection):
                        result = work(connection)
                    self._clean(connection)
                    return result
            except StoreDamaged as error:
                if not self._discard(error, identity):
                    raise StoreBusy(
                        f"The index of past conversations {self.path} is damaged, and can't be deleted to be made anew.",
                        advice="End other programs that have it open, such as `mindhold serve`, or delete the file.",
                    ) from error
                raise StoreDamaged(
                    f"The index of past conversations {self.path} was damaged and is made anew.",
                    advice="`mindhold history index` fills it again.",
                ) from error

    def bytes_on_disk(self) -> int:
        """The bytes of the file and its log."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += Path(f"{self.path}{suffix}").stat().st_size
        return total

    def close(self) -> None:
        """Close all connections. Idempotent; the next use opens the file again."""
        with self._writing:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _read(self, work: Work[T], identity: Identity) -> T:
        if identity is None:
            return self._read_nothing(work)
        with translated(self.path):
            connection, reusable = self._reader()
            try:
                connection.execute("BEGIN")
                version = version_of(connection)
                if version > VERSION:
                    raise _too_new(self.path)
                if version == VERSION:
                    return work(connection)
            except BaseException:
                reusable = False
                raise
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection, identity if reusable else None)
        return self._read_nothing(work)

    def _read_nothing(self, work: Work[T]) -> T:
        """Run `work` on an empty index in memory."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            make(connection)
            return work(connection)

    def _reader(self) -> tuple[sqlite3.Connection, bool]:
        """A connection for reading, and whether it may be reused."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        connection = self._connect(str(self.path))
        try:
            connection.execute("PRAGMA query_only = on")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return connection, True
        except sqlite3.OperationalError as error:
            connection.close()
            if primary_code(error) not in _UNOPENED:
                raise
        # The disk or the folder is read-only: nobody can be writing.
        return self._connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True), False

    def _give_back(self, connection: sqlite3.Connection, identity: Identity) -> None:
        with self._lock:
            if identity is not None and identity == self._identity and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _look(self) -> Identity:
        """The identity of the current file; connections to another one are closed."""
        identity = _identity(self.path)
        with self._lock:
            if identity == self._identity:
                return identity
            self._identity = identity
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        return identity

    def _opened_writer(self) -> sqlite3.Connection:
        if self._writer is not None:
            if self._written == _identity(self.path) and version_of(self._writer) == VERSION:
                return self._writer
            self._writer.close()
            self._writer = None
        make_private(self.path)
        connection = self._connect(str(self.path))
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            until_free(
                lambda: connection.execute("PRAGMA journal_mode = wal").fetchone(),
                busy_timeout_ms=self._busy_timeout_ms,
            )
            connection.execute("PRAGMA synchronous = normal")
            connection.execute("PRAGMA secure_delete = on")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute("PRAGMA cache_size = -16000")
            if self._most_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            if version_of(connection) > VERSION:
                raise _too_new(self.path)
            until_free(lambda: make(connection), busy_timeout_ms=self._busy_timeout_ms)
        except BaseException:
            connection.close()
            raise
        self._writer, self._written = connection, _identity(self.path)
        return connection

    def _connect(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(
            name, timeout=self._busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False, uri=uri
        )

    def _clean(self, connection: sqlite3.Connection) -> None:
        """Remove deleted text from the gaps of pages (VACUUM) and from the log, which waits for readers.

        What fails now is tried again after a later write.
        """
        (unclean,) = connection.execute("SELECT unclean FROM state").fetchone()
        now = time.monotonic()
        if unclean in (0, UNCLEAN_YET) or (unclean == PAGES_UNCLEAN and now < self._rewritten_from):
            return
        waits = min(_CLEANING_MS, self._busy_timeout_ms) if now >= self._waited_from else 0
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA busy_timeout = {waits}")
            if unclean == PAGES_UNCLEAN:
                self._rewritten_from = now + _CLEANING_PAUSE
                connection.execute("VACUUM")
                connection.execute("UPDATE state SET unclean = ?", (LOG_UNCLEAN,))
                self._rewritten_from = 0.0
            self._waited_from = now + _CLEANING_PAUSE
            if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                connection.execute("UPDATE state SET unclean = 0")
                self._waited_from = 0.0
        connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")

    def _discard(self, error: StoreDamaged, identity: Identity) -> bool:
        """Delete the damaged file, unless another process already did; returns whether it is gone."""
        self.close()
        if identity is None or identity != _identity(self.path):
            return True
        log.warning("%s It is derived, and made anew.", error.message)
        # It stays on a read-only disk, and on Windows while another process has it open, and is then read as empty.
        for suffix in ("-wal", "-shm", ""):
            with suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()
        return identity != _identity(self.path)


def _identity(path: Path) -> Identity:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _too_new(path: Path) -> SchemaTooNew:
    return SchemaTooNew(
        f"The index of past conversations {path} is of a newer Mindhold.",
        advice="Use that one, or delete the file: it is made anew from the conversations.",
    )


# Fields that have a column of their name each, by kind.
_TEXTS = ("session_id", "source", "folder", "project", "part_of", "model", "rules")
_NUMBERS = ("size", "modified", "note_modified", "prompts", "archived")
_FLAGS = ("skipping", "silent", "gone")
_MOMENTS = ("started", "ended")
COLUMNS = (
    *("row", "file", "bad_lines", "cursor_offset", "cursor_line", "cursor_mark"),
    *("title", "title_by", "summary", "summary_by", *_TEXTS, *_NUMBERS, *_FLAGS, *_MOMENTS),
)

_LEVEL = 3
_LENGTH = struct.Struct("<I")  # bytes of the lexemes, which come first: they are often read alone
_ROLES = {role.value: role for role in Role}


def to_row(conversation: IndexedConversation) -> tuple[Any, ...]:
    """The values of COLUMNS after `row`."""
    cursor, title, summary = conversation.cursor, conversation.title, conversation.summary
    return (
        os.fsencode(conversation.file),
        json.dumps(conversation.bad_lines),
        cursor.offset,
        cursor.line,
        storable_text(cursor.mark),
        storable_text(title.text),
        title.by,
        storable_text(summary.text),
        summary.by,
        *(storable_text(getattr(conversation, name)) for name in _TEXTS),
        *(getattr(conversation, name) for name in (*_NUMBERS, *_FLAGS)),
        *(_micros(getattr(conversation, name)) for name in _MOMENTS),
    )


def from_row(values: Sequence[Any]) -> IndexedConversation:
    """The conversation from the values of COLUMNS."""
    row, file, bad_lines, offset, line, mark, title, title_by, summary, summary_by, *rest = values
    fields = dict(zip((*_TEXTS, *_NUMBERS, *_FLAGS, *_MOMENTS), rest, strict=True))
    for name in _FLAGS:
        fields[name] = bool(fields[name])
    for name in _MOMENTS:
        fields[name] = from_optional_micros(fields[name])
    return IndexedConversation(
        row=row,
        file=Path(os.fsdecode(file)),
        bad_lines=tuple(json.loads(bad_lines)) if bad_lines != "[]" else (),
        cursor=TranscriptCursor(offset, line, mark),
        title=ConversationLabel(title, title_by),
        summary=ConversationLabel(summary, summary_by),
        **fields,
    )


def pack(passage: Passage) -> bytes:
    """Pack lexemes and utterances, compressed together because they share most words."""
    steps = [
        [role, line, text, _micros(timestamp), *((tool, 1) if failed else (tool,) if tool else ())]
        for role, line, text, timestamp, tool, failed in passage.utterances
    ]
    text = json.dumps(steps, ensure_ascii=False, separators=(",", ":"))
    lexemes = indexed(passage).encode()
    return _LENGTH.pack(len(lexemes)) + zlib.compress(
        lexemes + text.encode("utf-8", "surrogatepass"), level=_LEVEL
    )


def unpack(packed: bytes, *, head: bool) -> Passage:
    """Unpack what pack() returned."""
    (length,) = _LENGTH.unpack_from(packed)
    content = zlib.decompress(memoryview(packed)[_LENGTH.size :])
    steps = json.loads(content[length:].decode("utf-8", "surrogatepass"))
    return Passage(tuple(_utterance(*step) for step in steps), content[:length].decode(), head)


def lexemes_of(packed: bytes) -> str:
    """The lexemes of a packed passage."""
    (length,) = _LENGTH.unpack_from(packed)
    if not length:
        return ""
    return zlib.decompressobj().decompress(memoryview(packed)[_LENGTH.size :], length).decode()


def indexed(passage: Passage) -> str:
    """The lexemes in the form that the file stores."""
    return storable_text(passage.lexemes)


def storable_text(text: str) -> str:
    """Replace unpaired surrogates, which JSON allows and a database doesn't, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _utterance(
    role: str, line: int, text: str, timestamp: int | None, tool: str = "", failed: int = 0
) -> IndexedStep:
    when = None if timestamp is None else from_micros(timestamp)
    return IndexedStep(_ROLES[role], line, text, when, tool, bool(failed))


def _micros(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    return to_micros(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
