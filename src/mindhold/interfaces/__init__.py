"""The ways into Mindhold: command line, HTTP, MCP and hooks."""
