"""What is known about a project, on a sheet that a hook can read in a moment.

A file of JSON lines: the head; then each word with the numbers of the memories that have it, in order; then the
memories, the most deserving first; then the solved errors. So only the lines that matter are ever parsed.

Each is of one folder and one agent. What fades is told until the moment that the head names, and then `later` is.
"""

from __future__ import annotations

import os
import time

from mindhold.bare.environment import agent as agent_here
from mindhold.bare.files import contents, folder, made_folder, names_in, remove, write_whole
from mindhold.bare.folders import above, key
from mindhold.bare.notation import parsed, record, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LEAFLETS = "leaflets"
GLOBAL = "global"
VERSION = 1
MOST_MEMORIES = 1_000
LONGEST_TEXT = 400  # characters of a memory
LONGEST_ERROR = 2_000
LONGEST_START = 9_000
ENDING = ".jsonl"
_TOLD = ("start", "until", "later")
_LONGEST_HEAD = 1 << 18


class Leaflet:
    """One as it was read. `head` is all but the memories and the errors."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError."""
        self._lines = content.split(b"\n")
        self.head = _checked(self._lines[0])
        sizes = self.head["sizes"]
        self.words, self.memories, self.errors = (
            int(sizes[name]) for name in ("words", "memories", "errors")
        )
        if len(self._lines) != 2 + self.words + self.memories + self.errors or self._lines[-1]:
            raise ValueError("cut off")

    def having(self, word: str) -> list[int]:
        """The numbers of the memories that have the word."""
        from bisect import bisect_left

        begin = _beginning(word)
        place = bisect_left(self._lines, begin, 1, 1 + self.words)
        if place > self.words or not self._lines[place].startswith(begin):
            return []
        numbers: list[int] = self._line(place)[1]
        return numbers

    def memory(self, number: int) -> dict[str, Any]:
        """One of the memories; `telling` is how many words it has."""
        found: dict[str, Any] = self._line(1 + self.words + number)
        return found

    def solved(self) -> Iterator[dict[str, Any]]:
        """The errors."""
        for number in range(self.errors):
            yield self._line(1 + self.words + self.memories + number)

    def _line(self, number: int) -> Any:
        return parsed(self._lines[number].decode("ascii"))


def name_of(identity: str, agent: str = "") -> str:
    """What the file is called of a project, or without an identity of Global; `agent` is one that isn't the home's own."""
    if agent:
        return key(f"{identity}\n{agent}")
    return key(identity) if identity else GLOBAL


def read_leaflet(home: str, identity: str, agent: str | None = None) -> Leaflet | None:
    """That of a project, by the identity of its folder, or of the nearest one above; where there is none, that of Global.

    One of another agent counts as none; unless said, the agent is that of the surroundings.
    """
    for name, whose in _candidates(identity, agent):
        try:
            found = Leaflet(contents(_path(home, name)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if whose in (None, found.head.get("agent")):
            found.head = _now(found.head)
            return found
    return None


def read_head(home: str, identity: str, agent: str | None = None) -> dict[str, Any] | None:
    """The same, and no more than its first line."""
    for name, whose in _candidates(identity, agent):
        try:
            head = _checked(contents(_path(home, name), _LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if whose in (None, head.get("agent")):
            return _now(head)
    return None


def _candidates(identity: str, agent: str | None) -> Iterator[tuple[str, str | None]]:
    """Names of files, and whose each must be."""
    agent = agent_here() if agent is None else agent
    for one in (identity, *above(identity), ""):
        if agent:
            yield name_of(one, agent), agent
        yield name_of(one), agent or None


def _now(head: dict[str, Any]) -> dict[str, Any]:
    """As it is to be told at this moment."""
    until, later = head.get("until"), head.get("later")
    if isinstance(until, int | float) and isinstance(later, dict) and time.time() >= until:
        return {**head, **later}
    return head


def write(home: str, key: str, leaflet: dict[str, Any]) -> None:
    """Puts it in the place of the one before. Texts are cut, put on one line and made neutral. Raises OSError.

    A memory is found by all words of its text, also by those that are cut.
    """
    from mindhold.bare.printing import lines_of

    made_folder(home, LEAFLETS)
    write_whole(_path(home, key), "\n".join([*lines_of(leaflet), ""]).encode("ascii"))


def every(home: str) -> list[tuple[str, dict[str, Any]]]:
    """The heads of all that there are, by their keys."""
    found = []
    inside = folder(home, LEAFLETS)
    for name in names_in(inside, ENDING):
        try:
            head = _checked(contents(os.path.join(inside, name), _LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append((name.removesuffix(ENDING), head))
    return found


def blank(home: str) -> int:
    """Takes everything off them, to be made anew; how many there were. Raises OSError.

    One that can't be written is removed, which needs no room; so is what is none, and what a killed writer left.
    """
    heads = dict(every(home))
    inside = folder(home, LEAFLETS)
    for name in names_in(inside, ""):
        if name.removesuffix(ENDING) not in heads:
            remove(os.path.join(inside, name))
    for name, head in heads.items():
        kept = {one: value for one, value in head.items() if one not in _TOLD}
        try:
            write(home, name, {**kept, "print": "", "start_ids": []})
        except OSError:
            drop(home, name)
    return len(heads)


def drop(home: str, name: str) -> None:
    """It is no more. Raises OSError."""
    try:
        os.unlink(_path(home, name))
    except FileNotFoundError:
        return


def _path(home: str, name: str) -> str:
    return folder(home, LEAFLETS, name + ENDING)


def _beginning(word: str) -> bytes:
    return f"[{written(word)},".encode("ascii")


def _checked(line: bytes) -> dict[str, Any]:
    head = record(line)
    if head.get("version") != VERSION or not isinstance(head.get("sizes"), dict):
        raise ValueError("of another version")
    return head
