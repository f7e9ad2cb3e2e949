"""One pass over the transcript files: reads what is new or changed, removes what is gone or excluded."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from mindhold.history.index_guard import is_known_by_name
from mindhold.history.passages import HeadMaker, is_due, joined
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
from mindhold.ports.history import HistoryIndex, IndexedConversation, Passage
from mindhold.ports.transcripts import Check, ConversationFile, Transcripts


def missing_conversations(
    known: Iterable[IndexedConversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[IndexedConversation]:
    """Those whose file is gone while the folder under which it lay is there: what isn't mounted loses nothing. Of one that
    lies elsewhere, as where the program's folder was another, that is the file's own."""
    present = list(roots)
    return [
        one
        for one in known
        if not one.gone
        and one.file not in there
        and is_gone(one.file)
        and (any(one.file.is_relative_to(root) for root in present) or one.file.parent.is_dir())
    ]


def deleted_conversations(
    lost: Iterable[IndexedConversation], *, there: Collection[Path], roots: Iterable[Path]
) -> list[IndexedConversation]:
    """Of those the ones that were deleted for all that can be told: its own folder is there, or others in the program's. One
    in which nothing is left may be the place of a disk that is away."""
    filled = [root for root in roots if any(file.is_relative_to(root) for file in there)]
    return [
        one
        for one in lost
        if one.file.parent.is_dir() or any(one.file.is_relative_to(root) for root in filled)
    ]


def is_gone(file: Path) -> bool:
    """An emptied one is: its program begins anew. What lies behind a link that leads nowhere isn't: a disk may be away."""
    try:
        facts = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return not any(folder.is_symlink() and not folder.exists() for folder in file.parents)
    except OSError:  # it may be there, and we aren't let
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_size == 0


MUCH = 32 << 20  # bytes from which on processes are worth their start
AT_ONCE, PASSAGES_AT_ONCE = 32 << 20, 2_000  # bytes read and passages that are written together
SECONDS_AT_ONCE = 2.0  # after which what is there is written, however little
HEADS_AT_ONCE = 200
MOST_WARNINGS = 1_000

Row = tuple[
    IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool
]  # of HistoryIndex.put_many
log = logging.getLogger(__name__)
_logged: set[tuple[Path, int]] = set()  # of files that can't be read each pass says so


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that can't be read, or a whole file (line 0)."""

    file: Path
    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class PassLimits:
    """Where a pass stops; `files`: only those."""

    most_bytes: int | None = None
    deadline: float | None = None  # by monotonic()
    files: frozenset[Path] | None = None
    workers: int = 0
    anew: bool = False


@dataclass(slots=True)
class PassProgress:
    """What a pass has done so far."""

    known: int = 0  # conversations that the index had before
    files: set[Path] = field(default_factory=set)
    touched: dict[Path, IndexedConversation] = field(default_factory=dict)
    bytes: int = 0
    passages: int = 0
    vanished: int = 0
    excluded: int = 0
    reread: int = 0  # conversations that were read by other rules
    total: int = 0  # bytes that there were to read
    stopped: bool = False  # before it was through
    untitled: int = 0  # conversations whose titles there was no time for
    moved: list[IndexedConversation] = field(
        default_factory=list
    )  # as they were: their files lie elsewhere now
    warnings: list[UnreadableLine] = field(default_factory=list)
    untold: int = 0  # that there is no room for among the warnings

    @property
    def left(self) -> int:
        """Bytes that are to be read yet; one for each title."""
        return self.untitled + (max(0, self.total - self.bytes) if self.stopped else 0)


class IndexPass:
    """Needs the turn. Raises StoreError, and what `check` raises."""

    def __init__(
        self,
        index: HistoryIndex,
        transcripts: Transcripts,
        rules: IndexRules,
        *,
        forgotten: Collection[str],
        limits: PassLimits,
        tell: Callable[[int, int], None],
        check: Check,
    ) -> None:
        self.done = PassProgress()
        self._index = index
        self._transcripts = transcripts
        self._rules = rules
        self._forgotten = forgotten
        self._limits = limits
        self._tell = tell
        self._check = check
        self._words = LexemeCache()

    def run(self) -> PassProgress:
        every = self._transcripts.files()
        there = {file.path for file in every}
        files = [file for file in every if self._is_wanted(file)]
        known = {one.file: one for one in self._index.conversations()}
        self.done.known = len(known)
        self._drop(known)
        self._follow_moves(files, known, there=there)
        tasks = list(self._tasks(files, known))
        self.done.total = sum(_unread(task) for task in tasks)
        if tasks:
            self._read(tasks)
        self._title({file.path: file for file in files}, known)
        if self._limits.files is None or any(path in known for path in self._limits.files):
            self._let_go(known.values(), there=there)
        if self._limits == PassLimits(workers=self._limits.workers, anew=self._limits.anew):
            self._index.tidy()
        return self.done

    def unread(self) -> int:
        """Bytes that there are to read, and none is. Needs no turn."""
        known = {one.file: one for one in self._index.conversations()}
        files = (file for file in self._transcripts.files() if self._is_wanted(file))
        return sum(_unread(task) for task in self._tasks(files, known))

    def _is_wanted(self, file: ConversationFile) -> bool:
        if self._limits.files is not None and file.path not in self._limits.files:
            return False
        if file.part_of and not self._rules.subagents:
            return False
        return file.path.stem not in self._forgotten and file.part_of not in self._forgotten

    def _drop(self, known: dict[Path, IndexedConversation]) -> None:
        """What was forgotten, and what the rules leave out by now; of the latter it stays in mind which files they are."""
        loud = [one for one in known.values() if not one.silent]
        gone = [one for one in loud if self._is_forgotten(one) or self._is_unwanted(one)]
        for one in gone:
            del known[one.file]
        excluded = [one for one in loud if one.file in known and is_left_out(one, self._rules)]
        if gone or excluded:
            self._index.remove([one.row for one in (*gone, *excluded)])
        self.done.excluded += len(excluded)
        silent = [replace(only_its_name(one), row=0) for one in excluded if not one.gone]
        silent += [
            replace(only_its_name(one), row=0, cursor=one.cursor) for one in gone if self._is_hidden(one)
        ]
        for one in self._index.put_many([(one, (), b"", (), False) for one in silent]) if silent else ():
            known[one.file] = one

    def _is_forgotten(self, one: IndexedConversation) -> bool:
        return one.session_id in self._forgotten or one.part_of in self._forgotten

    def _is_hidden(self, one: IndexedConversation) -> bool:
        """Whether it was forgotten, and only reading its file would tell so: that stays in mind."""
        if one.gone or not one.cursor.offset or not self._is_forgotten(one):
            return False
        return not is_known_by_name(one, self._forgotten)

    def _is_unwanted(self, one: IndexedConversation) -> bool:
        return not self._rules.want(one.source) or (bool(one.part_of) and not self._rules.subagents)

    def _is_by_others(self, one: IndexedConversation) -> bool:
        """Whether it was read by other rules than these."""
        return one.rules != self._rules.mark and (not one.silent or is_empty(one))

    def _tasks(
        self, files: Iterable[ConversationFile], known: Mapping[Path, IndexedConversation]
    ) -> Iterator[IndexTask]:
        for file in files:
            one = known.get(file.path)
            if one is None:
                yield IndexTask(file, new_conversation(file))
            elif was_excluded(one):
                if not is_left_out(one, self._rules):
                    yield IndexTask(file, new_conversation(file, one), anew=True)
            elif one.silent and self._is_forgotten(one):
                continue
            elif self._limits.anew:
                yield IndexTask(file, _again(file, one, self._rules), anew=True)
            elif self._is_by_others(one):
                self.done.reread += 1
                yield IndexTask(file, _again(file, one, self._rules), anew=True)
            elif one.silent and not is_empty(one):
                continue
            elif one.gone or has_changed(one, file) or has_half_line(one, file):
                yield IndexTask(file, one)

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
        held: list[PreparedPiece] = []
        read, made, since = 0, 0, monotonic()
        self._tell(0, self.done.total)
        for one in prepared:
            self._note(one)
            held.append(one)
            read, made = read + one.read, made + len(one.passages)
            if read >= AT_ONCE or made >= PASSAGES_AT_ONCE or monotonic() - since > SECONDS_AT_ONCE:
                self._write(held)
                held, read, made, since = [], 0, 0, monotonic()
            self._tell(min(self.done.bytes, self.done.total), self.done.total)
            if self._is_enough():
                self.done.stopped = True
                break
        self._write(held)
        self._log()
        self._tell(self.done.total - self.done.left, self.done.total)

    def _is_enough(self) -> bool:
        most = self._limits.most_bytes
        return (most is not None and self.done.bytes >= most) or self._is_late()

    def _is_late(self) -> bool:
        return self._limits.deadline is not None and monotonic() >= self._limits.deadline

    def _note(self, one: PreparedPiece) -> None:
        self.done.bytes += one.read
        self.done.files.add(one.file.path)
        found = _misread(one)
        told = found[: MOST_WARNINGS - len(self.done.warnings)]
        self.done.warnings += told
        self.done.untold += len(found) - len(told)

    def _log(self) -> None:
        """One line, however much it is: whoever wants to know all of it asks for it."""
        files = {one.file: one for one in reversed(self.done.warnings)}
        new = [one for one in reversed(files.values()) if (one.file, one.line) not in _logged]
        if not new or len(_logged) >= MOST_WARNINGS:
            return
        _logged.update((one.file, one.line) for one in new)
        place = f"{new[0].file}, line {new[0].line}" if new[0].line else f"{new[0].file}"
        others = sum(one.file == new[0].file for one in self.done.warnings) - 1
        told = f"{place}{f' and {others} more' if others else ''}: {new[0].problem}"
        if len(new) > 1:
            told += f" So it is with {len(new) - 1} more: `mindhold history index --all` names them."
        log.warning("history: %s", told)

    def _write(self, held: Iterable[PreparedPiece]) -> None:
        self._check()
        ends: dict[Path, Passage | None] = {}
        rows = [
            self._going_on(self._as_written(one, one.conversation), ends)
            for one in held
            if one.conversation is not None
        ]
        if not rows:
            return
        for written in self._index.put_many(rows):
            if written.row:  # else it was taken out meanwhile
                self.done.touched[written.file] = written
                self.done.excluded += was_excluded(written)
        self.done.passages += sum(not passage.head for row in rows for passage in row[1])

    def _as_written(self, one: PreparedPiece, conversation: IndexedConversation) -> Row:
        if self._is_forgotten(conversation):  # as its first lines tell, not its name
            silent = replace(only_its_name(conversation), cursor=conversation.cursor)
            return silent, (), b"", (), True
        return conversation, one.passages, one.uuids, one.leaves, one.anew

    def _going_on(self, row: Row, ends: dict[Path, Passage | None]) -> Row:
        """With what the conversation ended with before, where that goes on. `ends` has it of those that aren't written yet."""
        conversation, passages, uuids, leaves, anew = row
        file, said = conversation.file, [passage for passage in passages if not passage.head]
        if anew:
            ends[file] = None
        if not said:
            return row
        if file not in ends:
            known = self.done.touched.get(file, conversation)
            ends[file] = self._index.last_passage(known.row) if known.row else None
        if before := ends[file]:
            said = joined(before, said, self._words)
        ends[file] = said[-1]
        heads = [passage for passage in passages if passage.head]
        return conversation, [*said, *heads], uuids, leaves, anew

    def _title(
        self, files: Mapping[Path, ConversationFile], known: Mapping[Path, IndexedConversation]
    ) -> None:
        """Titles, summaries and notes: of what was read now, and of what a pass that was killed left without."""
        current = {**known, **self.done.touched}
        leaves = self._index.leaf_summaries() if self.done.touched else {}
        heads = HeadMaker(self._index, self._transcripts, redacting=self._rules.redacting)
        made: list[Row] = []
        for one in current.values():
            file = files.get(one.file)
            note_modified = file.note_modified if file else None
            if not is_due(one, leaves, note_modified=note_modified):
                continue
            if self._is_late():
                self.done.untitled += 1
                continue
            self._check()
            due, head = heads.of(
                one,
                leaf=leaves.get(one.row, ""),
                note_modified=one.note_modified if note_modified is None else note_modified,
            )
            made.append((due, (head,), b"", (), False))
            if len(made) >= HEADS_AT_ONCE:
                self._index.put_many(made)
                made = []
        if made:
            self._index.put_many(made)

    def _follow_moves(
        self,
        files: Iterable[ConversationFile],
        known: dict[Path, IndexedConversation],
        *,
        there: Collection[Path],
    ) -> None:
        """A file that lies elsewhere by now is the conversation that it was: what was made of that goes along."""
        new = {(file.source, file.path.name): file for file in files if file.path not in known}
        for one in list(known.values()) if new else ():
            file = new.get((one.source, one.file.name))
            if file is None or one.silent or one.file in there or not is_gone(one.file):
                continue
            if self._goes_on(one, file):
                del known[one.file], new[one.source, one.file.name]
                known[file.path] = replace(one, file=file.path, folder=file.folder, gone=False, modified=0)
                self.done.moved.append(one)

    def _goes_on(self, one: IndexedConversation, file: ConversationFile) -> bool:
        if not 0 < one.cursor.offset <= file.size or one.part_of != file.part_of:
            return False
        followed = self._transcripts.follow(file.path, one.cursor, most_bytes=1)
        return followed is not None and not followed.restarted

    def _let_go(self, known: Iterable[IndexedConversation], *, there: Collection[Path]) -> None:
        """Of files that are gone; those that the archive has stay, and say so. A disk that is away isn't a reason."""
        asked = self._limits.files
        sought = [one for one in known if asked is None or one.file in asked]
        roots = self._transcripts.roots()
        lost = missing_conversations(sought, there=there, roots=roots)
        kept = [one for one in lost if one.archived > 0]
        gone = deleted_conversations((one for one in lost if one.archived <= 0), there=there, roots=roots)
        if gone:
            self._index.remove([one.row for one in gone], at_once=False)
        if kept:
            self._index.put_many([(replace(one, gone=True), (), b"", (), False) for one in kept])
        self.done.vanished = len(kept) + len(gone)


def _misread(one: PreparedPiece) -> list[UnreadableLine]:
    path = one.file.path
    if one.conversation is None:
        return [UnreadableLine(path, 0, "The file can't be read.")]
    if one.bad and one.bad[0][0] and not one.more and is_empty(one.conversation):
        return [UnreadableLine(path, 0, "It is no conversation: nothing in it can be read as one.")]
    return [UnreadableLine(path, line, problem) for line, problem in one.bad]


def _again(file: ConversationFile, one: IndexedConversation, rules: IndexRules) -> IndexedConversation:
    """To be read from its beginning."""
    return replace(new_conversation(file, one), archived=one.archived, summary=requested_summary(one, rules))


def _unread(task: IndexTask) -> int:
    start = task.begun.cursor.offset
    return task.file.size - start if task.file.size >= start else task.file.size
