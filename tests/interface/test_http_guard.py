"""What is turned away before anybody asks who is there: wrong names, wrong pages, too much, too slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from http_door import KEY, WAIT, Load, Served, door, say

from mindhold.interfaces.http.context import HostPolicy
from mindhold.interfaces.http.limits import TokenBuckets
from mindhold.interfaces.http.server import ConnectionCounts
from mindhold.model.errors import SettingsError


@pytest.fixture
async def served(load: Load) -> AsyncIterator[Served]:
    changes = {"serve.allowed_origins": "https://app.example", "serve.allowed_hosts": "memory.example"}
    async with door(load(**{"serve.port": 0, "serve.largest_body": 2_000}, **changes)) as served:
        yield served


async def test_only_our_own_names_are_answered(served: Served) -> None:
    port = served.port
    async with served.client() as client:
        for host in (
            f"localhost:{port}",
            f"127.0.0.1:{port}",
            f"[::1]:{port}",
            "localhost",
            "memory.example",
        ):
            assert (await client.get("/health", headers={"Host": host})).status_code == 200, host
        for host in (
            f"evil.example:{port}",
            f"127.0.0.1:{port + 1}",
            f"localhost.evil.example:{port}",
            "127.0.0.1.evil.example",
            f"user@127.0.0.1:{port}",
            "::1",
            f"localhost:{port}/x",
        ):
            for path in ("/health", "/echo", "/mcp", "/token", "/consent", "/nowhere"):
                answer = await client.get(path, headers={"Host": host})
                assert (answer.status_code, answer.json()["code"]) == (421, "WRONG_HOST"), (host, path)


async def test_only_pages_that_may_call_are_answered(served: Served) -> None:
    own = {f"http://localhost:{served.port}": f"localhost:{served.port}", "https://app.example": "localhost"}
    async with served.client() as client:
        for origin, host in own.items():
            answer = await client.get("/echo", headers={"Origin": origin, "Host": host})
            assert answer.status_code == 200, origin
        for origin in (
            "https://evil.example",
            "null",
            f"http://localhost:{served.port + 1}",
            "https://app.example.evil.example",
            "http://app.example",
            "",
        ):
            answer = await client.get("/echo", headers={"Origin": origin})
            assert (answer.status_code, answer.json()["code"]) == (403, "WRONG_ORIGIN"), origin
            assert "access-control-allow-origin" not in answer.headers


async def test_pages_of_others_can_not_embed_what_is_ours(served: Served) -> None:
    async with served.client() as client:
        for site, mode, status in (
            ("cross-site", "no-cors", 403),
            ("same-site", "no-cors", 403),
            ("same-origin", "no-cors", 200),
            ("none", "navigate", 200),
            ("cross-site", "navigate", 200),
        ):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            assert (await client.get("/echo", headers=headers)).status_code == status, (site, mode)
        form = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        for method in ("POST", "DELETE"):
            answer = await client.request(method, "/api/memories/x/restore", headers=form)
            assert (answer.status_code, answer.json()["code"]) == (403, "WRONG_ORIGIN"), method


async def test_browsers_are_told_what_an_allowed_page_may_do(served: Served) -> None:
    asking = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,mcp-session-id,mcp-protocol-version",
    }
    async with served.client() as client:
        answer = await client.options("/mcp", headers=asking)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "mcp-session-id" in answer.headers["access-control-allow-headers"]
        assert "DELETE" in answer.headers["access-control-allow-methods"]
        plain = await client.get("/echo", headers={"Origin": "https://app.example"})
        assert plain.headers["access-control-allow-origin"] == "https://app.example"
        assert "Mcp-Session-Id" in plain.headers["access-control-expose-headers"]
        evil = await client.options("/mcp", headers=asking | {"Origin": "https://evil.example"})
        assert evil.status_code == 403
        assert "access-control-allow-origin" not in evil.headers
        assert "access-control-allow-origin" not in (await client.get("/echo")).headers


async def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * 1_000

    async with served.client() as client:
        assert (await client.post("/echo", content=b"x" * 2_000)).json()["bytes"] == 2_000
        declared = await client.post("/echo", content=b"x" * 2_001)
        assert (declared.status_code, declared.json()["code"]) == (413, "BODY_TOO_LARGE")
        streamed = await client.post("/echo", content=parts())
        assert (streamed.status_code, streamed.json()["code"]) == (413, "BODY_TOO_LARGE")
        assert (await client.get("/echo")).status_code == 200


async def test_a_slow_client_is_not_waited_for(load: Load) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
    async with door(load(**{"serve.port": 0, "serve.slow_client_seconds": 1})) as served:
        answers = await asyncio.gather(
            say(served.port, head + b"\r\nhalf"),
            say(served.port, head),
            say(served.port),
            say(served.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /"),
        )
    for answer in answers[:3]:
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "TOO_SLOW"
    assert answers[3].startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answers[3]


async def test_a_client_that_does_not_read_is_not_written_to_for_ever(load: Load) -> None:
    async with door(load(**{"serve.port": 0, "serve.slow_client_seconds": 1})) as served:
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1)
        try:
            writer.write(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(served.reached.wait(), WAIT)
        finally:
            writer.close()


async def test_what_is_no_http_gets_an_error(served: Served) -> None:
    assert (await say(served.port, b"\x16\x03\x01 nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_unknown_routes_and_methods_are_told_in_json(served: Served) -> None:
    async with served.client() as client:
        nowhere = await client.get("/nowhere")
        assert nowhere.status_code == 404
        assert set(nowhere.json()) == {"error", "code"}
        wrong = await client.delete("/health")
        assert wrong.status_code == 405
        assert wrong.json()["code"] == "METHOD_NOT_ALLOWED"
        assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD"}


async def test_what_goes_wrong_inside_stays_inside(served: Served) -> None:
    async with served.client() as client:
        answer = await client.get("/broken")
        assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
        assert "heron" not in answer.text
        assert "Traceback" not in answer.text


async def test_long_answers_are_compressed_and_streams_are_not(served: Served) -> None:
    async with served.client() as client:
        packed = await client.get("/long", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.json()["text"].startswith("long")
        for path, accepts in (("/long", "identity"), ("/stream", "gzip"), ("/echo", "gzip")):
            plain = await client.get(path, headers={"Accept-Encoding": accepts})
            assert "content-encoding" not in plain.headers, path


@pytest.mark.usefixtures("stopped_minutes")
async def test_a_key_has_so_many_requests_a_minute(load: Load) -> None:
    changes = {"serve.port": 0, "serve.requests_per_minute": 3, "access_key": KEY}
    async with door(load(**changes)) as served:
        other = (await served.run("create_key", name="other")).key
        async with served.client(KEY) as client:
            left = [int((await client.get("/echo")).headers["ratelimit-remaining"]) for _ in range(3)]
            assert left == [2, 1, 0]
            answer = await client.get("/echo")
            assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_REQUESTS")
            assert 1 <= int(answer.headers["retry-after"]) <= 20
            assert answer.headers["ratelimit-limit"] == answer.headers["x-ratelimit-limit"] == "3"
            assert 1 <= int(answer.headers["ratelimit-reset"]) <= 60
            assert (
                await client.get("/echo", headers={"Authorization": f"Bearer {other}"})
            ).status_code == 200


async def test_no_limit_is_no_limit(load: Load) -> None:
    loaded = load(**{"serve.port": 0, "serve.requests_per_minute": 0})
    async with door(loaded) as served, served.client() as client:
        answer = await client.get("/echo")
    assert answer.status_code == 200
    assert "ratelimit-limit" not in answer.headers


def test_buckets_refill_and_forget() -> None:
    now = 0.0
    buckets = TokenBuckets(60, clock=lambda: now, most=2)
    assert [buckets.take("a").allowed for _ in range(61)] == [True] * 60 + [False]
    assert buckets.take("a").retry_in == 1
    now = 2.0
    assert [buckets.take("a").allowed for _ in range(3)] == [True, True, False]
    for name in "bcd":
        assert buckets.take(name).remaining == 59
    assert len(buckets) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"serve.host": "0.0.0.0"},
        {"serve.host": "::"},
        {"serve.host": "192.168.1.5"},
        {"serve.host": ""},
        {"serve.host": "memory.example"},
        {"serve.public_url": "https://memory.example"},
        {"serve.allowed_origins": "*"},
    ],
    ids=str,
)
def test_strangers_need_a_key(load: Load, changes: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as told:
        HostPolicy.of(load(**changes).settings)
    assert "MINDHOLD_ACCESS_KEY" in told.value.advice
    HostPolicy.of(load(**changes, access_key=KEY).settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"serve.host": "0.0.0.0"},
        {"serve.host": "192.168.1.5"},
        {"serve.public_url": "https://memory.example"},
        {"serve.allowed_origins": "*"},
    ],
    ids=str,
)
def test_where_strangers_can_try_keys_a_key_is_long(load: Load, changes: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as told:
        HostPolicy.of(load(**changes, access_key="x" * 15).settings)
    assert "16" in told.value.advice
    HostPolicy.of(load(**changes, access_key="x" * 16).settings)
    HostPolicy.of(load(access_key="x").settings)


async def test_idle_connections_do_not_shut_others_out(load: Load) -> None:
    loaded = load(**{"serve.port": 0})
    async with door(loaded, crowd=ConnectionCounts(loaded.settings.serve, here=2)) as served:
        ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        reader, idle = await asyncio.open_connection("127.0.0.1", served.port)
        assert (await say(served.port, ask)).startswith(b"HTTP/1.1 200 ")
        _, second = await asyncio.open_connection("127.0.0.1", served.port)
        refused = await say(served.port)
        assert refused.startswith(b"HTTP/1.1 503 ")
        told = json.loads(refused.partition(b"\r\n\r\n")[2])
        assert told["code"] == "TOO_MANY_CONNECTIONS"
        assert set(told) == {"error", "code", "advice"}
        idle.write(ask)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        idle.close()
        assert (await say(served.port, ask)).startswith(b"HTTP/1.1 200 ")
        second.close()


def test_there_is_room_for_many_but_not_of_one_address(load: Load) -> None:
    crowd = ConnectionCounts(load(**{"serve.trusted_proxies": "10.1.0.0/16, ::1"}).settings.serve)

    def entered(hosts: list[str]) -> int:
        return sum(crowd.enter(host) for host in hosts)

    assert entered(["203.0.113.9"] * 100) == 64
    assert entered([f"2001:db8::{number:x}" for number in range(100)]) == 64
    assert entered(["2001:db8:0:1::1"]) == 1
    assert entered(["127.0.0.1"] * 600) == 512
    assert entered(["10.1.2.3"] * 1_000) == 1_000 - 64 - 64 - 1 - 512
    assert entered(["198.51.100.1"]) == 0
    crowd.leave("203.0.113.9")
    assert entered(["203.0.113.9"] * 2) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost"])
def test_this_machine_needs_none(load: Load, host: str) -> None:
    HostPolicy.of(load(**{"serve.host": host}).settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"serve.public_url": "memory.example"},
        {"serve.public_url": "https://memory.example/path"},
        {"serve.public_url": "ftp://memory.example"},
        {"serve.allowed_origins": "app.example"},
        {"serve.allowed_hosts": "https://memory.example"},
        {"serve.allowed_hosts": "memory.example:port"},
        {"serve.trusted_proxies": "*"},
        {"serve.trusted_proxies": "127.0.0.1, proxy.example"},
    ],
    ids=str,
)
def test_settings_that_can_not_be_are_told(load: Load, changes: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        HostPolicy.of(load(**changes, access_key=KEY).settings)
