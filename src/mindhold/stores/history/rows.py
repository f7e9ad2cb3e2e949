"""How conversations and passages look in the file."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mindhold.ports.history import Conversation, Passage, Told, Utterance
from mindhold.ports.transcripts import Cursor, Role
from mindhold.stores.values import from_micros, from_optional_micros, to_micros

COLUMNS = (
    "row, file, session_id, source, size, modified, note_modified, cursor_offset, cursor_line, cursor_mark, folder, "
    "project, part_of, title, title_by, summary, summary_by, model, started, ended, prompts, bad_lines, skipping, "
    "silent, gone, archived, rules"
)

_LEVEL = 3
_LENGTH = struct.Struct("<I")  # of the lexemes in bytes: they come first, and are often wanted alone
_ROLES = {role.value: role for role in Role}


def to_row(conversation: Conversation) -> tuple[Any, ...]:
    """The values of COLUMNS after `row`."""
    cursor, title, summary = conversation.cursor, conversation.title, conversation.summary
    return (
        os.fsencode(conversation.file),
        storable_text(conversation.session_id),
        conversation.source,
        conversation.size,
        conversation.modified,
        conversation.note_modified,
        cursor.offset,
        cursor.line,
        storable_text(cursor.mark),
        storable_text(conversation.folder),
        storable_text(conversation.project),
        storable_text(conversation.part_of),
        storable_text(title.text),
        title.by,
        storable_text(summary.text),
        summary.by,
        storable_text(conversation.model),
        _micros(conversation.started),
        _micros(conversation.ended),
        conversation.prompts,
        json.dumps(conversation.bad_lines),
        conversation.skipping,
        conversation.silent,
        conversation.gone,
        conversation.archived,
        conversation.rules,
    )


def from_row(row: Sequence[Any]) -> Conversation:
    """From the values of COLUMNS."""
    return Conversation(
        row=row[0],
        file=Path(os.fsdecode(row[1])),
        session_id=row[2],
        source=row[3],
        size=row[4],
        modified=row[5],
        note_modified=row[6],
        cursor=Cursor(row[7], row[8], row[9]),
        folder=row[10],
        project=row[11],
        part_of=row[12],
        title=Told(row[13], row[14]),
        summary=Told(row[15], row[16]),
        model=row[17],
        started=from_optional_micros(row[18]),
        ended=from_optional_micros(row[19]),
        prompts=row[20],
        bad_lines=tuple(json.loads(row[21])) if row[21] != "[]" else (),
        skipping=bool(row[22]),
        silent=bool(row[23]),
        gone=bool(row[24]),
        archived=row[25],
        rules=row[26],
    )


def pack(passage: Passage) -> bytes:
    """Lexemes, then what was said, compressed together: the ones say most of the others."""
    said = [[one.role, one.line, one.text, _micros(one.timestamp), *_rest(one)] for one in passage.utterances]
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    lexemes = indexed(passage).encode()
    return _LENGTH.pack(len(lexemes)) + zlib.compress(
        lexemes + text.encode("utf-8", "surrogatepass"), level=_LEVEL
    )


def unpack(packed: bytes, *, head: bool) -> Passage:
    """What pack() was given."""
    (length,) = _LENGTH.unpack_from(packed)
    whole = zlib.decompress(memoryview(packed)[_LENGTH.size :])
    said = json.loads(whole[length:].decode("utf-8", "surrogatepass"))
    return Passage(tuple(_utterance(*one) for one in said), whole[:length].decode(), head)


def lexemes_of(packed: bytes) -> str:
    """The lexemes alone."""
    (length,) = _LENGTH.unpack_from(packed)
    if not length:
        return ""
    return zlib.decompressobj().decompress(memoryview(packed)[_LENGTH.size :], length).decode()


def indexed(passage: Passage) -> str:
    """The lexemes as the file takes them."""
    return storable_text(passage.lexemes)


def storable_text(text: str) -> str:
    """Half of a surrogate pair, which JSON can hold and a database can't, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _rest(one: Utterance) -> tuple[str | int, ...]:
    if one.failed:
        return (one.tool, 1)
    return (one.tool,) if one.tool else ()


def _utterance(
    role: str, line: int, text: str, timestamp: int | None, tool: str = "", failed: int = 0
) -> Utterance:
    when = None if timestamp is None else from_micros(timestamp)
    return Utterance(_ROLES[role], line, text, when, tool, bool(failed))


def _micros(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    return to_micros(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
