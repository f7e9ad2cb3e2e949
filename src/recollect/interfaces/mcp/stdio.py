"""MCP over standard input and output: what a client starts, and what ends with it."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from recollect.interfaces.mcp.server import McpServer


async def serve_stdio(server: McpServer) -> None:
    """Until the client closes its end. The SDK keeps everything else that is printed off the wire."""
    async with stdio_server() as (incoming, outgoing):
        await server.protocol.run(incoming, outgoing, server.options())
