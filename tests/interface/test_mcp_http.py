"""Streamable HTTP by hand: sessions that outlive a server, streams that go on where they broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_clients import NEWEST, STATELESS, HttpServer, Poster, answer_in, events_in


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("http") / "home"


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[HttpServer]:
    with HttpServer(home) as server:
        yield server


@pytest.fixture
def client(server: HttpServer) -> Iterator[Poster]:
    with Poster(server.url) as client:
        yield client.greet()


@pytest.mark.parametrize("kindly", [True, False], ids=["stopped", "killed"])
def test_a_session_goes_on_after_a_restart(kindly: bool, tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server, Poster(server.url) as client:
        client.greet()
        kept = client.call("remember", content="The harbour closes at dusk.", topic="harbour", type="fact")
        client.call("remember", content="The harbour master is called Ines.", topic="harbour", type="fact")
        if kindly:
            assert server.stop() == 0
        else:
            server.kill()
        server.start()
        found = client.call("recall", text="When does the harbour close?")
        assert kept["id"] in [one["id"] for one in found["fragments"]]
        traces = client.call("recall", keywords=["conversation"])["fragments"]
        kinds = {one["id"]: one["type"] for one in traces}
        assert ("episode" in kinds.values()) is kindly  # stopping kindly, it reflected
        assert client.delete().status_code == 200
        assert client.post("tools/list").status_code == 404


def test_a_second_server_takes_a_session_of_the_first(home: Path, client: Poster) -> None:
    kept = client.call("remember", content="The lighthouse keeper is called Ada.", topic="coast", type="fact")
    with HttpServer(home) as second, Poster(second.url, session=client.session) as elsewhere:
        found = elsewhere.call("recall", text="What is the lighthouse keeper called?")
        assert kept["id"] in [one["id"] for one in found["fragments"]]
        assert client.call("recall", text="lighthouse keeper")["count"] == found["count"]


def test_a_deleted_session_is_gone_at_once_on_every_connection(server: HttpServer, client: Poster) -> None:
    assert client.delete().status_code == 200
    with Poster(server.url, session=client.session) as other:
        refused = other.post("tools/list")
        assert refused.status_code == 404
        assert "error" in refused.json()
    assert client.post("tools/list").status_code == 404


def test_a_session_that_never_was_is_not_found(server: HttpServer) -> None:
    for unknown in ("0" * 32, "../../etc/passwd", "x" * 5_000):
        with Poster(server.url, session=unknown) as client:
            assert client.post("tools/list").status_code == 404
            assert client.delete().status_code == 404


def test_without_a_session_only_initialize_is_heard(server: HttpServer) -> None:
    with Poster(server.url) as client:
        assert client.post("tools/list").status_code == 400


def test_a_version_that_does_not_exist_is_refused(server: HttpServer, client: Poster) -> None:
    with Poster(server.url, session=client.session, version="1999-01-01") as other:
        assert other.post("tools/list").status_code == 400


def test_a_broken_stream_is_replayed_from_where_it_broke(client: Poster) -> None:
    response = client.post("tools/call", id="slow", name="recall", arguments={"text": "anything"})
    (first, opening), (last, data) = events_in(response.text)
    assert opening == ""
    assert json.loads(data)["id"] == "slow"

    [(again, replayed)] = _replayed(client, after=first)
    assert again == last
    assert json.loads(replayed) == json.loads(data)


def test_sessions_with_the_same_request_ids_never_see_each_others_events(server: HttpServer) -> None:
    with Poster(server.url) as one, Poster(server.url) as other:
        one.greet()
        other.greet()
        mine = one.post("tools/call", id=7, name="remember", arguments=_memory("Hers: the blue door."))
        theirs = other.post("tools/call", id=7, name="remember", arguments=_memory("His: the red gate."))
        ids = [answer_in(answer)["result"]["structuredContent"]["id"] for answer in (mine, theirs)]
        assert len(set(ids)) == 2
        for client, answer, kept in ((one, mine, ids[0]), (other, theirs, ids[1])):
            [(_, data)] = _replayed(client, after=events_in(answer.text)[0][0])
            assert json.loads(data)["result"]["structuredContent"]["id"] == kept


def test_one_conversation_at_a_time_hears_what_the_server_says_by_itself(client: Poster) -> None:
    with client.http.stream("GET", client.url, headers=client.headers()) as first:
        assert first.status_code == 200
        assert first.headers["content-type"].startswith("text/event-stream")
        assert client.http.get(client.url, headers=client.headers()).status_code == 409


def test_the_stateless_protocol_needs_no_session(server: HttpServer) -> None:
    with Poster(server.url, version=STATELESS) as client:
        kept = _stateless(client, "remember", _memory("The ferry runs on Sundays."))
        assert kept["success"]
        found = _stateless(client, "recall", {"text": "When does the ferry run?"})
        assert kept["id"] in [one["id"] for one in found["fragments"]]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    ],
    ids=["half", "bytes", "batch", "null", "empty", "version", "brackets", "deep"],
)
def test_a_body_that_is_no_request_gets_an_error_and_no_trace(body: bytes, client: Poster) -> None:
    response = client.http.post(
        client.url, headers=client.headers(**{"content-type": "application/json"}), content=body
    )
    assert response.status_code == 400
    assert "error" in response.json()
    assert "Traceback" not in response.text
    assert client.post("ping").status_code == 200


def test_a_body_beyond_the_limit_is_refused(client: Poster) -> None:
    response = client.post("tools/call", name="remember", arguments=_memory("x" * 10_000_000))
    assert response.status_code == 413
    assert client.post("ping").status_code == 200


def test_an_unknown_tool_and_a_wrong_type_are_told_with_a_code(client: Poster) -> None:
    unknown = answer_in(client.post("tools/call", name="no_such_tool", arguments={}))
    assert unknown["error"]["code"] == -32602
    assert unknown["error"]["data"]["code"] == "INVALID_INPUT"
    wrong = answer_in(client.post("tools/call", name="remember", arguments={"content": 5}))["result"]
    assert wrong["isError"]
    assert json.loads(wrong["content"][0]["text"])["code"] == "INVALID_INPUT"


def test_versions_are_told_apart_by_the_header_alone(server: HttpServer) -> None:
    """A client of the first version sends no header after initialize."""
    with Poster(server.url) as client:
        client.greet()
        headers = {name: value for name, value in client.headers().items() if name != "mcp-protocol-version"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        response = client.http.post(client.url, headers=headers, json=body)
        assert response.status_code == 200
        assert answer_in(response)["result"]["tools"]


def _memory(content: str) -> dict[str, Any]:
    return {"content": content, "topic": "places", "type": "fact"}


def _replayed(client: Poster, *, after: str) -> list[tuple[str, str]]:
    """What a stream sends again; closed at the first answer, since it would stay open for more."""
    found: list[tuple[str, str]] = []
    headers = client.headers(**{"last-event-id": after})
    with client.http.stream("GET", client.url, headers=headers) as response:
        assert response.status_code == 200, response.read()
        lines: list[str] = []
        for line in response.iter_lines():
            lines.append(line)
            found = [event for event in events_in("\n".join(lines) + "\n") if event[1]]
            if found and not line:
                break
    return found


def _stateless(client: Poster, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "poster", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    response = client.http.post(
        client.url,
        headers=client.headers(**{"mcp-method": "tools/call", "mcp-name": tool}),
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
    )
    assert response.status_code == 200, response.text
    assert "mcp-session-id" not in response.headers
    found: dict[str, Any] = answer_in(response)["result"]["structuredContent"]
    return found


def test_the_newest_version_is_offered_to_one_from_the_future(server: HttpServer) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2031-01-01",
            "capabilities": {},
            "clientInfo": {"name": "later", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    response = httpx2.post(f"{server.url}/mcp", headers=accept, json=body)
    assert answer_in(response)["result"]["protocolVersion"] == NEWEST
