"""The text of a conversation for extraction: without excluded parts and secrets, in pieces that a model takes."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from mindhold.hooks.environment import OWN_CALL_MARK, SKIP_MARK
from mindhold.ports.transcripts import Role, TranscriptStep, shortened
from mindhold.text.clean import clean
from mindhold.text.redaction import redact


def is_excluded(folder: str, patterns: Iterable[str]) -> bool:
    """Whether the folder, or one above it, is among those left out, whatever the case of its letters.

    A pattern without a slash is a folder's name; one that begins nowhere is meant wherever it fits. * and ? stand for
    anything, a bracket for itself.
    """
    given = Path.cwd() / _expanded(folder)
    places = {_folded(str(each)) for path in (given, given.resolve()) for each in (path, *path.parents)}
    ways = [_folded(way).replace("[", "[[]") for way in _ways(patterns)]
    return any(fnmatchcase(place, way) for way in ways for place in places)


def _ways(patterns: Iterable[str]) -> Iterator[str]:
    """Each pattern as whole paths."""
    for pattern in patterns:
        wanted = _expanded(pattern.strip())
        if wanted.anchor:
            yield str(wanted)
            yield str(wanted.resolve())
        elif parts := [part for part in wanted.parts if part != ".."]:
            yield "*/" + "/".join(parts)


def _folded(path: str) -> str:
    """Signs and letters in one form, as most systems take them for the same."""
    return unicodedata.normalize("NFC", path).casefold().replace("\\", "/")


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a home that nobody has
        return Path(path)


def is_own_call(steps: Sequence[TranscriptStep]) -> bool | None:
    """Whether the conversation is one of ours with a model, by how it begins; None while nobody has spoken."""
    first = next((step for step in steps if step.role is Role.USER), None)
    return None if first is None else OWN_CALL_MARK in first.text


def without_skipped_turns(
    steps: Sequence[TranscriptStep], *, skipping: bool, subagent: bool = False
) -> tuple[list[TranscriptStep], bool]:
    """Without the turns that are marked in what was asked or answered, and whether the last turn is such a one.

    A turn is all from a prompt to the next one; in a sub-agent's own file its prompts count, else they belong to the turn
    that it was called in. `skipping`: the steps go on with a turn that is marked.
    """
    kept: list[TranscriptStep] = []
    turn: list[TranscriptStep] = []
    for step in steps:
        if step.role is Role.USER and (subagent or not step.aside):
            kept += turn
            turn, skipping = [], False
        skipping = skipping or (step.role in (Role.USER, Role.CLAUDE) and SKIP_MARK in step.text)
        if skipping:
            turn = []
        else:
            turn.append(step)
    return [*kept, *turn], skipping


def redacted(steps: Sequence[TranscriptStep]) -> list[TranscriptStep]:
    """Without control characters, secrets and personal data, and only then shortened: before anybody else is shown them."""
    return [
        replace(
            step,
            text=shortened(redact(clean(step.text)).text, step.enough),
            tool=clean(step.tool),
            call=clean(step.call),
        )
        for step in steps
    ]


CHUNK, OVERLAP = 6_000, 500  # characters
LONGEST_FAILURE = 600
_SHORTEST_CUT = 0.5  # of the room: no cut at a blank before that


@dataclass(frozen=True, slots=True)
class Chunk:
    """`lines` are readable, each with its number in the file; the first ones may be the last of the chunk before.

    `steps` are what is new in it: together the chunks have every step once.
    """

    lines: tuple[tuple[int, str], ...]
    steps: tuple[TranscriptStep, ...]


def readable(step: TranscriptStep) -> str:
    """ "USER: ...", "CLAUDE: ...", "TOOL [Write]: path"; of results only those that failed say something."""
    text = step.text.strip()
    if step.role is Role.RESULT:
        if not step.failed:
            return ""
        return f"TOOL [{step.tool or '?'}] failed: {text[:LONGEST_FAILURE]}".rstrip()
    if step.role is Role.TOOL:
        return f"TOOL [{step.tool}]: {text}".rstrip()
    return f"{step.role.value}: {text}" if text else ""


def chunks(steps: Sequence[TranscriptStep], *, size: int = CHUNK, overlap: int = OVERLAP) -> list[Chunk]:
    """Cut between messages; within one only where it is too long for a chunk by itself."""
    made: list[Chunk] = []
    lines: list[tuple[int, str]] = []
    own: list[TranscriptStep] = []
    carried = 0  # lines of the chunk before
    for step in steps:
        parts = list(_parts(readable(step), size=size, overlap=overlap))
        for number, part in enumerate(parts):
            if len(lines) > carried and _length(lines) + len(part) + 1 > size:
                made.append(Chunk(tuple(lines), tuple(own)))
                # The parts of a long message overlap by themselves.
                lines = [] if number else _tail(lines, room=min(overlap, size - len(part) - 1))
                carried, own = len(lines), []
            lines.append((step.line, part))
            if number == 0:
                own.append(step)
        if not parts:
            own.append(step)
    if len(lines) > carried or own:
        made.append(Chunk(tuple(lines), tuple(own)))
    return made


def _parts(text: str, *, size: int, overlap: int) -> Iterator[str]:
    """The text, or pieces of it that fit and overlap; none of an empty one."""
    while len(text) > size:
        cut = _blank(text, least=int(size * _SHORTEST_CUT), most=size)
        yield text[:cut].rstrip()
        text = text[max(1, _begin(text, cut - overlap)) :]
    if text:
        yield text


def _blank(text: str, *, least: int, most: int) -> int:
    """Where to cut at the latest: at the end of a line, else of a word, else just there."""
    for mark in ("\n", " "):
        place = text.rfind(mark, least, most)
        if place > 0:
            return place + 1
    return most


def _begin(text: str, place: int) -> int:
    """The beginning of a word near there."""
    blank = text.find(" ", place, place + 40)
    return blank + 1 if blank >= 0 else place


def _tail(lines: Sequence[tuple[int, str]], *, room: int) -> list[tuple[int, str]]:
    """The last lines that fit; of one that doesn't, its end."""
    kept: list[tuple[int, str]] = []
    for number, text in reversed(lines):
        left = room - _length(kept) - 1
        if len(text) > left:
            if left > room // 2:
                kept.insert(0, (number, text[_begin(text, len(text) - left) :]))
            break
        kept.insert(0, (number, text))
    return kept


def _length(lines: Sequence[tuple[int, str]]) -> int:
    return sum(len(text) + 1 for _, text in lines)
