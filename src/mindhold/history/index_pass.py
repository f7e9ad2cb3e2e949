"""One pass over the transcript files: reads what is new or changed, removes what is gone or excluded."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from mindhold.engine import Engine
from mindhold.history.index_guard import is_known_by_name
from mindhold.history.passages import is_due, joined, note_of, updated_head
from mindhold.history.preparation import (
    PIECE,
    SMALL_PIECE,
    IndexRules,
    IndexTask,
    PreparedPiece,
    has_changed,
    has_half_line,
    is_empty,
    is_left_out,
    new_conversation,
    only_its_name,
    prepare_in_process,
    prepare_in_workers,
    requested_summary,
    was_excluded,
)
from mindhold.model.lexemes import LexemeCache
from mindhold.operations import Output
from mindhold.ports.history import IndexedConversation, Passage
from mindhold.ports.transcripts import Check, ConversationFile


def missing_conversations(
    known: Iterable[IndexedConversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[IndexedConversation]:
    """Conversations whose file is gone while its root folder, or its own folder, exists.

    Files on a disk that isn't mounted count as present.
    """
    present = list(roots)
    return [
        conversation
        for conversation in known
        if not conversation.gone
        and conversation.file not in there
        and is_gone(conversation.file)
        and (
            any(conversation.file.is_relative_to(root) for root in present)
            or conversation.file.parent.is_dir()
        )
    ]


def deleted_conversations(
    lost: Iterable[IndexedConversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[IndexedConversation]:
    """Those of the missing conversations that were surely deleted.

    Their own folder exists, or other files of the same root do: an empty root may be the mount point of a
    disk that is away.
    """
    filled = [root for root in roots if any(file.is_relative_to(root) for file in there)]
    return [
        conversation
        for conversation in lost
        if conversation.file.parent.is_dir() or any(conversation.file.is_relative_to(root) for root in filled)
    ]


def is_gone(file: Path) -> bool:
    """Whether the file is gone. An emptied file is; one behind a broken link isn't, because a disk may be away."""
    try:
        facts = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return not any(folder.is_symlink() and not folder.exists() for folder in file.parents)
    except OSError:  # it may exist without being accessible
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size == 0


MUCH = 32 << 20  # bytes from which on worker processes pay off
AT_ONCE, PASSAGES_AT_ONCE = 32 << 20, 2_000  # bytes read and passages that are written in one transaction
SECONDS_AT_ONCE = 2.0  # seconds after which a batch is written, however small
HEADS_AT_ONCE = 200
MOST_WARNINGS = 1_000

# An argument of HistoryIndex.put_many.
Row = tuple[IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]
log = logging.getLogger(__name__)
_logged: set[tuple[str, int]] = set()  # lines that were logged once; every pass meets them again


class MisreadView(Output):
    """A line that can't be read; line 0 means the whole file."""

    file: str
    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class PassLimits:
    """Where a pass stops. `files` restricts it to those."""

    most_bytes: int | None = None
    deadline: float | None = None  # by monotonic()
    files: frozenset[Path] | None = None
    workers: int = 0
    anew: bool = False


@dataclass(slots=True)
class PassProgress:
    """What a pass has done so far."""

    known: int = 0  # conversations that were indexed before
    files: set[Path] = field(default_factory=set)
    touched: dict[Path, IndexedConversation] = field(default_factory=dict)
    bytes: int = 0
    passages: int = 0
    vanished: int = 0
    excluded: int = 0
    reread: int = 0  # conversations that had been read by other rules
    total: int = 0  # bytes to read
    stopped: bool = False  # before everything was read
    untitled: int = 0  # conversations left without a title for lack of time
    moved: list[IndexedConversation] = field(default_factory=list)  # their rows before the move
    warnings: list[MisreadView] = field(default_factory=list)
    untold: int = 0  # warnings beyond MOST_WARNINGS

    @property
    def left(self) -> int:
        """Bytes that are still to read, plus one for each missing title."""
        return self.untitled + (max(0, self.total - self.bytes) if self.stopped else 0)


def index_rules(engine: Engine) -> IndexRules:
    """The index rules from the settings."""
    history = engine.settings.history
    return IndexRules(
        exclude=engine.settings.history_excluded,
        subagents=history.subagents,
        redacting=engine.settings.intake.redact,
        agents=history.agent_names,
    )


class IndexPass:
    """Runs one pass over all transcripts.

    The caller holds the index turn. Raises StoreError, and what `check` raises.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        forgotten: Collection[str],
        limits: PassLimits,
        check: Check,
        tell: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self.done = PassProgress()
        self._index = engine.history
        self._transcripts = engine.transcripts
        self._rules = index_rules(engine)
        self._forgotten = forgotten
        self._limits = limits
        self._tell = tell
        self._check = check
        self._words = LexemeCache()

    def run(self) -> PassProgress:
        all_files = self._transcripts.files()
        paths = {file.path for file in all_files}
        files = [file for file in all_files if self._is_wanted(file)]
        by_file = {conversation.file: conversation for conversation in self._index.conversations()}
        self.done.known = len(by_file)
        self._drop(by_file)
        self._follow_moves(files, by_file, there=paths)
        tasks = list(self._tasks(files, by_file))
        self.done.total = sum(_unread(task) for task in tasks)
        if tasks:
            self._read(tasks)
        self._title({file.path: file for file in files}, by_file)
        if self._limits.files is None or any(path in by_file for path in self._limits.files):
            self._let_go(by_file.values(), there=paths)
        if self._limits == PassLimits(workers=self._limits.workers, anew=self._limits.anew):
            self._index.tidy()
        return self.done

    def unread(self) -> int:
        """Count the bytes that a pass would read, without reading them. Needs no index turn."""
        by_file = {conversation.file: conversation for conversation in self._index.conversations()}
        files = (file for file in self._transcripts.files() if self._is_wanted(file))
        return sum(_unread(task) for task in self._tasks(files, by_file))

    def _is_wanted(self, file: ConversationFile) -> bool:
        if self._limits.files is not None and file.path not in self._limits.files:
            return False
        if file.part_of and not self._rules.subagents:
            return False
        return file.path.stem not in self._forgotten and file.part_of not in self._forgotten

    def _drop(self, known: dict[Path, IndexedConversation]) -> None:
        """Remove forgotten and excluded conversations; excluded files keep a silent row and aren't read again."""
        visible = [conversation for conversation in known.values() if not conversation.silent]
        removed = [
            conversation
            for conversation in visible
            if self._is_forgotten(conversation) or self._is_unwanted(conversation)
        ]
        for conversation in removed:
            del known[conversation.file]
        excluded = [
            conversation
            for conversation in visible
            if conversation.file in known and is_left_out(conversation, self._rules)
        ]
        if removed or excluded:
            self._index.remove([conversation.row for conversation in (*removed, *excluded)])
        self.done.excluded += len(excluded)
        silent = [
            replace(only_its_name(conversation), row=0) for conversation in excluded if not conversation.gone
        ]
        silent += [
            replace(only_its_name(conversation), row=0, cursor=conversation.cursor)
            for conversation in removed
            if self._is_hidden(conversation)
        ]
        if silent:
            for conversation in self._index.put_many([(row, (), b"", (), False) for row in silent]):
                known[conversation.file] = conversation

    def _is_forgotten(self, one: IndexedConversation) -> bool:
        return one.session_id in self._forgotten or one.part_of in self._forgotten

    def _is_hidden(self, one: IndexedConversation) -> bool:
        """Whether it is forgotten and only its content shows that, so that a silent row must remember it."""
        if one.gone or not one.cursor.offset or not self._is_forgotten(one):
            return False
        return not is_known_by_name(one, self._forgotten)

    def _is_unwanted(self, one: IndexedConversation) -> bool:
        return not self._rules.want(one.source) or (bool(one.part_of) and not self._rules.subagents)

    def _is_by_others(self, one: IndexedConversation) -> bool:
        """Whether it was read by other rules than the current ones."""
        return one.rules != self._rules.mark and (not one.silent or is_empty(one))

    def _tasks(
        self, files: Iterable[ConversationFile], known: Mapping[Path, IndexedConversation]
    ) -> Iterator[IndexTask]:
        for file in files:
            conversation = known.get(file.path)
            if conversation is None:
                yield IndexTask(file, new_conversation(file))
            elif was_excluded(conversation):
                if not is_left_out(conversation, self._rules):
                    yield IndexTask(file, new_conversation(file, conversation), anew=True)
            elif conversation.silent and self._is_forgotten(conversation):
                continue
            elif self._limits.anew:
                yield IndexTask(file, _again(file, conversation, self._rules), anew=True)
            elif self._is_by_others(conversation):
                self.done.reread += 1
                yield IndexTask(file, _again(file, conversation, self._rules), anew=True)
            elif conversation.silent and not is_empty(conversation):
                continue
            elif conversation.gone or has_changed(conversation, file) or has_half_line(conversation, file):
                yield IndexTask(file, conversation)

    def _read(self, tasks: Sequence[IndexTask]) -> None:
        workers = self._limits.workers if self.done.total > MUCH else 0
        prepared = (
            prepare_in_workers(tasks, self._transcripts, self._rules, workers=workers, check=self._check)
            if workers > 0
            else prepare_in_process(
                tasks,
                self._transcripts,
                self._rules,
                check=self._check,
                piece=PIECE if self._limits.deadline is None else SMALL_PIECE,
            )
        )
        batch: list[PreparedPiece] = []
        bytes_read, passage_count, since = 0, 0, monotonic()
        self._tell(0, self.done.total)
        for prepared_piece in prepared:
            self._note(prepared_piece)
            batch.append(prepared_piece)
            bytes_read += prepared_piece.read
            passage_count += len(prepared_piece.passages)
            is_much = bytes_read >= AT_ONCE or passage_count >= PASSAGES_AT_ONCE
            if is_much or monotonic() - since > SECONDS_AT_ONCE:
                self._write(batch)
                batch, bytes_read, passage_count, since = [], 0, 0, monotonic()
            self._tell(min(self.done.bytes, self.done.total), self.done.total)
            most = self._limits.most_bytes
            if (most is not None and self.done.bytes >= most) or self._is_late():
                self.done.stopped = True
                break
        self._write(batch)
        self._log()
        self._tell(self.done.total - self.done.left, self.done.total)

    def _is_late(self) -> bool:
        return self._limits.deadline is not None and monotonic() >= self._limits.deadline

    def _note(self, one: PreparedPiece) -> None:
        self.done.bytes += one.read
        self.done.files.add(one.file.path)
        unreadable = _misread(one)
        listed = unreadable[: MOST_WARNINGS - len(self.done.warnings)]
        self.done.warnings += listed
        self.done.untold += len(unreadable) - len(listed)

    def _log(self) -> None:
        """Log one line for all new warnings; the index command lists them."""
        files = {warning.file: warning for warning in reversed(self.done.warnings)}
        new = [warning for warning in reversed(files.values()) if (warning.file, warning.line) not in _logged]
        if not new or len(_logged) >= MOST_WARNINGS:
            return
        _logged.update((warning.file, warning.line) for warning in new)
        place = f"{new[0].file}, line {new[0].line}" if new[0].line else f"{new[0].file}"
        others = sum(warning.file == new[0].file for warning in self.done.warnings) - 1
        message = f"{place}{f' and {others} more' if others else ''}: {new[0].problem}"
        if len(new) > 1:
            message += f" So it is with {len(new) - 1} more: `mindhold history index --all` names them."
        log.warning("history: %s", message)

    def _write(self, held: Iterable[PreparedPiece]) -> None:
        self._check()
        ends: dict[Path, Passage | None] = {}
        rows = [
            self._going_on(self._as_written(piece, piece.conversation), ends)
            for piece in held
            if piece.conversation is not None
        ]
        if not rows:
            return
        for conversation in self._index.put_many(rows):
            if conversation.row:  # else it was removed in the meantime
                self.done.touched[conversation.file] = conversation
                self.done.excluded += was_excluded(conversation)
        self.done.passages += sum(not passage.head for row in rows for passage in row[1])

    def _as_written(self, one: PreparedPiece, conversation: IndexedConversation) -> Row:
        if self._is_forgotten(conversation):  # its first lines show that, its file name doesn't
            silent = replace(only_its_name(conversation), cursor=conversation.cursor)
            return silent, (), b"", (), True
        return conversation, one.passages, one.uuids, one.leaves, one.anew

    def _going_on(self, row: Row, ends: dict[Path, Passage | None]) -> Row:
        """Join the row's passages with the last indexed passage where the conversation continues it.

        `ends` holds the last passages of rows that aren't written yet.
        """
        conversation, passages, uuids, leaves, anew = row
        file, spoken = conversation.file, [passage for passage in passages if not passage.head]
        if anew:
            ends[file] = None
        if not spoken:
            return row
        if file not in ends:
            current = self.done.touched.get(file, conversation)
            ends[file] = self._index.last_passage(current.row) if current.row else None
        if before := ends[file]:
            spoken = joined(before, spoken, self._words)
        ends[file] = spoken[-1]
        heads = [passage for passage in passages if passage.head]
        return conversation, [*spoken, *heads], uuids, leaves, anew

    def _title(
        self, files: Mapping[Path, ConversationFile], known: Mapping[Path, IndexedConversation]
    ) -> None:
        """Make titles, summaries and heads for what was read now, or what an interrupted pass left without."""
        current = {**known, **self.done.touched}
        leaves = self._index.leaf_summaries() if self.done.touched else {}
        rows: list[Row] = []
        for conversation in current.values():
            file = files.get(conversation.file)
            note_modified = file.note_modified if file else None
            if not is_due(conversation, leaves, note_modified=note_modified):
                continue
            if self._is_late():
                self.done.untitled += 1
                continue
            self._check()
            if note_modified is None:
                note_modified = conversation.note_modified
            redacting = self._rules.redacting
            due, head = updated_head(
                conversation,
                self._index,
                self._words,
                leaf=leaves.get(conversation.row, ""),
                note=note_of(self._transcripts, conversation.file, redacting=redacting)
                if note_modified
                else "",
                note_modified=note_modified,
            )
            rows.append((due, (head,), b"", (), False))
            if len(rows) >= HEADS_AT_ONCE:
                self._index.put_many(rows)
                rows = []
        if rows:
            self._index.put_many(rows)

    def _follow_moves(
        self,
        files: Iterable[ConversationFile],
        known: dict[Path, IndexedConversation],
        *,
        there: Collection[Path],
    ) -> None:
        """Recognize files that were moved, so that they keep their conversation."""
        new = {(file.source, file.path.name): file for file in files if file.path not in known}
        for conversation in list(known.values()) if new else ():
            old, name = conversation.file, (conversation.source, conversation.file.name)
            file = new.get(name)
            if file is None or conversation.silent or old in there or not is_gone(old):
                continue
            if self._goes_on(conversation, file):
                del known[old], new[name]
                known[file.path] = replace(
                    conversation, file=file.path, folder=file.folder, gone=False, modified=0
                )
                self.done.moved.append(conversation)

    def _goes_on(self, one: IndexedConversation, file: ConversationFile) -> bool:
        if not 0 < one.cursor.offset <= file.size or one.part_of != file.part_of:
            return False
        followed = self._transcripts.follow(file.path, one.cursor, most_bytes=1)
        return followed is not None and not followed.restarted

    def _let_go(self, known: Iterable[IndexedConversation], *, there: Collection[Path]) -> None:
        """Remove conversations whose file is gone; archived ones stay as gone. A missing disk removes nothing."""
        requested = self._limits.files
        roots = self._transcripts.roots()
        candidates = (one for one in known if requested is None or one.file in requested)
        missing = missing_conversations(candidates, there=there, roots=roots)
        archived = [conversation for conversation in missing if conversation.archived > 0]
        deleted = deleted_conversations(
            (conversation for conversation in missing if conversation.archived <= 0), there=there, roots=roots
        )
        if deleted:
            self._index.remove([conversation.row for conversation in deleted], at_once=False)
        if archived:
            self._index.put_many(
                [(replace(conversation, gone=True), (), b"", (), False) for conversation in archived]
            )
        self.done.vanished = len(archived) + len(deleted)


def _misread(piece: PreparedPiece) -> list[MisreadView]:
    problems = piece.bad
    if piece.conversation is None:
        problems = [(0, "The file can't be read.")]
    elif piece.bad and piece.bad[0][0] and not piece.more and is_empty(piece.conversation):
        problems = [(0, "It is no conversation: nothing in it can be read as one.")]
    file = os.fsencode(piece.file.path).decode("utf-8", "replace")  # whatever bytes its name has
    return [MisreadView(file=file, line=line, problem=problem) for line, problem in problems]


def _again(file: ConversationFile, one: IndexedConversation, rules: IndexRules) -> IndexedConversation:
    """The conversation, to be read from its beginning."""
    return replace(new_conversation(file, one), archived=one.archived, summary=requested_summary(one, rules))


def _unread(task: IndexTask) -> int:
    start = task.begun.cursor.offset
    return task.file.size - start if task.file.size >= start else task.file.size
