"""A conversation as a person would read it, in pieces that a model takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mindhold.ports.transcripts import Role, Step

CHUNK, OVERLAP = 6_000, 500  # characters
LONGEST_FAILURE = 600
_SHORTEST_CUT = 0.5  # of the room: no cut at a blank before that


@dataclass(frozen=True, slots=True)
class Chunk:
    """`lines` are readable, each with its number in the file; the first ones may be the last of the chunk before.

    `steps` are what is new in it: together the chunks have every step once.
    """

    lines: tuple[tuple[int, str], ...]
    steps: tuple[Step, ...]


def readable(step: Step) -> str:
    """ "USER: ...", "CLAUDE: ...", "TOOL [Write]: path"; of results only those that failed say something."""
    text = step.text.strip()
    if step.role is Role.RESULT:
        if not step.failed:
            return ""
        return f"TOOL [{step.tool or '?'}] failed: {text[:LONGEST_FAILURE]}".rstrip()
    if step.role is Role.TOOL:
        return f"TOOL [{step.tool}]: {text}".rstrip()
    return f"{step.role.value}: {text}" if text else ""


def chunks(steps: Sequence[Step], *, size: int = CHUNK, overlap: int = OVERLAP) -> list[Chunk]:
    """Cut between messages; within one only where it is too long for a chunk by itself."""
    made: list[Chunk] = []
    lines: list[tuple[int, str]] = []
    own: list[Step] = []
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
