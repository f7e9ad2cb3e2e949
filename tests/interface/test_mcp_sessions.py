"""Sessions over HTTP at their edges: what is kept of them, how many one may hold, and what is no message at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from mcp.server.streamable_http import EventMessage
from mcp_clients import HttpServer, Poster

from mindhold.interfaces.mcp.http import SessionEvents


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("sessions") / "home") as server:
        yield server


def until(holds: Callable[[], bool]) -> None:
    """A session's end is answered before the engine has heard of it: ask until it has, within reason."""
    assert any(holds() for _ in range(200))


def response(number: int, text: str) -> types.JSONRPCResponse:
    return types.JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text})


async def replayed(events: SessionEvents, after: str) -> list[str]:
    seen: list[str] = []

    async def send(event: EventMessage) -> None:
        assert isinstance(event.message, types.JSONRPCResponse)
        seen.append(event.message.result["text"])

    await events.replay_events_after(after, send)
    return seen


async def test_a_stream_is_replayed_from_where_it_broke_and_no_other() -> None:
    events = SessionEvents()
    first = await events.store_event("1", response(1, "one"))
    await events.store_event("2", response(2, "of another stream"))
    await events.store_event("1", response(1, "two"))
    assert await replayed(events, first) == ["two"]
    assert await replayed(SessionEvents(), first) == [], "another server's ids are not ours"


async def test_events_are_bounded_in_number_and_in_size() -> None:
    few = SessionEvents(most=3)
    ids = [await few.store_event("1", response(1, str(number))) for number in range(5)]
    assert await replayed(few, ids[0]) == []
    assert await replayed(few, ids[2]) == ["3", "4"]
    small = SessionEvents(characters=10_000)
    ids = [await small.store_event("1", response(1, "x" * 4_000)) for _ in range(5)]
    assert await replayed(small, ids[0]) == []
    assert len(await replayed(small, ids[3])) == 1


@pytest.mark.parametrize(
    ("body", "code", "answers_to"),
    [
        (b"no json", -32700, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"\\ud800"}}', -32700, 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"caf\xe9"}', -32700, None),
        (b"[" * 20_000, -32700, None),
        (b"", -32700, None),
    ],
)
def test_what_is_no_message_is_refused_in_our_words(
    server: HttpServer, body: bytes, code: int, answers_to: int | str | None
) -> None:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    answer = httpx2.post(f"{server.url}/mcp", content=body, headers=headers)
    told = answer.json()
    assert answer.status_code == 400
    assert (told["error"]["code"], told["id"]) == (code, answers_to)
    assert told["error"]["data"]["code"] == "INVALID_INPUT"
    assert "pydantic" not in answer.text


def test_a_client_that_says_much_of_itself_comes_in(server: HttpServer) -> None:
    client = {"name": "loud", "version": "1", "icons": [{"src": "data:," + "x" * 20_000}]}
    much = {"experimental": {"it": {"says": "y" * 30_000}}}
    with Poster(server.url) as poster:
        answer = poster.post(
            "initialize", protocolVersion=poster.version, capabilities=much, clientInfo=client
        )
        assert answer.status_code == 200


def test_working_memory_survives_a_restart_and_ends_with_the_session(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server, Poster(server.url) as poster:
        poster.greet()
        poster.call(
            "remember", content="The kiln is at 900 degrees.", topic="kiln", type="fact", scope="session"
        )
        assert server.stop() == 0
        server.start()
        assert [one["topic"] for one in poster.call("context")["workingMemory"]] == ["kiln"]
        poster.call(
            "remember", content="Glazes are kept in the cellar.", topic="kiln", type="fact", scope="session"
        )
        assert poster.delete().status_code == 200
        with Poster(server.url) as later:
            later.greet()
            until(lambda: later.call("recall", text="kiln glazes")["count"] == 0)


def test_each_agent_that_was_spoken_for_has_its_conversation_ended(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home", toolsets="all") as server, Poster(server.url) as poster:
        poster.greet()
        for content in ("The kiln is at 900 degrees.", "Glazes are kept in the cellar."):
            poster.call("remember", content=content, topic="kiln", type="fact", agentId="bob")
        assert poster.delete().status_code == 200
        with Poster(server.url) as later:
            later.greet()
            until(lambda: later.call("context", agentId="bob")["unreflectedSessions"] == 0)
            found = later.call("recall", keywords=["conversation"], agentId="bob")
            assert "episode" in [one["type"] for one in found["fragments"]]
            assert later.call("recall", text="kiln glazes")["count"] == 0


def test_one_credential_cannot_take_all_sessions(tmp_path: Path) -> None:
    settings = {"MINDHOLD_ACCESS_KEY": "the owner's own long key", "MINDHOLD_SERVE_MOST_SESSIONS": "20"}
    with HttpServer(tmp_path / "home", **settings) as server:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "many", "version": "1"},
            },
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "authorization": "Bearer the owner's own long key",
        }
        statuses = [
            httpx2.post(f"{server.url}/mcp", json=hello, headers=headers).status_code for _ in range(4)
        ]
        assert statuses == [200, 200, 503, 503]


@pytest.mark.local_file
def test_a_session_in_use_is_kept_anew(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server, Poster(server.url) as poster:
        poster.greet()
        with closing(sqlite3.connect(tmp_path / "home" / "data" / "mindhold.db")) as database:
            database.execute("UPDATE entry SET expires = expires - 1800000000 WHERE drawer = 'visit'")
            database.commit()
            [(before,)] = database.execute("SELECT expires FROM entry WHERE drawer = 'visit'").fetchall()
            assert server.stop() == 0
            server.start()  # which has never kept it, and so does with the next call
            poster.call("recall", text="anything")
            [(after,)] = database.execute("SELECT expires FROM entry WHERE drawer = 'visit'").fetchall()
    assert after > before
