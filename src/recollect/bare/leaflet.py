"""What is known about a project, on a sheet that a hook can read in a moment.

A file of JSON lines: the head; then each word with the numbers of the memories that have it, in order; then the
memories, the most deserving first; then the solved errors. So only the lines that matter are ever parsed.
"""

from __future__ import annotations

import os

from recollect.bare.files import contents, folder, made_folder, names_in, remove, write_whole
from recollect.bare.folders import key
from recollect.bare.notation import parsed, record, written

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
_ENDING = ".jsonl"
_LONGEST_HEAD = 1 << 17


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


def read_leaflet(home: str, identity: str) -> Leaflet | None:
    """That of a project, by the identity of its folder; where it has none, that of Global."""
    for name in (key(identity), GLOBAL):
        try:
            return Leaflet(contents(_path(home, name)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def read_head(home: str, identity: str) -> dict[str, Any] | None:
    """The same, and no more than its first line."""
    for name in (key(identity), GLOBAL):
        try:
            return _checked(contents(_path(home, name), _LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def read(home: str, identity: str) -> dict[str, Any] | None:
    """All of it, as it was written."""
    leaflet = read_leaflet(home, identity)
    if leaflet is None:
        return None
    words: dict[int, list[str]] = {}
    for place in range(1, 1 + leaflet.words):
        word, numbers = leaflet._line(place)
        for number in numbers:
            words.setdefault(number, []).append(word)
    memories = [
        {name: value for name, value in leaflet.memory(number).items() if name != "telling"}
        | {"words": words.get(number, [])}
        for number in range(leaflet.memories)
    ]
    head = {name: value for name, value in leaflet.head.items() if name != "sizes"}
    return {**head, "memories": memories, "errors": list(leaflet.solved())}


def write(home: str, key: str, leaflet: dict[str, Any]) -> None:
    """Puts it in the place of the one before. Texts are cut, put on one line and made neutral. Raises OSError."""
    from recollect.bare.printing import lines_of

    made_folder(home, LEAFLETS)
    write_whole(_path(home, key), "\n".join([*lines_of(leaflet), ""]).encode("ascii"))


def every(home: str) -> list[tuple[str, dict[str, Any]]]:
    """The heads of all that there are, by their keys."""
    found = []
    inside = folder(home, LEAFLETS)
    for name in names_in(inside, _ENDING):
        try:
            head = _checked(contents(os.path.join(inside, name), _LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append((name.removesuffix(_ENDING), head))
    return found


def drop(home: str, scope: str | None = None) -> None:
    """Those of a scope, or all: hooks do without until they are made anew. One that can't be read goes in any case."""
    kept = {name for name, head in every(home) if scope is not None and head.get("scope") != scope}
    inside = folder(home, LEAFLETS)
    for name in names_in(inside, ""):
        if name.removesuffix(_ENDING) not in kept:
            remove(os.path.join(inside, name))


def _path(home: str, name: str) -> str:
    return folder(home, LEAFLETS, name + _ENDING)


def _beginning(word: str) -> bytes:
    return f"[{written(word)},".encode("ascii")


def _checked(line: bytes) -> dict[str, Any]:
    head = record(line)
    if head.get("version") != VERSION or not isinstance(head.get("sizes"), dict):
        raise ValueError("of another version")
    return head
