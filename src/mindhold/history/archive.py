"""The archive: compressed copies of transcripts, restored on request and after the index was rebuilt."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from mindhold.engine import Engine
from mindhold.history.archive_room import EARLIER, ArchiveRoom, archive_name
from mindhold.history.conversation import PastConversationView, conversation_named, files_of
from mindhold.history.index import index_history, index_rules
from mindhold.history.index_guard import forgotten_sessions, run_in_own_thread, wait_for_index_turn
from mindhold.history.preparation import (
    IndexRules,
    IndexTask,
    Preparer,
    is_left_out,
    new_conversation,
    requested_summary,
)
from mindhold.history.vectors import own_job
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from mindhold.model.job import Entry
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import ArchivedTranscript, ArchiveSource, IndexedConversation, Passage
from mindhold.ports.transcripts import Check, ConversationFile, TranscriptCursor, TranscriptRead, Transcripts

log = logging.getLogger(__name__)


async def reconcile(engine: Engine, *, forgotten: Collection[str], deadline: float | None = None) -> int:
    """Index and archive say the same of files that are gone: copies that the index doesn't know, or by other rules, are
    indexed, and what has no copy any more goes; copies that are left to index when the time (by monotonic()) is up. Needs the turn."""
    known = await asyncio.to_thread(engine.history.conversations)
    names = {archive_name(one): one for one in known}
    try:
        there = await asyncio.to_thread(engine.archive.sizes)
    except StoreError as error:
        log.warning("history: %s", error)
        return 0
    lost = [one.row for name, one in names.items() if one.gone and not one.silent and name not in there]
    if lost:
        await asyncio.to_thread(engine.history.remove, lost)
    rules = index_rules(engine)
    stale = {name: one for name, one in names.items() if is_stale(one, rules) and name in there}
    if not stale and not any(EARLIER not in name for name in there.keys() - names.keys()):
        return 0
    files = {one.file for one in known}
    elsewhere = {(one.session_id, one.file.name) for one in known if not one.gone}  # their files were moved
    copies = [
        copy
        for copy in await asyncio.to_thread(engine.archive.all)
        if copy.name in stale
        or (copy.name not in names and EARLIER not in copy.name and _is_wanted(copy, files, forgotten, rules))
        if not (copy.about and (copy.about.session_id, copy.about.file.name) in elsewhere)
    ]
    for done, copy in enumerate(copies):
        if deadline is not None and monotonic() > deadline:
            return len(copies) - done

        def read(check: Check, copy: ArchivedTranscript = copy) -> None:
            _index(engine, copy, rules, check, known=stale.get(copy.name))

        try:
            await run_in_own_thread(read)
        except (StoreError, NotFound, OSError) as error:
            log.warning("the copy %s can't be indexed: %s", copy.name, error)
    return 0


def is_stale(one: IndexedConversation, rules: IndexRules) -> bool:
    """Whether only a copy tells how it is by these rules."""
    return one.gone and not one.silent and one.rules != rules.mark


def is_excluded_copy(copy: ArchivedTranscript, rules: IndexRules) -> bool:
    """Whether it is of a project that is left out by now; the copy stays until somebody forgets the conversation."""
    return copy.about is not None and is_left_out(_conversation(copy.about), rules)


def _conversation(about: ArchiveSource) -> IndexedConversation:
    return IndexedConversation(
        about.session_id,
        about.source,
        about.file,
        folder=about.folder,
        project=about.project,
        part_of=about.part_of,
    )


def _is_wanted(
    copy: ArchivedTranscript, files: Collection[Path], forgotten: Collection[str], rules: IndexRules
) -> bool:
    about = copy.about
    if about is None or about.file in files or about.file.exists():
        return False
    if {about.session_id, about.part_of, about.file.stem} & set(forgotten) or not rules.want(about.source):
        return False
    return not (is_excluded_copy(copy, rules) or (about.part_of and not rules.subagents))


def _index(
    engine: Engine,
    copy: ArchivedTranscript,
    rules: IndexRules,
    check: Check,
    *,
    known: IndexedConversation | None = None,
) -> None:
    """As if the file were still there, but for its saying that it is gone. All at once: it is known whole, or not. What was
    `known` of it by other rules goes first, lest it stay where the copy can't be read."""
    if known is not None:
        engine.history.remove([known.row])
    about = copy.about
    if about is None:
        return
    found: IndexedConversation | None = None
    passages: list[Passage] = []
    leaves: list[tuple[str, str]] = []
    uuids = b""
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=engine.settings.home) as folder:
        file = Path(folder) / about.file.name
        engine.archive.unpack(copy.name, file)
        lies = ConversationFile(file, copy.size, copy.modified, about.source, about.folder, about.part_of)
        preparer = Preparer(_Copies(engine.transcripts, about.source), rules)
        for piece in preparer.pieces(IndexTask(lies, new_conversation(lies)), most=copy.size + 1):
            check()
            if piece.conversation is None or piece.conversation.silent:
                return
            found = piece.conversation
            passages += piece.passages
            uuids += piece.uuids
            leaves += piece.leaves
    if found is not None:
        # By the same name as before: it is the copy of this row.
        one = replace(found, session_id=about.session_id, file=about.file, size=copy.size, gone=True)
        if known is not None:
            one = replace(one, summary=requested_summary(known, rules))
        engine.history.put(replace(one, archived=copy.size), passages, uuids=uuids, leaves=leaves)


class _Copies:
    """Transcripts that lie elsewhere than their program put them."""

    withheld = False

    def __init__(self, transcripts: Transcripts, source: str) -> None:
        self._transcripts = transcripts
        self._source = source

    def files(self) -> list[ConversationFile]:
        return []

    def roots(self) -> list[Path]:
        return []

    def note(self, file: Path) -> str:
        return ""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """By whose they are."""
        return self._transcripts.follow(file, cursor, most_bytes=most_bytes, source=source or self._source)


ARCHIVE_NAMESPACE = "history:archive"
KEY = "last"  # of this home
MOST = 20  # of each kind that are named


@dataclass(frozen=True, slots=True)
class ArchiveTrouble:
    """Of the last look that had any. `evicted` are ids of sessions, of `made_room` in all: no words of theirs are kept."""

    when: datetime
    problems: tuple[str, ...] = ()
    too_big: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    made_room: int = 0
    made_room_at: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.problems or self.too_big)


async def last_trouble(engine: Engine) -> ArchiveTrouble | None:
    """None where there was none. Raises the store's errors."""
    entry = await engine.store.entry(ARCHIVE_NAMESPACE, own_job(engine, KEY), now=engine.clock())
    if entry is None:
        return None
    value = entry.value
    return ArchiveTrouble(
        entry.created,
        _texts(value.get("problems")),
        _texts(value.get("too_big")),
        _texts(value.get("evicted")),
        int(value.get("made_room") or 0),
        str(value.get("made_room_at") or ""),
    )


async def note_trouble(
    engine: Engine, *, problems: Sequence[str], too_big: Sequence[str], evicted: Sequence[str], whole: bool
) -> None:
    """Of one look: at the `whole` archive it takes the place of what was wrong before, else it is added to that. What made
    room is told until others do. Raises the store's errors."""
    before = await last_trouble(engine)
    if not (problems or too_big or evicted or (before is not None and before.failed and whole)):
        return
    earlier = before or ArchiveTrouble(engine.clock())
    value: dict[str, Any] = {
        "problems": list(dict.fromkeys((*(() if whole else earlier.problems), *problems)))[:MOST],
        "too_big": list(dict.fromkeys((*(() if whole else earlier.too_big), *too_big)))[:MOST],
        "evicted": list(evicted or earlier.evicted)[:MOST],
        "made_room": len(evicted) or earlier.made_room,
        "made_room_at": engine.clock().isoformat() if evicted else earlier.made_room_at,
    }
    await engine.store.put_entry(Entry(ARCHIVE_NAMESPACE, own_job(engine, KEY), value, engine.clock()))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What was copied, what made room or found none, and what can't be kept. `busy`: another process is at it, nothing was
    done."""

    conversations: int = 0
    bytes: int = 0
    on_disk: int = 0
    room: int = 0
    evicted: tuple[IndexedConversation, ...] = ()
    too_big: tuple[IndexedConversation, ...] = ()
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


async def archive_history(
    engine: Engine, *, rows: Sequence[IndexedConversation] | None = None
) -> ArchiveReport:
    """Copy what has grown of every transcript that is indexed, sub-agents' too; the oldest conversations make room.

    With `rows` only those, and what has lost its copy, by a caller whose turn it is to write the index
    (mindhold.history.index_guard).
    """
    if rows is not None:
        return await _in_turn(engine, rows)
    try:
        async with wait_for_index_turn(engine):
            return await _in_turn(engine, None)
    except StoreBusy:
        return ArchiveReport(busy=True, room=engine.settings.history.archive_bytes)


async def _in_turn(engine: Engine, rows: Sequence[IndexedConversation] | None) -> ArchiveReport:
    forgotten = await forgotten_sessions(engine)
    if rows is None:
        await reconcile(engine, forgotten=forgotten)
    known = await asyncio.to_thread(engine.history.conversations)
    asked = None if rows is None else {one.file for one in rows}
    heard = [one for one in known if not (one.silent or one.belongs_to in forgotten)]

    def work(check: Check) -> ArchiveReport:
        most = engine.settings.history.archive_bytes
        try:
            room = ArchiveRoom(engine.archive, engine.history, known, most=most)
        except StoreError as error:  # no folder that can be read
            return ArchiveReport(room=most, problems=(error.message,))
        chosen = [
            one
            for one in heard
            if asked is None
            or one.file in asked
            or (one.archived > 0 and archive_name(one) not in room.copies)
        ]
        return _archive_all(engine, chosen, room, check)

    report = await run_in_own_thread(work)
    await note_trouble(
        engine,
        problems=report.problems,
        too_big=[str(one.file) for one in report.too_big],
        evicted=list(dict.fromkeys(one.belongs_to for one in report.evicted)),
        whole=rows is None,
    )
    return report


def _archive_all(
    engine: Engine, rows: Sequence[IndexedConversation], room: ArchiveRoom, check: Check
) -> ArchiveReport:
    """The newest first; what is over by now goes before anything comes."""
    conversations, size = 0, 0
    too_big: list[IndexedConversation] = []
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


def _untried(rows: Sequence[IndexedConversation], room: ArchiveRoom) -> str:
    """How many have no copy at all, behind one that there was no place for."""
    count = sum(not one.gone and archive_name(one) not in room.copies for one in rows)
    return f" {count:,} more without a copy were not tried." if count else ""


def _is_due(
    engine: Engine, one: IndexedConversation, copy: ArchivedTranscript | None, room: ArchiveRoom
) -> bool:
    """Whether the file isn't what the copy is of. What found no room waits until it has grown, or there is enough for it."""
    stat = one.file.stat()
    if copy is not None and (copy.size, copy.modified) == (stat.st_size, stat.st_mtime_ns):
        if one.archived != copy.size:
            engine.history.put(replace(one, archived=copy.size), ())
        return False
    return not room.refused(one, stat.st_size)


def _copied(
    engine: Engine,
    one: IndexedConversation,
    before: ArchivedTranscript | None,
    room: ArchiveRoom,
    check: Check,
) -> ArchivedTranscript | None:
    """None where there was no room for it."""
    name = archive_name(one)
    about = ArchiveSource(one.file, one.source, one.session_id, one.part_of, one.folder, one.project)
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


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """The files that were written."""

    session_id: str
    files: tuple[Path, ...]


async def restore_conversation(engine: Engine, session: str, target: Path) -> RestoredFiles:
    """Write the transcript as it was to a new file; into a folder with those of its sub-agents.

    Raises NotFound, InvalidInput, Conflict for a file that is there, StoreReadOnly.
    """
    named = await conversation_named(engine, session)
    known = await asyncio.to_thread(engine.history.conversations)
    files = files_of(named.belongs_to, known) if target.is_dir() else [named]

    def restore() -> tuple[Path, ...]:
        written = [file for one in files if (file := _restored(engine, one, target)) is not None]
        if not written:
            raise NotFound(
                f"Neither the archive nor the disk has the transcript of {named.session_id}.",
                advice="`mindhold history show` has what the index knows of it.",
            )
        return tuple(written)

    return RestoredFiles(named.belongs_to, await asyncio.to_thread(restore))


def _restored(engine: Engine, conversation: IndexedConversation, target: Path) -> Path | None:
    """None where nothing has it."""
    file = target / _relative(conversation) if target.is_dir() else target
    if file.exists():
        raise Conflict(f"{file} is there already.", advice="Name another file.")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if conversation.file.is_file():  # no copy has more of it
            shutil.copyfile(conversation.file, file)
            file.chmod(0o600)
        else:
            engine.archive.unpack(archive_name(conversation), file)
    except (NotFound, FileNotFoundError):
        return None
    except OSError as error:
        raise StoreReadOnly(
            f"{file} can't be written: {error.strerror}.", advice="Name another place."
        ) from error
    return file


def _relative(conversation: IndexedConversation) -> Path:
    name = Path(conversation.file.name)
    return Path(conversation.part_of, "subagents") / name if conversation.part_of else name


class ArchiveHistoryInput(Input):
    """All that is known, after what is new was indexed."""


class ArchiveHistoryResult(Output):
    """`conversations` were copied or added to. `evicted` made room or found none; `too_big` are bigger than the room."""

    conversations: int
    bytes: int
    on_disk: int
    room: int
    copies: int
    enabled: bool
    evicted: list[PastConversationView] = []
    too_big: list[PastConversationView] = []
    problems: list[str] = []
    busy: bool = False

    @classmethod
    def of(cls, report: ArchiveReport, *, copies: int, enabled: bool) -> ArchiveHistoryResult:
        """The report as its view."""
        return cls(
            conversations=report.conversations,
            bytes=report.bytes,
            on_disk=report.on_disk,
            room=report.room,
            copies=copies,
            enabled=enabled,
            evicted=[PastConversationView.of(one) for one in report.evicted],
            too_big=[PastConversationView.of(one) for one in report.too_big],
            problems=list(report.problems),
            busy=report.busy,
        )


class RestoreConversationInput(Input):
    """Which one, and where to: a new file, or a folder, which gets its sub-agents' as well."""

    session: str
    to: Path


class RestoreConversationResult(Output):
    """The files that were written."""

    session_id: str
    files: list[str]


async def _archive(context: Context, _given: ArchiveHistoryInput) -> ArchiveHistoryResult:
    """Copy transcripts before the program that wrote them deletes them."""
    engine = context.engine
    if not engine.settings.history.enabled:
        raise InvalidInput(
            "Past conversations are switched off: nothing is copied.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    await index_history(_unarchiving(engine), progress=context.progress)
    report = await archive_history(engine)
    copies = await asyncio.to_thread(engine.archive.all)
    return ArchiveHistoryResult.of(report, copies=len(copies), enabled=engine.settings.history.archive)


ARCHIVE_HISTORY = operation("archive_history", _archive, writes=True, owner_only=True, changes_memories=False)


def _unarchiving(engine: Engine) -> Engine:
    """One pass that leaves the copies to us, who tell of them."""
    history = replace(engine.settings.history, archive=False)
    return engine.with_settings(history=history)


async def _restore(context: Context, request: RestoreConversationInput) -> RestoreConversationResult:
    """Write an archived transcript to a file, as it was."""
    restored = await restore_conversation(context.engine, request.session, request.to.expanduser().absolute())
    return RestoreConversationResult(
        session_id=restored.session_id, files=[str(file) for file in restored.files]
    )


RESTORE_CONVERSATION = operation("restore_conversation", _restore, writes=True, owner_only=True)
