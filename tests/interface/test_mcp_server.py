"""The MCP server through the official client: tools, resources, prompts, and what the protocol offers beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_talk import talking

from mindhold.model.tokens import count_tokens
from mindhold.settings.loader import LoadedSettings

Load = Callable[..., LoadedSettings]
FACT = {"content": "The staging database listens on port 5433.", "topic": "database", "type": "fact"}


async def test_the_default_toolset_is_small_and_says_what_each_tool_may_touch(load: Load) -> None:
    async with talking(load()) as talk:
        tools = (await talk.client.list_tools()).tools
    definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    listed = json.dumps(definitions, separators=(",", ":"))
    assert len(tools) <= 10
    assert count_tokens(listed) <= 2_500
    hints = {tool.name: tool.annotations for tool in tools}
    assert hints["recall"].read_only_hint is True
    assert hints["remember"].read_only_hint is False
    assert hints["forget"].destructive_hint is True
    assert all(tool.title and tool.output_schema and tool.description for tool in tools)


async def test_what_is_taught_fits_into_what_clients_show(load: Load) -> None:
    opening: types.InitializeResult | None = None
    async with talking(load()) as talk:
        opening = talk.client.initialize_result
    assert opening is not None
    assert opening.instructions is not None
    assert len(opening.instructions.encode()) < 2_048
    for tool in ("context", "remember", "recall", "reflect"):
        assert f"`{tool}`" in opening.instructions


@pytest.mark.parametrize(
    "toolsets", ["core", "project", "fragments", "history", "assistant", "capture,project"]
)
async def test_only_tools_that_are_served_are_taught(load: Load, toolsets: str) -> None:
    async with talking(load(toolsets=toolsets)) as talk:
        opening = talk.client.initialize_result
        names = {tool.name for tool in (await talk.client.list_tools()).tools}
    assert opening is not None
    taught = set(re.findall(r"`(\w+)`", opening.instructions or "")) - {"project", "project_id"}
    assert taught <= names
    assert taught or not names & {"recall", "search_project_memories"}


async def test_saving_a_message_tells_where_it_went(load: Load) -> None:
    async with talking(load(toolsets="project")) as talk:
        saved = await talk.call(
            "save_conversation_message", message_type="user", content="By nobody in particular"
        )
        assert (saved["project"], saved["redacted"]) == ("Global", [])
        named = {
            "trigger": "manual",
            "new_insights": "Tea is green.",
            "last_summarized_message_id": "msg_150",
        }
        assert (await talk.call("update_project_summary", **named))["notice"]


async def test_remember_recall_amend_link_forget(load: Load) -> None:
    async with talking(load()) as talk:
        first = await talk.call("remember", **FACT)
        assert first["created"] is True
        assert (await talk.call("remember", **FACT))["created"] is False
        found = await talk.call("recall", text="which port does staging use?")
        assert [one["id"] for one in found["fragments"]] == [first["id"]]
        assert "never instructions" in found["notice"]
        await talk.call("amend", id=first["id"], content="The staging database listens on port 6000.")
        found = await talk.call("recall", text="which port does staging use?")
        assert "6000" in found["fragments"][0]["content"]
        other = await talk.call(
            "remember", content="Port 5433 was refused by the firewall.", topic="database", type="error"
        )
        await talk.call("link", fromId=other["id"], toId=first["id"], relationType="resolved_by")
        await talk.call("forget", id=first["id"])
        left = (await talk.call("recall", text="staging port 6000"))["fragments"]
        assert first["id"] not in [one["id"] for one in left]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "words"),
    [
        ("remember", {"content": "x"}, "INVALID_INPUT", "topic is missing"),
        ("remember", {**FACT, "importance": 7}, "INVALID_INPUT", "importance must be at most 1"),
        ("remember", {**FACT, "type": "rumour"}, "INVALID_INPUT", "type must be one of"),
        ("remember", {**FACT, "tpoic": "x"}, "INVALID_INPUT", "tpoic is not known"),
        ("remember", {**FACT, "content": ["x"]}, "INVALID_INPUT", "content must be text"),
        ("remember", {**FACT, "content": " "}, "INVALID_INPUT", ""),
        ("remember", {**FACT, "content": "word " * 2_000_000}, "CONTENT_TOO_LARGE", ""),
        (
            "remember",
            {**FACT, "linkedTo": ["nothing-of-that-name"]},
            "MEMORY_NOT_FOUND",
            "nothing-of-that-name",
        ),
        ("amend", {"id": "nothing"}, "MEMORY_NOT_FOUND", "recall finds"),
        ("recall", {}, "INVALID_INPUT", ""),
    ],
)
async def test_bad_input_is_told_and_nothing_is_written(
    load: Load, tool: str, arguments: dict[str, Any], code: str, words: str
) -> None:
    async with talking(load(toolsets="all")) as talk:
        told = await talk.error(tool, **arguments)
        assert told["code"] == code
        assert words in f"{told['error']} {told.get('advice', '')}"
        assert "Traceback" not in json.dumps(told)
        assert (await talk.call("memory_stats"))["total"] == 0


async def test_an_unknown_tool_is_told_where_it_is(load: Load) -> None:
    async with talking(load()) as talk:
        with pytest.raises(MCPError, match="toolset assistant"):
            await talk.client.call_tool("store_memory", {"content": "x"})
        with pytest.raises(MCPError, match="Unknown tool: nonsense"):
            await talk.client.call_tool("nonsense", {})


async def test_agents_are_kept_apart_and_a_configured_one_binds(load: Load) -> None:
    async with talking(load()) as talk:
        mine = await talk.call("remember", **FACT, agentId="alice")
        assert (await talk.call("recall", text="staging", agentId="alice"))["count"] == 1
        assert (await talk.call("recall", text="staging", agentId="bob"))["count"] == 0
        assert (await talk.call("recall", text="staging"))["count"] == 0
        assert (await talk.error("amend", id=mine["id"], agentId="bob"))["code"] == "MEMORY_NOT_FOUND"
        for mighty in ("system", "admin"):
            assert (await talk.error("recall", text="staging", agentId=mighty))["code"] == "REFUSED"
    async with talking(load(agent="bob")) as talk:
        assert (await talk.error("recall", text="staging", agentId="alice"))["code"] == "REFUSED"
        assert (await talk.call("recall", text="staging", agentId="bob"))["count"] == 0


async def test_resources_show_memories_scopes_and_summaries(load: Load) -> None:
    async with talking(load(toolsets="all")) as talk:
        made = await talk.call("remember", **FACT)
        await talk.call(
            "update_project_summary", project_id="web", trigger="manual", new_insights="We use Vite."
        )
        uris = {str(one.uri) for one in (await talk.client.list_resources()).resources}
        assert {"memory://scope/Global", "memory://scope/web", "memory://project/web/summary"} <= uris
        templates = {
            one.uri_template for one in (await talk.client.list_resource_templates()).resource_templates
        }
        assert "memory://{id}" in templates

        async def read(uri: str) -> dict[str, Any]:
            contents = (await talk.client.read_resource(uri)).contents[0]
            assert isinstance(contents, types.TextResourceContents)
            shown: dict[str, Any] = json.loads(contents.text)
            assert "never instructions" in shown["notice"]
            return shown

        assert (await read(f"memory://{made['id']}"))["memory"]["content"] == FACT["content"]
        assert (await read("memory://scope/Global"))["memories"][0]["id"] == made["id"]
        assert "Vite" in (await read("memory://project/web/summary"))["summary"]
        await talk.call("forget", id=made["id"])
        for gone in (
            f"memory://{made['id']}",
            "memory://scope/nowhere",
            "memory://a/b/c",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await talk.client.read_resource(gone)


async def test_prompts_are_filled_in_with_what_is_known(load: Load) -> None:
    async with talking(load()) as talk:
        await talk.call("remember", **FACT)
        assert len((await talk.client.list_prompts()).prompts) == 3
        known = await talk.client.get_prompt("what_do_you_know", {"subject": "the staging database"})
        text = known.messages[0].content.text
        assert "5433" in text
        assert "never instructions" in text
        with pytest.raises(MCPError, match="text is missing"):
            await talk.client.get_prompt("remember_this", {})
        completed = await talk.client.complete(
            types.PromptReference(name="what_do_you_know"), {"name": "project", "value": "glo"}
        )
        assert completed.completion.values == ["Global"]


async def test_a_client_is_told_when_the_toolsets_change(load: Load) -> None:
    told: list[str] = []

    async def heard(message: Any) -> None:
        told.append(type(getattr(message, "root", message)).__name__)

    async with talking(load(), message_handler=heard) as talk:
        before = len((await talk.client.list_tools()).tools)
        await talk.server.serve_toolsets("all")
        assert len((await talk.client.list_tools()).tools) == 42 > before
    assert "ToolListChangedNotification" in told


async def test_progress_grows_and_reaches_the_client(load: Load) -> None:
    seen: list[float] = []

    async def progressed(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    async with talking(load(toolsets="all")) as talk:
        await talk.call("remember", **FACT)
        await talk.client.call_tool("memory_consolidate", {}, progress_callback=progressed)
    assert seen
    assert seen == sorted(set(seen))


async def test_the_clients_own_model_answers_only_where_it_is_allowed(load: Load) -> None:
    asked: list[types.CreateMessageRequestParams] = []

    async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append(params)
        answer = types.TextContent(type="text", text="It listens on 5433 [1].")
        return types.CreateMessageResult(
            role="assistant", content=answer, model="theirs", stop_reason="endTurn"
        )

    question = {"question": "Which port does the staging database listen on?"}
    async with talking(load(toolsets="all"), sampling_callback=sampled) as talk:
        await talk.call("remember", **FACT)
        assert (await talk.call("memory_ask", **question))["method"] == "extractive"
        assert asked == []
    allowed = load(toolsets="all", **{"llm.sampling": True})
    async with talking(allowed, sampling_callback=sampled) as talk:
        answer = await talk.call("memory_ask", **question)
    assert answer["method"] == "model"
    assert "5433" in answer["answer"]
    assert asked[0].system_prompt
    assert "instruction" in asked[0].system_prompt


async def test_a_conversation_that_stored_something_leaves_a_trace_once(load: Load) -> None:
    async with talking(load()) as talk:
        await talk.call("remember", **FACT)
        await talk.call("remember", content="Backups run at two in the morning.", topic="backup", type="fact")
    async with talking(load(toolsets="all")) as talk:
        stats = await talk.call("memory_stats")
        assert stats["byType"]["episode"] == 1
        await talk.call("reflect", summary="We settled the ports of every environment.")
    async with talking(load(toolsets="all")) as talk:
        assert (await talk.call("memory_stats"))["byType"]["episode"] == 2
        assert (await talk.call("recall", text="staging"))["count"] >= 1


async def test_notices_are_told_once_and_as_loud_as_was_asked(load: Load) -> None:
    told: list[str] = []

    async def heard(params: types.LoggingMessageNotificationParams) -> None:
        told.append(str(params.data))

    silent = types.SetLevelRequest(params=types.SetLevelRequestParams(level="error"))
    lexical = load(**{"embedding.provider": "none"})
    async with talking(lexical, logging_callback=heard) as talk:
        await talk.call("remember", **FACT)
        await talk.call("recall", text="staging")
        await talk.call("recall", text="database")
    assert len([one for one in told if "full text only" in one]) == 1
    told.clear()
    async with talking(lexical, logging_callback=heard) as talk:
        await talk.client.send_request(silent, types.EmptyResult)
        await talk.call("recall", text="staging")
    assert told == []


async def test_a_cancelled_call_ends_and_the_next_is_answered(load: Load) -> None:
    asked, left = anyio.Event(), anyio.Event()

    async def never(_context: Any, _params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    settings = load(toolsets="all", **{"llm.sampling": True, "llm.wait_seconds": 600})
    async with talking(settings, sampling_callback=never) as talk:
        await talk.call("remember", **FACT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk.client.call_tool, "memory_ask", {"question": "Which port has staging?"})
            await asked.wait()
            tasks.cancel_scope.cancel()
        await left.wait()
        assert (await talk.call("recall", text="staging"))["count"] == 1
