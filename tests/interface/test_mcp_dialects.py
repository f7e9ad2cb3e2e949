"""One store, every contract: what each dialect stores, every other finds; and every tool answers as its schema says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp_clients import Json, Wire

PROJECT = "orchid"


@dataclass(frozen=True, slots=True)
class Stored:
    """What one dialect's tool stores, and a question that it answers."""

    tool: str
    arguments: Json
    words: str
    question: str
    session: str | None = None


STORED = (
    Stored(
        "remember",
        {
            "content": "The humidity sensor reports every 90 seconds.",
            "topic": "sensors",
            "type": "fact",
            "keywords": ["humidity"],
            "importance": 0.9,
            "project": PROJECT,
            "sessionId": "conversation-1",
        },
        "The humidity sensor reports every 90 seconds.",
        "How often does the humidity sensor report?",
        "conversation-1",
    ),
    Stored(
        "store_memory",
        {"content": "The glass was replaced by Nordglas.", "scope": PROJECT, "tags": ["glass", "repairs"]},
        "The glass was replaced by Nordglas.",
        "Who replaced the glass?",
    ),
    Stored(
        "save_conversation_message",
        {
            "message_type": "user",
            "content": "Why does the pump stop at noon?",
            "task_id": 7,
            "metadata": {"session_id": "conversation-2"},
            "project_id": PROJECT,
        },
        "Why does the pump stop at noon?",
        "When does the pump stop?",
        "conversation-2",
    ),
    Stored(
        "update_project_summary",
        {
            "trigger": "important_decision",
            "new_insights": "We decided that the heating burns wood pellets.",
            "project_id": PROJECT,
        },
        "the heating burns wood pellets",
        "What does the heating burn?",
    ),
    Stored(
        "reflect",
        {
            "summary": "We mended the irrigation and wrote down how.",
            "decisions": ["The valves are closed by hand before the first frost."],
            "sessionId": "conversation-3",
            "project": PROJECT,
        },
        "The valves are closed by hand before the first frost.",
        "When are the valves closed?",
        "conversation-3",
    ),
)


@dataclass(frozen=True, slots=True)
class Finder:
    """A dialect's tool that finds, how it is asked, and where its answer has the texts."""

    tool: str
    asked: Callable[[Stored], Json]
    texts: Callable[[Json], list[str]]


def each(rows: str, text: str) -> Callable[[Json], list[str]]:
    return lambda answer: [row[text] for row in answer[rows]]


FINDERS = (
    Finder(
        "recall",
        lambda one: {"text": one.question, "project": PROJECT, "tokenBudget": 5_000},
        each("fragments", "content"),
    ),
    Finder(
        "retrieve_memory",
        lambda one: {"query": one.question, "filter": {"scope": PROJECT}, "top_k": 20},
        each("results", "text"),
    ),
    Finder("search_by_scope", lambda one: {"scope": PROJECT, "query": one.question}, each("results", "text")),
    Finder(
        "recall_memory_by_time",
        lambda one: {"time_query": "today", "scope": PROJECT},
        each("results", "text"),
    ),
    Finder(
        "memory_search", lambda one: {"query": one.question, "project": PROJECT}, each("results", "content")
    ),
    Finder(
        "memory_ask", lambda one: {"question": one.question, "project": PROJECT}, each("sources", "content")
    ),
    Finder("memory_recall", lambda one: {"query": one.question}, each("results", "excerpt")),
    Finder(
        "search_project_memories",
        lambda one: {"query": one.question, "project_id": PROJECT},
        each("results", "content"),
    ),
    Finder(
        "get_project_memory_context",
        lambda one: {"project_id": PROJECT, "query": one.question},
        lambda answer: [
            answer["summary"],
            *(row["content"] for rows in ("recent_messages", "rag_results") for row in answer[rows]),
        ],
    ),
    Finder(
        "context",
        lambda one: {
            "project": PROJECT,
            "types": ["fact", "decision"],
            **({"sessionId": one.session} if one.session else {}),
        },
        lambda answer: [answer["injectionText"]],
    ),
)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Wire(tmp_path_factory.mktemp("dialects") / "home", "--toolsets", "all") as wire:
        wire.greet()
        for one in STORED:
            answered(wire, one.tool, **one.arguments)
        yield wire


@pytest.fixture(scope="module")
def later(wire: Wire) -> Iterator[Wire]:
    """Another conversation, by another process on the same home."""
    with Wire(wire.home, "--toolsets", "all") as later:
        yield later.greet()


@pytest.fixture(scope="module")
def schemas(wire: Wire) -> dict[str, Json]:
    """Each tool's definition."""
    return {tool["name"]: tool for tool in wire.ask("tools/list")["result"]["tools"]}


def answered(wire: Wire, tool: str, **arguments: Any) -> Json:
    """The structured answer of a call that must go well."""
    result = wire.call(tool, **arguments)
    assert not result.get("isError"), f"{tool}: {result['content']}"
    found: Json = result["structuredContent"]
    return found


@pytest.mark.parametrize("finder", FINDERS, ids=lambda finder: finder.tool)
@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.tool)
def test_what_one_dialect_stores_every_other_finds(
    wire: Wire, later: Wire, stored: Stored, finder: Finder
) -> None:
    asked = wire if finder.tool == "context" else later  # what is on one's mind is one's own conversation
    answer = answered(asked, finder.tool, **finder.asked(stored))
    texts = [" ".join(text.split()) for text in finder.texts(answer)]
    assert any(stored.words in text for text in texts), texts
    assert "never instructions" in answer["notice"]


@pytest.mark.parametrize(("stored", "label"), [(STORED[0], "humidity"), (STORED[1], "glass")])
@pytest.mark.parametrize("tool", ["search_by_tag", "memory_related", "recall"])
def test_tags_and_keywords_are_the_same_in_every_dialect(
    later: Wire, tool: str, stored: Stored, label: str
) -> None:
    asked: dict[str, Json] = {
        "search_by_tag": {"tag": label},
        "memory_related": {"tags": [label, "no such"], "project": PROJECT},
        "recall": {"keywords": [label], "project": PROJECT},
    }
    answer = answered(later, tool, **asked[tool])
    found = answer["fragments" if tool == "recall" else "results"]
    assert stored.words in [one.get("text") or one["content"] for one in found]


def test_fields_keep_their_meaning_from_one_dialect_to_the_other(wire: Wire) -> None:
    fact = answered(wire, "recall", text=STORED[0].question, project=PROJECT)["fragments"][0]
    assert (fact["type"], fact["topic"], fact["keywords"]) == ("fact", "sensors", ["humidity"])
    assert (fact["importance"], fact["project"]) == (0.9, PROJECT)

    searched = answered(wire, "memory_search", query=STORED[0].question, project=PROJECT)["results"][0]
    assert (searched["id"], searched["type"]) == (fact["id"], "fact")
    assert (searched["created"], searched["updated"]) == (fact["timestamp"], fact["timestamp"])

    retrieved = answered(wire, "retrieve_memory", query=STORED[0].question, filter={"scope": PROJECT})
    assert retrieved["results"][0]["memory_id"] == fact["id"]
    assert retrieved["results"][0]["timestamp"] == fact["timestamp"]
    assert retrieved["results"][0]["scope"] == PROJECT

    [message] = answered(wire, "get_project_memory_context", project_id=PROJECT)["recent_messages"]
    assert (message["message_type"], message["task_id"]) == ("user", 7)
    assert message["session_id"] == "conversation-2"
    recalled = answered(wire, "recall", text=STORED[2].question, project=PROJECT)["fragments"]
    assert (message["id"], "episode") in [(one["id"], one["type"]) for one in recalled]


def test_conversations_of_every_dialect_are_in_the_timeline(later: Wire) -> None:
    sessions = {one["session_id"]: one for one in answered(later, "memory_timeline", days=2)["sessions"]}
    assert {"conversation-1", "conversation-2", "conversation-3"} <= sessions.keys()
    assert sessions["conversation-3"]["project"] == PROJECT
    assert sessions["conversation-3"]["summary"] == "We mended the irrigation and wrote down how."


def test_what_one_dialect_forgets_is_gone_from_every_other(wire: Wire) -> None:
    text = "The old boiler stands in the shed."
    kept = answered(wire, "store_memory", content=text, scope=PROJECT)["memory_id"]
    question = "Where does the old boiler stand?"
    one = Stored("store_memory", {}, text, question)
    for finder in FINDERS[:6]:
        assert any(text in found for found in finder.texts(answered(wire, finder.tool, **finder.asked(one))))
    assert answered(wire, "forget", id=kept)["deleted"] == 1
    for finder in FINDERS[:8]:
        assert not any(
            text in found for found in finder.texts(answered(wire, finder.tool, **finder.asked(one)))
        )


def test_every_tool_answers_as_its_schema_says(wire: Wire, schemas: dict[str, Json]) -> None:
    called = set()
    for tool, arguments in _a_call_of_each(wire):
        schema = schemas[tool]
        Draft202012Validator.check_schema(schema["inputSchema"])
        Draft202012Validator.check_schema(schema["outputSchema"])
        Draft202012Validator(schema["inputSchema"]).validate(arguments)
        Draft202012Validator(schema["outputSchema"]).validate(answered(wire, tool, **arguments))
        called.add(tool)
    assert len(schemas) == 42
    assert called == schemas.keys()


@pytest.mark.parametrize("tool", ["recall", "forget", "create_memory_scope", "context"])
def test_schemas_say_what_a_call_may_do(schemas: dict[str, Json], tool: str) -> None:
    hints = schemas[tool]["annotations"]
    assert hints["readOnlyHint"] is (tool in ("recall", "context"))
    assert hints.get("destructiveHint") is {"forget": True, "create_memory_scope": False}.get(tool)


def _a_call_of_each(wire: Wire) -> Iterator[tuple[str, Json]]:
    """Sensible arguments for every tool, those that undo things last."""
    about = {"project_id": "fern"}
    first, second = (
        answered(wire, "remember", content=content, topic="harvest", type=kind)["id"]
        for content, kind in (
            ("The seeder jams when the soil is wet.", "error"),
            ("Drying the soil for a day frees the seeder.", "procedure"),
        )
    )
    yield "context", {"tokenBudget": 500}
    yield "remember", {"content": "Harvest begins in August.", "topic": "harvest", "type": "fact"}
    yield "recall", {"text": "When does the harvest begin?", "tokenBudget": 300, "includeLinks": True}
    yield "link", {"fromId": first, "toId": second, "relationType": "resolved_by"}
    yield "graph_explore", {"startId": first, "depth": 2, "relations": ["resolved_by", "related"]}
    yield (
        "batch_remember",
        {"fragments": [{"content": "Wheat follows clover.", "topic": "harvest", "type": "decision"}]},
    )
    yield "reconstruct_history", {"topic": "harvest", "tokenBudget": 500}
    yield "amend", {"id": second, "importance": 0.9}
    yield "fragment_history", {"id": second}
    yield "reflect", {"summary": "We freed the seeder.", "open_questions": ["Why is the soil so wet?"]}
    yield "tool_feedback", {"tool_name": "recall", "relevant": True, "sufficient": True}
    yield "memory_stats", {}
    yield "memory_consolidate", {}
    yield (
        "store_memory",
        {"content": "The barn door creaks.", "metadata": {"tags": ["barn"], "source": "summary"}},
    )
    yield "retrieve_memory", {"query": "the barn", "filter": {"scope": "ALL"}, "top_k": 3}
    yield "search_by_tag", {"tag": "barn", "query": "door"}
    yield "search_by_scope", {"scope": "Global"}
    yield "recall_memory_by_time", {"range": {"from": "2024-01-01", "to": "2099-12-31"}}
    yield "create_memory_scope", {"name": "meadow", "description": "Bees and flowers"}
    yield "list_memory_scopes", {}
    yield "get_memory_stats", {}
    yield (
        "update_profile",
        {"statement": "My favourite colour is blue.", "contacts": [{"name": "Alice", "relation": "sister"}]},
    )
    yield "get_profile", {}
    yield "optimize_memory", {}
    yield "export_memory", {}
    yield "backup_memory", {"name": "before"}
    yield "restore_memory", {}
    yield (
        "save_conversation_message",
        {"message_type": "assistant", "content": "The barn is painted red.", **about},
    )
    yield "update_project_summary", {"trigger": "manual", "new_insights": "Ferns need shade.", **about}
    yield (
        "intelligent_update_project_summary",
        {"summary": "A fern collection.", "gotchas": ["No sun"], **about},
    )
    yield "search_project_memories", {"query": "shade", **about}
    yield "get_project_memory_context", about
    yield "memory_search", {"query": "seeder"}
    yield "memory_ask", {"question": "What frees the seeder?"}
    yield "memory_related", {"tags": ["barn"]}
    yield "memory_recall", {"query": "seeder"}
    yield "memory_timeline", {"days": 1}
    yield "memory_review", {}
    yield "memory_projects", {}
    yield "forget", {"id": first}
    yield "delete_memory", {"target": {"memory_id": second}, "forget_mode": "hard"}
    yield "forget_memory", {"target": {"tag": "barn"}}


def test_the_profile_is_read_and_edited(tmp_path: Path) -> None:
    with Wire(tmp_path / "home", "--toolsets", "assistant") as wire:
        wire.greet()
        first = answered(wire, "update_profile", statement="My favourite colour is blue. Alice is my sister.")
        assert [one["entry"] for one in first["changes"]] == ["favorite_color", "alice"]
        second = answered(
            wire, "update_profile", facts={"favorite_color": "green"}, preferences={"tone": "casual"}
        )
        assert {one["entry"]: one.get("previous") for one in second["changes"]} == {
            "tone": None,
            "favorite_color": "blue",
        }
        seen = answered(wire, "get_profile")
        assert seen["facts"] == {"favorite_color": "green"}
        assert seen["contacts"] == [{"name": "Alice", "relation": "sister"}]
        found = answered(wire, "retrieve_memory", query="favourite colour")
        assert found["results"][0]["text"] == "The user's favorite color is green."
        gone = answered(wire, "update_profile", remove=["favorite_color", "contacts.Alice"])
        assert (gone["facts"], gone["contacts"], gone["preferences"]) == ({}, [], {"tone": "casual"})
