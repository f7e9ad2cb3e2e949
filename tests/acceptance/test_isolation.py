"""What one agent keeps is nothing to another: whatever a stranger asks, the answer is the same as if it weren't there.

The same calls are made in two homes. In one of them another agent has memories, links, versions, conversations, feedback and
working memory, all full of a word that must not be seen; in the other there is none of it. The stranger names the ids
of that agent's memories, guesses its words and stores what it has stored. The answers must not differ.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from front_door import Open

from mindhold.app.application import App
from mindhold.contracts.mcp.tools import tools_of
from mindhold.model.errors import MindholdError, Refused
from mindhold.model.scope import Caller
from mindhold.operation_index import names, operation

ADA = Caller("ada", bound=True, owner=False)
STRANGER = Caller("mallory", bound=True, owner=False)
SECRET = "zanzibar"
KNOWN = f"The {SECRET} vault opens with the brass key."
FIELDS: dict[str, Any] = {
    "topic": SECRET,
    "tags": [SECRET],
    "keywords": [SECRET],
    "source": SECRET,
    "metadata": {SECRET: 1},
}
NOWHERE = "01m7gv42a3fzcy3gb19vmek4q"  # with one more character: ids that nobody has

# What a stranger asks for by each tool. ID stands for an id of the other's, OWN for one of the stranger's.
TOOLS: Mapping[str, list[dict[str, Any]]] = {
    "remember": [
        {"content": KNOWN, "topic": SECRET, "type": "fact"},
        {"content": "Linked to a stranger's.", "topic": "x", "type": "fact", "linkedTo": ["ID"]},
        {"content": f"The {SECRET} vault does not open with the brass key.", "topic": SECRET, "type": "fact"},
        {"content": "As somebody else.", "topic": "x", "type": "fact", "agentId": "ada"},
    ],
    "recall": [
        {"text": f"which key opens the {SECRET} vault?"},
        {"keywords": [SECRET]},
        {"topic": SECRET},
        {"type": "fact", "includeLinks": True},
        {"text": SECRET, "agentId": "ada"},
        {"text": SECRET, "agentId": "system"},
    ],
    "context": [{}, {"sessionId": f"{SECRET}-talk"}, {"agentId": "admin"}],
    "amend": [{"id": "ID", "importance": 0.1}, {"id": "ID", "content": "Nothing.", "supersedes": True}],
    "forget": [{"id": "ID"}, {"topic": SECRET, "force": True}],
    "link": [{"fromId": "ID", "toId": "OWN"}, {"fromId": "OWN", "toId": "ID", "relationType": "caused_by"}],
    "graph_explore": [{"startId": "ID"}, {"startId": "OWN"}],
    "memory_stats": [{}],
    "tool_feedback": [{"tool_name": "recall", "relevant": False, "sufficient": False}],
    "reflect": [{"summary": KNOWN, "sessionId": f"{SECRET}-talk"}],
    "memory_consolidate": [{}],
    "fragment_history": [{"id": "ID"}],
    "reconstruct_history": [{"topic": SECRET}],
    "batch_remember": [{"fragments": [{"content": KNOWN, "topic": SECRET, "type": "fact"}]}],
    "memory_recall": [{"query": SECRET}],
    "memory_timeline": [{}],
    "memory_projects": [{}],
    "memory_search": [{"query": SECRET}],
    "memory_ask": [{"question": f"What opens the {SECRET} vault?"}],
    "memory_related": [{"memory_id": "ID"}, {"memory_id": "OWN"}],
    "memory_review": [{}, {"drop": ["ID"]}, {"never": ["ID"]}, {"undo": ["ID"]}],
    "store_memory": [
        {"content": KNOWN},
        {"content": f"Said of {SECRET}.", "source": "conversation", "conversation_id": f"{SECRET}-talk"},
        {"content": f"We spoke of {SECRET}.", "source": "summary", "tags": [SECRET]},
        {"content": f"My house is called {SECRET}.", "source": "user_profile"},
    ],
    "retrieve_memory": [{"query": SECRET}],
    "search_by_tag": [{"tag": SECRET}, {"tag": SECRET, "query": "vault"}],
    "search_by_scope": [{"scope": "Global"}, {"scope": "Global", "query": SECRET}],
    "recall_memory_by_time": [{"time_query": "today"}],
    "delete_memory": [{"target": {"memory_id": "ID"}}, {"target": {"tag": SECRET}}],
    "forget_memory": [{"target": {"query": SECRET}}, {"target": {"memory_id": "ID", "query": SECRET}}],
    "get_memory_stats": [{}],
    "get_profile": [{}],
    "update_profile": [{"facts": {SECRET: "seen"}}, {"remove": [SECRET]}],
    "backup_memory": [{}],
    "restore_memory": [{}],
    "optimize_memory": [{}],
    "create_memory_scope": [{"name": "Another"}],
    "list_memory_scopes": [{}],
    "export_memory": [{}],
    "get_project_memory_context": [{"project_id": "Global", "query": SECRET}],
    "save_conversation_message": [{"project_id": "Global", "message_type": "user", "content": KNOWN}],
    "update_project_summary": [
        {"project_id": "Global", "trigger": "session_end", "new_insights": "Nothing to tell."}
    ],
    "intelligent_update_project_summary": [{"project_id": "Global", "summary": "Nothing to tell."}],
    "search_project_memories": [{"project_id": "Global", "query": SECRET}],
}

# The same of the operations that no tool has.
OPERATIONS: Mapping[str, list[dict[str, Any]]] = {
    "show": [{"id": "ID"}],
    "list": [{}, {"topic": SECRET}, {"statuses": ["forgotten", "archived", "superseded"]}],
    "tags": [{}],
    "unlink": [{"origin": "ID", "target": "OWN"}],
    "unforget": [{"ids": ["ID"]}],
    "list_captures": [{}, {"everywhere": True}],
    "review": [{"keep": ["ID"]}, {"edit": [{"id": "ID", "content": "Nothing."}]}],
    "list_rejections": [{}],
    "lift_rejections": [{"ids": ["ID"]}],
    "remember_many": [{"items": [{"content": KNOWN}]}],
    "end_conversation": [{"conversation": f"{SECRET}-talk"}],
    "recent_messages": [{}],
    "list_messages": [{}, {"conversation": f"{SECRET}-talk"}, {"order": "oldest"}],
    "show_message": [{"message_id": "ID"}],
    "delete_messages": [
        {"message_id": "ID"},
        {"conversation": f"{SECRET}-talk"},
        {"task_id": 7},
        {"before": "2100-01-01T00:00:00Z"},
    ],
    "project_stats": [{}],
    "save_messages": [
        {"messages": [{"message_type": "user", "content": KNOWN}], "idempotency_key": f"{SECRET}-import"},
    ],
    "project_summary": [{}],
    "summary_versions": [{}],
    "summary_version": [{"version": 1}],
    "summary_diff": [{}, {"from_version": 0, "to_version": 1}],
    "restore_summary": [{"version": 1}],
    "profile_history": [{"entry": SECRET}],
    "show_scope": [{"name": "Global"}],
    "list_projects": [{}],
    "show_project": [{"name": "Global"}],
    "status": [{}],
    "list_models": [{}],
    "feedback_report": [{}],
    "recap": [{"conversation": f"{SECRET}-talk"}, {"conversation": "mine"}],
    "list_recaps": [{}, {"conversation": f"{SECRET}-talk", "archived": True}],
    "recap_messages": [{"id": "ID"}],
    "list_conversations": [{}, {"conversation": f"{SECRET}-talk"}],
    "list_contradictions": [{}],
    "undo_contradiction": [{"id": "ID"}],
    "confirm_contradiction": [{"id": "ID"}],
    "dismiss_contradiction": [{"id": "ID"}],
    "go_on": [{"conversation": f"{SECRET}-talk"}],
    "reindex_project": [{"project": "Global"}, {"project": "Global", "force": True}],
    "reindex_status": [{"project": "Global", "job_id": "ID"}],
    "cancel_reindex": [{"project": "Global", "job_id": "ID"}],
    "recent_changes": [
        {"since": "2020-01-01T00:00:00Z", "topics": ["memories"]},
        {"since": "2020-01-01T00:00:00Z", "project": "Global"},
        {"topics": ["jobs"], "known": ["ID"]},
    ],
}
# They say nothing of memories, or concern a scope as a whole, which no agent's name fences.
ELSEWHERE = frozenset({"interpret_time", "change_scope"})

ID_FORM = re.compile(r"(?:\b|reindex_)[0-9a-hjkmnp-tv-z]{26}\b")
TIME_FORM = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?")
OF_THE_CLOCK = frozenset({"seconds", "processing_time_ms", "estimated_time_seconds"})


class World:
    """A home, and the ids that a stranger may name there."""

    def __init__(self, app: App, home: Path, *, ids: list[str]) -> None:
        self.app = app
        self.home = home
        self.ids = ids
        self.own = ""

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> list[Any]:
        """What the stranger is told; once for each id of the other's where one is asked for."""
        spelt = repr(arguments)
        ids = self.ids if "'ID'" in spelt else [""]
        return [await self._told(name, _with(arguments, ID=one, OWN=self.own)) for one in ids]

    async def _told(self, name: str, arguments: Any) -> Any:
        try:
            return self.plain(await (self._by_tool if name in TOOLS else self._by_name)(name, arguments))
        except MindholdError as error:
            return self.plain({"code": error.code, "message": error.message, "advice": error.advice})

    async def _by_tool(self, name: str, arguments: Any) -> Any:
        tool = {tool.name: tool for tool in tools_of(["all"])}[name]
        request = tool.request(arguments)
        output = await self.app.run(
            request.operation, request.given, caller=STRANGER, agent=request.agent, conversation="mine"
        )
        return tool.answer(output)

    async def _by_name(self, name: str, arguments: Any) -> Any:
        wanted = operation(name)
        output = await self.app.run(wanted, wanted.takes(**arguments), caller=STRANGER, conversation="mine")
        return output.model_dump(mode="json")

    def plain(self, value: Any) -> Any:
        """Without what no two homes share: ids, times, the folder's name."""
        match value:
            case dict():
                counted = {"tokens"} if "rag_results" in value else set()  # with those of its ids and times
                kept = {key: one for key, one in value.items() if key not in OF_THE_CLOCK | counted}
                return {key: self.plain(one) for key, one in kept.items()}
            case list() | tuple():
                return [self.plain(one) for one in value]
            case str():
                return TIME_FORM.sub("TIME", ID_FORM.sub("ID", value.replace(str(self.home), "HOME")))
            case _:
                return value


def _with(value: Any, **ids: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _with(one, **ids) for key, one in value.items()}
    if isinstance(value, list):
        return [_with(one, **ids) for one in value]
    return ids.get(value, value) if isinstance(value, str) else value


async def _by(app: App, who: Caller, name: str, **fields: Any) -> Any:
    wanted = operation(name)
    return await app.run(
        wanted, wanted.takes(**fields), caller=who, conversation=f"{SECRET}-talk" if who is ADA else "mine"
    )


async def _hidden(app: App) -> list[str]:
    """All sorts of what an agent may have, and the ids of it."""
    first = (await _by(app, ADA, "remember", content=KNOWN, kind="fact", **FIELDS)).id
    error = (
        await _by(app, ADA, "remember", content=f"The {SECRET} alarm rings at night.", kind="error", **FIELDS)
    ).id
    fix = (
        await _by(
            app, ADA, "remember", content=f"Oil the {SECRET} hinge first.", kind="procedure", anchor=True
        )
    ).id
    await _by(app, ADA, "link", origin=error, target=fix, relation="resolved_by")
    await _by(app, ADA, "amend", id=first, content=f"The {SECRET} vault opens with the iron key.")
    working = (await _by(app, ADA, "remember", content=f"Now at the {SECRET} door.", session_only=True)).id
    gone = (await _by(app, ADA, "remember", content=f"The {SECRET} password was changed.")).id
    await _by(app, ADA, "forget", ids=[gone])
    reflected = await _by(
        app, ADA, "reflect", summary=f"Looked into the {SECRET} affair.", decisions=[f"Close {SECRET}."]
    )
    await _by(
        app,
        ADA,
        "feedback",
        tool_name="recall",
        relevant=False,
        sufficient=False,
        suggestion=f"More of {SECRET}.",
    )
    for claim in ("listens on port 4711", "does not listen on port 4711"):
        await _by(
            app, ADA, "remember", content=f"The {SECRET} gate {claim} these days.", kind="fact", topic="gate"
        )
    for insight in (f"The {SECRET} affair began.", f"The {SECRET} affair is over."):
        known = await _by(app, ADA, "update_summary", trigger="manual", new_insights=insight)
    for number in range(8):
        said = f"We decided that guard {number} of the {SECRET} vault sleeps at {number} o'clock."
        await _by(app, ADA, "save_message", message_type="user", content=said)
    told = (await _by(app, ADA, "recap", conversation=f"{SECRET}-talk")).recap.id
    await app.run(operation("consolidate"), operation("consolidate").takes())
    denied = await _by(app, ADA, "list_contradictions")
    assert denied.found or denied.pending
    return [first, error, fix, working, gone, known.memory_id, told, *reflected.ids]


@pytest.fixture
async def worlds(opened: Open, tmp_path: Path) -> AsyncIterator[tuple[World, World]]:
    """One with the other agent's things in it, and one without."""
    with_homes = [tmp_path / "with" / "home", tmp_path / "out" / "home"]
    async with opened(home=with_homes[0]) as full, opened(home=with_homes[1]) as empty:
        ids = await _hidden(full)
        await empty.run(operation("consolidate"), operation("consolidate").takes())
        nobodys = [NOWHERE + "0123456789"[number] for number in range(len(ids))]
        both = World(full, with_homes[0], ids=ids), World(empty, with_homes[1], ids=nobodys)
        for world in both:
            common = operation("remember").takes(
                content="The office is in Berlin.", kind="fact", topic="office"
            )
            await world.app.run(operation("remember"), common)
            world.own = (
                await _by(world.app, STRANGER, "remember", content="My own bicycle is red.", kind="fact")
            ).id
        yield both


def test_everything_is_tried() -> None:
    tools = tools_of(["all"])
    assert TOOLS.keys() == {tool.name for tool in tools}
    tried = OPERATIONS.keys() | {tool.operation for tool in tools} | ELSEWHERE
    assert tried >= {name for name in names() if not operation(name).owner_only}


async def test_no_answer_tells_that_there_is_more(worlds: tuple[World, World]) -> None:
    full, empty = worlds
    for name, calls in {**OPERATIONS, **TOOLS}.items():
        for arguments in calls:
            told, untold = await full.answer(name, arguments), await empty.answer(name, arguments)
            assert told == untold, (name, arguments)


async def test_nothing_of_the_other_was_changed_by_it(worlds: tuple[World, World]) -> None:
    full, _ = worlds
    before = {one: await _by(full.app, ADA, "show", id=one) for one in full.ids}
    for name, calls in {**OPERATIONS, **TOOLS}.items():
        for arguments in calls:
            await full.answer(name, arguments)
    for one, shown in before.items():
        assert await _by(full.app, ADA, "show", id=one) == shown


async def test_what_concerns_everybody_is_refused(worlds: tuple[World, World]) -> None:
    full, _ = worlds
    refused = [name for name in names() if operation(name).owner_only]
    assert {"export", "backup", "consolidate", "create_key"} <= set(refused)
    for name in refused:
        with pytest.raises(Refused):
            await full.app.run(operation(name), operation(name).takes.model_construct(), caller=STRANGER)
