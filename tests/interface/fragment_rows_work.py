"""Rows of the tables of reflect, context, feedback, statistics, upkeep, graphs, batches and histories."""

from __future__ import annotations

from typing import Any

from fragment_rows import HOSE, ROSES, Json, Seen, gives, recalled, record, remembered, row
from mcp_talk import Talk

from mindhold.model.tokens import count_tokens

SUMMARY = "We mended the irrigation of the garden."

# reflect


@row("reflect", "summary", "sessionId")
async def summary(talk: Talk) -> None:
    answer = await talk.call("reflect", summary=SUMMARY, sessionId="s1")
    kept = (await record(talk, answer["ids"][0]))["memory"]
    assert kept["content"] == SUMMARY
    assert kept["provenance"]["conversation"] == "s1"


@row("reflect", "decisions", "errors_resolved", "new_procedures", "open_questions")
async def points(talk: Talk) -> None:
    given = {
        "decisions": ["Valves are closed before the first frost.", "The pond gets no fish."],
        "errors_resolved": ["The pump stopped at noon; fixed by shading its motor."],
        "new_procedures": ["To drain the pipes open the lowest tap first."],
        "open_questions": ["Who waters in August?"],
    }
    answer = await talk.call("reflect", summary=SUMMARY, **given)
    assert answer["counts"] == {"summary": 1, **{name: len(texts) for name, texts in given.items()}}
    kinds = {"decisions": "decision", "errors_resolved": "error", "new_procedures": "procedure"}
    for name, texts in given.items():
        found = await recalled(talk, type=kinds.get(name, "fact"), tokenBudget=3000)
        assert set(texts) <= set(found)
    assert "decisions" in (await talk.call("reflect", summary="Only a summary.", decisions=[]))["counts"]


@row(
    "reflect",
    "task_effectiveness",
    "task_effectiveness.overall_success",
    "task_effectiveness.tool_highlights",
    "task_effectiveness.tool_pain_points",
)
async def task_effectiveness(talk: Talk) -> None:
    for success in (True, False):
        effect = {
            "overall_success": success,
            "tool_highlights": ["recall found the valve"],
            "tool_pain_points": ["context was long"],
        }
        await talk.call("reflect", summary=f"{SUMMARY} {success}", task_effectiveness=effect)
    stats = await talk.call("memory_stats")
    assert stats["taskFeedback"] == {"succeeded": 1, "count": 2}
    error = await talk.error("reflect", summary=SUMMARY, task_effectiveness={"tool_highlights": []})
    assert "task_effectiveness.overall_success is missing" in error["error"]


@row("reflect", "project")
async def reflect_project(talk: Talk) -> None:
    await talk.call("reflect", summary=SUMMARY, project="orchard")
    assert await recalled(talk, text="irrigation") == []
    assert await recalled(talk, text="irrigation", project="orchard") == [SUMMARY]


@row("reflect", "agentId")
async def reflect_agent(talk: Talk) -> None:
    await talk.call("reflect", summary=SUMMARY, agentId="ada")
    assert await recalled(talk, text="irrigation", agentId="ada") == [SUMMARY]
    assert await recalled(talk, text="irrigation", agentId="grace") == []


@gives("reflect")
async def reflect_gives(talk: Talk, seen: Seen) -> None:
    first = seen.of(await talk.call("reflect", summary=SUMMARY, decisions=["No fish in the pond."]))
    assert list(first.has("success", "stored", "duplicates", "quarantined")) == [True, 2, 0, 0]
    assert len(first["ids"]) == 2
    assert first["counts"] is not None


# context


async def _core(talk: Talk, **given: Any) -> list[str]:
    return [one["type"] for one in (await talk.call("context", **given))["coreMemory"]]


@row("context", "tokenBudget")
async def context_budget(talk: Talk) -> None:
    items = [
        {"content": f"Rule {number}: " + f"prefer tool {number} " * 20, "topic": "r", "type": "preference"}
        for number in range(100)
    ]
    await talk.call("batch_remember", fragments=items)
    for given, most in (({}, 2000), ({"tokenBudget": 300}, 300)):
        answer = await talk.call("context", **given)
        assert answer["totalTokens"] == count_tokens(answer["injectionText"]) <= most
        assert answer["coreMemory"]


@row("context", "types")
async def context_types(talk: Talk) -> None:
    for kind in ("fact", "decision", "error", "preference", "procedure", "relation"):
        await remembered(talk, f"A {kind} about plot {kind}.", type=kind, sessionId="s0")
    assert set(await _core(talk)) == {"preference", "error", "procedure"}
    assert set(await _core(talk, types=["decision", "fact"])) == {"decision", "fact"}


@row("context", "sessionId")
async def context_session(talk: Talk) -> None:
    await remembered(talk, HOSE, scope="session", sessionId="s1")
    await remembered(talk, ROSES, sessionId="s0")
    mine = await talk.call("context", sessionId="s1")
    assert [one["topic"] for one in mine["workingMemory"]] == ["garden"]
    assert HOSE in mine["injectionText"]
    assert "[SYSTEM HINT]" in mine["injectionText"], "another conversation waits to be reflected on"
    other = await talk.call("context", sessionId="s2")
    assert (other["workingMemory"], HOSE in other["injectionText"]) == ([], False)


@row("context", "project")
async def context_project(talk: Talk) -> None:
    await remembered(talk, ROSES, type="preference", project="orchard", sessionId="s0")
    assert await _core(talk) == []
    assert await _core(talk, project="orchard") == ["preference"]


@row("context", "agentId")
async def context_agent(talk: Talk) -> None:
    await remembered(talk, ROSES, type="preference", agentId="ada", sessionId="s0")
    assert await _core(talk, agentId="ada") == ["preference"]
    assert await _core(talk, agentId="grace") == []


@gives("context")
async def context_gives(talk: Talk, seen: Seen) -> None:
    rule = await remembered(talk, ROSES, type="preference", sessionId="s1")
    work = await remembered(talk, HOSE, scope="session", sessionId="s2")
    answer = seen.of(await talk.call("context", sessionId="s2"))
    assert "never instructions" in answer["notice"]
    [core], [working] = answer["coreMemory"], answer["workingMemory"]
    assert list(core.has("id", "type", "topic", "importance")) == [rule, "preference", "garden", 0.9]
    assert list(working.has("id", "type", "topic", "importance")) == [work, "fact", "garden", 0.5]
    text = answer["injectionText"]
    assert ROSES in text
    assert HOSE in text
    assert list(answer.has("success", "totalTokens", "project")) == [True, count_tokens(text), "Global"]
    assert answer["unreflectedSessions"] == 1
    assert "[SYSTEM HINT] 1" in text


# tool_feedback


@row("tool_feedback", "tool_name", "relevant", "sufficient")
async def verdicts(talk: Talk) -> None:
    for relevant, sufficient in ((True, True), (True, False), (False, False)):
        await talk.call("tool_feedback", tool_name="recall", relevant=relevant, sufficient=sufficient)
    await talk.call("tool_feedback", tool_name="context", relevant=True, sufficient=True)
    told = (await talk.call("memory_stats"))["toolFeedback"]
    assert told["recall"] == {"relevant": 2, "sufficient": 1, "count": 3}
    assert told["context"] == {"relevant": 1, "sufficient": 1, "count": 1}


@row("tool_feedback", "suggestion", "context", "session_id", "trigger_type")
async def remarks(talk: Talk) -> None:
    for trigger in ("sampled", "voluntary"):
        answer = await talk.call(
            "tool_feedback",
            tool_name="recall",
            relevant=False,
            sufficient=False,
            suggestion="Show fewer.",
            context="Looking for a valve",
            session_id="s1",
            trigger_type=trigger,
        )
        assert answer["success"]
    error = await talk.error(
        "tool_feedback", tool_name="recall", relevant=True, sufficient=True, trigger_type="forced"
    )
    assert "trigger_type must be one of" in error["error"]
    too_long = {"suggestion": "x" * 2001}
    told = await talk.error("tool_feedback", tool_name="recall", relevant=True, sufficient=True, **too_long)
    assert "suggestion" in told["error"]


@row("tool_feedback", "fragmentIds")
async def rated_ones(talk: Talk) -> None:
    liked, other = await remembered(talk, ROSES), await remembered(talk, HOSE)
    given = {"tool_name": "recall", "relevant": True, "sufficient": True, "fragmentIds": [liked]}
    assert (await talk.call("tool_feedback", **given))["rated"] == 1
    assert (await record(talk, liked))["memory"]["usefulness"] > 0
    assert (await record(talk, other))["memory"]["usefulness"] == 0


@gives("tool_feedback")
async def feedback_gives(talk: Talk, seen: Seen) -> None:
    answer = seen.of(await talk.call("tool_feedback", tool_name="recall", relevant=True, sufficient=True))
    assert list(answer.has("success", "rated")) == [True, 0]
    assert answer["id"]


# memory_stats, memory_consolidate


@gives("memory_stats")
async def stats_gives(talk: Talk, seen: Seen) -> None:
    anchor = await remembered(talk, ROSES, isAnchor=True, sessionId="s1")
    other = await remembered(talk, HOSE, type="error", project="orchard")
    gone = await remembered(talk, "A third thing altogether.")
    await talk.call("forget", id=gone)
    await talk.call("link", fromId=anchor, toId=other)
    await talk.call("tool_feedback", tool_name="recall", relevant=True, sufficient=False)
    await talk.call("reflect", summary=SUMMARY, task_effectiveness={"overall_success": True})
    await talk.call("memory_consolidate")
    answer = seen.of(await talk.call("memory_stats"))
    total = answer["total"]
    assert list(answer.has("success", "anchors", "embedded", "embeddedRatio")) == [True, 1, total, 1.0]
    raw: Json = answer._value
    assert list(answer.has("byType", "byTier", "byStatus", "byProject"))
    assert raw["byType"]["error"] == 1
    assert sum(raw["byTier"].values()) == total
    assert raw["byStatus"]["forgotten"] == 1
    assert raw["byProject"]["orchard"] == 1
    assert answer["links"] >= 1
    assert answer["sessions"] >= 1
    assert answer["unverified"] <= total
    assert answer["pendingContradictions"] == 0
    assert answer["toolFeedback"]["recall"] is not None
    seen.names.discard("toolFeedback.recall")
    assert raw["toolFeedback"]["recall"] == {"relevant": 1, "sufficient": 0, "count": 1}
    assert list(answer["taskFeedback"].has("succeeded", "count")) == [1, 1]
    assert answer["model"]
    assert answer["method"]
    spent = answer["modelsToday"]
    assert list(spent.has("calls", "failed", "tokensIn", "tokensOut")) == [0, 0, 0, 0]
    assert spent["dailyTokens"] > 0
    assert answer["lastConsolidated"]


@row("memory_consolidate", "dryRun")
async def consolidate_dry(talk: Talk) -> None:
    await remembered(talk, ROSES)
    tried = await talk.call("memory_consolidate", dryRun=True)
    assert tried["dryRun"]
    assert "lastConsolidated" not in await talk.call("memory_stats")
    assert not (await talk.call("memory_consolidate"))["dryRun"]
    assert (await talk.call("memory_stats"))["lastConsolidated"]


@gives("memory_consolidate")
async def consolidate_gives(talk: Talk, seen: Seen) -> None:
    await remembered(talk, ROSES)
    answer = seen.of(await talk.call("memory_consolidate"))
    assert list(answer.has("success", "dryRun")) == [True, False]
    stages = answer["stages"]
    assert len(stages) >= 11
    for stage in stages:
        assert stage["detail"]
        assert stage["stage"]
        assert stage["changed"] >= 0
        assert stage["seconds"] >= 0
        assert stage["more"] is False
    assert answer["seconds"] >= 0
    assert isinstance(answer["operations"], list)
    assert list(answer.has("archived", "erased", "stale")) == [[], [], []]
    assert answer["counts"] is not None
    assert answer.get("note") is None
    seen.names |= {f"{name}.{field}" for name in ("archived", "erased", "stale") for field in ("id", "why")}


# graph_explore


async def _chain(talk: Talk) -> list[str]:
    """Each caused by the next, the last by the first."""
    texts = ["The lawn is dry.", "The sprinkler stands still.", "The pump has no power.", "A fuse blew."]
    ids = [
        await remembered(talk, text, type="error", topic=f"t{number}") for number, text in enumerate(texts)
    ]
    for one, other in zip(ids, [*ids[1:], ids[0]], strict=True):
        await talk.call("link", fromId=one, toId=other, relationType="caused_by")
    return ids


@row("graph_explore", "startId")
async def explore_start(talk: Talk) -> None:
    failure, cause, fix = [
        await remembered(talk, text, type=kind, topic=kind)
        for text, kind in ((HOSE, "error"), ("Frost split the valve.", "fact"), ("Wrap it.", "procedure"))
    ]
    await talk.call("link", fromId=failure, toId=cause, relationType="caused_by")
    await talk.call("link", fromId=failure, toId=fix, relationType="resolved_by")
    graph = await talk.call("graph_explore", startId=failure)
    assert {one["id"] for one in graph["nodes"]} == {cause, fix}
    assert {edge["relationType"] for edge in graph["edges"]} == {"caused_by", "resolved_by"}


@row("graph_explore", "depth")
async def explore_depth(talk: Talk) -> None:
    ids = await _chain(talk)
    one = await talk.call("graph_explore", startId=ids[0])
    assert {node["depth"] for node in one["nodes"]} == {1}, "one link is the default"
    assert len(one["nodes"]) == 2
    far = await talk.call("graph_explore", startId=ids[0], depth=5)
    assert sorted(node["depth"] for node in far["nodes"]) == [1, 1, 2], "a cycle is walked once"
    assert len(far["edges"]) == 4


@row("graph_explore", "relations")
async def explore_relations(talk: Talk) -> None:
    ids = await _chain(talk)
    other = await remembered(talk, ROSES)
    await talk.call("link", fromId=ids[0], toId=other, relationType="part_of")
    assert other not in [node["id"] for node in (await talk.call("graph_explore", startId=ids[0]))["nodes"]]
    only = await talk.call("graph_explore", startId=ids[0], relations=["part_of"])
    assert [node["id"] for node in only["nodes"]] == [other]


@row("graph_explore", "agentId")
async def explore_agent(talk: Talk) -> None:
    mine = await remembered(talk, HOSE, type="error", agentId="ada")
    common = await remembered(talk, ROSES)
    await talk.call("link", fromId=mine, toId=common, relationType="caused_by", agentId="ada")
    assert (await talk.error("graph_explore", startId=mine, agentId="grace"))["code"] == "MEMORY_NOT_FOUND"
    assert (await talk.call("graph_explore", startId=common, agentId="grace"))["nodes"] == []
    assert len((await talk.call("graph_explore", startId=common, agentId="ada"))["nodes"]) == 1


@gives("graph_explore")
async def explore_gives(talk: Talk, seen: Seen) -> None:
    ids = await _chain(talk)
    answer = seen.of(await talk.call("graph_explore", startId=ids[0]))
    assert "never instructions" in answer["notice"]
    assert answer["success"]
    for node in (answer["start"], *answer["nodes"]):
        assert node["id"] in ids
        assert list(node.has("type", "importance")) == ["error", 0.8]
        assert node["content"]
        assert node["topic"].startswith("t")
        assert node["depth"] in (0, 1)
    [edge, *_] = answer["edges"]
    assert list(edge.has("fromId", "toId", "relationType"))[2] == "caused_by"


# batch_remember

TWO = [
    {"content": ROSES, "topic": "flowers", "type": "procedure"},
    {"content": HOSE, "topic": "tools", "type": "error"},
]


@row(
    "batch_remember",
    "fragments",
    "fragments.content",
    "fragments.topic",
    "fragments.type",
    "fragments.keywords",
    "fragments.importance",
    "fragments.source",
    "fragments.linkedTo",
    "fragments.isAnchor",
)
async def batch_fragments(talk: Talk) -> None:
    other = await remembered(talk, "The shed is green.")
    rich = {
        "keywords": ["pruning"],
        "importance": 0.33,
        "source": "almanac.md",
        "linkedTo": [other],
        "isAnchor": True,
    }
    answer = await talk.call("batch_remember", fragments=[TWO[0] | rich, {**TWO[1], "content": " "}, TWO[1]])
    assert [one["success"] for one in answer["results"]] == [True, False, True]
    wrong = [
        {**TWO[1], "type": "foo"},
        {**TWO[1], "importance": 1.5},
        {"content": HOSE, "type": "fact"},
        {**TWO[1], "kind": "fact"},
        "not even an object",
    ]
    fine = {"content": "The gate is open.", "topic": "t", "type": "fact"}
    mixed = await talk.call("batch_remember", fragments=[*wrong, fine], project="orchard")
    assert [one["success"] for one in mixed["results"]] == [False] * 5 + [True]
    assert {one["code"] for one in mixed["results"][:5]} == {"INVALID_INPUT"}
    assert "topic is missing" in mixed["results"][2]["error"]
    assert (mixed["created"], mixed["failed"]) == (1, 5)
    kept = await record(talk, answer["results"][0]["id"])
    memory = kept["memory"]
    assert (memory["content"], memory["topic"], memory["kind"]) == (ROSES, "flowers", "procedure")
    assert (memory["keywords"], memory["importance"], memory["anchor"]) == (["pruning"], 0.33, True)
    assert memory["provenance"]["source"] == "almanac.md"
    assert other in [link["id"] for link in kept["links"]]


@row("batch_remember", "project", "sessionId", "fragments.project", "fragments.sessionId", "fragments.scope")
async def batch_defaults(talk: Talk) -> None:
    own = {"project": "shed", "sessionId": "s2", "scope": "session"}
    answer = await talk.call(
        "batch_remember", fragments=[TWO[0], TWO[1] | own], project="orchard", sessionId="s1"
    )
    first, second = [(await record(talk, one["id"]))["memory"] for one in answer["results"]]
    assert (first["scope"], first["provenance"]["conversation"], first["tier"]) == ("orchard", "s1", "warm")
    assert (second["scope"], second["provenance"]["conversation"], second["tier"]) == ("shed", "s2", "hot")


@row("batch_remember", "idempotencyKey", "fragments.idempotencyKey")
async def batch_keys(talk: Talk) -> None:
    first = await talk.call("batch_remember", fragments=TWO, idempotencyKey="k1")
    again = await talk.call("batch_remember", fragments=TWO, idempotencyKey="k1")
    assert [one["id"] for one in again["results"]] == [one["id"] for one in first["results"]]
    assert (first["created"], again["created"]) == (2, 0)
    error = await talk.error("batch_remember", fragments=TWO[:1], idempotencyKey="k1")
    assert error["code"] == "IDEMPOTENCY_KEY_REUSED"
    keyed = [{"content": "The shed is green.", "topic": "t", "type": "fact", "idempotencyKey": "a"}]
    one = await talk.call("batch_remember", fragments=keyed)
    two = await talk.call("batch_remember", fragments=[*keyed, {**keyed[0], "content": "It is red."}])
    assert two["results"][0]["id"] == one["results"][0]["id"]
    assert two["results"][0]["repeated"]
    assert two["results"][1]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert (await talk.call("memory_stats"))["total"] == 3


@row("batch_remember", "dryRun")
async def batch_dry(talk: Talk) -> None:
    answer = await talk.call("batch_remember", fragments=[*TWO, TWO[0]], dryRun=True)
    assert [one["outcome"] for one in answer["results"]] == ["would_store", "would_store", "duplicate"]
    assert (answer["created"], answer["dryRun"]) == (0, True)
    assert (await talk.call("memory_stats"))["total"] == 0


@row("batch_remember", "agentId")
async def batch_agent(talk: Talk) -> None:
    await talk.call("batch_remember", fragments=TWO, agentId="ada")
    assert await recalled(talk, topic="flowers", agentId="ada") == [ROSES]
    assert await recalled(talk, topic="flowers", agentId="grace") == []


@gives("batch_remember")
async def batch_gives(talk: Talk, seen: Seen) -> None:
    old = await remembered(talk, "We use PostgreSQL for the store.", topic="db")
    long = " ".join(f"Bed {number} holds tulips number {number}." for number in range(200))
    items = [
        {"content": "we use PostgreSQL for the store", "topic": "db", "type": "fact", "linkedTo": [old]},
        {"content": "Ask anna@example.org.", "topic": "t", "type": "fact", "idempotencyKey": "k1"},
        {"content": "Ask anna@example.org.", "topic": "t", "type": "fact", "idempotencyKey": "k1"},
        {"content": " ", "topic": "t", "type": "fact"},
        {"content": long, "topic": "t", "type": "fact"},
    ]
    answer = seen.of(await talk.call("batch_remember", fragments=items))
    assert list(answer.has("success", "created", "failed", "dryRun")) == [True, 3, 1, False]
    newer, masked, again, failed, whole = answer["results"]
    assert list(newer.has("success", "created", "outcome", "quarantined")) == [True, True, "stored", False]
    assert (newer["superseded"], newer["linked"]) == ([old], [old])
    assert newer.get("links") == [{"id": old, "relation": "related"}]
    assert masked._value["redacted"] == {"email": 1}
    assert masked["redacted"]
    assert again["repeated"]
    assert again["id"] == masked["id"]
    assert (failed["code"], failed["success"]) == ("INVALID_INPUT", False)
    assert "empty" in failed["error"]
    assert len(whole["parts"]) > 1
    assert whole["note"]
    seen.names.discard("results.redacted.email")


# fragment_history, reconstruct_history


@row("fragment_history", "id")
async def history_id(talk: Talk) -> None:
    memory_id = await remembered(talk, ROSES)
    await talk.call("amend", id=memory_id, content="Roses are cut back in April.")
    history = await talk.call("fragment_history", id=memory_id)
    assert [one["content"] for one in history["versions"]] == [ROSES, "Roses are cut back in April."]


@row("fragment_history", "agentId")
async def history_agent(talk: Talk) -> None:
    mine = await remembered(talk, ROSES, agentId="ada")
    assert (await talk.error("fragment_history", id=mine, agentId="grace"))["code"] == "MEMORY_NOT_FOUND"
    assert (await talk.call("fragment_history", id=mine, agentId="ada"))["count"] == 1


@gives("fragment_history")
async def history_gives(talk: Talk, seen: Seen) -> None:
    old = await remembered(talk, ROSES, keywords=["roses"])
    await talk.call("amend", id=old, importance=0.9)
    new = (await talk.call("amend", id=old, content="Roses bloom.", supersedes=True))["id"]
    answer = seen.of(await talk.call("fragment_history", id=old))
    assert "never instructions" in answer["notice"]
    assert list(answer.has("success", "id", "status", "count", "earlier")) == [True, old, "superseded", 2, 0]
    assert answer["supersededBy"] == [new]
    assert seen.of(await talk.call("fragment_history", id=new))["supersedes"] == old
    first, last = answer["versions"]
    assert list(first.has("number", "content", "type", "topic")) == [1, ROSES, "fact", "garden"]
    assert list(first.has("keywords", "importance", "isAnchor")) == [["roses"], 0.5, False]
    assert first["until"] == last["since"]
    assert (last["by"], last["changed"], last.get("until")) == ("default", ["importance"], None)


@row("reconstruct_history", "topic", "project")
async def reconstruct_topic(talk: Talk) -> None:
    first = await remembered(talk, "Water comes from the well.", topic="water", type="decision")
    await remembered(talk, "Wells freeze in winter.", topic="water", type="fact")
    second = (await talk.call("amend", id=first, content="Water comes from the tap.", supersedes=True))["id"]
    await remembered(talk, "Water comes from the river.", topic="water", type="decision", project="orchard")
    chain = await talk.call("reconstruct_history", topic="water")
    assert [(one["id"], one["superseded"]) for one in chain["decisions"]] == [(first, True), (second, False)]
    assert len((await talk.call("reconstruct_history", topic="water", project="orchard"))["decisions"]) == 3


@row("reconstruct_history", "tokenBudget")
async def reconstruct_budget(talk: Talk) -> None:
    items = [
        {
            "content": f"On day {number} " + f"we chose plan {number} " * 30,
            "topic": "plans",
            "type": "decision",
        }
        for number in range(40)
    ]
    await talk.call("batch_remember", fragments=items)
    for given, most in (({}, 2000), ({"tokenBudget": 500}, 500)):
        chain = await talk.call("reconstruct_history", topic="plans", **given)
        assert 0 < chain["totalTokens"] <= most
        assert chain["leftOut"] == 40 - chain["count"] > 0


@row("reconstruct_history", "agentId")
async def reconstruct_agent(talk: Talk) -> None:
    await remembered(talk, "Water comes from the well.", topic="water", type="decision", agentId="ada")
    assert (await talk.call("reconstruct_history", topic="water", agentId="ada"))["count"] == 1
    assert (await talk.call("reconstruct_history", topic="water", agentId="grace"))["count"] == 0


@gives("reconstruct_history")
async def reconstruct_gives(talk: Talk, seen: Seen) -> None:
    first = await remembered(talk, "Water comes from the well.", topic="water", type="decision")
    error = await remembered(talk, "The well froze.", topic="frost", type="error")
    await talk.call("link", fromId=error, toId=first, relationType="caused_by")
    await talk.call("amend", id=first, importance=0.9)
    second = (await talk.call("amend", id=first, content="Water comes from the tap.", supersedes=True))["id"]
    third = await remembered(talk, "Rain fills the tank in spring.", topic="water", type="decision")
    await talk.call("link", fromId=third, toId=second, relationType="contradicts")
    answer = seen.of(await talk.call("reconstruct_history", topic="water"))
    assert "never instructions" in answer["notice"]
    assert list(answer.has("success", "topic", "count", "leftOut", "matched")) == [
        True,
        "water",
        3,
        0,
        "topic",
    ]
    assert answer["totalTokens"] > 0
    old, new, last = answer["decisions"]
    assert list(old.has("id", "agentId", "superseded", "versions")) == [first, "default", True, 1]
    assert (old["content"], old["importance"]) == ("Water comes from the well.", 0.45)
    assert old["timestamp"] <= new["timestamp"]
    assert (old["supersededBy"], new["supersedes"]) == ([second], [first])
    assert (last["contradicts"], new["contradictedBy"]) == ([second], [third])
    [near, *_] = old["linked"]
    assert list(near.has("id", "relation", "content")) == [error, "caused_by", "The well froze."]
    none = seen.of(await talk.call("reconstruct_history", topic="giraffes"))
    assert none["hint"]
