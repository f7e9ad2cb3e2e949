"""Prepares pieces of transcripts for the index, in this process or in several."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from mindhold.capture.conversation_text import is_excluded, is_own_call, without_skipped_turns
from mindhold.history.passages import ASKED_FOR, made_head, passages_of, without_secrets
from mindhold.model.lexemes import LexemeCache
from mindhold.ports.history import ConversationLabel, IndexedConversation, Passage
from mindhold.ports.transcripts import (
    Check,
    ConversationFile,
    Role,
    TranscriptInfo,
    TranscriptRead,
    Transcripts,
)
from mindhold.text.redaction import REDACTION_VERSION

PIECE = 4 << 20  # bytes that are read at once
SMALL_PIECE = 256 << 10  # the same while a caller waits: the clock is checked after each piece
LONGEST_TOLD = 500  # characters of a transcript's own title or summary
MOST_BAD = 20  # unreadable lines of a file that are recorded
FINISHED = 3_600 * 10**9  # nanoseconds without a change after which a file counts as finished
ALWAYS_SUMMED_UP = 4 << 20  # bytes: a longer conversation is only summarized again after growing by a tenth
NOTHING = ConversationLabel(by="nothing")  # the summary of a file without any speech so far
_TITLES = ("custom", "ai")  # a transcript's own titles, the best first


@dataclass(frozen=True, slots=True)
class IndexRules:
    """What to leave out of the index, and how to keep the rest."""

    exclude: tuple[str, ...] = ()
    subagents: bool = True
    redacting: bool = True
    agents: tuple[str, ...] | None = None  # programs to index; None: all

    @property
    def mark(self) -> str:
        """An identifier of the rules; conversations are read again if it changes."""
        return f"{REDACTION_VERSION if self.redacting else 'unredacted'}{'' if self.subagents else ' without subagents'}"

    def want(self, source: str) -> bool:
        """Whether conversations of this program are indexed."""
        return self.agents is None or source in self.agents


class IndexTask(NamedTuple):
    """A file to read from where `begun` ends. `anew`: what the index has of it is replaced."""

    file: ConversationFile
    begun: IndexedConversation
    anew: bool = False


class PreparedPiece(NamedTuple):
    """The result of reading a piece of a file. Without a conversation the file can't be read."""

    file: ConversationFile
    conversation: IndexedConversation | None
    passages: Sequence[Passage] = ()
    uuids: bytes = b""
    leaves: Sequence[tuple[str, str]] = ()
    anew: bool = False
    read: int = 0  # bytes
    more: bool = False  # the file continues
    bad: Sequence[tuple[int, str]] = ()  # unreadable lines (0: the whole file), and why


def new_conversation(file: ConversationFile, known: IndexedConversation | None = None) -> IndexedConversation:
    """A new conversation for a file. `known` is its row so far, if there is one."""
    row, archived = (known.row, known.archived) if known else (0, 0)
    return IndexedConversation(
        session_id="",
        source=file.source,
        file=file.path,
        row=row,
        folder=file.folder,
        part_of=file.part_of,
        archived=min(archived, 0),  # negative: it was evicted once
    )


def requested_summary(known: IndexedConversation, rules: IndexRules) -> ConversationLabel:
    """The summary that a person requested, which is kept when a conversation is read again; otherwise empty."""
    by = known.summary.by
    text = without_secrets(known.summary.text, redacting=rules.redacting) if by in ASKED_FOR else ""
    return ConversationLabel(text, by) if text else ConversationLabel()


def is_left_out(conversation: IndexedConversation, rules: IndexRules) -> bool:
    """Whether the settings exclude it, by its folder, one above it, or the program's name of the project."""
    return bool(rules.exclude) and _left_out(conversation.project, conversation.folder, rules.exclude)


def was_excluded(conversation: IndexedConversation) -> bool:
    """Whether nothing of it was read because it is excluded. Of our own calls the beginning is read."""
    return conversation.silent and conversation.cursor.offset == 0 and not is_empty(conversation)


def is_empty(conversation: IndexedConversation) -> bool:
    """Whether its file has no speech so far; it is read on when it grows."""
    return conversation.silent and conversation.summary == NOTHING


class Preparer:
    """Reads files piece by piece according to the rules."""

    def __init__(self, transcripts: Transcripts, rules: IndexRules, *, piece: int = PIECE) -> None:
        self._transcripts = transcripts
        self._rules = rules
        self._piece = piece
        self._words = LexemeCache()

    def pieces(self, task: IndexTask, *, most: int) -> Iterator[PreparedPiece]:
        """The pieces one by one, until the file ends or about `most` bytes were read."""
        bytes_read = 0
        while True:
            prepared = self.piece(task)
            yield prepared
            bytes_read += prepared.read
            if not prepared.more or prepared.conversation is None or bytes_read >= most:
                return
            task = IndexTask(task.file, prepared.conversation)

    def piece(self, task: IndexTask) -> PreparedPiece:
        """The next piece."""
        file, previous, anew = task
        followed = self._transcripts.follow(file.path, previous.cursor, most_bytes=self._piece)
        if followed is None:
            return PreparedPiece(file, None)
        if followed.restarted and previous.cursor.offset:
            previous, anew = new_conversation(file, previous), True
        nothing_before = previous.cursor.offset == 0 or is_empty(previous)
        if is_empty(previous):
            previous = replace(previous, silent=False, summary=ConversationLabel())
        conversation = replace(_placed(previous, file, followed), rules=self._rules.mark)
        bytes_read = max(0, followed.cursor.offset - previous.cursor.offset)
        if is_left_out(conversation, self._rules):
            return PreparedPiece(file, only_its_name(conversation), anew=True, read=bytes_read)
        if previous.prompts == 0 and is_own_call(followed.steps):
            silent = replace(only_its_name(conversation), cursor=followed.cursor)
            return PreparedPiece(file, silent, anew=True, read=bytes_read)
        more = followed.more and bytes_read > 0
        if not more:
            conversation = replace(conversation, size=file.size, modified=file.modified)
        prepared = self._prepared(file, conversation, previous, followed)
        if previous.cursor.offset == 0 and not more and not file.note_modified:
            prepared = self._headed(prepared)
        if nothing_before and prepared.conversation is not None and not prepared.passages:
            silent = replace(prepared.conversation, silent=True, summary=NOTHING)
            prepared = prepared._replace(conversation=silent)
        return prepared._replace(anew=anew, read=bytes_read, more=more)

    def _headed(self, prepared: PreparedPiece) -> PreparedPiece:
        """Add title, summary and head if the piece is the whole conversation."""
        if prepared.conversation is None or not prepared.passages:
            return prepared
        conversation, head = made_head(prepared.conversation, prepared.passages, self._words)
        return prepared._replace(conversation=conversation, passages=[*prepared.passages, head])

    def _prepared(
        self,
        file: ConversationFile,
        conversation: IndexedConversation,
        known: IndexedConversation,
        followed: TranscriptRead,
    ) -> PreparedPiece:
        subagents = bool(conversation.part_of)
        steps, skipping = without_skipped_turns(followed.steps, skipping=known.skipping, subagent=subagents)
        if not self._rules.subagents:
            steps = [step for step in steps if not step.aside]
        passages = passages_of(steps, words=self._words, redacting=self._rules.redacting)
        about = followed.about
        conversation = replace(
            conversation,
            title=self._title(known.title, about),
            prompts=known.prompts
            + sum(step.role is Role.USER and (subagents or not step.aside) for step in steps),
            skipping=skipping,
        )
        if passages and _must_be_summed_up(conversation, known):
            conversation = replace(conversation, summary=replace(conversation.summary, by=""))
        leaves = [(leaf, summary) for leaf, text in about.summaries if (summary := self._told(text))]
        return PreparedPiece(file, conversation, passages, about.uuids, leaves, bad=_bad(file, followed))

    def _title(self, known: ConversationLabel, about: TranscriptInfo) -> ConversationLabel:
        """The transcript's own title. A title that a person gave is never replaced by a generated one."""
        text = self._told(about.title)
        if not text or about.title_by not in _TITLES:
            return known
        if known.by == "custom" and about.title_by != "custom":
            return known
        return ConversationLabel(text, about.title_by)

    def _told(self, text: str) -> str:
        """The text on one line, without secrets, cut after that."""
        plain = " ".join(without_secrets(text, redacting=self._rules.redacting).split())
        return plain[:LONGEST_TOLD].strip()


def has_changed(one: IndexedConversation, file: ConversationFile) -> bool:
    """Whether the file changed since it was read."""
    return (one.size, one.modified) != (file.size, file.modified)


def has_half_line(one: IndexedConversation, file: ConversationFile) -> bool:
    """Whether its last line was incomplete when read, nobody writes it any more, and that isn't reported yet."""
    is_reported = one.cursor.line + 1 in one.bad_lines or len(one.bad_lines) >= MOST_BAD
    return one.cursor.offset < one.size and not is_reported and _is_finished(file)


def _is_finished(file: ConversationFile) -> bool:
    return time.time_ns() - file.modified > FINISHED


def _bad(file: ConversationFile, followed: TranscriptRead) -> list[tuple[int, str]]:
    """The unreadable lines, and why."""
    about = followed.about
    if 0 in about.too_long:
        return [(0, "The file is too long to be read.")]
    reason = (
        f"This and {about.unnamed} more lines that aren't named here are no JSON objects; the rest of the file is kept."
        if about.unnamed
        else "The line is no JSON object; the rest of the file is kept."
    )
    too_long = "The line is too long to be read; the rest of the file is kept."
    problems = [(line, too_long if line in about.too_long else reason) for line in about.bad_lines]
    if followed.half and _is_finished(file):
        problems.append(
            (followed.cursor.line + 1, "The file breaks off in this line; what stands before is kept.")
        )
    return problems


def _placed(
    known: IndexedConversation, file: ConversationFile, followed: TranscriptRead
) -> IndexedConversation:
    """The conversation with the place and time from the piece. It counts as unread as long as the file continues."""
    about = followed.about
    moments = [step.timestamp for step in followed.steps if step.timestamp is not None]
    return replace(
        known,
        file=file.path,
        folder=file.folder or known.folder,
        part_of=file.part_of or known.part_of,
        session_id=known.session_id or about.session_id or file.path.stem,
        project=known.project or about.cwd or followed.cwd,
        model=about.model or known.model,
        started=min(filter(None, (known.started, *moments)), default=None),
        ended=max(filter(None, (known.ended, about.ended, *moments)), default=None),
        bad_lines=(
            *(line for line in known.bad_lines if line <= known.cursor.line),
            *(line for line, _ in _bad(file, followed)),
        )[:MOST_BAD],
        cursor=followed.cursor,
        size=followed.cursor.offset,
        modified=0,
        gone=False,
    )


def only_its_name(conversation: IndexedConversation) -> IndexedConversation:
    """A silent row that only names the file, so that it isn't read again."""
    return IndexedConversation(
        session_id=conversation.session_id,
        source=conversation.source,
        file=conversation.file,
        row=conversation.row,
        folder=conversation.folder,
        project=conversation.project,
        part_of=conversation.part_of,
        size=conversation.size,
        modified=conversation.modified,
        silent=True,
    )


def _must_be_summed_up(conversation: IndexedConversation, known: IndexedConversation) -> bool:
    if conversation.summary.by not in ("", "made"):
        return False  # from its own notes, or requested by a person
    before, now = known.cursor.offset, conversation.cursor.offset
    return now < ALWAYS_SUMMED_UP or not conversation.summary.by or now > 1.1 * before


@lru_cache(4096)
def _left_out(project: str, folder: str, patterns: tuple[str, ...]) -> bool:
    is_named = any(
        fnmatchcase(folder.casefold(), pattern.strip().casefold()) for pattern in patterns if folder
    )
    return is_named or (bool(project) and is_excluded(project, patterns))


LOT = 4 << 20  # bytes that a process reads before it returns results, which is the step of the progress bar
AHEAD = 2  # lots per process that are running or waiting to be written

log = logging.getLogger(__name__)
_at_work: list[Preparer] = []  # the preparer of this worker process


def prepare_in_process(
    tasks: Iterable[IndexTask],
    transcripts: Transcripts,
    rules: IndexRules,
    *,
    check: Check,
    piece: int = PIECE,
) -> Iterator[PreparedPiece]:
    """Prepare in this process, piece by piece. Raises what `check` raises."""
    preparer = Preparer(transcripts, rules, piece=piece)
    for task in tasks:
        for prepared in preparer.pieces(task, most=1 << 62):
            check()
            yield prepared


def prepare_in_workers(
    tasks: Iterable[IndexTask], transcripts: Transcripts, rules: IndexRules, *, workers: int, check: Check
) -> Iterator[PreparedPiece]:
    """Prepare in `workers` processes, each file's pieces in order; continues here if they can't run."""
    # Spawned, because a fork would inherit the locks of this process's threads.
    spawn = multiprocessing.get_context("spawn")
    waiting = deque(_lots(tasks))
    under_way: dict[Future[list[PreparedPiece]], list[IndexTask]] = {}
    try:
        with ProcessPoolExecutor(workers, spawn, _begin, (transcripts, rules)) as pool:
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < AHEAD * workers:
                        lot = waiting.popleft()
                        under_way[pool.submit(_prepare, lot)] = lot
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        check()
                        results = future.result()
                        del under_way[future]
                        yield from results
                        waiting.extendleft([[task] for task in _unfinished(results)])
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    except (BrokenProcessPool, OSError, ImportError) as error:
        log.warning("history: no processes to prepare with (%s); it goes on in one", type(error).__name__)
        remaining = [task for lot in (*under_way.values(), *waiting) for task in lot]
        yield from prepare_in_process(remaining, transcripts, rules, check=check)


def _unfinished(results: Iterable[PreparedPiece]) -> list[IndexTask]:
    """The files that continue after what was read of them."""
    last = {piece.file.path: piece for piece in results}
    return [
        IndexTask(piece.file, piece.conversation)
        for piece in last.values()
        if piece.more and piece.conversation
    ]


def _lots(tasks: Iterable[IndexTask]) -> Iterator[list[IndexTask]]:
    """Group small files. A file that is longer than a lot ends it, so that another process can continue it."""
    lot: list[IndexTask] = []
    size = 0
    for task in tasks:
        lot.append(task)
        size += max(0, task.file.size - task.begun.cursor.offset)
        if size >= LOT // 2:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot


def _begin(transcripts: Transcripts, rules: IndexRules) -> None:
    """Start a worker process, which ends with its parent in any case."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _at_work.append(Preparer(transcripts, rules))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _prepare(lot: list[IndexTask]) -> list[PreparedPiece]:
    pieces: list[PreparedPiece] = []
    budget = LOT
    for task in lot:
        for prepared in _at_work[0].pieces(task, most=max(budget, 1)):
            pieces.append(prepared)
            budget -= prepared.read
    return pieces
