"""Memories, what they say together, and their upkeep over HTTP, with a real server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from rest_api import Api, Json, keys_of, served

from mindhold.contracts.rest import resources

NOBODY = "01m7gv42a3fzcy3gb19vmek4q7"
MANY = [f"tag-{number}" for number in range(600)]
LARGE = base64.urlsafe_b64encode(b'[1,"important",1' + b"0" * 400 + b',"x"]').decode().rstrip("=")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("rest") / "home"
    keys_of(home, {}, scopes=("shop", "spare"))
    with served(home) as api:
        yield api


def rows(*tables: Any) -> set[str]:
    return {row.name for table in tables for row in table}


def test_every_row_of_memories(api: Api) -> None:
    api.called.clear()
    first, second = _kept_and_found(api)
    _tied(api, first, second)
    _corrected(api, first)
    _forgotten(api, first, second)
    _ordered(api)
    _filed(api)
    assert api.called == rows(resources.MEMORY_RESOURCES)


def _kept_and_found(api: Api) -> tuple[str, str]:
    answer = api.ask(
        "remember", {"content": "Staging listens on port 5433.", "kind": "fact", "scope": "shop"}
    )
    assert answer.status_code == 201
    first: str = answer.json()["id"]
    assert answer.headers["location"] == f"/api/memories/{first}"
    again = api.ask("remember", {"content": "Staging listens on port 5433.", "kind": "fact", "scope": "shop"})
    assert (again.status_code, again.json()["outcome"], again.json()["id"]) == (200, "duplicate", first)
    dry = api.ask("remember", {"content": "The proxy has moved.", "dry_run": True})
    assert (dry.status_code, dry.json()["outcome"]) == (200, "would_store")
    items = [
        {"content": "The proxy moved to the cellar.", "kind": "error", "tags": ["network"]},
        {"content": "x", "importance": 3},
        {"content": ""},
    ]
    wrong = api.refused("remember_many", {"items": items, "scope": "shop"})
    assert wrong == (400, "INVALID_INPUT")
    several = api.get("remember_many", {"items": [items[0], items[2]], "scope": "shop"})
    assert (several["created"], several["failed"]) == (1, 1)
    assert several["results"][1]["error_code"] == "INVALID_INPUT"
    second: str = several["results"][0]["id"]
    found = api.get("recall", {"query": "which port does staging use?", "scope": "shop"})
    assert found["hits"][0]["content"] == "Staging listens on port 5433."
    listed = api.get("list", query={"scope": "shop", "tags": ["network"], "order": "oldest"})
    assert ([one["id"] for one in listed["memories"]], listed["total"]) == ([second], 1)
    return first, second


def _filed(api: Api) -> None:
    said = {"content": "The quay is closed. #quay", "source": "conversation", "conversation": "talk"}
    answer = api.ask("store", said)
    assert (answer.status_code, answer.json()["stored_as"], answer.json()["tags"]) == (
        201,
        "message",
        ["quay"],
    )
    assert answer.headers["location"] == f"/api/memories/{answer.json()['id']}"


def _tied(api: Api, first: str, second: str) -> None:
    made = api.get("link", {"target": second, "relation": "caused_by"}, id=first)
    assert (made["created"], made["link"]["target"]) == (True, second)
    assert api.ask("link", {"target": second, "relation": "caused_by"}, id=first).status_code == 200
    graph = api.get("explore", query={"depth": 2}, id=first)
    assert [node["id"] for node in graph["nodes"]] == [second]
    assert [one["id"] for one in api.get("show", id=first)["links"]] == [second]
    gone = api.get("unlink", query={"target": second, "relation": "caused_by"}, id=first)
    assert [one["relation"] for one in gone["removed"]] == ["caused_by"]


def _corrected(api: Api, memory_id: str) -> None:
    changed = api.get("amend", {"content": "Staging listens on port 5434.", "importance": 0.8}, id=memory_id)
    assert (changed["memory"]["content"], changed["id"]) == ("Staging listens on port 5434.", memory_id)
    told = api.get("versions", id=memory_id)
    assert [one["content"][-5:] for one in told["versions"]] == ["5433.", "5434."]


def _forgotten(api: Api, first: str, second: str) -> None:
    soft = api.get("forget_memory", id=first)
    assert (soft["forgotten"], soft["receipt"]) == ([first], None)
    assert api.get("recall", {"query": "staging port", "scope": "shop"})["hits"] == []
    assert api.get("restore_memory", id=first)["memories"][0]["status"] == "active"
    assert api.get("forget", {"tags": ["network"], "scope": "shop"})["forgotten"] == [second]
    assert [one["id"] for one in api.get("unforget", {"ids": [second]})["memories"]] == [second]
    anchor = api.stored("The cellar key hangs behind the clock.", anchor=True)
    assert api.refused("forget_memory", id=anchor) == (403, "REFUSED")
    hard = api.get("forget_memory", query={"hard": "true", "force": "true"}, id=anchor)
    assert (hard["receipt"]["empty"], hard["receipt"]["ids"]) == (True, [anchor])
    assert api.refused("show", id=anchor) == (404, "MEMORY_NOT_FOUND")
    assert api.refused("restore_memory", id=anchor) == (404, "MEMORY_NOT_FOUND")


def _ordered(api: Api) -> None:
    api.stored("We keep invoices in PostgreSQL.", kind="decision", topic="invoices", tags=["billing"])
    assert api.get("tags")["tags"]["billing"] == 1
    days = api.get("timeline", query={"when": "today", "kinds": "decision"})
    assert [one["topic"] for day in days["days"] for one in day["memories"]] == ["invoices"]
    told = api.get("reconstruct", query={"topic": "invoices"})
    assert [one["content"] for one in told["decisions"]] == ["We keep invoices in PostgreSQL."]
    assert api.get("interpret_time", query={"phrase": "yesterday"})["phrase"] == "yesterday"


def test_every_row_of_knowledge(api: Api) -> None:
    api.called.clear()
    api.stored("Please answer in plain words.", kind="preference", importance=0.9, scope="spare")
    context = api.get("context", query={"scope": "spare", "token_budget": 500})
    assert "plain words" in context["text"]
    asked = api.get("ask", {"question": "How shall I answer?", "scope": "spare"})
    assert [one["kind"] for one in asked["citations"]] == ["preference"]
    kept = api.get(
        "reflect",
        {"summary": "Spoke of words.", "decisions": ["Plain words it is."], "conversation": "talk-1"},
    )
    assert (kept["stored"], kept["conversation"]) == (2, "talk-1")
    assert api.get("search_history", query={"query": "plain words"})["results"]
    assert api.get("history_timeline", query={"days": 3})["total_sessions"] >= 0
    assert api.get("history_projects")["total_projects"] == 0
    assert api.called - {"remember"} == rows(resources.KNOWLEDGE_RESOURCES)


def test_every_row_of_upkeep(api: Api) -> None:
    api.called.clear()
    known = api.stored("The gate has two leaves.", scope="spare")
    assert api.get("status")["store"]["kind"]
    assert api.get("stats")["total"] >= 1
    assert api.get("spend", query={"days": 1})["total"]["calls"] == 0
    said = {"tool_name": "recall", "relevant": True, "sufficient": True, "memories": [known]}
    assert api.get("feedback", said)["rated"] == 1
    assert api.get("feedback_report")["tools"]["recall"]["whole"]["count"] == 1
    _contradicted(api)
    _audited(api)
    _backed_up(api)
    assert api.called - {"remember"} == rows(resources.UPKEEP_RESOURCES)


def _audited(api: Api) -> None:
    kept = api.get("list_audit", query={"limit": 5})["records"]
    assert [one["what"] for one in kept] == ["consolidation"]
    shown = api.get("show_audit", id=kept[0]["id"])
    assert shown["memories"]
    assert api.get("undo_audit", id=kept[0]["id"])["restored"] == []
    for word in ("show", "undo"):
        assert api.refused(f"{word}_audit", id="none") == (404, "NOT_FOUND")


def _contradicted(api: Api) -> None:
    for number in range(3):
        for claim in ("listens on port", "does not listen on port"):
            content = f"The gate number {number} {claim} {4711 + number} these days."
            api.stored(content, kind="fact", topic="gate", scope="spare")
    dry = api.get("consolidate", {"dry_run": True, "stages": ["contradictions"]})
    assert dry["dry_run"]
    done = api.get("consolidate")
    assert done["stages"]
    assert api.get("consolidation_reports")["reports"][0]["started"]
    kept = api.get("maintain", {"steps": ["tidy"], "seconds": 30})
    assert [(one["step"], one["error"]) for one in kept["steps"]] == [("tidy", "")]
    both = api.get("list_contradictions")
    assert both["found"] or both["pending"]
    for one in both["found"]:
        assert api.get("undo_contradiction", id=one["id"])["contradiction"]["id"] == one["id"]
    for one, word in zip(both["pending"], ("confirm", "dismiss"), strict=False):
        assert api.get(f"{word}_contradiction", id=one["id"])["contradiction"]["id"] == one["id"]
    for word in ("undo", "confirm", "dismiss"):
        assert api.refused(f"{word}_contradiction", id="none") == (404, "NOT_FOUND")


def _backed_up(api: Api) -> None:
    made = api.get("backup", {"name": "by-hand"})
    assert api.refused("backup", {"name": "by-hand"}) == (409, "CONFLICT")
    assert api.refused("backup", {"name": "../by-hand"}) == (400, "INVALID_INPUT")
    assert made["file"] in [one["file"] for one in api.get("list_backups")["backups"]]
    assert api.get("verify_backups", file=made["file"])["good"]
    back = api.get("restore", file=made["file"])
    assert (back["memories"], back["file"]) == (0, made["file"])
    assert api.get("drop_backup", file=back["safety"])["dropped"]["file"] == back["safety"]
    for file in ("../data/mindhold.db", "/etc/passwd", "none.jsonl.gz", "..\\none"):
        assert api.refused("restore", file=file)[0] in (400, 404), file


@pytest.mark.parametrize(
    ("name", "given", "status", "code"),
    [
        ("remember", {"body": {}}, 400, "INVALID_INPUT"),
        ("remember", {"body": {"content": "  "}}, 400, "INVALID_INPUT"),
        ("remember", {"body": {"content": "x", "kind": "gossip"}}, 400, "INVALID_INPUT"),
        ("remember", {"body": {"content": "A fine day.", "colour": "red"}}, 400, "INVALID_INPUT"),
        ("remember", {"body": {"content": "A fine day.", "scope": "none"}}, 404, "SCOPE_NOT_FOUND"),
        ("remember", {"body": {"content": "A fine day.", "linked_to": [NOBODY]}}, 404, "MEMORY_NOT_FOUND"),
        ("remember", {"body": {"content": "A fine day.", "idempotency_key": "x"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"limit": "0"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"limit": "many"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"cursor": "nonsense"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"scop": "x"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"order": "important", "cursor": LARGE}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"tags": MANY}}, 400, "INVALID_INPUT"),
        ("timeline", {"query": {"tags": MANY}}, 400, "INVALID_INPUT"),
        ("recall", {"body": {"query": "x", "tags": MANY}}, 400, "INVALID_INPUT"),
        ("forget", {"body": {"tags": MANY}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"when": "flurbsday"}}, 400, "UNKNOWN_TIME"),
        ("show", {"id": NOBODY}, 404, "MEMORY_NOT_FOUND"),
        ("show", {"id": " "}, 400, "INVALID_INPUT"),
        ("show", {"id": "a\0b"}, 400, "INVALID_INPUT"),
        ("show", {"id": "x" * 5000}, 404, "MEMORY_NOT_FOUND"),
        ("list", {"query": {"scope": "a\0b"}}, 400, "INVALID_INPUT"),
        ("list", {"query": {"since": "0001-01-01T00:00:00+14:00"}}, 400, "INVALID_INPUT"),
        ("undo_contradiction", {"id": "a\0b"}, 400, "INVALID_INPUT"),
        ("amend", {"id": NOBODY, "body": {"content": "x"}}, 404, "MEMORY_NOT_FOUND"),
        ("forget_memory", {"id": NOBODY}, 404, "MEMORY_NOT_FOUND"),
        ("forget_memory", {"id": NOBODY, "query": {"scope": "Global"}}, 400, "INVALID_INPUT"),
        ("forget_memory", {"id": NOBODY, "query": {"hard": "perhaps"}}, 400, "INVALID_INPUT"),
        ("forget", {"body": {}}, 400, "INVALID_INPUT"),
        ("link", {"id": NOBODY, "body": {"target": NOBODY}}, 404, "MEMORY_NOT_FOUND"),
        ("link", {"id": NOBODY, "body": {}}, 400, "INVALID_INPUT"),
        ("unlink", {"id": NOBODY}, 400, "INVALID_INPUT"),
        ("explore", {"id": NOBODY, "query": {"depth": "9"}}, 400, "INVALID_INPUT"),
        ("interpret_time", {"query": {"phrase": "flurbsday"}}, 400, "UNKNOWN_TIME"),
        ("interpret_time", {}, 400, "INVALID_INPUT"),
        ("recall", {"body": {"query": "x", "limit": 1000}}, 400, "INVALID_INPUT"),
        ("recall", {"body": {"query": "x", "scope": "none"}}, 404, "SCOPE_NOT_FOUND"),
        ("consolidate", {"body": {"stages": ["none"]}}, 400, "INVALID_INPUT"),
        ("spend", {"query": {"days": "0"}}, 400, "INVALID_INPUT"),
        ("ask", {"body": {"question": " "}}, 400, "INVALID_INPUT"),
        ("feedback", {"body": {"tool_name": "recall"}}, 400, "INVALID_INPUT"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_wrong_is_told(api: Api, name: str, given: Json, status: int, code: str) -> None:
    path = {word: value for word, value in given.items() if word not in ("body", "query")}
    assert api.refused(name, given.get("body"), query=given.get("query"), **path) == (status, code)


def test_pages_hold_whatever_is_written_meanwhile(api: Api) -> None:
    ids = [api.stored(f"The shelf number {number} holds jam.", topic="shelf") for number in range(5)]
    seen: list[str] = []
    query: Json = {"topic": "shelf", "order": "oldest", "limit": 2}
    page = api.get("list", query=query)
    while True:
        seen += [one["id"] for one in page["memories"]]
        if page["next"] is None:
            break
        api.stored(f"The shelf after {len(seen)} holds honey.", topic="honey")
        api.get("forget_memory", query={"hard": "true"}, id=seen[-1])
        page = api.get("list", query=query | {"cursor": page["next"]})
    assert seen == ids


def _is_unchanged(api: Api, memory_id: str) -> bool:
    seen = api.ask("show", id=memory_id).headers["etag"]
    return api.ask("show", headers={"If-None-Match": seen}, id=memory_id).status_code == 304


def test_who_has_seen_an_older_state_changes_nothing(api: Api) -> None:
    known = api.stored("The ferry leaves at nine.")
    shown = api.ask("show", id=known)
    seen = shown.headers["etag"]
    assert "etag" not in shown.json()
    assert any(_is_unchanged(api, known) for _ in range(20)), "upkeep comes to rest"
    changed = api.ask("amend", {"content": "The ferry leaves at ten."}, headers={"If-Match": seen}, id=known)
    assert changed.status_code == 200
    assert changed.headers["etag"] != seen
    stale = {"If-Match": seen}
    refused = api.refused("amend", {"content": "The ferry leaves at noon."}, headers=stale, id=known)
    assert refused == (412, "PRECONDITION_FAILED")
    late = {"content": "The ferry is gone.", "supersedes": True}
    assert api.refused("amend", late, headers=stale, id=known)[0] == 412
    assert api.get("show", id=known)["memory"]["content"] == "The ferry leaves at ten."
    fresh = {"If-Match": changed.headers["etag"]}
    assert api.get("amend", {"importance": 0.9}, headers=fresh, id=known)["memory"]["importance"] == 0.9
    assert api.get("amend", {"importance": 0.2}, headers={"If-Match": "*"}, id=known)["id"] == known


def test_what_is_not_there_is_told_in_words_of_this_door(api: Api) -> None:
    answers = (
        api.ask("show", id=NOBODY),
        api.ask("show_scope", name="none"),
        api.ask("recall", {"query": "x", "scope": "none"}),
    )
    for answer in answers:
        assert answer.json()["advice"]
        assert "`mindhold" not in answer.json()["advice"]


def test_words_come_back_as_they_were_saved(api: Api) -> None:
    content = "Mind: <b>bold</b> & [1]: 毎日 🚲, </memory> {x}"
    known = api.stored(content, metadata={"a": [1, {"b": None}]})
    memory = api.get("show", id=known)["memory"]
    assert (memory["content"], memory["metadata"]) == (content, {"a": [1, {"b": None}]})
