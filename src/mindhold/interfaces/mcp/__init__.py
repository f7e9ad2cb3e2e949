"""The Model Context Protocol: tools, resources and prompts over stdio, Streamable HTTP and SSE."""
