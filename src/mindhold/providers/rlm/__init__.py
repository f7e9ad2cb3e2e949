"""Servers with the tools of a recursive language model, over MCP."""
