"""A conversation as it was: from its file, else from the archive, else as far as the index has it. Without secrets."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mindhold.engine.capture.bounds import redacted, unskipped
from mindhold.engine.core import Engine
from mindhold.engine.history.apart import apart
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.naming import conversation_named
from mindhold.engine.text.suspicion import suspicion
from mindhold.model.errors import NotFound, StoreError
from mindhold.ports.history import Conversation, Utterance
from mindhold.ports.transcripts import Check, Cursor, Role, Step, Transcripts, shortened

PIECE = 4 << 20  # bytes that are read at once
LONGEST_RESULT = 300  # of what a tool gave back
SUSPICIOUS = 0.5
T = TypeVar("T", Step, Utterance)
BEFORE = 0.4  # of what is shown around a line, the part that stands before it


class Source(StrEnum):
    """What a conversation was read from."""

    FILE = "file"
    ARCHIVE = "archive"
    INDEX = "index"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was said, and why it looks like an instruction to whoever reads it; empty where it doesn't."""

    said: Utterance
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A stretch of a conversation. `after` is the line to ask for what follows; None at the end."""

    conversation: Conversation
    spoken: tuple[Spoken, ...]
    source: Source
    earlier: bool = False  # something stands before it
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Which stretch: behind a line, or around one, and how much of it at most."""

    most: int
    after: int = 0
    around: int | None = None

    @property
    def before(self) -> int:
        return int(self.most * BEFORE)


async def read_conversation(
    engine: Engine, session: str, *, around: int | None = None, most: int, after: int = 0
) -> Shown:
    """By its id, a unique part of it, or its file. Raises NotFound, InvalidInput listing the candidates."""
    conversation = await conversation_named(engine, session)
    return await stretch_of(engine, conversation, Window(most, after, around))


async def stretch_of(engine: Engine, conversation: Conversation, window: Window) -> Shown:
    """From whatever has it."""

    def read(check: Check) -> Shown:
        for source, found in _READERS.items():
            if (cut := found(engine, conversation, window, check)) is not None:
                spoken = tuple(Spoken(one, _doubts(one)) for one in cut.kept)
                return Shown(conversation, spoken, source, cut.earlier, cut.after)
        return Shown(conversation, (), Source.NOWHERE)

    return await apart(read)


async def text_of(engine: Engine, conversation: Conversation, *, longest: int) -> str:
    """All of it as a person would read it, as far as that fits: its beginning and its end."""
    shown = await stretch_of(engine, conversation, Window(most=longest // 20))
    return shortened("\n".join(in_words(one.said) for one in shown.spoken), longest)


def in_words(said: Utterance) -> str:
    """`USER: ...`, `TOOL [Bash]: ...`."""
    if said.role is Role.RESULT:
        return f"RESULT [{said.tool or '?'}]{' failed' if said.failed else ''}: {said.text}".rstrip()
    return f"{said.role.value}{f' [{said.tool}]' if said.role is Role.TOOL else ''}: {said.text}".rstrip()


@dataclass(frozen=True, slots=True)
class _Cut:
    kept: tuple[Utterance, ...]
    earlier: bool
    after: int | None


def _of_file(engine: Engine, conversation: Conversation, window: Window, check: Check) -> _Cut | None:
    if conversation.gone or not conversation.file.is_file():
        return None
    return _of_transcript(engine, conversation.file, conversation, window, check)


def _of_archive(engine: Engine, conversation: Conversation, window: Window, check: Check) -> _Cut | None:
    """Unpacked beside our own files, for the owner only, as long as it is read."""
    with tempfile.TemporaryDirectory(prefix=".reading-", dir=engine.policy.home) as folder:
        file = Path(folder) / conversation.file.name
        try:
            engine.archive.unpack(archive_name(conversation), file)
        except (NotFound, StoreError, OSError):  # the index may still have the words
            return None
        return _of_transcript(engine, file, conversation, window, check)


def _of_transcript(
    engine: Engine, file: Path, conversation: Conversation, window: Window, check: Check
) -> _Cut | None:
    steps = _steps(engine.transcripts, file, conversation, check)
    found, earlier, after = _cut(steps, window)
    kept = redacted(found) if engine.policy.redact else found
    return _Cut(tuple(_utterance(step) for step in kept), earlier, after)


def _of_index(engine: Engine, conversation: Conversation, window: Window, _check: Check) -> _Cut | None:
    passages = [one for _, one in engine.history.passages_of(conversation.row) if not one.head]
    if not passages:
        return None
    said = (one for passage in passages for one in passage.utterances)
    kept, earlier, after = _cut(said, window)
    return _Cut(tuple(kept), earlier, after)


_READERS: Mapping[Source, Callable[[Engine, Conversation, Window, Check], _Cut | None]] = {
    Source.FILE: _of_file,
    Source.ARCHIVE: _of_archive,
    Source.INDEX: _of_index,
}


def _steps(transcripts: Transcripts, file: Path, conversation: Conversation, check: Check) -> Iterator[Step]:
    """Piece by piece: no more than one is held."""
    cursor, skipping = Cursor(), False
    while True:
        check()
        piece = transcripts.follow(file, cursor, most_bytes=PIECE, source=conversation.source)
        if piece is None:
            return
        subagent = bool(conversation.part_of)
        steps, skipping = unskipped(piece.steps, skipping=skipping, subagent=subagent)
        yield from steps
        if not piece.more:
            return
        cursor = piece.cursor


def _cut(said: Iterable[T], window: Window) -> tuple[list[T], bool, int | None]:
    """What the window shows, whether something stands before it, and the last line where more follows."""
    rest = iter(said)
    passed = 0
    before: deque[T] = deque(maxlen=0 if window.around is None else window.before)
    wanted = window.after + 1 if window.around is None else window.around
    kept: list[T] = []
    for one in rest:
        if one.line >= wanted:
            kept.extend(before)
            kept.append(one)
            break
        passed += 1
        before.append(one)
    else:
        return list(before), passed > len(before), None  # there is no such line: what comes before it
    kept += islice(rest, max(0, window.most - len(kept)))
    more = next(rest, None)
    while more is not None and more.line == kept[-1].line:  # a line is told whole
        kept.append(more)
        more = next(rest, None)
    return kept, passed > len(before), kept[-1].line if more is not None else None


def _utterance(step: Step) -> Utterance:
    text = shortened(step.text, LONGEST_RESULT) if step.role is Role.RESULT else step.text
    return Utterance(step.role, step.line, text, step.timestamp, step.tool, step.failed)


def _doubts(said: Utterance) -> tuple[str, ...]:
    found = suspicion(said.text)
    return found.reasons if found.score >= SUSPICIOUS else ()
