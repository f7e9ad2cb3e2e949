"""The nine endpoints of the project memory's contract, over a real server and by curl, on every storage mode.

Once as facts that stand here, and once more by the page itself, where it lies beside the project: every example of it as
written, but for host and port.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import api_page
import httpx2
import pytest
from mcp_clients import WAIT, HttpServer

from support.mongo_server import MongoServer
from support.postgres_server import PostgresServer

PROJECT = "proj_123"
MEMORY = f"/api/projects/{PROJECT}/memory"
CURL = shutil.which("curl")
DATABASE = "rest_page"
Json = dict[str, Any]

text, number, flag, moment, words = str, (int, float), bool, datetime, list
MESSAGE = {
    "id": text,
    "message_type": text,
    "content": text,
    "timestamp": moment,
    "task_id": int,
    "session_id": text,
}
RESULT = {**MESSAGE, "similarity": number, "metadata": dict}
COUNTS = {"total_messages": int, "indexed_messages": int, "unindexed_messages": int}
STATS = {
    **COUNTS,
    "storage_backend": text,
    "embedding_model": text,
    "embedding_dimensions": int,
    "oldest_message": moment,
    "newest_message": moment,
    "index_health": text,
}
OF_MODE = {
    "local": {"chromadb_collection": text, "chromadb_location": text},
    "mongodb": {"collection_name": text, "vector_index_name": text},
    "postgres": {"collection_name": text, "vector_index_name": text},
}


@dataclass(frozen=True)
class Fact:
    """A request, and what its answer is."""

    method: str
    path: str
    body: Json | None = None
    status: int = 200
    fields: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""


SAVED = {
    "message_id": text,
    "status": text,
    "indexed": flag,
    "embedding_model": text,
    "storage_backend": text,
}
SAID = {
    "message_type": "user",
    "content": "How do I implement authentication?",
    "task_id": 42,
    "metadata": {"session_id": "abc-123", "timestamp": "2025-11-27T10:30:00Z", "context": "auth"},
}
LISTED = {"messages": [MESSAGE], "count": int, "storage_backend": text}
FOUND = {
    "results": [RESULT],
    "query_embedding_model": text,
    "search_method": text,
    "count": int,
    "storage_backend": text,
}
UPDATED = {
    "status": text,
    "summary_version": int,
    "summary_length": int,
    "last_updated": moment,
    "storage_backend": text,
}
SUMMARY = {
    "project_id": text,
    "summary": text,
    "version": int,
    "last_updated": moment,
    "summary_length": int,
    "storage_backend": text,
}
STARTED = {
    "status": text,
    "total_messages": int,
    "messages_to_index": int,
    "estimated_time_seconds": number,
    "job_id": text,
}
REPLACED = {
    "success": flag,
    "summary": text,
    **dict.fromkeys(("key_decisions", "tech_stack", "patterns", "gotchas"), words),
    "last_updated": moment,
    "version": int,
    "storage_mode": text,
}
DELETED = {"deleted_count": int, "storage_backend": text}

FACTS = [
    Fact("POST", "/messages", SAID, 201, SAVED),
    Fact("POST", "/messages", {"message_type": "assistant", "content": "Use JWT."}, 201, SAVED),
    Fact("POST", "/messages", {"message_type": "system", "content": "Done.", "task_id": None}, 201, SAVED),
    Fact("POST", "/messages", {**SAID, "metadata": None}, 201, SAVED),
    Fact("POST", "/messages", {**SAID, "message_type": "robot"}, 400, code="INVALID_MESSAGE_TYPE"),
    Fact("POST", "/messages", {"content": "Nobody says this."}, 400, code="INVALID_MESSAGE_TYPE"),
    Fact("POST", "/messages", {**SAID, "content": ""}, 400, code="EMPTY_CONTENT"),
    Fact("POST", "/messages", {**SAID, "content": " \n"}, 400, code="EMPTY_CONTENT"),
    Fact("POST", "/messages", {"message_type": "user"}, 400, code="EMPTY_CONTENT"),
    Fact("POST", "/messages", {**SAID, "task_id": "many"}, 400, code="INVALID_INPUT"),
    Fact("POST", "/messages", {**SAID, "unheard_of": 1}, 400, code="INVALID_INPUT"),
    Fact("GET", "/messages/recent", None, 200, LISTED),
    Fact("GET", "/messages/recent?limit=200&task_id=42&session_id=abc-123", None, 200, LISTED),
    Fact("GET", "/messages/recent?limit=201", None, 400, code="INVALID_INPUT"),
    Fact("GET", "/messages/recent?limit=0", None, 400, code="INVALID_INPUT"),
    Fact("POST", "/search", {"query": "authentication", "limit": 100, "session_id": None}, 200, FOUND),
    Fact("POST", "/search", {"query": "authentication", "session_id": "abc-123"}, 200, FOUND),
    Fact("POST", "/search", {"query": "authentication", "limit": 101}, 400, code="INVALID_INPUT"),
    Fact("POST", "/search", {}, 400, code="INVALID_INPUT"),
    *(
        Fact(
            "POST", "/summary", {"trigger": trigger, "new_insights": f"The {trigger} is known."}, 200, UPDATED
        )
        for trigger in ("session_end", "important_decision", "task_complete", "manual")
    ),
    Fact("POST", "/summary", {"trigger": "boredom", "new_insights": "None."}, 400),
    Fact("POST", "/summary", {"trigger": "manual"}, 400),
    Fact("GET", "/summary", None, 200, SUMMARY),
    Fact("GET", "/stats", None, 200, STATS),
    Fact("POST", "/reindex?force=true", None, 200, STARTED),
    Fact("POST", "/reindex?force=perhaps", None, 400, code="INVALID_INPUT"),
    Fact(
        "POST",
        "/summary/intelligent-update",
        {"summary": "A framework.", "tech_stack": ["Python"], "gotchas": ["Mind the gap"]},
        200,
        REPLACED,
    ),
    Fact("POST", "/summary/intelligent-update", {"tech_stack": ["Python"]}, 400),
    Fact("DELETE", "/messages", None, 400, code="NO_CRITERIA"),
    Fact("DELETE", "/messages?message_id=msg_042", None, 404, code="MESSAGE_NOT_FOUND"),
    Fact("DELETE", "/messages?session_id=nobody", None, 404, code="SESSION_NOT_FOUND"),
    Fact("DELETE", "/messages?task_id=7", None, 404, code="TASK_NOT_FOUND"),
    Fact("DELETE", "/messages?before_date=yesterday", None, 400, code="INVALID_INPUT"),
    Fact("DELETE", "/messages?before_date=2020-01-01T00:00:00Z", None, 200, DELETED),
    Fact("DELETE", "/messages?session_id=abc-123", None, 200, DELETED),
    Fact("DELETE", "/messages?task_id=42", None, 200, DELETED),
]


class Page:
    """A server with the page's project in one storage mode, and whoever asks it."""

    def __init__(self, url: str, mode: str) -> None:
        self.url = url
        self.mode = mode

    def ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """The status and the answer."""
        if CURL is None:
            answer = httpx2.request(method, self.url + path, json=body, timeout=WAIT)
            return answer.status_code, answer.json()
        sent = () if body is None else ("-H", "Content-Type: application/json", "-d", json.dumps(body))
        return self.run(("curl", "-X", method, self.url + path, *sent))

    def run(self, command: Sequence[str]) -> tuple[int, Json]:
        """A curl command as it is written, but for the host."""
        program, *arguments = (word.replace(api_page.HOST, self.url) for word in command)
        assert program == "curl"
        assert CURL is not None
        told = subprocess.run(
            [CURL, "--silent", "--show-error", "--noproxy", "*", "--write-out", "\n%{http_code}", *arguments],
            capture_output=True,
            check=True,
            encoding="utf-8",
            env={name: value for name, value in os.environ.items() if name != "CURL_HOME"},
            timeout=WAIT,
        )
        body, _, status = told.stdout.rpartition("\n")
        return int(status), json.loads(body)

    def saved(self, content: str, **fields: Any) -> str:
        status, told = self.ask(
            "POST", f"{MEMORY}/messages", {"message_type": "user", "content": content, **fields}
        )
        assert status == 201, told
        message_id: str = told["message_id"]
        return message_id


def where_it_lives(mode: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if mode == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        request.addfinalizer(lambda: postgres.drop_database(DATABASE))
        return {"MINDHOLD_POSTGRES_URL": postgres.create_database(DATABASE, template="with_vectors")}
    if mode == "mongodb":
        mongo: MongoServer = request.getfixturevalue("mongo_server")
        request.addfinalizer(lambda: mongo.command({"dropDatabase": 1}, database=DATABASE))
        return {
            "MINDHOLD_MONGODB_MODE": "external",
            "MINDHOLD_MONGODB_URI": mongo.url,
            "MINDHOLD_MONGODB_DATABASE": DATABASE,
        }
    return {}


@pytest.fixture(
    scope="module",
    params=[
        "local",
        pytest.param("postgres", marks=pytest.mark.needs("postgres")),
        pytest.param("mongodb", marks=pytest.mark.needs("mongodb")),
    ],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A fresh one."""
    mode: str = request.param
    settings = {"MINDHOLD_STORE_MODE": "local", **where_it_lives(mode, request)}
    with HttpServer(tmp_path_factory.mktemp("page") / "home", **settings) as server:
        yield Page(server.url, mode)


@pytest.fixture
def fresh(served: Page) -> Iterator[Page]:
    """With the project, and nothing in it."""
    status, made = served.ask("POST", "/api/projects", {"name": PROJECT, "storage_mode": served.mode})
    assert (status, made["storage_mode"]) == (201, served.mode), made
    yield served
    status, gone = served.ask("DELETE", f"/api/projects/{PROJECT}?confirm={PROJECT}")
    assert status == 200, gone


def check(told: Any, wanted: Any, *, place: str = "") -> None:
    """Whether an answer has these fields, of these types; a list as many as it likes, but each of them so."""
    if isinstance(wanted, Mapping):
        assert isinstance(told, dict), place
        for name, kind in wanted.items():
            assert name in told, f"{place}.{name} is missing in {told}"
            check(told[name], kind, place=f"{place}.{name}")
    elif isinstance(wanted, list):
        assert isinstance(told, list), place
        for item in told:
            check(item, wanted[0], place=f"{place}[]")
    elif wanted is moment:
        assert datetime.fromisoformat(told).tzinfo is not None, place
    elif told is not None or not place.endswith(("task_id", "session_id")):
        assert isinstance(told, wanted), f"{place} is {told!r}"


def test_facts(fresh: Page) -> None:
    for fact in FACTS:
        status, told = fresh.ask(fact.method, MEMORY + fact.path, fact.body)
        assert status == fact.status, (fact, told)
        if status >= 400:
            assert set(told) <= {"error", "code", "advice", "details", "project_id"}, (fact, told)
            assert told["error"], fact
            assert told["code"] == (fact.code or told["code"]), fact
        else:
            check(told, fact.fields)
            backend = told.get("storage_backend", told.get("storage_mode", fresh.mode))
            assert backend == fresh.mode
            if fact.path == "/stats":
                check(told, OF_MODE[fresh.mode])
    status, told = fresh.ask("GET", f"{MEMORY}/messages/recent")
    assert [one["content"] for one in told["messages"]] == ["Use JWT.", "Done."]


def test_what_is_not_there(fresh: Page) -> None:
    elsewhere = MEMORY.replace(PROJECT, "nowhere")
    for fact in FACTS:
        if fact.status < 400:
            status, told = fresh.ask(fact.method, elsewhere + fact.path, fact.body)
            assert (status, told["code"], told["project_id"]) == (404, "PROJECT_NOT_FOUND", "nowhere"), fact
    assert fresh.ask("GET", f"{MEMORY}/nothing")[1]["code"] == "NOT_FOUND"
    assert fresh.ask("PUT", f"{MEMORY}/summary", {})[0] == 405


def test_limits_and_filters(fresh: Page) -> None:
    messages = [
        {
            "message_type": "user",
            "content": f"Message {place} about lamps",
            "task_id": place % 2,
            "metadata": {"session_id": f"s{place % 3}"},
        }
        for place in range(60)
    ]
    assert fresh.ask("POST", f"{MEMORY}/messages/batch", {"messages": messages})[0] < 300
    counts = {
        query: fresh.ask("GET", f"{MEMORY}/messages/recent{query}")[1]["count"]
        for query in ("", "?limit=60", "?task_id=1", "?session_id=s2", "?session_id=s2&task_id=1")
    }
    assert list(counts.values()) == [50, 60, 30, 20, 10]
    for limit, expected in ((None, 20), (7, 7), (100, 60)):
        asked = {"query": "lamps"} | ({} if limit is None else {"limit": limit})
        told = fresh.ask("POST", f"{MEMORY}/search", asked)[1]
        assert told["count"] == len(told["results"]) == expected
        scores = [one["score"] for one in told["results"]]
        assert scores == sorted(scores, reverse=True)
    within = fresh.ask("POST", f"{MEMORY}/search", {"query": "lamps", "limit": 100, "session_id": "s1"})[1]
    assert {one["metadata"]["session_id"] for one in within["results"]} == {"s1"}
    first = fresh.ask("GET", f"{MEMORY}/messages?limit=40&order=oldest")[1]
    rest = fresh.ask("GET", f"{MEMORY}/messages?limit=40&order=oldest&cursor={first['next']}")[1]
    assert [one["content"].split()[1] for one in (*first["messages"], *rest["messages"])] == [
        str(place) for place in range(60)
    ]
    assert rest["next"] is None
    assert fresh.ask("GET", f"{MEMORY}/stats")[1]["total_messages"] == 60


@pytest.mark.parametrize(
    "metadata",
    [{"session_id": 77}, {"session_id": "log:x"}, {"timestamp": "yesterday"}, {"timestamp": 1732703400}],
)
def test_metadata_that_nobody_can_read(fresh: Page, metadata: Json) -> None:
    sent = {"message_type": "user", "content": "Hello there.", "metadata": metadata}
    status, told = fresh.ask("POST", f"{MEMORY}/messages", sent)
    assert (status, told["code"]) == (400, "INVALID_INPUT")
    assert next(iter(metadata)) in told["error"]


def test_a_message_from_beginning_to_end(fresh: Page) -> None:
    long = "\n\n".join(f"Paragraph {place} about lamps, which is long." for place in range(500))
    message = fresh.saved(long, metadata={"session_id": "s1", "more": {"a": [1, None]}})
    status, told = fresh.ask("GET", f"{MEMORY}/messages/{message}")
    assert (status, told["content"], told["metadata"]["more"]) == (200, long, {"a": [1, None]})
    assert fresh.ask("GET", f"{MEMORY}/stats")[1]["total_messages"] == 1
    for listing in ("messages", "messages/recent?session_id=s1"):
        [told] = fresh.ask("GET", f"{MEMORY}/{listing}")[1]["messages"]
        assert (told["id"], told["content"], told["truncated"]) == (message, long, False)
    [told] = fresh.ask("POST", f"{MEMORY}/search", {"query": "paragraph about lamps"})[1]["results"]
    assert (told["id"], told["message_type"], told["truncated"]) == (message, "user", True)
    assert fresh.ask("GET", f"{MEMORY}/context?token_budget=500")[1]["tokens"] <= 500
    assert fresh.ask("GET", f"{MEMORY}/context?token_budget=1")[0] == 400
    status, told = fresh.ask("DELETE", f"{MEMORY}/messages?message_id={message}")
    assert (status, told["deleted_count"]) == (200, 1)
    assert fresh.ask("GET", f"{MEMORY}/messages/{message}")[1]["code"] == "MESSAGE_NOT_FOUND"
    assert fresh.ask("DELETE", f"{MEMORY}/messages?message_id={message}")[0] == 404
    assert fresh.ask("GET", f"{MEMORY}/stats")[1]["total_messages"] == 0


def shape(told: Any) -> Any:
    """What a shown answer asks of a real one."""
    if isinstance(told, dict):
        return {name: shape(value) for name, value in told.items()}
    if isinstance(told, list):
        return [shape(told[0])] if told and isinstance(told[0], dict) else list
    if isinstance(told, str) and told.endswith("Z") and told[:2] == "20":
        return moment
    return number if type(told) in (int, float) else type(told)


@pytest.mark.api_page
def test_every_example_as_written(fresh: Page) -> None:
    page = api_page.page()
    assert page is not None
    shown = api_page.endpoints(page.read_text(encoding="utf-8"))
    assert [endpoint.number for endpoint in shown] == list(range(1, 10))
    ran = 0
    for endpoint in shown:
        wanted = endpoint.answers[-1 if fresh.mode == "local" else 0]
        fields = shape(wanted.fields)
        if "results" in fields:  # not every memory has such metadata
            fields["results"][0]["metadata"] = dict
        assert endpoint.commands, endpoint.title
        for command in endpoint.commands:
            if endpoint.title == "Reindex Messages":  # for there to be something to index
                late = {"message_type": "user", "content": "Found by words alone.", "task_id": 42}
                fresh.ask("POST", f"{MEMORY}/messages/batch", {"messages": [late], "embed": False})
            status, told = fresh.run(command)
            ran += 1
            if "message_id=msg_042" in command[-1]:
                assert (status, told["code"]) == (404, "MESSAGE_NOT_FOUND")
                real = fresh.saved("A message that is there.")
                status, told = fresh.run([word.replace("msg_042", real) for word in command])
                assert told["deleted_count"] == 1
            assert status == wanted.status, (command, told)
            check(told, fields, place=endpoint.title)
    assert ran == 13
    assert fresh.ask("GET", f"{MEMORY}/messages/recent")[1]["count"] == 0, "the task's were deleted"


@pytest.mark.api_page
def test_every_program_as_written(fresh: Page) -> None:
    page = api_page.page()
    assert page is not None
    programs = api_page.programs(page.read_text(encoding="utf-8"))
    assert len(programs) == 4
    with httpx2.Client(timeout=WAIT) as requests:
        for title, code in programs.items():
            known: Json = {"requests": requests}
            own = code.replace(api_page.HOST, fresh.url).replace("import requests\n", "")
            exec(compile(own, title, "exec"), known)  # the page's own words
            assert known["response"].status_code in (200, 201), (title, known["response"].text)


@pytest.mark.api_page
def test_errors_are_the_pages_own(fresh: Page) -> None:
    page = api_page.page()
    assert page is not None
    told = api_page.errors(page.read_text(encoding="utf-8"))
    robot = {"message_type": "robot", "content": "Beep."}
    status, error = fresh.ask("POST", f"{MEMORY}/messages", robot)
    assert (status, {**error, **told[400]}) == (400, error)
    status, error = fresh.ask("GET", f"{MEMORY.replace(PROJECT, 'nowhere')}/summary")
    assert (status, {**error, **told[404], "project_id": "nowhere"}) == (404, error)
