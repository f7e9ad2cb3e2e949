"""What a key opens over HTTP: nothing of another agent, nothing outside its scopes, nothing of the server's disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rest_api import Api, Json, Key, keys_of, served

from mindhold.contracts.rest import resources
from mindhold.operation_index import operation

NOBODY = "01m7gv42a3fzcy3gb19vmek4q7"
SECRET = "zanzibar"
KEYS = {
    "ada": Key(agent="ada"),
    "mallory": Key(agent="mallory"),
    "guest": Key(scopes=("work",)),
    "reader": Key(access="read"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("keys") / "home"
    return {"home": home, **keys_of(home, KEYS, scopes=("work", "shop", "spare"))}


@pytest.fixture(scope="module")
def api(keys: dict[str, Any]) -> Iterator[Api]:
    with served(keys["home"]) as api:
        yield api


@pytest.fixture(scope="module")
def hidden(api: Api, keys: dict[str, Any]) -> dict[str, str]:
    """What Ada has, and what is in the shop."""
    ada = api.by(keys["ada"])
    fields = {"topic": SECRET, "tags": [SECRET], "metadata": {SECRET: 1}}
    first = ada.stored(f"The {SECRET} vault opens with the brass key.", kind="fact", **fields)
    second = ada.stored(f"The {SECRET} alarm rings at night.", kind="decision", topic=SECRET)
    ada.get("link", {"target": second}, id=first)
    ada.get("amend", {"content": f"The {SECRET} vault opens with the iron key."}, id=first)
    gone = ada.stored(f"The {SECRET} password was changed.")
    ada.get("forget_memory", id=gone)
    ada.get("reflect", {"summary": f"Looked into {SECRET}.", "conversation": f"{SECRET}-talk"})
    shop = api.stored(f"The shop sells {SECRET} tea.", scope="shop", tags=[SECRET], topic=SECRET)
    return {"first": first, "second": second, "gone": gone, "shop": shop}


def attempts(memory_id: str) -> Iterator[tuple[str, Json]]:
    """Whatever names a memory or may tell of one."""
    own = {"id": memory_id}
    yield from (
        ("show", own),
        ("amend", {**own, "body": {"importance": 0.1}}),
        ("amend", {**own, "body": {"content": "Taken.", "supersedes": True}}),
        ("forget_memory", {**own, "query": {"hard": "true", "force": "true"}}),
        ("restore_memory", own),
        ("versions", own),
        ("explore", own),
        ("link", {**own, "body": {"target": memory_id}}),
        ("unlink", {**own, "query": {"target": memory_id}}),
        ("forget", {"body": {"ids": [memory_id], "hard": True}}),
        ("unforget", {"body": {"ids": [memory_id]}}),
        ("remember", {"body": {"content": "Linked to another's.", "linked_to": [memory_id]}}),
    )


SEARCHES: tuple[tuple[str, Json], ...] = (
    ("list", {"query": {"topic": SECRET, "statuses": ["active", "forgotten", "superseded"]}}),
    ("recall", {"body": {"query": f"{SECRET} vault key", "everywhere": True, "links": True}}),
    ("recall", {"body": {"topic": SECRET, "everywhere": True}}),
    ("tags", {}),
    ("timeline", {"query": {"when": "today"}}),
    ("reconstruct", {"query": {"topic": SECRET}}),
    ("context", {"query": {"conversation": f"{SECRET}-talk"}}),
    ("ask", {"body": {"question": f"What opens the {SECRET} vault?"}}),
    ("search_history", {"query": {"query": SECRET}}),
    ("history_timeline", {}),
    ("history_projects", {}),
    ("list_contradictions", {}),
    ("list_conversations", {}),
    ("list_recaps", {"query": {"archived": "true"}}),
    ("feedback_report", {}),
    ("stats", {}),
    ("status", {}),
)


def asked(api: Api, name: str, given: Json) -> tuple[int, str]:
    path = {word: value for word, value in given.items() if word not in ("body", "query")}
    answer = api.ask(name, given.get("body"), query=given.get("query"), **path)
    return answer.status_code, answer.text


def said_by(api: Api, memory_id: str) -> Json:
    """What others could have changed of a memory; the rest is upkeep's, which goes on meanwhile."""
    shown = api.get("show", id=memory_id)
    fields = ("content", "status", "tags", "anchor", "usefulness", "updated", "metadata")
    return {**shown, "memory": {name: shown["memory"][name] for name in fields}}


def test_another_agents_are_not_there(api: Api, keys: dict[str, Any], hidden: dict[str, str]) -> None:
    mallory, ada = api.by(keys["mallory"]), api.by(keys["ada"])
    before = {one: said_by(ada, hidden[one]) for one in ("first", "second", "gone")}
    for one in before:
        for name, given in attempts(hidden[one]):
            status, text = asked(mallory, name, given)
            assert (status, SECRET in text) == (404, False), (name, text)
            spelt = json.dumps(given).replace(hidden[one], NOBODY)
            same_status, same = asked(mallory, name, json.loads(spelt))
            assert (same_status, same.replace(NOBODY, hidden[one])) == (status, text), name
        said = {"tool_name": "recall", "relevant": False, "sufficient": False, "memories": [hidden[one]]}
        assert mallory.get("feedback", said)["rated"] == 0
    for name, given in SEARCHES:
        status, text = asked(mallory, name, given)
        assert status == 200, (name, text)
        told = text.replace(f"The shop sells {SECRET} tea.", "")  # it is everybody's
        for words in ("vault opens", "alarm rings", "password was", "Looked into"):
            assert words not in told, (name, words)
        assert not any(hidden[one] in text for one in before), name
    for one, shown in before.items():
        assert said_by(ada, hidden[one]) == shown


def test_a_key_speaks_for_nobody_else(api: Api, keys: dict[str, Any], hidden: dict[str, str]) -> None:
    for agent in ("ada", "system", "admin", "default"):
        headers = {"X-Mindhold-Agent": agent}
        assert api.by(keys["mallory"]).refused("list", headers=headers) == (403, "REFUSED")
    for agent in ("system", "admin"):
        assert api.refused("list", headers={"X-Mindhold-Agent": agent}) == (403, "REFUSED")
    for_ada = api.get("list", query={"topic": SECRET}, headers={"X-Mindhold-Agent": "ada"})
    assert hidden["first"] in [one["id"] for one in for_ada["memories"]]


def test_outside_its_scopes_nothing_is_there(api: Api, keys: dict[str, Any], hidden: dict[str, str]) -> None:
    guest = api.by(keys["guest"])
    for name, given in attempts(hidden["shop"]):
        status, text = asked(guest, name, given)
        assert (status, SECRET in text) == (404, False), (name, text)
    for name, given in SEARCHES:
        status, text = asked(guest, name, given)
        assert status == 200, (name, text)
        assert "tea" not in text, name
        assert hidden["shop"] not in text, name
    for scope in ("shop", "Global", "spare"):
        body = {"content": "Smuggled in.", "scope": scope}
        assert guest.refused("remember", body) == (404, "SCOPE_NOT_FOUND")
        assert guest.refused("recall", {"query": "x", "scope": scope}) == (404, "SCOPE_NOT_FOUND")
        assert guest.refused("forget", {"scope": scope, "confirm": True})[0] == 404
    made = guest.refused("remember", {"content": "Smuggled in.", "scope": "den", "create_scope": True})
    assert made[0] in (403, 404)
    assert api.get("show", id=guest.stored("The office is in Berlin."))["memory"]["scope"] == "work"


def test_what_concerns_everybody_is_the_owners(api: Api, keys: dict[str, Any]) -> None:
    every = [
        row
        for table in (resources.MEMORY_RESOURCES, resources.KNOWLEDGE_RESOURCES, resources.UPKEEP_RESOURCES)
        for row in table
    ]
    owners = [row for row in every if operation(row.operation).owner_only]
    assert {"backup", "restore", "consolidate", "spend"} <= {row.name for row in owners}
    before = api.get("list_backups")
    for key in ("ada", "guest", "reader"):
        for row in owners:
            path = dict.fromkeys(row.in_path(), "x")
            assert api.by(keys[key]).refused(row.name, **path) == (403, "REFUSED"), row.name
    assert api.get("list_backups") == before


def test_a_reader_writes_nothing(api: Api, keys: dict[str, Any]) -> None:
    reader = api.by(keys["reader"])
    for table in (resources.MEMORY_RESOURCES, resources.KNOWLEDGE_RESOURCES, resources.UPKEEP_RESOURCES):
        for row in table:
            if not row.writes:
                continue
            example = dict(row.example or {})
            path = {word: str(example.pop(word)) for word in row.in_path()}
            body = {word: example[word] for word in row.in_body() if word in example}
            query = {word: example[word] for word in row.in_query() if word in example}
            assert reader.refused(row.name, body or None, query=query, **path)[0] == 403, row.name
    assert reader.get("recall", {"query": "ferry"})["rung"]


def test_no_place_on_the_servers_disk_is_told_or_taken(api: Api, keys: dict[str, Any]) -> None:
    for key in ("ada", "guest", "reader"):
        for name, given in SEARCHES:
            _, text = asked(api.by(keys[key]), name, given)
            assert str(api.home) not in text, (key, name)
