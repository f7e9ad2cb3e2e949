"""The hook cache of a project: a file of JSON lines that a hook reads in a moment."""

from __future__ import annotations

import time

from mindhold.hooks.environment import agent as agent_here
from mindhold.hooks.fast_json import parse_json, parse_record, write_json
from mindhold.hooks.files import hooks_path, read_contents
from mindhold.hooks.project_identity import identity_key, parent_folders

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


CACHE_FOLDER = "leaflets"
GLOBAL = "global"
VERSION = 1
MOST_MEMORIES = 1_000
LONGEST_TEXT = 400  # characters of a memory
LONGEST_ERROR = 2_000
LONGEST_START = 9_000
CACHE_SUFFIX = ".jsonl"
LONGEST_HEAD = 1 << 18


class HookCache:
    """One as it was read. `head` is all but the memories and the errors."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError."""
        self._lines = content.split(b"\n")
        self.head = checked_head(self._lines[0])
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
        return parse_json(self._lines[number].decode("ascii"))


def cache_name(identity: str, agent: str = "") -> str:
    """What the file is called of a project, or without an identity of Global; `agent` is one that isn't the home's own."""
    if agent:
        return identity_key(f"{identity}\n{agent}")
    return identity_key(identity) if identity else GLOBAL


def read_cache(home: str, identity: str, agent: str | None = None) -> HookCache | None:
    """That of a project, by the identity of its folder, or of the nearest one above; where there is none, that of Global.

    One of another agent counts as none; unless said, the agent is that of the surroundings.
    """
    for name, whose in _candidates(identity, agent):
        try:
            found = HookCache(read_contents(cache_path(home, name)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if whose in (None, found.head.get("agent")):
            found.head = _now(found.head)
            return found
    return None


def read_cache_head(home: str, identity: str, agent: str | None = None) -> dict[str, Any] | None:
    """The same, and no more than its first line."""
    for name, whose in _candidates(identity, agent):
        try:
            head = checked_head(read_contents(cache_path(home, name), LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if whose in (None, head.get("agent")):
            return _now(head)
    return None


def _candidates(identity: str, agent: str | None) -> Iterator[tuple[str, str | None]]:
    """Names of files, and whose each must be."""
    agent = agent_here() if agent is None else agent
    for one in (identity, *parent_folders(identity), ""):
        if agent:
            yield cache_name(one, agent), agent
        yield cache_name(one), agent or None


def _now(head: dict[str, Any]) -> dict[str, Any]:
    """As it is to be told at this moment."""
    until, later = head.get("until"), head.get("later")
    if isinstance(until, int | float) and isinstance(later, dict) and time.time() >= until:
        return {**head, **later}
    return head


def cache_path(home: str, name: str) -> str:
    return hooks_path(home, CACHE_FOLDER, name + CACHE_SUFFIX)


def _beginning(word: str) -> bytes:
    return f"[{write_json(word)},".encode("ascii")


def checked_head(line: bytes) -> dict[str, Any]:
    head = parse_record(line)
    if head.get("version") != VERSION or not isinstance(head.get("sizes"), dict):
        raise ValueError("of another version")
    return head
