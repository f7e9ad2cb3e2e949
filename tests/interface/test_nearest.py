"""Each contract gives what is merely nearest in its own way, marked as doubtful, and honours its thresholds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import talks
from cli_shell import Shell
from mcp_talk import Talk, talking
from rest_api import served

from mindhold.interfaces.cli.output import DOUBTFUL
from mindhold.interfaces.mcp.server import instructions_for
from mindhold.memories.ask import NOTHING
from mindhold.memories.recall import NEAREST
from mindhold.model.relevance import UNLIKELY
from mindhold.settings.loader import LoadedSettings

KEY = "The spare key is under the third flowerpot."
HOTEL = "The hotel in Lisbon was booked for two nights."
SURE = "where is the spare key?"
FAR = "quarterly tax estimate"
NEAR = "Which key encrypts our backups, and who answers for it after a migration?"


Load = Callable[..., LoadedSettings]


@asynccontextmanager
async def knowing(load: Load) -> AsyncIterator[Talk]:
    """With two memories, one of which answers SURE and shares a word with NEAR."""
    async with talking(load(toolsets="all")) as talk:
        for text in (HOTEL, KEY):
            await talk.call("remember", content=text, topic="notes", type="fact")
        yield talk


async def test_fragments(load: Load) -> None:
    async with knowing(load) as talk:
        answer = await talk.call("recall", text=SURE)
        assert answer["fragments"][0]["content"] == KEY
        assert "nearest" not in answer
        answer = await talk.call("recall", text=NEAR)
        assert (answer["fragments"], answer["count"]) == ([], 0)
        assert answer["nearest"][0]["content"] == KEY
        assert answer["nearest"][0]["score"] < UNLIKELY
        assert answer["hint"].startswith(NEAREST)


async def test_the_threshold_of_fragments_is_a_cosine_and_decides(load: Load) -> None:
    async with knowing(load) as talk:
        near = (await talk.call("recall", text=NEAR))["nearest"][0]["similarity"]
        answer = await talk.call("recall", text=NEAR, threshold=near - 0.01)
        assert [one["content"] for one in answer["fragments"]] == [KEY]
        assert "nearest" not in answer
        answer = await talk.call("recall", text=NEAR, threshold=near + 0.01)
        assert answer["fragments"] == []
        assert "nearest" not in answer


async def test_the_assistant(load: Load) -> None:
    async with knowing(load) as talk:
        answer = await talk.call("retrieve_memory", query=SURE)
        assert answer["results"][0]["text"] == KEY
        assert answer["results"][0]["confidence"] > 0.5
        assert answer.keys().isdisjoint({"nearest", "note"})
        for tool, given in (("retrieve_memory", {}), ("search_by_scope", {"scope": "Global"})):
            answer = await talk.call(tool, query=NEAR, **given)
            assert answer["results"] == []
            assert answer["nearest"][0]["text"] == KEY
            assert answer["nearest"][0]["confidence"] < UNLIKELY
            assert "doubtful" in answer["note"]


async def test_a_query_ranks_what_has_a_tag_and_leaves_none_out(load: Load) -> None:
    async with knowing(load) as talk:
        for text in ("The roof leaks. #house", "The cellar is dry. #house"):
            await talk.call("store_memory", content=text)
        answer = await talk.call("search_by_tag", tag="house", query="is the cellar damp in winter?")
        assert [one["text"][:10] for one in answer["results"]] == ["The cellar", "The roof l"]
        assert "nearest" not in answer


async def test_capture(load: Load) -> None:
    async with knowing(load) as talk:
        answer = await talk.call("memory_search", query=SURE)
        assert answer["results"][0]["content"] == KEY
        assert answer.keys().isdisjoint({"nearest", "note"})
        answer = await talk.call("memory_search", query=NEAR)
        assert (answer["results"], answer["count"]) == ([], 0)
        assert answer["nearest"][0]["content"] == KEY
        assert answer["nearest"][0]["confidence"] == 1.0, "how fresh the memory is, not whether it answers"
        assert "doubtful" in answer["note"]
        answer = await talk.call("memory_ask", question=NEAR)
        assert (answer["answer"], answer["sources"]) == (NOTHING, [])
        assert answer["nearest"][0]["content"] == KEY


async def test_a_project(load: Load) -> None:
    async with knowing(load) as talk:
        for text in (HOTEL, KEY):
            await talk.call(
                "save_conversation_message", message_type="user", content=text, project_id="house"
            )
        answer = await talk.call("search_project_memories", query=SURE, project_id="house")
        assert answer["results"][0]["content"] == KEY
        assert answer.keys().isdisjoint({"nearest", "note"})
        answer = await talk.call("search_project_memories", query=FAR, project_id="house")
        assert (answer["results"], answer["count"]) == ([], 0)
        assert answer["nearest"][0]["content"] == KEY
        cosine = (await talk.call("recall", text=FAR))["nearest"][0]["similarity"]
        assert answer["nearest"][0]["similarity"] == cosine
        assert "doubtful" in answer["note"]


async def test_history(load: Load, home: Path) -> None:
    said = (talks.user("Where did we put the spare key?"), talks.claude("Under the third flowerpot."))
    talks.write(home.parent / "claude" / "projects" / "-code" / "s.jsonl", *said)
    async with talking(load(toolsets="history")) as talk:
        answer = await talk.call("memory_recall", query=SURE)
        assert "spare key" in answer["results"][0]["excerpt"]
        assert "nearest" not in answer
        answer = await talk.call("memory_recall", query=NEAR)
        assert answer["results"] == []
        assert answer["nearest"][0]["session_id"] == "s"
        assert answer["suggestion"].startswith(NEAREST)


@pytest.mark.parametrize("toolsets", ["core", "project", "assistant,capture"])
def test_the_instructions_tell_what_nearest_means(toolsets: str) -> None:
    assert "The nearest comes when nothing clearly answers" in instructions_for(toolsets)


async def test_the_prompt_about_a_subject_says_that_nothing_is_certain(load: Load) -> None:
    async with knowing(load) as talk:
        prompt = await talk.client.get_prompt("what_do_you_know", {"subject": NEAR})
        [message] = prompt.messages
        assert message.content.text.startswith("Nothing that is remembered is clearly about")
        assert KEY in message.content.text


def test_rest(home: Path) -> None:
    with served(home) as api:
        for text in (HOTEL, KEY):
            api.get("remember", {"content": text})
        answer = api.get("recall", {"query": NEAR})
        assert answer["hits"] == []
        assert answer["nearest"][0]["content"] == KEY
        assert answer["notice"].startswith(NEAREST)
        answer = api.get("recall", {"query": NEAR, "minimum_score": 0.0})
        assert answer["hits"][0]["content"] == KEY
        assert answer["nearest"] == []


def test_the_command_line(shell: Shell) -> None:
    for text in (HOTEL, KEY):
        shell.fine("remember", text)
    first, *rest = shell.fine("recall", NEAR).out.splitlines()
    assert first == DOUBTFUL
    assert KEY in rest[0]
    assert DOUBTFUL not in shell.fine("recall", SURE).out
    lines = shell.fine("ask", NEAR).out.splitlines()
    assert lines[:2] == [NOTHING, "The nearest, doubtful:"]
    assert KEY in lines[2]
