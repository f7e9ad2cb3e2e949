"""The five MCP contracts and the REST resources, as data over one catalogue of operations."""
