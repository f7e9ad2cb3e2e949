"""What the tests of the fragments contract are made with: a register of rows, and answers that know what was looked at."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from mcp_talk import Talk

KINDS = {"fact": 0.5, "decision": 0.7, "error": 0.8, "preference": 0.9, "procedure": 0.7, "relation": 0.5}
ROSES = "Roses are cut back in March."
HOSE = "The hose leaks at the valve."

Json = dict[str, Any]
Row = Callable[[Talk], Awaitable[None]]
ROWS: dict[tuple[str, str], Row] = {}
GIVES: dict[str, Callable[[Talk, Seen], Awaitable[None]]] = {}


def row(tool: str, *arguments: str) -> Callable[[Row], Row]:
    """The test of what an argument does."""

    def register(test: Row) -> Row:
        for argument in arguments:
            assert (tool, argument) not in ROWS
            ROWS[tool, argument] = test
        return test

    return register


def gives(
    tool: str,
) -> Callable[[Callable[[Talk, Seen], Awaitable[None]]], Callable[[Talk, Seen], Awaitable[None]]]:
    """The test of what a tool gives; every field of its answer must be looked at."""

    def register(test: Callable[[Talk, Seen], Awaitable[None]]) -> Callable[[Talk, Seen], Awaitable[None]]:
        GIVES[tool] = test
        return test

    return register


class Seen:
    """The fields that were looked at, by their dotted names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def of(self, answer: Json) -> Looked:
        return Looked(answer, "", self.names)


class Looked:
    """An answer that notes what is asked of it."""

    def __init__(self, value: Json, above: str, names: set[str]) -> None:
        self._value = value
        self._above = above
        self._names = names

    def __getitem__(self, name: str) -> Any:
        self._names.add(f"{self._above}{name}")
        return self._inside(self._value[name], f"{self._above}{name}.")

    def get(self, name: str) -> Any:
        """None where it was left out."""
        self._names.add(f"{self._above}{name}")
        return self._value.get(name)

    def has(self, *names: str) -> Iterator[Any]:
        """Several at once."""
        return (self[name] for name in names)

    def _inside(self, value: Any, above: str) -> Any:
        if isinstance(value, list):
            return [self._inside(one, above) for one in value]
        return Looked(value, above, self._names) if isinstance(value, dict) else value


def fields(schema: Json, above: str = "") -> set[str]:
    """Every property by its dotted name, through objects and lists."""
    found: set[str] = set()
    for name, one in schema.get("properties", {}).items():
        inner = one["items"] if one["type"] == "array" else one
        found |= {f"{above}{name}"} | fields(inner, f"{above}{name}.")
    return found


async def remembered(talk: Talk, content: str, **given: Any) -> str:
    """The id of a new fragment."""
    answer = await talk.call("remember", **{"topic": "garden", "type": "fact", "content": content} | given)
    assert answer["created"], answer
    found: str = answer["id"]
    return found


async def recalled(talk: Talk, **given: Any) -> list[str]:
    """The texts that a recall finds."""
    return [one["content"] for one in (await talk.call("recall", **given))["fragments"]]


async def record(talk: Talk, memory_id: str) -> Json:
    """All that is kept of a fragment, read as a resource."""
    read = await talk.client.read_resource(f"memory://{memory_id}")
    found: Json = json.loads(read.contents[0].text)
    return found
