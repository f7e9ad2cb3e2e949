"""Copies of transcripts, before the program that wrote them deletes them: with consent, compressed, within a room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recollect.engine.core import Engine
from recollect.engine.history.apart import apart
from recollect.engine.history.archive_names import archive_name
from recollect.engine.history.forgotten import forgotten_sessions
from recollect.engine.history.held import in_turn
from recollect.engine.history.recovering import drop_note, note_copy, recover
from recollect.model.errors import RecollectError, StoreBusy
from recollect.ports.history import Archived, Conversation
from recollect.ports.transcripts import Check

MADE_ROOM = -1  # Conversation.archived of one whose copy went for others: it isn't copied again
EARLIER = "~"  # before the number of a copy whose file was replaced by another


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What was copied, what made room, and what can't be kept. `busy`: another process is at it, nothing was done."""

    conversations: int = 0
    bytes: int = 0
    on_disk: int = 0
    room: int = 0
    evicted: tuple[Conversation, ...] = ()
    too_big: tuple[Conversation, ...] = ()
    problems: tuple[str, ...] = ()
    busy: bool = False


async def archive_history(engine: Engine, *, rows: Sequence[Conversation] | None = None) -> ArchiveReport:
    """Copy what has grown of every transcript that is indexed, sub-agents' too; the oldest conversations make room.

    With `rows` only those, by a caller whose turn it is to write the index (recollect.engine.history.turn).
    """
    if rows is not None:
        return await _in_turn(engine, rows)
    try:
        async with in_turn(engine):
            return await _in_turn(engine, None)
    except StoreBusy:
        return ArchiveReport(busy=True, room=engine.policy.history.archive_room)


async def _in_turn(engine: Engine, rows: Sequence[Conversation] | None) -> ArchiveReport:
    forgotten = await forgotten_sessions(engine)
    known = await asyncio.to_thread(engine.history.conversations)
    if rows is None or len(known) <= len(rows):  # or an index that was just begun: the copies know more
        await recover(engine, known, forgotten=forgotten)
    chosen = known if rows is None else rows
    report, fresh = await apart(lambda check: _archive(engine, chosen, forgotten, check))
    for one in fresh:
        await note_copy(engine, one)
    for one in report.evicted:
        await drop_note(engine, archive_name(one))
    return report


def _archive(
    engine: Engine, rows: Sequence[Conversation], forgotten: set[str], check: Check
) -> tuple[ArchiveReport, list[Conversation]]:
    """And those whose first copy it is."""
    room = engine.policy.history.archive_room
    conversations, size = 0, 0
    too_big: list[Conversation] = []
    problems: list[str] = []
    fresh: list[Conversation] = []
    for one in _growing(rows, forgotten):
        check()
        try:
            if one.file.stat().st_size > room:
                too_big.append(one)
                continue
            now = engine.archive.add(archive_name(one), one.file, start=one.archived)
        except (OSError, RecollectError) as error:
            problems.append(f"{one.file}: {_reason(error)}")
            continue
        if now != one.archived:
            conversations += 1
            size += now - one.archived if now > one.archived else now
            _note(engine, one, archived=now)
            if one.archived <= 0:
                fresh.append(one)
    evicted = _make_room(engine, room)
    on_disk = sum(copy.on_disk for copy in engine.archive.all())
    found = tuple(evicted), tuple(too_big), tuple(problems)
    return ArchiveReport(conversations, size, on_disk, room, *found), fresh


def _growing(rows: Sequence[Conversation], forgotten: set[str]) -> Iterator[Conversation]:
    """Those with something that has no copy yet, as far as they are indexed; the newest first."""
    for one in rows:
        left_out = one.silent or one.gone or one.archived == MADE_ROOM or one.belongs_to in forgotten
        if not left_out and one.size != one.archived:
            yield one


def _make_room(engine: Engine, room: int) -> list[Conversation]:
    """Let the copies of the oldest conversations go until the others fit."""
    copies = {copy.name: copy for copy in engine.archive.all()}
    used = sum(copy.on_disk for copy in copies.values())
    if used <= room:
        return []
    known = {archive_name(one): one for one in engine.history.conversations() if one.archived > 0}
    went: list[Conversation] = []
    for copy in sorted(copies.values(), key=lambda copy: _age(copy, known.get(copy.name))):
        if used <= room:
            break
        if copy.name not in copies:
            continue
        engine.archive.remove(copy.name)
        # Those of the same file that were replaced go with it.
        for name in [name for name in copies if name.startswith(copy.name + EARLIER) or name == copy.name]:
            used -= copies.pop(name).on_disk
        one = known.get(copy.name)
        if one is None:
            continue
        went.append(one)
        if one.gone:
            engine.history.remove([one.row])  # there is nothing any more that it tells of
        else:
            _note(engine, one, archived=MADE_ROOM)
    return went


def _age(copy: Archived, conversation: Conversation | None) -> float:
    ended = conversation.ended if conversation else None
    return ended.timestamp() if ended else copy.modified / 1e9


def _note(engine: Engine, conversation: Conversation, *, archived: int) -> None:
    engine.history.put(replace(conversation, archived=archived), ())


def _reason(error: OSError | RecollectError) -> str:
    return error.message if isinstance(error, RecollectError) else error.strerror or str(error)
