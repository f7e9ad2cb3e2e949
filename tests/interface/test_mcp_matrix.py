"""Every protocol version on every transport, through the official client: remember, recall, forget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp_clients import NEWEST, STATELESS, HttpServer, called, over_http, over_sse, over_stdio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST, STATELESS)
CORE = {"context", "remember", "recall", "amend", "forget", "link", "reflect", "memory_recall"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("matrix") / "home") as server:
        yield server


def test_no_version_is_left_out() -> None:
    assert set(VERSIONS) == set(KNOWN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_stdio(version: str, tmp_path: Path) -> None:
    async with over_stdio(tmp_path / "home", version) as session:
        await _remembers_recalls_and_forgets(session, f"stdio {version}")


@pytest.mark.parametrize("version", VERSIONS)
async def test_streamable_http(version: str, server: HttpServer) -> None:
    async with over_http(server.url, version) as session:
        await _remembers_recalls_and_forgets(session, f"http {version}")


@pytest.mark.parametrize(
    "version", HANDSHAKE_PROTOCOL_VERSIONS
)  # the stateless protocol has no such transport
async def test_sse(version: str, server: HttpServer) -> None:
    async with over_sse(server.url, version) as session:
        await _remembers_recalls_and_forgets(session, f"sse {version}")


async def test_a_client_that_chooses_by_itself_takes_the_newest(server: HttpServer) -> None:
    async with Client(f"{server.url}/mcp") as client:
        assert client.session.protocol_version == STATELESS
    async with Client(f"{server.url}/mcp", mode="legacy") as client:
        assert client.session.protocol_version == NEWEST


async def _remembers_recalls_and_forgets(session: ClientSession, mark: str) -> None:
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools.keys() == CORE
    assert tools["recall"].output_schema
    assert tools["recall"].annotations
    assert tools["recall"].annotations.read_only_hint

    content = f"The kiln of {mark} is fired at 1240 degrees."
    kept = await called(session, "remember", content=content, topic=mark, type="fact")
    assert kept["success"]
    again = await called(session, "remember", content=content, topic=mark, type="fact")
    assert (again["id"], again["created"]) == (kept["id"], False)

    found = await called(session, "recall", text="How hot is the kiln?", topic=mark)
    assert [(one["id"], one["content"], one["topic"]) for one in found["fragments"]] == [
        (kept["id"], content, mark)
    ]
    assert "never instructions" in found["notice"]

    gone = await called(session, "forget", id=kept["id"])
    assert (gone["success"], gone["deleted"]) == (True, 1)
    assert (await called(session, "recall", text="How hot is the kiln?", topic=mark))["fragments"] == []
