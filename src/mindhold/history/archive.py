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
from mindhold.history.archive_space import EARLIER, ArchiveRoom, archive_name
from mindhold.history.conversation import PastConversationView, conversation_named, files_of
from mindhold.history.index import IndexHistoryInput, index_history
from mindhold.history.index_guard import forgotten_sessions, run_in_own_thread, wait_for_index_turn
from mindhold.history.index_pass import index_rules
from mindhold.history.passages import own_job
from mindhold.history.preparation import (
    IndexRules,
    IndexTask,
    Preparer,
    is_left_out,
    new_conversation,
    requested_summary,
)
from mindhold.memories.views import View
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
from mindhold.ports.transcripts import (
    Check,
    ConversationFile,
    NoTranscripts,
    TranscriptCursor,
    TranscriptRead,
    Transcripts,
)

log = logging.getLogger(__name__)


async def reconcile(engine: Engine, *, forgotten: Collection[str], deadline: float | None = None) -> int:
    """Make the index and the archive agree on transcripts whose files are gone.

    Indexes copies that the index lacks or read by other rules, and removes conversations that have no copy
    any more. Returns how many copies are left to index at the deadline (by monotonic()). The caller holds the
    index turn.
    """
    conversations = await asyncio.to_thread(engine.history.conversations)
    names = {archive_name(conversation): conversation for conversation in conversations}
    try:
        copy_sizes = await asyncio.to_thread(engine.archive.sizes)
    except StoreError as error:
        log.warning("history: %s", error)
        return 0
    lost_rows = [
        conversation.row
        for name, conversation in names.items()
        if conversation.gone and not conversation.silent and name not in copy_sizes
    ]
    if lost_rows:
        await asyncio.to_thread(engine.history.remove, lost_rows)
    rules = index_rules(engine)
    stale = {
        name: conversation
        for name, conversation in names.items()
        if is_stale(conversation, rules) and name in copy_sizes
    }
    if not stale and not any(EARLIER not in name for name in copy_sizes.keys() - names.keys()):
        return 0
    files = {conversation.file for conversation in conversations}
    # Sessions whose files were moved.
    elsewhere = {
        (conversation.session_id, conversation.file.name)
        for conversation in conversations
        if not conversation.gone
    }
    copies = [
        copy
        for copy in await asyncio.to_thread(engine.archive.all)
        if copy.name in stale
        or (copy.name not in names and EARLIER not in copy.name and _is_wanted(copy, files, forgotten, rules))
        if not (copy.about and (copy.about.session_id, copy.about.file.name) in elsewhere)
    ]
    for position, copy in enumerate(copies):
        if deadline is not None and monotonic() > deadline:
            return len(copies) - position

        def read(check: Check, copy: ArchivedTranscript = copy) -> None:
            _index(engine, copy, rules, check, known=stale.get(copy.name))

        try:
            await run_in_own_thread(read)
        except (StoreError, NotFound, OSError) as error:
            log.warning("the copy %s can't be indexed: %s", copy.name, error)
    return 0


def is_stale(one: IndexedConversation, rules: IndexRules) -> bool:
    """Whether the file is gone and the index read it by other rules, so that only the archived copy can update it."""
    return one.gone and not one.silent and one.rules != rules.mark


def is_excluded_copy(copy: ArchivedTranscript, rules: IndexRules) -> bool:
    """Whether the copy's project is excluded now. The copy stays until somebody forgets the conversation."""
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
    """Index a copy as if its file were still there, marked as gone, in one write.

    `known` is the row that was read by other rules. It is removed first, so that it doesn't stay if the copy
    can't be read.
    """
    if known is not None:
        engine.history.remove([known.row])
    about = copy.about
    if about is None:
        return
    indexed: IndexedConversation | None = None
    passages: list[Passage] = []
    leaves: list[tuple[str, str]] = []
    uuids = b""
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=engine.settings.home) as folder:
        file = Path(folder) / about.file.name
        engine.archive.unpack(copy.name, file)
        copy_file = ConversationFile(
            file, copy.size, copy.modified, about.source, about.folder, about.part_of
        )
        preparer = Preparer(_Copies(engine.transcripts, about.source), rules)
        for piece in preparer.pieces(IndexTask(copy_file, new_conversation(copy_file)), most=copy.size + 1):
            check()
            if piece.conversation is None or piece.conversation.silent:
                return
            indexed = piece.conversation
            passages += piece.passages
            uuids += piece.uuids
            leaves += piece.leaves
    if indexed is not None:
        # With the same session and file as before, the row keeps the name of this copy.
        conversation = replace(
            indexed, session_id=about.session_id, file=about.file, size=copy.size, gone=True
        )
        if known is not None:
            conversation = replace(conversation, summary=requested_summary(known, rules))
        engine.history.put(replace(conversation, archived=copy.size), passages, uuids=uuids, leaves=leaves)


class _Copies(NoTranscripts):
    """Reads transcripts that aren't in their program's folder."""

    withheld = False

    def __init__(self, transcripts: Transcripts, source: str) -> None:
        self._transcripts = transcripts
        self._source = source

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """Follow the file as a transcript of the program that wrote it."""
        return self._transcripts.follow(file, cursor, most_bytes=most_bytes, source=source or self._source)


ARCHIVE_NAMESPACE = "history:archive"
KEY = "last"  # the entry's key within this home
MOST = 20  # items of each kind that are recorded


@dataclass(frozen=True, slots=True)
class ArchiveTrouble:
    """The problems of the last archive run that had any.

    `evicted` holds the ids of at most MOST of the `made_room` sessions; no text of theirs is stored.
    """

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
    """Return the recorded trouble, or None if there is none. Raises the store's errors."""
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
    """Record the problems of one archive run.

    A run over the `whole` archive replaces the earlier problems; any other run adds to them. The evicted
    sessions stay recorded until others are evicted. Raises the store's errors.
    """
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
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The result of an archive run: what was copied, what was evicted or found no room, and what failed.

    `busy`: another process holds the index turn, so nothing was done.
    """

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
        """One sentence about what went wrong, or an empty string."""
        parts = [
            f"{len(self.evicted):,} conversations made room or found none" if self.evicted else "",
            f"{len(self.too_big):,} are bigger than all of it may be" if self.too_big else "",
            f"{len(self.problems):,} could not be copied ({self.problems[0].rstrip('.')})"
            if self.problems
            else "",
        ]
        details = "; ".join(filter(None, parts))
        return f"The archive: {details}." if details else ""


async def archive_history(
    engine: Engine, *, rows: Sequence[IndexedConversation] | None = None
) -> ArchiveReport:
    """Copy the new part of every indexed transcript, sub-agents' included; the oldest conversations make room.

    With `rows`, copy only those and the ones that lost their copy. The caller then holds the index turn
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
    conversations = await asyncio.to_thread(engine.history.conversations)
    requested_files = None if rows is None else {conversation.file for conversation in rows}
    archivable = [
        conversation
        for conversation in conversations
        if not (conversation.silent or conversation.belongs_to in forgotten)
    ]

    def work(check: Check) -> ArchiveReport:
        limit = engine.settings.history.archive_bytes
        try:
            room = ArchiveRoom(engine.archive, engine.history, conversations, most=limit)
        except StoreError as error:  # the folder can't be read
            return ArchiveReport(room=limit, problems=(error.message,))
        selected = [
            conversation
            for conversation in archivable
            if requested_files is None
            or conversation.file in requested_files
            or (conversation.archived > 0 and archive_name(conversation) not in room.copies)
        ]
        return _archive_all(engine, selected, room, check)

    report = await run_in_own_thread(work)
    await note_trouble(
        engine,
        problems=report.problems,
        too_big=[str(conversation.file) for conversation in report.too_big],
        evicted=list(dict.fromkeys(conversation.belongs_to for conversation in report.evicted)),
        whole=rows is None,
    )
    return report


def _archive_all(
    engine: Engine, rows: Sequence[IndexedConversation], room: ArchiveRoom, check: Check
) -> ArchiveReport:
    """Copy the newest conversations first, after evicting what exceeds the limit by now."""
    conversations, size = 0, 0
    too_big: list[IndexedConversation] = []
    problems: list[str] = []
    room.make(0)
    for number, conversation in enumerate(rows, 1):
        check()
        before = room.copies.get(archive_name(conversation))
        try:
            if conversation.gone or not _is_due(engine, conversation, before, room):
                continue
            if conversation.file.stat().st_size > room.most:
                too_big.append(conversation)
                continue
            now = _copied(engine, conversation, before, room, check)
        except FileNotFoundError:  # the next pass notices that it is gone
            continue
        except (OSError, MindholdError) as error:
            message = error.message if isinstance(error, MindholdError) else error.strerror or str(error)
            reason = f"{conversation.file}: {message}"
            if isinstance(error, StoreFull | StoreReadOnly):  # the others would fail as well
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
    """Describe how many of the conversations that were not tried have no copy at all."""
    count = sum(
        not conversation.gone and archive_name(conversation) not in room.copies for conversation in rows
    )
    return f" {count:,} more without a copy were not tried." if count else ""


def _is_due(
    engine: Engine, one: IndexedConversation, copy: ArchivedTranscript | None, room: ArchiveRoom
) -> bool:
    """Whether the file differs from its copy. One that found no room waits until it grows or enough room is free."""
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
    """Copy one transcript; None if there is no room for it."""
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


class RestoreConversationInput(Input):
    """A conversation, and where to write it: a new file, or a folder that also gets its sub-agents' transcripts."""

    session: str
    to: Path


class RestoreConversationResult(Output):
    """The files that were written."""

    session_id: str
    files: list[str]


async def _restore(context: Context, request: RestoreConversationInput) -> RestoreConversationResult:
    """Write an archived transcript to a file, as it was.

    Raises NotFound, InvalidInput, Conflict if the file exists, StoreReadOnly.
    """
    engine, target = context.engine, request.to.expanduser().absolute()
    conversation = await conversation_named(engine, request.session)
    conversations = await asyncio.to_thread(engine.history.conversations)
    sources = files_of(conversation.belongs_to, conversations) if target.is_dir() else [conversation]

    def restore() -> list[str]:
        return [str(file) for source in sources if (file := _restored(engine, source, target)) is not None]

    files = await asyncio.to_thread(restore)
    if not files:
        raise NotFound(
            f"Neither the archive nor the disk has the transcript of {conversation.session_id}.",
            advice="`mindhold history show` has what the index knows of it.",
        )
    return RestoreConversationResult(session_id=conversation.belongs_to, files=files)


RESTORE_CONVERSATION = operation("restore_conversation", _restore, writes=True, owner_only=True)


def _restored(engine: Engine, conversation: IndexedConversation, target: Path) -> Path | None:
    """Restore one transcript; None if neither the disk nor the archive has it."""
    file = target
    if target.is_dir():
        folder = target / conversation.part_of / "subagents" if conversation.part_of else target
        file = folder / conversation.file.name
    if file.exists():
        raise Conflict(f"{file} is there already.", advice="Name another file.")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if conversation.file.is_file():  # no copy is more complete
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


class ArchiveHistoryInput(Input):
    """Index what is new, then copy every indexed transcript."""


class ArchiveHistoryResult(View):
    """The result of an archive run.

    `conversations` counts new and extended copies. `evicted` were removed or found no room; `too_big` exceed
    the whole room.
    """

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


async def _archive(context: Context, _request: ArchiveHistoryInput) -> ArchiveHistoryResult:
    """Copy transcripts before the program that wrote them deletes them."""
    engine = context.engine
    if not engine.settings.history.enabled:
        raise InvalidInput(
            "Past conversations are switched off: nothing is copied.",
            advice="`mindhold config set history.enabled true` switches them on.",
        )
    # Archiving is switched off for the index pass, because this call archives and reports by itself.
    history = replace(engine.settings.history, archive=False)
    request = IndexHistoryInput(workers=0)
    await index_history(engine.with_settings(history=history), request, progress=context.progress)
    report = await archive_history(engine)
    return ArchiveHistoryResult.fill(
        report,
        copies=len(await asyncio.to_thread(engine.archive.all)),
        enabled=engine.settings.history.archive,
        evicted=[PastConversationView.of(conversation) for conversation in report.evicted],
        too_big=[PastConversationView.of(conversation) for conversation in report.too_big],
    )


ARCHIVE_HISTORY = operation("archive_history", _archive, writes=True, owner_only=True, changes_memories=False)
