"""The hook cache of a project: a file of JSON lines that a hook reads quickly."""

from __future__ import annotations

import time

from mindhold.hooks.environment import agent_name
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
    """A hook cache as read from its file. `head` is everything except the memories and the errors."""

    def __init__(self, content: bytes) -> None:
        """Raises ValueError."""
        self._lines = content.split(b"\n")
        self.head = parse_head(self._lines[0])
        sizes = self.head["sizes"]
        self.words, self.memories, self.errors = (
            int(sizes[name]) for name in ("words", "memories", "errors")
        )
        if len(self._lines) != 2 + self.words + self.memories + self.errors or self._lines[-1]:
            raise ValueError("cut off")

    def memories_with(self, word: str) -> list[int]:
        """The numbers of the memories that contain the word."""
        return self.memories_about(word)[0]

    def memories_about(self, word: str) -> tuple[list[int], list[tuple[int, float]]]:
        """The numbers of the memories that contain the word, and of those with a related one, each with its weight."""
        from bisect import bisect_left

        prefix = f"[{write_json(word)},".encode("ascii")
        index = bisect_left(self._lines, prefix, 1, 1 + self.words)
        if index > self.words or not self._lines[index].startswith(prefix):
            return [], []
        _, numbers, *related = self._line(index)
        return numbers, related[0] if related else []

    def memory(self, number: int) -> dict[str, Any]:
        """One memory; `telling` is the number of its content words."""
        memory: dict[str, Any] = self._line(1 + self.words + number)
        return memory

    def solved(self) -> Iterator[dict[str, Any]]:
        """The solved errors."""
        for number in range(self.errors):
            yield self._line(1 + self.words + self.memories + number)

    def _line(self, number: int) -> Any:
        return parse_json(self._lines[number].decode("ascii"))


def cache_name(identity: str, agent: str = "") -> str:
    """The name of the cache file of a project, or of Global without an identity; `agent` if it isn't the home's default."""
    if agent:
        return identity_key(f"{identity}\n{agent}")
    return identity_key(identity) if identity else GLOBAL


def read_cache(home: str, identity: str, agent: str | None = None) -> HookCache | None:
    """The cache of a project, else that of the nearest parent folder, else that of Global.

    A cache of another agent doesn't count; the default agent is that of the environment.
    """
    for name, owner in _candidates(identity, agent):
        try:
            cache = HookCache(read_contents(cache_path(home, name)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if owner in (None, cache.head.get("agent")):
            cache.head = _current_head(cache.head)
            return cache
    return None


def read_cache_head(home: str, identity: str) -> dict[str, Any] | None:
    """Only the first line of the same cache."""
    for name, owner in _candidates(identity, None):
        try:
            head = parse_head(read_contents(cache_path(home, name), LONGEST_HEAD).partition(b"\n")[0])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if owner in (None, head.get("agent")):
            return _current_head(head)
    return None


def _candidates(identity: str, agent: str | None) -> Iterator[tuple[str, str | None]]:
    """Names of cache files, each with the agent that must own it."""
    agent = agent_name() if agent is None else agent
    for folder in (identity, *parent_folders(identity), ""):
        if agent:
            yield cache_name(folder, agent), agent
        yield cache_name(folder), agent or None


def _current_head(head: dict[str, Any]) -> dict[str, Any]:
    """The head as it applies now: after `until` it contains `later`."""
    until, later = head.get("until"), head.get("later")
    if isinstance(until, int | float) and isinstance(later, dict) and time.time() >= until:
        return {**head, **later}
    return head


def cache_path(home: str, name: str) -> str:
    """The file of a cache."""
    return hooks_path(home, CACHE_FOLDER, name + CACHE_SUFFIX)


def parse_head(line: bytes) -> dict[str, Any]:
    """Parse the first line of a cache. Raises ValueError for another version."""
    head = parse_record(line)
    if head.get("version") != VERSION or not isinstance(head.get("sizes"), dict):
        raise ValueError("of another version")
    return head
