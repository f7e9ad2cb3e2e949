"""Copies of transcripts, before the program that wrote them deletes them: with consent, compressed, within a room.

What is copied is what the archive has, whatever the index says of it: both folder and copies may be deleted by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindhold.engine.core import Engine
from mindhold.engine.history.apart import apart
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.archive_report import note_trouble
from mindhold.engine.history.archive_room import Room
from mindhold.engine.history.forgotten import forgotten_sessions
from mindhold.engine.history.held import in_turn
from mindhold.engine.history.recovering import reconcile
from mindhold.model.errors import MindholdError, StoreBusy, StoreError, StoreFull, StoreReadOnly
from mindhold.ports.history import Archived, Conversation, CopyOf
from mindhold.ports.transcripts import Check


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What was copied, what made room or found none, and what can't be kept. `busy`: another process is at it, nothing was
    done."""

    conversations: int = 0
    bytes: int = 0
    on_disk: int = 0
    room: int = 0
    evicted: tuple[Conversation, ...] = ()
    too_big: tuple[Conversation, ...] = ()
    problems: tuple[str, ...] = ()
    busy: bool = False

    @property
    def trouble(self) -> str:
        """What somebody should know of it, in a sentence or none."""
        told = [
            f"{len(self.evicted):,} conversations made room or found none" if self.evicted else "",
            f"{len(self.too_big):,} are bigger than all of it may be" if self.too_big else "",
            f"{len(self.problems):,} could not be copied ({self.problems[0].rstrip('.')})"
            if self.problems
            else "",
        ]
        said = "; ".join(filter(None, told))
        return f"The archive: {said}." if said else ""


async def archive_history(engine: Engine, *, rows: Sequence[Conversation] | None = None) -> ArchiveReport:
    """Copy what has grown of every transcript that is indexed, sub-agents' too; the oldest conversations make room.

    With `rows` only those, and what has lost its copy, by a caller whose turn it is to write the index
    (mindhold.engine.history.turn).
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
    if rows is None:
        await reconcile(engine, forgotten=forgotten)
    known = await asyncio.to_thread(engine.history.conversations)
    asked = None if rows is None else {one.file for one in rows}
    heard = [one for one in known if not (one.silent or one.belongs_to in forgotten)]

    def work(check: Check) -> ArchiveReport:
        most = engine.policy.history.archive_room
        try:
            room = Room(engine.archive, engine.history, known, most=most)
        except StoreError as error:  # no folder that can be read
            return ArchiveReport(room=most, problems=(error.message,))
        chosen = [
            one
            for one in heard
            if asked is None
            or one.file in asked
            or (one.archived > 0 and archive_name(one) not in room.copies)
        ]
        return _archive(engine, chosen, room, check)

    report = await apart(work)
    await note_trouble(
        engine,
        problems=report.problems,
        too_big=[str(one.file) for one in report.too_big],
        evicted=list(dict.fromkeys(one.belongs_to for one in report.evicted)),
        whole=rows is None,
    )
    return report


def _archive(engine: Engine, rows: Sequence[Conversation], room: Room, check: Check) -> ArchiveReport:
    """The newest first; what is over by now goes before anything comes."""
    conversations, size = 0, 0
    too_big: list[Conversation] = []
    problems: list[str] = []
    room.make(0)
    for number, one in enumerate(rows, 1):
        check()
        before = room.copies.get(archive_name(one))
        try:
            if one.gone or not _is_due(engine, one, before, room):
                continue
            if one.file.stat().st_size > room.most:
                too_big.append(one)
                continue
            now = _copied(engine, one, before, room, check)
        except FileNotFoundError:  # the next pass sees that it is gone
            continue
        except (OSError, MindholdError) as error:
            reason = f"{one.file}: {_reason(error)}"
            if isinstance(error, StoreFull | StoreReadOnly):  # so it is for the others
                problems.append(f"{reason}{_untried(rows[number:], room)}")
                break
            problems.append(reason)
            continue
        if now is not None and now != before:
            conversations += 1
            size += now.size - before.size if before and now.size > before.size else now.size
    return ArchiveReport(
        conversations, size, room.used, room.most, room.evicted, tuple(too_big), tuple(problems)
    )


def _untried(rows: Sequence[Conversation], room: Room) -> str:
    """How many have no copy at all, behind one that there was no place for."""
    count = sum(not one.gone and archive_name(one) not in room.copies for one in rows)
    return f" {count:,} more without a copy were not tried." if count else ""


def _is_due(engine: Engine, one: Conversation, copy: Archived | None, room: Room) -> bool:
    """Whether the file isn't what the copy is of. What found no room waits until it has grown, or there is enough for it."""
    stat = one.file.stat()
    if copy is not None and (copy.size, copy.modified) == (stat.st_size, stat.st_mtime_ns):
        if one.archived != copy.size:
            engine.history.put(replace(one, archived=copy.size), ())
        return False
    return not room.refused(one, stat.st_size)


def _copied(
    engine: Engine, one: Conversation, before: Archived | None, room: Room, check: Check
) -> Archived | None:
    """None where there was no room for it."""
    name = archive_name(one)
    about = CopyOf(one.file, one.source, one.session_id, one.part_of, one.folder, one.project)
    written, full = 0, False

    def fits(added: int) -> bool:
        nonlocal written, full
        check()
        written = added
        full = not room.make(added, younger=one)
        return not full

    now = engine.archive.add(name, one.file, about=about, fits=fits)
    room.put(now, grown=now.on_disk == (before.on_disk if before else 0) + written)
    if full:
        room.let_go(name)
        return None
    if now.size != one.archived:
        engine.history.put(replace(one, archived=now.size), ())
    return now


def _reason(error: OSError | MindholdError) -> str:
    return error.message if isinstance(error, MindholdError) else error.strerror or str(error)
