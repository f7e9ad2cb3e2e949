"""The text of a conversation for extraction: without excluded parts and secrets, in chunks that fit a model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from mindhold.hooks.environment import OWN_CALL_MARK, SKIP_MARK
from mindhold.ports.transcripts import (
    OMITTED,
    Role,
    TranscriptCursor,
    Transcripts,
    TranscriptStep,
    shortened,
)
from mindhold.text.clean import clean
from mindhold.text.redaction import redact


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Whether the folder, or one above it, matches an excluded pattern, ignoring case.

    A pattern without a slash is a folder's name; a relative one matches anywhere. * and ? match anything, a bracket
    matches itself.
    """
    absolute = Path.cwd() / _expand_home(folder)
    folders = {
        _normalize(str(parent)) for path in (absolute, absolute.resolve()) for parent in (path, *path.parents)
    }
    path_patterns = [_normalize(pattern).replace("[", "[[]") for pattern in _path_patterns(patterns)]
    return any(fnmatchcase(name, pattern) for pattern in path_patterns for name in folders)


def _path_patterns(patterns: Iterable[str]) -> Iterator[str]:
    """Yield each pattern as patterns of whole paths."""
    for pattern in patterns:
        path = _expand_home(pattern.strip())
        if path.anchor:
            yield str(path)
            yield str(path.resolve())
        elif parts := [part for part in path.parts if part != ".."]:
            yield "*/" + "/".join(parts)


def _normalize(path: str) -> str:
    """Normalise letters and case, which most systems treat as equal."""
    return unicodedata.normalize("NFC", path).casefold().replace("\\", "/")


def _expand_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a home that nobody has
        return Path(path)


def is_own_call(steps: Sequence[TranscriptStep]) -> bool | None:
    """Whether the conversation is Mindhold's own call of a model, by its beginning; None while nobody has spoken."""
    first = next((step for step in steps if step.role is Role.USER), None)
    return None if first is None else OWN_CALL_MARK in first.text


def without_skipped_turns(
    steps: Sequence[TranscriptStep], *, skipping: bool, subagent: bool = False
) -> tuple[list[TranscriptStep], bool]:
    """Remove the turns whose prompt or answer has the skip mark, and return whether the last turn is one.

    A turn goes from a prompt to the next one; in a sub-agent's own file its prompts count, else they belong to the turn that
    called it. `skipping`: the steps continue a marked turn.
    """
    remaining: list[TranscriptStep] = []
    turn: list[TranscriptStep] = []
    for step in steps:
        if step.role is Role.USER and (subagent or not step.aside):
            remaining += turn
            turn, skipping = [], False
        skipping = skipping or (step.role in (Role.USER, Role.CLAUDE) and SKIP_MARK in step.text)
        if skipping:
            turn = []
        else:
            turn.append(step)
    return [*remaining, *turn], skipping


def redact_steps(steps: Iterable[TranscriptStep]) -> list[TranscriptStep]:
    """Remove control characters, secrets and personal data, and only then shorten the steps."""
    return [
        replace(
            step,
            text=shortened(redact(clean(step.text)).text, step.enough),
            tool=clean(step.tool),
            call=clean(step.call),
        )
        for step in steps
    ]


CHUNK_CHARACTERS, OVERLAP_CHARACTERS = 6_000, 500  # characters
LONGEST_FAILURE = 600
LONGEST_ANSWER = 800  # of the person's answers to a question
_SHORTEST_CUT = 0.5  # of the room: no cut at a space before that
_SHELLS = frozenset(("Bash", "PowerShell", "Shell", "bash", "shell"))
_ASKING_TOOLS = frozenset(("AskUserQuestion", "ExitPlanMode"))
_ANSWERED = "USER answered: "
_REFUSED = re.compile(
    r"\s*(?:\[Request interrupted|The user doesn't want to|User rejected|Interrupted by user)"
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a conversation. `lines` are readable, with their numbers; the first ones may repeat the chunk before.

    `steps` are the new ones: together the chunks have every step once.
    """

    lines: tuple[tuple[int, str], ...]
    steps: tuple[TranscriptStep, ...]


def readable(step: TranscriptStep) -> str:
    """Format a step: "USER: ...", "CLAUDE: ...", "TOOL [Write]: path"; empty for results that say nothing.

    Of a result that didn't fail only the fact is told, and what the person answered or refused.
    """
    text = step.text.strip()
    if step.role is Role.RESULT:
        if step.failed:
            return f"TOOL [{step.tool or '?'}] failed: {text[:LONGEST_FAILURE]}".rstrip()
        if _REFUSED.match(text):
            return f"USER refused TOOL [{step.tool or '?'}]"
        if step.tool in _ASKING_TOOLS:
            return f"{_ANSWERED}{text[:LONGEST_ANSWER]}".rstrip()
        return f"TOOL [{step.tool}] passed" if step.tool in _SHELLS else ""
    if step.role is Role.TOOL:
        return f"TOOL [{step.tool}]: {text}".rstrip()
    return f"{step.role.value}: {text}" if text else ""


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """What the person typed, at a line of the transcript. `objecting`: to refuse or to stop something."""

    line: int
    text: str
    objecting: bool = False


def person_messages(steps: Iterable[TranscriptStep]) -> list[PersonMessage]:
    """Return what the person said, answers to questions included; what a sub-agent was told is left out."""
    messages: list[PersonMessage] = []
    for step in steps:
        if step.aside or not (text := step.text.strip()):
            continue
        if step.role is Role.USER:
            messages.append(PersonMessage(step.line, text, step.objecting))
        elif step.role is Role.RESULT and (answer := readable(step)).startswith(_ANSWERED):
            messages.append(PersonMessage(step.line, answer.removeprefix(_ANSWERED)))
    return messages


MAX_EARLIER_BYTES = 64 << 20  # of a file that is read once more for what the person said before
_EARLIER_PIECE = 4 << 20


def earlier_messages(transcripts: Transcripts, file: Path, *, before: int) -> list[PersonMessage]:
    """Read what the person said before that line of the file, without secrets and marked turns."""
    messages: list[PersonMessage] = []
    cursor, skipping = TranscriptCursor(), False
    while cursor.offset < MAX_EARLIER_BYTES:
        piece = transcripts.follow(file, cursor, most_bytes=_EARLIER_PIECE)
        if piece is None:
            break
        steps, skipping = without_skipped_turns(piece.steps, skipping=skipping)
        said = [step for step in steps if step.line < before and step.role in (Role.USER, Role.RESULT)]
        messages += person_messages(redact_steps(step for step in said if _is_of_person(step)))
        if not piece.more or piece.cursor.line >= before:
            break
        cursor = piece.cursor
    return messages


def _is_of_person(step: TranscriptStep) -> bool:
    return step.role is Role.USER or step.tool in _ASKING_TOOLS


ENDING_CHARACTERS = 2_400  # of the end of a conversation
LONGEST_ENDING_LINE = 900


def ending(steps: Sequence[TranscriptStep]) -> tuple[tuple[int, str], ...]:
    """Return the last readable lines, each with its number; long ones are shortened in the middle."""
    lines: list[tuple[int, str]] = []
    for step in reversed(steps):
        if not (text := shortened(readable(step), LONGEST_ENDING_LINE)):
            continue
        if _length(lines) + len(text) > ENDING_CHARACTERS:
            break
        lines.insert(0, (step.line, text.replace(OMITTED, " [...] ")))
    return tuple(lines)


def chunks(
    steps: Sequence[TranscriptStep], *, size: int = CHUNK_CHARACTERS, overlap: int = OVERLAP_CHARACTERS
) -> list[Chunk]:
    """Cut the steps into chunks between messages; a message is only cut if it is too long for a chunk."""
    result: list[Chunk] = []
    lines: list[tuple[int, str]] = []
    own_steps: list[TranscriptStep] = []
    carried = 0  # lines of the chunk before
    for step in steps:
        parts = list(_parts(readable(step), size=size, overlap=overlap))
        for number, part in enumerate(parts):
            if len(lines) > carried and _length(lines) + len(part) + 1 > size:
                result.append(Chunk(tuple(lines), tuple(own_steps)))
                # The parts of a long message overlap by themselves.
                lines = [] if number else _last_lines(lines, room=min(overlap, size - len(part) - 1))
                carried, own_steps = len(lines), []
            lines.append((step.line, part))
            if number == 0:
                own_steps.append(step)
        if not parts:
            own_steps.append(step)
    if len(lines) > carried or own_steps:
        result.append(Chunk(tuple(lines), tuple(own_steps)))
    return result


def _parts(text: str, *, size: int, overlap: int) -> Iterator[str]:
    """Yield the text, or overlapping pieces of it that fit; none of an empty one."""
    while len(text) > size:
        cut = _find_cut(text, least=int(size * _SHORTEST_CUT), most=size)
        yield text[:cut].rstrip()
        text = text[max(1, _word_start(text, cut - overlap)) :]
    if text:
        yield text


def _find_cut(text: str, *, least: int, most: int) -> int:
    """Return where to cut: at the last line end, else at the last space, else at `most`."""
    for separator in ("\n", " "):
        index = text.rfind(separator, least, most)
        if index > 0:
            return index + 1
    return most


def _word_start(text: str, index: int) -> int:
    """Return the beginning of a word near the index."""
    blank = text.find(" ", index, index + 40)
    return blank + 1 if blank >= 0 else index


def _last_lines(lines: Sequence[tuple[int, str]], *, room: int) -> list[tuple[int, str]]:
    """Return the last lines that fit; of one that doesn't, its end."""
    tail: list[tuple[int, str]] = []
    for number, text in reversed(lines):
        space = room - _length(tail) - 1
        if len(text) > space:
            if space > room // 2:
                tail.insert(0, (number, text[_word_start(text, len(text) - space) :]))
            break
        tail.insert(0, (number, text))
    return tail


def _length(lines: Sequence[tuple[int, str]]) -> int:
    return sum(len(text) + 1 for _, text in lines)
