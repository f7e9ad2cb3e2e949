"""Who is let in, as whom, and how far they may go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from http_door import KEY, WAIT, Load, Served, Talk, door, say

from mindhold.interfaces.http.auth import REFUSALS_PER_MINUTE


@pytest.fixture
async def locked(load: Load) -> AsyncIterator[Served]:
    async with door(load(**{"serve.port": 0, "access_key": KEY})) as served:
        yield served


@pytest.fixture
async def unlocked(load: Load) -> AsyncIterator[Served]:
    async with door(load(**{"serve.port": 0})) as served:
        yield served


async def test_without_a_key_this_machine_is_let_in(unlocked: Served) -> None:
    async with unlocked.client() as client:
        told = (await client.get("/echo")).json()
    assert told == {
        "agent": "default",
        "bound": False,
        "scopes": [],
        "writes": True,
        "owner": True,
        "bytes": 0,
    }


async def test_a_wrong_key_is_refused_even_where_none_is_needed(unlocked: Served) -> None:
    await unlocked.run("create_key", name="some")
    async with unlocked.client() as client:
        assert (await client.get("/echo")).status_code == 200
        for given in ("Bearer wrong", "Bearer rk_wrong", "Bearer ra_wrong", "Bearer", "Basic dTpw", ""):
            answer = await client.get("/echo", headers={"Authorization": given})
            assert answer.status_code == 401, given
        wrong = (await client.get("/echo", headers={"Authorization": "Bearer wrong"})).json()
        assert (wrong["error"], "Leave it out" in wrong["advice"]) == ("This key does not hold.", True)


@pytest.mark.parametrize(
    "header",
    [
        {"X-Forwarded-For": "203.0.113.9"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Proto": "https"},
        {"Forwarded": "for=203.0.113.9"},
        {"Via": "1.1 proxy"},
        {"X-Real-IP": "203.0.113.9"},
        {"CF-Connecting-IP": "203.0.113.9"},
    ],
    ids=str,
)
async def test_whoever_comes_by_a_proxy_is_not_this_machine(unlocked: Served, header: dict[str, str]) -> None:
    made = await unlocked.run("create_key", name="some")
    async with unlocked.client() as client:
        answer = await client.get("/echo", headers=header)
        assert answer.status_code == 401
        assert "MINDHOLD_ACCESS_KEY" in answer.json()["advice"]
        assert (await client.get("/consent?ticket=x", headers=header)).status_code == 403
        keyed = await client.get("/echo", headers=header | {"Authorization": f"Bearer {made.key}"})
        assert (keyed.status_code, keyed.json()["owner"]) == (200, False)


async def test_a_proxy_that_says_nothing_of_itself_is_known_by_its_http(unlocked: Served) -> None:
    head = b"GET /echo HTTP/1.%d\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert (await say(unlocked.port, head % 0)).startswith(b"HTTP/1.1 401 ")
    assert (await say(unlocked.port, head % 1)).startswith(b"HTTP/1.1 200 ")


async def test_a_key_is_needed_where_there_is_one(locked: Served) -> None:
    answers = []
    async with locked.client() as client:
        for path in ("/echo", "/mcp", "/sse", "/message", "/metrics", "/nowhere"):
            answers.append(await client.get(path))
        for given in (
            "wrong",
            KEY[:-1],
            f"{KEY}x",
            KEY.upper(),
            "rk_x",
            "ra_x",
            "ключ",
        ):
            answers.append(await client.get("/echo", headers={b"Authorization": f"Bearer {given}".encode()}))
            answers.append(await client.get("/sse", params={"accessKey": given}))
        answers.append(await client.get("/echo", params={"accessKey": KEY}))
        answers.append(await client.get("/echo", headers={"Cookie": f"key={KEY}", "X-Api-Key": KEY}))
        for path in ("/health", "/.well-known/oauth-authorization-server"):
            assert (await client.get(path)).status_code == 200
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.json()["error"] for answer in answers} == {
        "This needs a valid key.",
        "This key does not hold.",
    }
    assert len({answer.text for answer in answers}) == 2  # and nothing tells a wrong one from another
    assert KEY not in answers[0].text


async def test_a_refusal_says_where_to_ask(locked: Served) -> None:
    async with locked.client() as client:
        missing = (await client.post("/mcp")).headers["www-authenticate"]
        wrong = await client.post("/mcp", headers={"Authorization": "Bearer wrong"})
        sse = (await client.get("/sse")).headers["www-authenticate"]
    where = f"{locked.url}/.well-known/oauth-protected-resource"
    assert missing.startswith("Bearer ")
    assert f'resource_metadata="{where}/mcp"' in missing
    assert "error=" not in missing
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    assert f'resource_metadata="{where}/sse"' in sse


async def test_the_owners_key_opens_everything(locked: Served) -> None:
    async with locked.client(KEY) as client:
        assert (await client.get("/echo")).json()["owner"] is True
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/echo", headers={"Authorization": f"bearer  {KEY}"})).status_code == 200


async def test_a_key_may_be_of_any_letters(load: Load) -> None:
    async with door(load(**{"serve.port": 0, "access_key": "ключ"})) as served, served.client() as client:
        answer = await client.get("/echo", headers={b"Authorization": "Bearer ключ".encode()})
        assert answer.status_code == 200


async def _status(client: httpx2.AsyncClient, secret: str | None, **headers: str) -> int:
    given = {"Authorization": f"Bearer {secret}"} if secret is not None else {}
    return (await client.get("/echo", headers=given | headers)).status_code


@pytest.mark.usefixtures("stopped_minutes")
@pytest.mark.parametrize("wrong", ["no", "rk_no", "ra_no", None], ids=str)
async def test_the_refused_are_limited_and_do_not_lock_others_out(locked: Served, wrong: str | None) -> None:
    api = (await locked.run("create_key", name="api")).key
    unseen = (await locked.run("create_key", name="unseen")).key
    async with locked.client() as client:
        assert await _status(client, api) == 200
        seen = [await _status(client, wrong) for _ in range(REFUSALS_PER_MINUTE + 100)]
        assert seen[:REFUSALS_PER_MINUTE] == [401] * REFUSALS_PER_MINUTE
        assert 429 in seen
        for late in (wrong, "no", "rk_other", "ra_other", None):
            assert await _status(client, late, **{"X-Forwarded-For": "203.0.113.9"}) in (401, 429)
        assert await _status(client, KEY) == 200
        assert await _status(client, api) == 200
        assert await _status(client, unseen) == 200
        await locked.run("revoke_key", id="api")
        assert await _status(client, api) == 401


@pytest.mark.usefixtures("stopped_minutes")
@pytest.mark.parametrize(("proxies", "believed"), [("", False), ("127.0.0.1", True)])
async def test_only_a_trusted_proxy_says_for_whom_it_asks(load: Load, proxies: str, believed: bool) -> None:
    loaded = load(**{"serve.port": 0, "access_key": KEY, "serve.trusted_proxies": proxies})
    async with door(loaded) as served, served.client() as client:
        for _ in range(REFUSALS_PER_MINUTE + 100):
            last = await _status(client, "no", **{"X-Forwarded-For": "203.0.113.9"})
        assert last == 429
        seen = {
            await _status(client, "no", **{"X-Forwarded-For": f"198.51.100.{number}"}) for number in range(20)
        }
    assert (429 not in seen) is believed


@pytest.mark.parametrize("agent", ["alice", "system", "admin"])
async def test_a_key_without_an_agent_is_the_default_one_and_no_other(load: Load, agent: str) -> None:
    async with door(load(**{"serve.port": 0, "access_key": KEY, "agent": agent})) as served:
        await served.run("remember", content="Alice keeps the spare key under the fern.")
        made = await served.run("create_key", name="guest", access="read")
        async with served.client(made.key) as client:
            told = (await client.get("/echo")).json()
            assert (told["agent"], told["bound"], told["owner"]) == ("default", True, False)
            talk = Talk(client)
            await talk.begin()
            assert "fern" not in _text(await talk.call("recall", text="spare key fern"))
            for other in (agent, "bob"):
                refused = await talk.call("recall", text="spare key fern", agentId=other)
                assert json.loads(_text(refused))["code"] == "REFUSED", other


async def test_the_counts_are_the_owners(locked: Served) -> None:
    made = await locked.run("create_key", name="k")
    async with locked.client(made.key) as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, answer.json()["code"]) == (403, "REFUSED")


async def test_a_key_says_who_and_how_far(locked: Served) -> None:
    await locked.run("create_scope", name="garden")
    made = await locked.run("create_key", name="k", agent="gardener", scopes=["garden"], access="read")
    async with locked.client(made.key) as client:
        told = (await client.get("/echo")).json()
        assert told == {
            "agent": "gardener",
            "bound": True,
            "scopes": ["garden"],
            "writes": False,
            "owner": False,
            "bytes": 0,
        }
        await locked.run("revoke_key", id="k")
        assert (await client.get("/echo")).status_code == 401


def _text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def test_a_key_to_read_can_not_write(locked: Served) -> None:
    made = await locked.run("create_key", name="reader", access="read")
    await locked.run("remember", content="The gate is painted green every spring.")
    async with locked.client(made.key) as client:
        talk = Talk(client)
        await talk.begin()
        found = await talk.call("recall", text="gate painted green")
        assert "painted green" in _text(found)
        refused = await talk.call("remember", content="The gate is red now.", topic="gate", type="fact")
        assert refused["isError"] is True
        assert json.loads(_text(refused))["code"] == "REFUSED"
    assert (await locked.run("list", limit=10)).total == 1


async def test_a_key_for_a_scope_sees_that_scope_only(locked: Served) -> None:
    await locked.run("create_scope", name="garden")
    await locked.run("remember", content="The roses are pruned in February.", scope="garden")
    await locked.run("remember", content="The safe is behind the painting of roses.")
    made = await locked.run("create_key", name="gardener", scopes=["garden"])
    async with locked.client(made.key) as client:
        talk = Talk(client)
        await talk.begin()
        found = _text(await talk.call("recall", text="roses"))
        assert "pruned" in found
        assert "safe" not in found


async def test_a_key_of_an_agent_can_not_name_another(locked: Served) -> None:
    made = await locked.run("create_key", name="one", agent="one")
    async with locked.client(made.key) as client:
        talk = Talk(client)
        await talk.begin()
        kept = await talk.call("remember", content="One keeps bees on the roof.", topic="bees", type="fact")
        assert not kept.get("isError")
        for other in ("two", "default", "system", "admin"):
            refused = await talk.call("recall", text="bees", agentId=other)
            assert json.loads(_text(refused))["code"] == "REFUSED", other


async def test_a_session_belongs_to_the_key_that_opened_it(locked: Served) -> None:
    made = await locked.run("create_key", name="other")
    async with locked.client(KEY) as client, locked.client(made.key) as other:
        talk = Talk(client)
        await talk.begin()
        stranger = Talk(other)
        stranger.headers = dict(talk.headers)
        with pytest.raises(httpx2.HTTPStatusError) as told:
            await stranger.call("recall", text="anything")
        assert told.value.response.status_code == 404
        stranger.headers.pop("Mcp-Session-Id")


async def test_messages_of_a_stream_inherit_its_key(locked: Served) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "old", "version": "1"},
        },
    }
    async with locked.client() as client:
        accepts = {"Accept": "text/event-stream"}
        async with client.stream("GET", "/sse", params={"accessKey": KEY}, headers=accepts) as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            endpoint = await _data(lines)
            assert endpoint.startswith("/message?sessionId=")
            assert (await client.post(endpoint, json=hello)).status_code == 202
            assert json.loads(await _data(lines))["result"]["protocolVersion"] == "2024-11-05"
            wrong = await client.post(endpoint, json=hello, headers={"Authorization": "Bearer wrong"})
            assert wrong.status_code == 401
            unknown = "/message?sessionId=" + "0" * 32
            assert (await client.post(unknown, json=hello)).status_code == 401
        async with asyncio.timeout(WAIT):  # the server hears of the end in its own time
            while (await client.post(endpoint, json=hello)).status_code != 401:
                pass


async def _data(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data: "):
            return line[6:]
    raise AssertionError("the stream ended")
