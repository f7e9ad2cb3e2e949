"""The five MCP contracts: tool names, arguments, defaults and answer shapes."""
