"""Health of the file: facts, integrity checks, repair of derived data, and secure deletion."""

from __future__ import annotations

import sqlite3
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from mindhold.model.errors import StoreBusy, StoreDamaged
from mindhold.ports.store import REPAIR, Receipt, StoreFacts, StoreFinding
from mindhold.stores.columns import phrase_forms
from mindhold.stores.sqlite.connection import SqlitePart, latest, version_of
from mindhold.stores.sqlite.records import SET_CODE
from mindhold.stores.sqlite.rows import count_wrong, note_keywords
from mindhold.stores.sqlite_file import primary_code, sibling_path
from mindhold.stores.vectors import decode, encode, same_code

_LARGE_LOG = 256 << 20
DAMAGED = "`mindhold doctor --repair` saves what can be read into a new file and keeps this one aside."

# Rows without a record, and links with a missing end.
ORPHANS = {
    "tag": "memory NOT IN (SELECT row FROM memory)",
    "keyword": "memory NOT IN (SELECT row FROM memory)",
    "version": "memory NOT IN (SELECT row FROM memory)",
    "vector": "row NOT IN (SELECT row FROM memory)",
    "vector_code": "row NOT IN (SELECT row FROM memory)",
    "link": "origin NOT IN (SELECT row FROM memory) OR target NOT IN (SELECT row FROM memory)",
}

# Vectors without codes, codes without vectors, or with a record that names another model.
UNPAIRED = """
    SELECT count(*) FROM (
        SELECT vector.row FROM vector LEFT JOIN vector_code USING (row)
        WHERE vector_code.model IS NOT vector.model
        UNION SELECT vector_code.row FROM vector_code LEFT JOIN vector USING (row)
        WHERE vector.model IS NOT vector_code.model
        UNION SELECT memory.row FROM memory LEFT JOIN vector USING (row)
        WHERE vector.model IS NOT memory.embedded_by
    )
"""

# Compare the full-text index with the records.
CHECK_TEXT = "INSERT INTO lexeme (lexeme, rank) VALUES ('integrity-check', 1)"

# Rebuild the full-text index from the records.
REBUILD_TEXT = "INSERT INTO lexeme (lexeme) VALUES ('rebuild')"

# The tables of SQLite's statistics, if there are any.
STATISTICS = "SELECT name FROM sqlite_schema WHERE name IN ('sqlite_stat1', 'sqlite_stat4')"

# Merge the full-text index, so that it contains no words of erased records.
MERGE_TEXT = "INSERT INTO lexeme (lexeme) VALUES ('optimize')"

# Merge a bounded part of the full-text index, so that it is read faster.
MERGE_SOME = "INSERT INTO lexeme (lexeme, rank) VALUES ('merge', 500)"

# Set the record's model to the one that made its vector, or none.
RENAME_MODELS = """
    UPDATE memory SET embedded_by = (SELECT model FROM vector WHERE vector.row = memory.row),
        revision = (SELECT value FROM counter WHERE name = 'revision')
    WHERE embedded_by IS NOT (SELECT model FROM vector WHERE vector.row = memory.row)
"""

# The next vectors with their codes.
VECTORS_AFTER = """
    SELECT vector.row, vector.model, exact, vector_code.model, code
    FROM vector LEFT JOIN vector_code USING (row) WHERE vector.row > ? ORDER BY vector.row LIMIT 1000
"""

# Make in-memory indexes read a record again.
MARK_CHANGED = (
    "UPDATE memory SET revision = (SELECT value FROM counter WHERE name = 'revision') WHERE row = ?"
)


class SqliteUpkeep(SqlitePart):
    """Implements StoreAdmin."""

    async def facts(self) -> StoreFacts:
        path = self._database.path
        pragmas = ("journal_mode", "page_size", "page_count", "freelist_count")

        def work(connection: sqlite3.Connection) -> StoreFacts:
            details = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas}
            details["sqlite"] = sqlite3.sqlite_version
            details["durability"] = self._database.durability
            details["wal_bytes"] = _size(sibling_path(path, "-wal"))
            return StoreFacts(
                kind="sqlite",
                location=str(path),
                schema_version=version_of(connection),
                bytes_used=_whole_size(path),
                details=details,
                collection="memory",
                vector_index="vector_code",
            )

        return await self._database.read(work)

    async def check(self) -> list[StoreFinding]:
        # On the writer's connection, since comparing the full-text index is formally a write.
        try:
            findings = await self._database.alone(_findings)
        except StoreDamaged as error:
            findings = [StoreFinding("file", False, error.message, DAMAGED)]
        return [*findings, *file_findings(self._database.path)]

    async def repair(self) -> list[str]:
        return await self._database.write(mend)

    async def optimise(self) -> int:
        path = self._database.path

        def work(connection: sqlite3.Connection) -> int:
            before = _whole_size(path)
            connection.execute(MERGE_SOME)
            _drop_statistics(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return max(0, before - _whole_size(path))

        return await self._database.alone(work)

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        path = self._database.path
        forms = [form.encode("utf-8", "surrogatepass") for form in phrase_forms(phrases)]

        def work(connection: sqlite3.Connection) -> Receipt:
            before = _whole_size(path)
            connection.execute(MERGE_TEXT)
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if busy:
                raise StoreBusy(
                    f"Another process reads the database {path}, so that old bytes can't be cleared.",
                    advice="End the other processes that use it, then run it again.",
                )
            return Receipt(
                ids=(),
                removed={"bytes": max(0, before - _whole_size(path))},
                remaining={place: occurrences(file, forms) for place, file in _files(path).items()},
            )

        return await self._database.alone(work)


def _drop_statistics(connection: sqlite3.Connection) -> None:
    """Remove statistics. Those of a small table lead to bad self-joins when it is large; without any, plans stay the same."""
    for (name,) in connection.execute(STATISTICS).fetchall():
        connection.execute(f'DELETE FROM "{name}"')


def _findings(connection: sqlite3.Connection) -> list[StoreFinding]:
    version = version_of(connection)
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
    dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
    count = connection.execute("SELECT count(*) FROM memory").fetchone()[0]
    vectors = connection.execute("SELECT count(*) FROM vector").fetchone()[0]
    unpaired = connection.execute(UNPAIRED).fetchone()[0]
    wrong_keywords = count_wrong(connection)
    orphans = {
        table: connection.execute(f"SELECT count(*) FROM {table} WHERE {orphaned}").fetchone()[0]
        for table, orphaned in ORPHANS.items()
    }
    return [
        StoreFinding("schema", version == latest(), f"version {version}"),
        StoreFinding(
            "file", not problems, "; ".join(problems) or "every page is sound", DAMAGED if problems else ""
        ),
        StoreFinding.derived("references", dangling, f"{len(dangling)} dangling"),
        _text_finding(connection),
        StoreFinding.derived(
            "keywords",
            wrong_keywords,
            f"{wrong_keywords} memories are found by others than theirs",
            "they agree with the records",
        ),
        *(
            StoreFinding.derived(f"{table} rows", number, f"{number} belong to no memory")
            for table, number in orphans.items()
        ),
        StoreFinding.derived(
            "vectors",
            unpaired,
            f"{vectors} of {count} memories have one" + (f"; {unpaired} don't fit" if unpaired else ""),
        ),
    ]


def _text_finding(connection: sqlite3.Connection) -> StoreFinding:
    try:
        connection.execute(CHECK_TEXT)
    except sqlite3.DatabaseError as error:
        if primary_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return StoreFinding("full text", False, f"the index differs from the records ({error})", REPAIR)
    return StoreFinding("full text", True, "the index agrees with the records")


def file_findings(path: Path) -> list[StoreFinding]:
    """Findings about the files of the database: their permissions, and the length of the log."""
    log = _size(sibling_path(path, "-wal"))
    large = log > _LARGE_LOG
    advice = "A process has been reading for long; end it, and the log shrinks." if large else ""
    findings = [StoreFinding("write-ahead log", not large, f"{log} bytes", advice)]
    if sys.platform != "win32":
        mode = stat.S_IMODE(path.stat().st_mode)
        private = not mode & 0o077
        advice = "" if private else f"`chmod 600 '{path}'` keeps it to yourself."
        findings.append(StoreFinding("permissions", private, f"{mode:o}", advice))
    return findings


def mend(connection: sqlite3.Connection) -> list[str]:
    """Rebuild derived data within the caller's transaction and return what was done."""
    actions = [_reindex(connection)]
    for table, orphaned in ORPHANS.items():
        dropped = connection.execute(f"DELETE FROM {table} WHERE {orphaned}").rowcount
        actions.append(f"Dropped {dropped} rows of {table} that belonged to no memory.")
    connection.execute(REBUILD_TEXT)
    actions.append("Built the full-text index anew.")
    actions.append(f"Noted the keywords of {note_keywords(connection)} memories anew.")
    connection.execute("UPDATE counter SET value = value + 1 WHERE name = 'revision'")
    connection.execute("DELETE FROM vector_code WHERE row NOT IN (SELECT row FROM vector)")
    renamed = connection.execute(RENAME_MODELS).rowcount
    actions.append(f"Corrected which model {renamed} memories name.")
    actions.append(f"Made {_recode(connection)} vector codes anew.")
    return actions


def _reindex(connection: sqlite3.Connection) -> str:
    """Rebuild the indexes. Comes first, because the following steps use them."""
    try:
        connection.execute("REINDEX")
    except sqlite3.IntegrityError as error:
        raise StoreDamaged(f"The records contradict each other ({error}).", advice=DAMAGED) from error
    return "Built the indexes of the tables anew."


def _recode(connection: sqlite3.Connection) -> int:
    """Rebuild missing codes and those that differ from their vectors."""
    changed, last = 0, -1
    while rows := connection.execute(VECTORS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        stale = []
        for row, model, exact, coded_by, code in rows:
            fresh = encode(decode(exact))[1]
            if coded_by != model or not same_code(code, fresh):
                stale.append((row, model, fresh))
        connection.executemany(SET_CODE, stale)
        connection.executemany(MARK_CHANGED, [(row,) for row, _, _ in stale])
        changed += len(stale)
    return changed


def _files(path: Path) -> dict[str, Path]:
    return {
        "database": path,
        "write-ahead log": sibling_path(path, "-wal"),
        "shared memory": sibling_path(path, "-shm"),
    }


def _whole_size(path: Path) -> int:
    return sum(map(_size, _files(path).values()))


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def occurrences(file: Path, wanted: Sequence[bytes], *, chunk_size: int = 1 << 20) -> int:
    """The number of occurrences of the bytes in the file, read piece by piece."""
    if not wanted or not file.exists():
        return 0
    overlap = max(len(form) for form in wanted) - 1
    count, tail = 0, b""
    with file.open("rb") as stream:
        while chunk := stream.read(chunk_size):
            window = tail + chunk
            for form in wanted:
                inside = max(0, len(tail) - len(form) + 1)  # matches entirely in the tail were counted before
                count += window.count(form, inside)
            tail = window[-overlap:] if overlap else b""
    return count
