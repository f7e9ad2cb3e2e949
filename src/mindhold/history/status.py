"""The status of history: what is indexed and archived, what will be deleted soon, and the doctor's findings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mindhold.engine import Engine
from mindhold.history.archive import ArchiveTrouble, is_excluded_copy, last_trouble
from mindhold.history.archive_space import archive_name
from mindhold.history.index_guard import FORGOTTEN_NAMESPACE, MOST, PART_OF, run_in_own_thread
from mindhold.history.index_pass import index_rules
from mindhold.history.passages import history_model
from mindhold.history.preparation import is_empty
from mindhold.model.errors import StoreError
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import ArchivedTranscript, IndexedConversation
from mindhold.ports.store import StoreFinding
from mindhold.ports.transcripts import ConversationFile

KEPT_DAYS = 30  # default of Claude Code
SOON = timedelta(days=7)
COPIED = 0.9  # share of a transcript: its last lines are copied by the next run
LONGEST_SETTINGS = 1 << 20


MOST_VANISHING = 20


class HistoryStatusInput(Input):
    """The status of everything."""


class VanishingView(Output):
    """A conversation without a copy that Claude Code will delete."""

    session_id: str
    title: str
    project: str
    file: str
    when: datetime


class HistoryStatusResult(Output):
    """The status of history.

    `conversations` counts sessions, `gone` those whose file is gone, `left_out` those that are never indexed.
    `rung` is the reader: rlm, a model's name, or index; `doubt` says why the configured RLM server isn't
    used. `excluded_copies` are sessions of excluded projects. `archive_problems` and the fields after it
    describe the last archive run.
    """

    enabled: bool
    conversations: int
    subagents: int
    gone: int
    left_out: int
    forgotten: int
    passages: int
    embedded: int
    bytes_indexed: int
    index_bytes: int
    unread_files: int
    unread_bytes: int
    archive: bool
    copies: int
    copied_bytes: int
    archive_bytes: int
    archive_room: int
    vanishing: list[VanishingView]
    vanishing_count: int
    kept_days: int
    rung: str
    doubt: str = ""
    latest: datetime | None = None
    excluded_copies: list[str] = []
    archive_problems: list[str] = []
    archive_too_big: list[str] = []
    made_room: list[str] = []
    made_room_count: int = 0
    made_room_at: str = ""
    archive_looked: datetime | None = None


async def history_status(engine: Engine) -> HistoryStatusResult:
    """Collect the status. Looks at folders but reads no transcript."""
    notes = await engine.store.entries(FORGOTTEN_NAMESPACE, now=engine.clock(), limit=MOST)
    forgotten = {note.key: PART_OF in note.value for note in notes}
    files = await run_in_own_thread(lambda _check: engine.transcripts.files())
    trouble = await last_trouble(engine)
    try:
        copies = await asyncio.to_thread(engine.archive.all)
    except StoreError as error:
        copies, trouble = [], ArchiveTrouble(engine.clock(), (error.message,))
    return await asyncio.to_thread(_status_of, engine, files, forgotten, copies, trouble)


def _status_of(
    engine: Engine,
    files: Sequence[ConversationFile],
    forgotten: Mapping[str, bool],
    copies: Sequence[ArchivedTranscript],
    trouble: ArchiveTrouble | None,
) -> HistoryStatusResult:
    settings = engine.settings.history
    conversations = engine.history.conversations()
    visible = [conversation for conversation in conversations if not conversation.silent]
    unread = _unread(files, conversations, forgotten, subagents=settings.subagents)
    days = kept_days(engine.transcripts.roots())
    vanishing = _vanishing(visible, files, copies, days, now=engine.clock())
    doubt = engine.rlm.doubt() if engine.rlm is not None else ""
    stock = engine.history.stock()
    return HistoryStatusResult(
        enabled=settings.enabled,
        conversations=sum(not conversation.part_of for conversation in visible),
        subagents=sum(bool(conversation.part_of) for conversation in visible),
        gone=sum(conversation.gone for conversation in visible),
        left_out=sum(
            conversation.silent and not is_empty(conversation) and conversation.belongs_to not in forgotten
            for conversation in conversations
        ),
        forgotten=sum(not part for part in forgotten.values()),
        passages=stock.passages,
        embedded=stock.embedded,
        bytes_indexed=stock.bytes_indexed,
        index_bytes=stock.bytes_on_disk,
        unread_files=len(unread),
        unread_bytes=sum(unread),
        archive=settings.archive,
        copies=len(copies),
        copied_bytes=sum(copy.size for copy in copies),
        archive_bytes=sum(copy.on_disk for copy in copies),
        archive_room=settings.archive_bytes,
        vanishing=vanishing[:MOST_VANISHING],
        vanishing_count=len(vanishing),
        kept_days=days,
        rung=_rung(engine, doubt),
        doubt=doubt,
        latest=max((conversation.ended for conversation in visible if conversation.ended), default=None),
        excluded_copies=_excluded(engine, copies),
        archive_problems=list(trouble.problems) if trouble else [],
        archive_too_big=list(trouble.too_big) if trouble else [],
        made_room=list(trouble.evicted) if trouble else [],
        made_room_count=trouble.made_room if trouble else 0,
        made_room_at=trouble.made_room_at if trouble else "",
        archive_looked=trouble.when if trouble else None,
    )


async def _status(context: Context, _request: HistoryStatusInput) -> HistoryStatusResult:
    """What of past conversations is indexed, kept and about to vanish."""
    return await history_status(context.engine)


HISTORY_STATUS = operation("history_status", _status, reads=True, owner_only=True)


def _unread(
    files: Sequence[ConversationFile],
    known: Sequence[IndexedConversation],
    forgotten: Collection[str],
    *,
    subagents: bool,
) -> list[int]:
    """For each file with unread content, the number of unread bytes."""
    before = {conversation.file: conversation for conversation in known}
    unread_sizes: list[int] = []
    for file in files:
        if file.part_of in forgotten or file.path.stem in forgotten or (file.part_of and not subagents):
            continue
        conversation = before.get(file.path)
        if conversation is not None and conversation.silent:
            continue
        if conversation is None or conversation.size != file.size:
            unread_sizes.append(
                file.size - conversation.size
                if conversation is not None and conversation.size < file.size
                else file.size
            )
    return unread_sizes


def _vanishing(
    known: Sequence[IndexedConversation],
    files: Sequence[ConversationFile],
    copies: Sequence[ArchivedTranscript],
    days: int,
    *,
    now: datetime,
) -> list[VanishingView]:
    """Claude Code's conversations without a copy that it deletes soon, the next one first.

    Uses the modification times on disk, as Claude Code does: the index doesn't have those of partly read files.
    """
    modified = {file.path: file.modified for file in files}
    copied = {copy.name: copy.size for copy in copies}
    expiring: list[VanishingView] = []
    for conversation in known:
        file = conversation.file
        if conversation.source != "claude" or conversation.part_of or file not in modified:
            continue
        if copied.get(archive_name(conversation), 0) >= COPIED * conversation.size:
            continue
        when = datetime.fromtimestamp(modified[file] / 1e9, UTC) + timedelta(days=days)
        if when - now <= SOON:
            expiring.append(
                VanishingView(
                    session_id=conversation.session_id,
                    title=conversation.title.text,
                    project=conversation.project or conversation.folder,
                    file=str(file),
                    when=when,
                )
            )
    return sorted(expiring, key=lambda view: view.when)


def _excluded(engine: Engine, copies: Sequence[ArchivedTranscript]) -> list[str]:
    """The sessions with copies that are left out by now."""
    rules = index_rules(engine)
    sessions = [copy.about.belongs_to for copy in copies if copy.about and is_excluded_copy(copy, rules)]
    return list(dict.fromkeys(sessions))


def kept_days(roots: Sequence[Path]) -> int:
    """How many days Claude Code keeps transcripts, according to its settings."""
    for root in roots:
        file = root.parent / "settings.json"
        try:
            if file.stat().st_size > LONGEST_SETTINGS:
                continue
            value = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        days = value.get("cleanupPeriodDays") if isinstance(value, dict) else None
        if isinstance(days, int) and not isinstance(days, bool) and 0 <= days <= 100_000:
            return days
    return KEPT_DAYS


def _rung(engine: Engine, doubt: str) -> str:
    """The reader that `memory_recall` uses before it answers."""
    if not engine.settings.history.by_model:
        return "index"
    if engine.rlm is not None and not doubt:
        return "rlm"
    return engine.llm.name if engine.llm is not None else "index"


INDEX, VANISHING, ARCHIVE, READER = "history", "vanishing conversations", "archive", "rlm"


async def history_findings(engine: Engine) -> list[StoreFinding]:
    """The doctor's findings about history; none if it is disabled or withheld. Unread files are no problem."""
    if not engine.settings.history.enabled or engine.history.withheld:
        return []
    try:
        status = await history_status(engine)
    except StoreError as error:
        return [StoreFinding(INDEX, False, f"{error.code}: {error.message}", error.advice)]
    advice = "`mindhold history index` indexes them now." if status.unread_files else ""
    findings = [
        StoreFinding(INDEX, True, _indexed(engine, status), advice=advice),
        *_vanishing_finding(status),
        *_archive_finding(status),
    ]
    if engine.rlm is not None:
        description = status.doubt or f"{engine.rlm.name} can be started"
        advice = "Look at rlm.server_path, rlm.command." if status.doubt else ""
        findings.append(StoreFinding(READER, not status.doubt, description, advice=advice))
    return findings


def _indexed(engine: Engine, status: HistoryStatusResult) -> str:
    description = f"{status.conversations:,} conversations indexed, {status.passages:,} passages"
    if history_model(engine) is not None:
        description += f", {status.embedded:,} of them with a vector"
    if status.unread_files:
        description += (
            f"; {status.unread_files:,} files with {status.unread_bytes / 1e6:.1f} MB are not indexed yet"
        )
    return description


def _archive_finding(status: HistoryStatusResult) -> list[StoreFinding]:
    """Report what couldn't be copied and what was evicted: this happened in the background."""
    failures, too_big = status.archive_problems, status.archive_too_big
    problems = []
    if failures:
        problems.append(f"not everything could be copied: {failures[0]}")
    if too_big:
        problems.append(f"bigger than the archive may be: {too_big[0]}")
    if status.made_room_count:
        problems.append(
            f"{status.made_room_count:,} made room or found none, last {status.made_room_at[:10]}"
        )
    if not problems:
        return []
    advice = (
        "`mindhold history archive` tries again."
        if failures
        else "Raise history.archive_max_mb to keep more."
    )
    return [StoreFinding(ARCHIVE, not (failures or too_big), "; ".join(problems), advice=advice)]


def _vanishing_finding(status: HistoryStatusResult) -> list[StoreFinding]:
    """Report conversations that will be deleted without a copy: a problem only if archiving is enabled."""
    if not status.vanishing_count:
        return []
    description = f"{status.vanishing_count:,} will be deleted by Claude Code within a week or by now, and there is no copy of them"
    if status.archive:
        return [StoreFinding(VANISHING, False, description, advice="`mindhold history archive` keeps them.")]
    advice = "`mindhold history archive` tells how copies of them are kept, and asks."
    return [StoreFinding(VANISHING, True, description, advice=advice)]
