"""A client of the official SDK and our server, joined in memory: the same server that every transport serves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams

from mindhold.app.application import open_app
from mindhold.interfaces.mcp.requests import LazyEngine
from mindhold.interfaces.mcp.server import McpServer
from mindhold.interfaces.runtime import local_caller
from mindhold.settings.loader import LoadedSettings


@dataclass(frozen=True, slots=True)
class Talk:
    """Both ends."""

    client: ClientSession
    server: McpServer

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool's answer; an error is an AssertionError."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        answer: dict[str, Any] = result.structured_content
        assert json.loads(result.content[0].text) == answer
        return answer

    async def error(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What a tool refuses with."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.content
        found: dict[str, Any] = json.loads(result.content[0].text)
        return found


@asynccontextmanager
async def talking(loaded: LoadedSettings, **client: Any) -> AsyncIterator[Talk]:
    """A conversation, initialized."""
    opening = LazyEngine(lambda: open_app(loaded))
    server = McpServer(opening, settings=loaded.settings, local=local_caller(loaded))
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        tasks.start_soon(server.protocol.run, *theirs, server.options())
        async with ClientSession(*ours, **client) as session:
            await session.initialize()
            yield Talk(session, server)
    await opening.close()
