"""One pass over the files there are: what is new or has changed is read, what is gone or left out goes. Blocks.

Whatever is written goes with the cursor behind it, in one transaction: killed anywhere, the next pass goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from recollect.engine.history.crew import prepared_beside, prepared_here
from recollect.engine.history.heads import ASKED_FOR, Heads, is_due
from recollect.engine.history.preparing import (
    Prepared,
    Rules,
    Task,
    begun,
    is_left_out,
    only_its_name,
    was_excluded,
)
from recollect.engine.history.vanishing import vanished
from recollect.ports.history import Conversation, HistoryIndex, Passage, Told
from recollect.ports.transcripts import Check, ConversationFile, Transcripts

MUCH = 32 << 20  # bytes from which on processes are worth their start
AT_ONCE, PASSAGES_AT_ONCE = 32 << 20, 2_000  # bytes read and passages that are written together
SECONDS_AT_ONCE = 2.0  # after which what is there is written, however little
HEADS_AT_ONCE = 200
MOST_WARNINGS = 1_000

Row = tuple[
    Conversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool
]  # of HistoryIndex.put_many
log = logging.getLogger(__name__)
_logged: set[tuple[Path, int]] = set()  # of files that can't be read each pass says so


@dataclass(frozen=True, slots=True)
class Misread:
    """A line that can't be read, or a whole file (line 0)."""

    file: Path
    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a pass stops; `files`: only those."""

    most_bytes: int | None = None
    deadline: float | None = None  # by monotonic()
    files: frozenset[Path] | None = None
    workers: int = 0
    anew: bool = False


@dataclass(slots=True)
class Done:
    """What a pass has done so far."""

    files: set[Path] = field(default_factory=set)
    touched: dict[Path, Conversation] = field(default_factory=dict)
    bytes: int = 0
    passages: int = 0
    vanished: int = 0
    excluded: int = 0
    total: int = 0  # bytes that there were to read
    stopped: bool = False  # before it was through
    warnings: list[Misread] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Bytes that are to be read yet."""
        return max(0, self.total - self.bytes) if self.stopped else 0


class Pass:
    """Needs the turn. Raises StoreError, and what `check` raises."""

    def __init__(
        self,
        index: HistoryIndex,
        transcripts: Transcripts,
        rules: Rules,
        *,
        forgotten: Collection[str],
        limits: Limits,
        tell: Callable[[int, int], None],
        check: Check,
    ) -> None:
        self.done = Done()
        self._index = index
        self._transcripts = transcripts
        self._rules = rules
        self._forgotten = forgotten
        self._limits = limits
        self._tell = tell
        self._check = check

    def run(self) -> Done:
        files = [file for file in self._transcripts.files() if self._is_wanted(file)]
        known = {one.file: one for one in self._index.conversations()}
        self._drop(known)
        tasks = list(self._tasks(files, known))
        self.done.total = sum(_unread(task) for task in tasks)
        if tasks:
            self._read(tasks)
        self._title({file.path: file for file in files}, known)
        if self._limits.files is None or any(path in known for path in self._limits.files):
            self._let_go(known.values(), there={file.path for file in files})
        return self.done

    def _is_wanted(self, file: ConversationFile) -> bool:
        if self._limits.files is not None and file.path not in self._limits.files:
            return False
        if file.part_of and not self._rules.subagents:
            return False
        return file.path.stem not in self._forgotten and file.part_of not in self._forgotten

    def _drop(self, known: dict[Path, Conversation]) -> None:
        """What was forgotten, and what the rules leave out by now; of the latter it stays in mind which files they are."""
        loud = [one for one in known.values() if not one.silent]
        gone = [one for one in loud if self._is_forgotten(one) or self._is_unwanted_part(one)]
        for one in gone:
            del known[one.file]
        excluded = [one for one in loud if one.file in known and is_left_out(one, self._rules)]
        if gone or excluded:
            self._index.remove([one.row for one in (*gone, *excluded)])
        self.done.excluded += len(excluded)
        silent = [replace(only_its_name(one), row=0) for one in excluded if not one.gone]
        for one in self._index.put_many([(one, (), b"", (), False) for one in silent]) if silent else ():
            known[one.file] = one

    def _is_forgotten(self, one: Conversation) -> bool:
        return one.session_id in self._forgotten or one.part_of in self._forgotten

    def _is_unwanted_part(self, one: Conversation) -> bool:
        return bool(one.part_of) and not self._rules.subagents

    def _tasks(self, files: Iterable[ConversationFile], known: Mapping[Path, Conversation]) -> Iterator[Task]:
        for file in files:
            one = known.get(file.path)
            if one is None:
                yield Task(file, begun(file))
            elif was_excluded(one):
                if not is_left_out(one, self._rules):
                    yield Task(file, begun(file, one), anew=True)
            elif self._limits.anew:
                yield Task(file, _again(file, one), anew=True)
            elif not one.silent and (one.gone or (one.size, one.modified) != (file.size, file.modified)):
                yield Task(file, one)

    def _read(self, tasks: Sequence[Task]) -> None:
        workers = self._limits.workers if self.done.total > MUCH else 0
        prepared = (
            prepared_beside(tasks, self._transcripts, self._rules, workers=workers, check=self._check)
            if workers > 0
            else prepared_here(tasks, self._transcripts, self._rules, check=self._check)
        )
        held: list[Prepared] = []
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
        self._tell(self.done.total - self.done.left, self.done.total)

    def _is_enough(self) -> bool:
        most, deadline = self._limits.most_bytes, self._limits.deadline
        return (most is not None and self.done.bytes >= most) or (
            deadline is not None and monotonic() >= deadline
        )

    def _note(self, one: Prepared) -> None:
        self.done.bytes += one.read
        self.done.files.add(one.file.path)
        path = one.file.path
        found = [
            Misread(path, line, "The line is no JSON object; the rest of the file is kept.")
            for line in one.bad
        ]
        if one.conversation is None:
            found.append(Misread(path, 0, "The file can't be read."))
        self.done.warnings += found[: MOST_WARNINGS - len(self.done.warnings)]
        if found and (path, found[0].line) not in _logged and len(_logged) < MOST_WARNINGS:
            _logged.add((path, found[0].line))
            log.warning(
                "history: %s, line %d and %d more: %s", path, found[0].line, len(found) - 1, found[0].problem
            )

    def _write(self, held: Iterable[Prepared]) -> None:
        self._check()
        rows = [self._as_written(one, one.conversation) for one in held if one.conversation is not None]
        if not rows:
            return
        for written in self._index.put_many(rows):
            if written.row:  # else it was taken out meanwhile
                self.done.touched[written.file] = written
                self.done.excluded += was_excluded(written)
        self.done.passages += sum(not passage.head for row in rows for passage in row[1])

    def _as_written(self, one: Prepared, conversation: Conversation) -> Row:
        if self._is_forgotten(conversation):  # as its first lines tell, not its name
            silent = replace(only_its_name(conversation), cursor=conversation.cursor)
            return silent, (), b"", (), one.anew
        return conversation, one.passages, one.uuids, one.leaves, one.anew

    def _title(self, files: Mapping[Path, ConversationFile], known: Mapping[Path, Conversation]) -> None:
        """Titles, summaries and notes: of what was read now, and of what a pass that was killed left without."""
        current = {**known, **self.done.touched}
        leaves = self._index.leaf_summaries() if self.done.touched else {}
        heads = Heads(self._index, self._transcripts, redacting=self._rules.redacting)
        made: list[Row] = []
        for one in current.values():
            file = files.get(one.file)
            note_modified = file.note_modified if file else None
            if not is_due(one, leaves, note_modified=note_modified):
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

    def _let_go(self, known: Iterable[Conversation], *, there: Collection[Path]) -> None:
        """Of files that are gone; those that the archive has stay, and say so."""
        asked = self._limits.files
        sought = [one for one in known if asked is None or one.file in asked]
        lost = vanished(sought, there=there, roots=self._transcripts.roots())
        if not lost:
            return
        kept = [one for one in lost if one.archived > 0]
        self._index.remove([one.row for one in lost if one.archived <= 0])
        if kept:
            self._index.put_many([(replace(one, gone=True), (), b"", (), False) for one in kept])
        self.done.vanished = len(lost)


def _again(file: ConversationFile, one: Conversation) -> Conversation:
    """To be read from its beginning; the summary that a person asked for stays."""
    summary = one.summary if one.summary.by in ASKED_FOR else Told()
    return replace(begun(file, one), archived=one.archived, summary=summary)


def _unread(task: Task) -> int:
    start = task.begun.cursor.offset
    return task.file.size - start if task.file.size >= start else task.file.size
