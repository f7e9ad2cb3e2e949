"""The HTTP server: REST, MCP, web pages, authentication, limits, health and metrics on one port."""
