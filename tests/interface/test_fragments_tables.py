"""The tables of the fragments contract, row by row, over MCP: what each argument does, each default, each field, each error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fragment_rows_memories
import fragment_rows_work
import pytest
from fragment_rows import GIVES, ROSES, ROWS, Row, Seen, fields, remembered
from mcp_talk import talking

from mindhold.contracts.mcp.tools import contract, input_schema, output_schema
from mindhold.settings.loader import LoadedSettings

Load = Callable[..., LoadedSettings]
REGISTERED = (fragment_rows_memories, fragment_rows_work)  # they are read for the rows that they register
TOOLS = {tool.name: tool for tool in contract("fragments").tools}


def test_every_row_of_every_table_is_here() -> None:
    rows = {(tool.name, name) for tool in TOOLS.values() for name in fields(input_schema(tool))}
    assert rows == set(ROWS)
    assert set(GIVES) == set(TOOLS)


def each_row() -> list[Any]:
    """Each once, by the tool and the arguments that it is about."""
    about: dict[Row, list[str]] = {}
    for (tool, argument), test in ROWS.items():
        about.setdefault(test, [tool]).append(argument)
    return [pytest.param(test, id="-".join(names)) for test, names in about.items()]


@pytest.mark.parametrize("test", each_row())
async def test_what_an_argument_does(load: Load, test: Row) -> None:
    async with talking(load(toolsets="fragments")) as talk:
        await test(talk)


@pytest.mark.parametrize("tool", GIVES)
async def test_what_a_tool_gives(load: Load, tool: str) -> None:
    seen = Seen()
    async with talking(load(toolsets="fragments")) as talk:
        await GIVES[tool](talk, seen)
    assert seen.names == fields(output_schema(TOOLS[tool]))


ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("remember", {"topic": "t", "type": "fact"}, "INVALID_INPUT", "content is missing"),
    ("remember", {"content": "c", "type": "fact"}, "INVALID_INPUT", "topic is missing"),
    ("remember", {"content": "c", "topic": "t"}, "INVALID_INPUT", "type is missing"),
    ("remember", {"content": "c", "topic": "t", "type": "rumour"}, "INVALID_INPUT", "type must be one of"),
    ("remember", {"content": " ", "topic": "t", "type": "fact"}, "INVALID_INPUT", "empty"),
    (
        "remember",
        {"content": "c", "topic": "t", "type": "fact", "importance": 1.1},
        "INVALID_INPUT",
        "importance must be at most 1",
    ),
    (
        "remember",
        {"content": "c", "topic": "t", "type": "fact", "scope": "for ever"},
        "INVALID_INPUT",
        "scope must be one of",
    ),
    (
        "remember",
        {"content": ROSES, "topic": "t", "type": "fact", "linkedTo": ["zz"]},
        "MEMORY_NOT_FOUND",
        "zz",
    ),
    (
        "remember",
        {"content": ROSES, "topic": "t", "type": "fact", "scope": "session", "isAnchor": True},
        "INVALID_INPUT",
        "kept for good",
    ),
    ("recall", {"type": "rumour"}, "INVALID_INPUT", "type must be one of"),
    ("recall", {"text": "x", "tokenBudget": 0}, "INVALID_INPUT", "tokenBudget must be at least 1"),
    ("recall", {"text": "x", "threshold": 2}, "INVALID_INPUT", "threshold must be at most 1"),
    ("recall", {"text": "x", "linkRelationType": "superseded_by"}, "INVALID_INPUT", "linkRelationType"),
    ("forget", {}, "INVALID_INPUT", "Nothing was named"),
    ("forget", {"id": "zz"}, "MEMORY_NOT_FOUND", "zz"),
    ("link", {"fromId": "zz", "toId": "zy"}, "MEMORY_NOT_FOUND", "zz"),
    ("link", {"fromId": "zz"}, "INVALID_INPUT", "toId is missing"),
    ("link", {"fromId": "a", "toId": "b", "relationType": "likes"}, "INVALID_INPUT", "relationType must be"),
    ("amend", {"id": "zz", "content": "x"}, "MEMORY_NOT_FOUND", "zz"),
    ("amend", {"content": "x"}, "INVALID_INPUT", "id is missing"),
    ("reflect", {}, "INVALID_INPUT", "summary is missing"),
    ("reflect", {"summary": " "}, "INVALID_INPUT", ""),
    ("context", {"tokenBudget": 0}, "INVALID_INPUT", "tokenBudget must be at least 1"),
    ("context", {"types": ["rumour"]}, "INVALID_INPUT", "types.0 must be one of"),
    ("tool_feedback", {"relevant": True, "sufficient": True}, "INVALID_INPUT", "tool_name is missing"),
    ("tool_feedback", {"tool_name": "recall", "sufficient": True}, "INVALID_INPUT", "relevant is missing"),
    ("tool_feedback", {"tool_name": "recall", "relevant": True}, "INVALID_INPUT", "sufficient is missing"),
    ("memory_stats", {"verbose": True}, "INVALID_INPUT", "verbose is not known"),
    ("memory_consolidate", {"stage": 3}, "INVALID_INPUT", "stage is not known"),
    ("graph_explore", {}, "INVALID_INPUT", "startId is missing"),
    ("graph_explore", {"startId": "zz"}, "MEMORY_NOT_FOUND", "zz"),
    ("graph_explore", {"startId": "zz", "depth": 6}, "INVALID_INPUT", "depth must be at most 5"),
    ("batch_remember", {"fragments": []}, "INVALID_INPUT", "at least 1"),
    (
        "batch_remember",
        {
            "fragments": [
                {"content": f"Fact {number}.", "topic": "t", "type": "fact"} for number in range(201)
            ]
        },
        "INVALID_INPUT",
        "fragments must have at most 200 entries",
    ),
    ("batch_remember", {"fragments": "c"}, "INVALID_INPUT", "fragments must be a list"),
    ("fragment_history", {"id": "zz"}, "MEMORY_NOT_FOUND", "zz"),
    ("reconstruct_history", {"topic": " "}, "INVALID_INPUT", "no topic"),
]


@pytest.mark.parametrize(("tool", "arguments", "code", "words"), ERRORS)
async def test_what_is_refused(
    load: Load, tool: str, arguments: dict[str, Any], code: str, words: str
) -> None:
    async with talking(load(toolsets="fragments")) as talk:
        error = await talk.error(tool, **arguments)
        assert error["code"] == code
        assert words in error["error"]
        assert (await talk.call("memory_stats"))["total"] == 0


async def test_links_that_are_drawn_by_themselves(load: Load) -> None:
    """Related, superseded_by, resolved_by: by the rules, at most three, within a topic."""
    async with talking(load(toolsets="fragments")) as talk:
        failure = await remembered(
            talk, "Redis Sentinel connection fails with NOAUTH.", topic="redis", type="error"
        )
        fix = await remembered(
            talk,
            "Redis Sentinel connection fails with NOAUTH: fixed by setting REDIS_PASSWORD.",
            topic="redis",
            type="error",
        )
        graph = await talk.call("graph_explore", startId=failure)
        assert graph["edges"] == [{"fromId": failure, "toId": fix, "relationType": "resolved_by"}]
        for number in range(40):
            await remembered(talk, f"Service {number:02} listens on port {8000 + number}.", topic="ports")
        assert (await talk.call("memory_stats"))["byStatus"] == {"active": 42}
        answer = await talk.call(
            "remember", content="Service 40 listens on port 8040.", topic="ports", type="fact"
        )
        assert len(answer["linked"]) == 3
        elsewhere = await talk.call(
            "remember", content="Service 41 listens on port 8041.", topic="elsewhere", type="fact"
        )
        assert "linked" not in elsewhere
    async with talking(load(toolsets="fragments", **{"embedding.provider": "none"})) as talk:
        without = await talk.call(
            "remember", content="Service 42 listens on port 8042.", topic="ports", type="fact"
        )
        assert "linked" not in without
